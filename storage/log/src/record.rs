//! One log record: one atomic commit.
//!
//! ```text
//! varint  length of the rest
//! u64     timestamp: epoch (high 40 bits) · sequence (24 bits); little-endian
//! varint  number of operations, ≥ 1
//! each:   u8 kind (1 put, 2 put columns, 3 remove, 4 remove range) · varint keyspace ·
//!         varint key length · varint payload length · key · payload
//! ```
//!
//! So a put of an 8-byte key and a 17-byte payload takes 39 bytes. Inside one shard records stand
//! in the order of their timestamps, across blocks and files. Payloads are the engine's: rows,
//! changed columns, the ends of a range.
//!
//! A record carries no checksum of its own: its block does (see `block.rs`). So appending one
//! is a few small copies, and the flusher pays for the checksum.

use hedgerow_sync::varint;

use crate::timestamp::Timestamp;

/// What an operation does to its key. The engine gives payloads their meaning; the log only
/// carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OperationKind {
    /// The payload is the whole new row.
    Put = 1,
    /// The payload is the changed columns.
    PutColumns = 2,
    /// Removes the key.
    Remove = 3,
    /// Removes every key of a range: those from the key on, up to an end in the payload. Replaying
    /// it removes the rows that are older than the commit.
    RemoveRange = 4,
}

impl OperationKind {
    fn from_byte(byte: u8) -> Option<OperationKind> {
        match byte {
            1 => Some(OperationKind::Put),
            2 => Some(OperationKind::PutColumns),
            3 => Some(OperationKind::Remove),
            4 => Some(OperationKind::RemoveRange),
            _ => None,
        }
    }
}

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The keyspace's id in the manifest.
    pub keyspace: u32,
    /// What happens to the key.
    pub kind: OperationKind,
    /// The key.
    pub key: &'a [u8],
    /// What the kind needs: opaque to the log.
    pub payload: &'a [u8],
}

const TIMESTAMP_BYTES: usize = 8;
// Kind and three varints at their longest.
const OPERATION_HEADER_MAX: usize = size_of::<OperationKind>() + 3 * varint::MAX_BYTES;

// The parts of fixed length as they are drawn above.
const _: () = {
    assert!(TIMESTAMP_BYTES == size_of::<Timestamp>() && size_of::<OperationKind>() == 1);
    assert!(Timestamp::MAX_EPOCH == (1 << 40) - 1);
    assert!(OperationKind::Put as u8 == 1 && OperationKind::PutColumns as u8 == 2);
    assert!(OperationKind::Remove as u8 == 3 && OperationKind::RemoveRange as u8 == 4);
};

impl Operation<'_> {
    fn encoded_bytes(&self) -> usize {
        1 + varint::size(u64::from(self.keyspace))
            + varint::size(self.key.len() as u64)
            + varint::size(self.payload.len() as u64)
            + self.key.len()
            + self.payload.len()
    }
}

/// Appends the record of one commit to a buffer.
pub(crate) fn append(buffer: &mut Vec<u8>, timestamp: Timestamp, operations: &[Operation<'_>]) {
    let body = TIMESTAMP_BYTES
        + varint::size(operations.len() as u64)
        + operations
            .iter()
            .map(Operation::encoded_bytes)
            .sum::<usize>();
    let mut header = [0; 2 * varint::MAX_BYTES + TIMESTAMP_BYTES];
    let mut at = varint::put(&mut header, 0, body as u64);
    header[at..at + TIMESTAMP_BYTES].copy_from_slice(&timestamp.raw().to_le_bytes());
    at = varint::put(&mut header, at + TIMESTAMP_BYTES, operations.len() as u64);
    buffer.extend_from_slice(&header[..at]);
    for operation in operations {
        let mut header = [0; OPERATION_HEADER_MAX];
        header[0] = operation.kind as u8;
        let mut at = varint::put(&mut header, 1, u64::from(operation.keyspace));
        at = varint::put(&mut header, at, operation.key.len() as u64);
        at = varint::put(&mut header, at, operation.payload.len() as u64);
        buffer.extend_from_slice(&header[..at]);
        buffer.extend_from_slice(operation.key);
        buffer.extend_from_slice(operation.payload);
    }
}

/// A commit read back from a log, borrowing the block it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit<'a> {
    timestamp: Timestamp,
    operations: &'a [u8],
    count: u64,
}

