//! The records that these experiments load: a key of eight bytes, and a value that begins with a
//! counter.

use hedgerow_lab_contender::{ReadTransaction, TransactionError, TransactionalStore};

use crate::{LabError, Result};

pub const VALUE_BYTES: usize = 100;
/// Records of a transaction that loads or adds up.
const BATCH: u64 = 500;

/// Of which record a key and a value are: eight bytes, big-endian, spread over all of them so that
/// neighbours in number are no neighbours in order.
pub fn key_of(record: u64) -> [u8; 8] {
    record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// A record's counter.
fn counter_of(value: &[u8]) -> std::result::Result<u64, TransactionError> {
    let bytes = value.get(..8).filter(|_| value.len() == VALUE_BYTES);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| TransactionError::from_display("a record is cut"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a record that must be there.
pub fn get(
    transaction: &mut (impl ReadTransaction + ?Sized),
    key: &[u8],
    value: &mut Vec<u8>,
) -> std::result::Result<u64, TransactionError> {
    match transaction.get(key, value)? {
        true => counter_of(value),
        false => Err(TransactionError::from_display("a record is missing")),
    }
}

/// Runs `each` on the keys of all records, some at a time.
pub fn in_batches(records: u64, mut each: impl FnMut(&[[u8; 8]]) -> Result<()>) -> Result<()> {
    let mut begin = 0;
    while begin < records {
        let end = (begin + BATCH).min(records);
        let keys: Vec<_> = (begin..end).map(key_of).collect();
        each(&keys)?;
        begin = end;
    }
    Ok(())
}

/// Stores all records, their counters at zero.
pub fn load(store: &(impl TransactionalStore + ?Sized), records: u64) -> Result<()> {
    in_batches(records, |keys| {
        let listed: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let conflicts = store.write(&listed, &mut |transaction| {
            let mut keys = keys.iter();
            keys.try_for_each(|key| transaction.put(key, &[0; VALUE_BYTES]))
        });
        conflicts.map(drop).map_err(LabError::from_display)
    })
}
