//! The expiry index: rows that expire, in the order in which they do.
//!
//! Redis finds expired keys by sampling; an ordered engine can keep them in order. The index maps
//!
//! ```text
//! expiry in ms, big endian (8) ‖ keyspace id, big endian (4) ‖ key   →   (nothing)
//! ```
//!
//! so what has expired is a prefix of it, and sweeping costs nothing while nothing expires. A key
//! longer than 256 bytes stands there as its first 248 bytes and a hash, with the whole key as
//! the value. Entries change while the row's stripe is held: a new one comes before the row, an old
//! one goes after it. So where an index can fail there may be an entry without its row, which goes
//! when it comes due, but never a row without its entry.

use std::ops::{Bound, ControlFlow};

use hedgerow_btree::BTreeIndex;
use hedgerow_index::{Decision, Direction, Index, IndexError};

use crate::any_index::AnyIndex;
use crate::stripes;

const PREFIX_BYTES: usize = 12;
const LONGEST_INLINE: usize = 256;

pub(crate) struct ExpiryIndex {
    index: AnyIndex,
}

/// A row that has an expiry.
pub(crate) struct Expiring {
    pub(crate) expiry_ms: u64,
    pub(crate) keyspace: u32,
    pub(crate) key: Vec<u8>,
}

impl ExpiryIndex {
    pub(crate) fn new(index: AnyIndex) -> ExpiryIndex {
        ExpiryIndex { index }
    }

    /// The tree in a page file, if it is there.
    pub(crate) fn tree(&self) -> Option<&BTreeIndex> {
        self.index.tree()
    }

    /// Adds a row; no harm if it is there.
    #[cold]
    pub(crate) fn add(&self, keyspace: u32, key: &[u8], expiry_ms: u64) -> Result<(), IndexError> {
        let entry = entry_key(expiry_ms, keyspace, key);
        let long = if key.len() > LONGEST_INLINE { key } else { &[] };
        self.index.update(&entry, &mut Vec::new(), |_, new| {
            // One byte first: no index stores empty values differently, but none has to.
            new.push(u8::from(!long.is_empty()));
            new.extend_from_slice(long);
            Decision::Put(())
        })
    }

    /// Removes a row.
    #[cold]
    pub(crate) fn remove(
        &self,
        keyspace: u32,
        key: &[u8],
        expiry_ms: u64,
    ) -> Result<(), IndexError> {
        let entry = entry_key(expiry_ms, keyspace, key);
        self.index
            .update(&entry, &mut Vec::new(), |_, _| Decision::Remove(()))
    }

    /// Up to `limit` rows that expire at `now_ms` or before, the earliest first.
    pub(crate) fn due(&self, now_ms: u64, limit: usize) -> Result<Vec<Expiring>, IndexError> {
        let mut due = Vec::new();
        self.index
            .scan(Bound::Unbounded, Direction::Forward, |entry, value| {
                let (expiry, rest) = entry.split_at(8);
                let (keyspace, inline) = rest.split_at(4);
                let expiry_ms = expiry.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
                if expiry_ms > now_ms || due.len() == limit {
                    return ControlFlow::Break(());
                }
                let keyspace = keyspace.iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
                let key = if value[0] == 0 { inline } else { &value[1..] };
                due.push(Expiring {
                    expiry_ms,
                    keyspace,
                    key: key.to_vec(),
                });
                ControlFlow::Continue(())
            })?;
        Ok(due)
    }

    /// How many rows have an expiry. Walks them all.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.due(u64::MAX, usize::MAX).map_or(0, |due| due.len())
    }
}

fn entry_key(expiry_ms: u64, keyspace: u32, key: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(PREFIX_BYTES + key.len().min(LONGEST_INLINE));
    entry.extend_from_slice(&expiry_ms.to_be_bytes());
    entry.extend_from_slice(&keyspace.to_be_bytes());
    if key.len() <= LONGEST_INLINE {
        entry.extend_from_slice(key);
    } else {
        entry.extend_from_slice(&key[..LONGEST_INLINE - 8]);
        entry.extend_from_slice(&stripes::hash(keyspace, key).to_be_bytes());
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::IndexKind;

    #[test]
    fn rows_come_due_in_order_and_leave_when_changed() {
        let index = ExpiryIndex::new(AnyIndex::in_memory(IndexKind::default()).unwrap());
        let replace = |keyspace, key: &[u8], old: Option<u64>, new: Option<u64>| {
            if let Some(old) = old {
                index.remove(keyspace, key, old).unwrap();
            }
            if let Some(new) = new {
                index.add(keyspace, key, new).unwrap();
            }
        };
        let long = vec![b'k'; 65_536];
        replace(1, b"b", None, Some(300));
        replace(1, b"a", None, Some(200));
        replace(0, &long, None, Some(100));
        replace(0, b"", None, Some(200));
        let due = |now, limit| -> Vec<_> {
            let due = index.due(now, limit).unwrap().into_iter();
            due.map(|row| (row.expiry_ms, row.keyspace, row.key))
                .collect()
        };
        assert_eq!(due(99, 10), []);
        assert_eq!(due(100, 10), [(100, 0, long.clone())]);
        let all = [
            (100, 0, long.clone()),
            (200, 0, Vec::new()),
            (200, 1, b"a".to_vec()),
            (300, 1, b"b".to_vec()),
        ];
        assert_eq!(due(u64::MAX, 10), all);
        assert_eq!(due(u64::MAX, 2), all[..2]);
        replace(0, &long, Some(100), None);
        replace(1, b"a", Some(200), Some(400));
        replace(0, b"", Some(200), Some(200));
        assert_eq!(
            due(300, 10),
            [(200, 0, Vec::new()), (300, 1, b"b".to_vec())]
        );
        assert_eq!(index.count(), 3);
    }
}