impl<'a> Commit<'a> {
    /// When it happened.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Its operations, in the order they were appended. All of them apply, or none.
    pub fn operations(&self) -> Operations<'a> {
        Operations {
            rest: self.operations,
            left: self.count,
        }
    }

    /// Decodes the record at the front of `bytes`, which need not be trusted, and says how long it
    /// is; `None` if no whole record stands there.
    pub fn decode(bytes: &'a [u8]) -> Option<(Commit<'a>, usize)> {
        let mut rest = bytes;
        let commit = Commit::take(&mut rest)?;
        Some((commit, bytes.len() - rest.len()))
    }

    /// Takes one record off the front of `bytes`, checking that it is whole; `None` if not.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Commit<'a>> {
        let length = varint::take(bytes)?;
        let mut body = varint::take_bytes(bytes, length)?;
        let timestamp = varint::take_bytes(&mut body, TIMESTAMP_BYTES as u64)?;
        let timestamp = Timestamp::from_raw(u64::from_le_bytes(timestamp.try_into().ok()?));
        let count = varint::take(&mut body)?;
        let commit = Commit {
            timestamp,
            operations: body,
            count,
        };
        let mut operations = commit.operations();
        let whole = operations.by_ref().count() as u64 == count && operations.rest.is_empty();
        (whole && count > 0).then_some(commit)
    }

    /// How many bytes the operations take: the last ones of the record.
    pub(crate) fn operation_bytes(&self) -> usize {
        self.operations.len()
    }

    /// How many operations there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A commit whose parts were taken out of a record by [`Commit::take`] before.
    pub(crate) fn from_parts(timestamp: Timestamp, operations: &'a [u8], count: u64) -> Commit<'a> {
        Commit {
            timestamp,
            operations,
            count,
        }
    }
}

/// The operations of a [`Commit`].
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    rest: &'a [u8],
    left: u64,
}

impl<'a> Operations<'a> {
    fn take(&mut self) -> Option<Operation<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        let kind = OperationKind::from_byte(kind)?;
        let keyspace = u32::try_from(varint::take(&mut self.rest)?).ok()?;
        let key_bytes = varint::take(&mut self.rest)?;
        let payload_bytes = varint::take(&mut self.rest)?;
        let key = varint::take_bytes(&mut self.rest, key_bytes)?;
        let payload = varint::take_bytes(&mut self.rest, payload_bytes)?;
        Some(Operation {
            keyspace,
            kind,
            key,
            payload,
        })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Operation<'a>;

    fn next(&mut self) -> Option<Operation<'a>> {
        self.left = self.left.checked_sub(1)?;
        let operation = self.take();
        if operation.is_none() {
            self.left = 0;
        }
        operation
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Parts = (u32, u8, Vec<u8>, Vec<u8>);

    fn operations(parts: &[Parts]) -> Vec<Operation<'_>> {
        parts
            .iter()
            .map(|(keyspace, kind, key, payload)| Operation {
                keyspace: *keyspace,
                kind: OperationKind::from_byte(*kind).unwrap(),
                key,
                payload,
            })
            .collect()
    }

    fn parts() -> impl Strategy<Value = Vec<Parts>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..300);
        prop::collection::vec((any::<u32>(), 1..=4_u8, bytes(), bytes()), 1..5)
    }

    proptest! {
        #[test]
        fn records_come_back_and_no_prefix_does(time in any::<u64>(), parts in parts()) {
            let operations = operations(&parts);
            let mut bytes = Vec::new();
            append(&mut bytes, Timestamp::from_raw(time), &operations);
            for cut in 0..bytes.len() {
                prop_assert!(Commit::decode(&bytes[..cut]).is_none());
            }
            let length = bytes.len();
            bytes.extend_from_slice(b"the next record");
            let (commit, taken) = Commit::decode(&bytes).unwrap();
            prop_assert_eq!(taken, length);
            prop_assert_eq!(commit.timestamp().raw(), time);
            prop_assert_eq!(commit.operations().collect::<Vec<_>>(), operations);
        }

        #[test]
        fn any_bytes_decode_or_do_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some((commit, taken)) = Commit::decode(&bytes) {
                prop_assert!(taken <= bytes.len() && commit.operations().count() > 0);
            }
        }
    }
}
