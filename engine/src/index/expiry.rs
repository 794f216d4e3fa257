//! The expiry index: rows that expire, in the order in which they do.
//!
//! Redis finds expired keys by sampling; an ordered engine can sort rows by their expiry. The index
//! maps
//!
//! ```text
//! expiry in ms, big endian (8) ‖ keyspace id, big endian (4) ‖ key   →   what follows (1) …
//!
//! what follows:  0  nothing: the key is whole
//!                1  the key, of which the entry has 248 bytes and a hash (of earlier programs)
//!                2  what is left of each key that begins so: length (1) and as many bytes
//! ```
//!
//! so the expired rows are its first entries, and sweeping costs nothing while nothing expires. The
//! limit of all keys leaves an entry's key twelve bytes too few for the longest: for a key of
//! 65,524 bytes or more the entry has the first 65,524, and its value lists the rest of each such
//! key. Entries change while the row's stripe is locked: a new entry is stored before the row, an
//! old one is removed after it. So where an index can fail there may be an entry without its row,
//! which the sweeper removes when it is due, but never a row without its entry.

use std::ops::{Bound, ControlFlow};
use std::sync::OnceLock;

use hedgerow_btree::BTreeIndex;
use hedgerow_index::{Decision, Direction, IndexError, MAX_KEY_BYTES, ScanRange, ValuePart};
use hedgerow_masstree::Masstree;

use crate::index::any_index::AnyIndex;

const PREFIX_BYTES: usize = size_of::<u64>() + size_of::<u32>();
/// Keys of so many bytes or more share an entry with those that begin as they do.
const SHARED_FROM: usize = MAX_KEY_BYTES - PREFIX_BYTES;

/// What an entry's value begins with. It holds nothing more: the key is in the entry's own.
const WHOLE: u8 = 0;
/// The key follows, of which the entry's own key has the first 248 bytes and a hash: the form of
/// earlier programs for keys of more than 256 bytes. Still read.
const HASHED: u8 = 1;
/// A list of what is left of each key: its length (1), and as many bytes.
const SHARED: u8 = 2;

// Entries as they are drawn above: what is left of a key has a length of one byte.
const _: () = {
    assert!(PREFIX_BYTES == 12 && MAX_KEY_BYTES - SHARED_FROM <= u8::MAX as usize);
    assert!(WHOLE == 0 && HASHED == 1 && SHARED == 2);
};

/// Bytes of entries that are copied at once, beyond which no further one is.
const MOST_DUE_BYTES: usize = 4 << 20;

/// The entries of all rows: those of rows in memory in an index in memory, those of rows in the
/// page file beside them in that file. So recovery finds each kind's entries as it finds its rows.
pub(crate) struct Expiries {
    in_memory: ExpiryIndex,
    /// Set when the database gets a page file.
    in_pages: OnceLock<ExpiryIndex>,
}

impl Default for Expiries {
    fn default() -> Expiries {
        Expiries {
            in_memory: ExpiryIndex::new(AnyIndex::Masstree(Masstree::new())),
            in_pages: OnceLock::new(),
        }
    }
}

impl Expiries {
    /// Forgets the entries of rows in memory.
    pub(crate) fn empty_in_memory(&mut self) {
        self.in_memory = Expiries::default().in_memory;
    }

    /// The page file is there, and this is its index.
    pub(crate) fn set_in_pages(&self, index: AnyIndex) {
        let _ = self.in_pages.set(ExpiryIndex::new(index));
    }

    /// The index for the rows of a keyspace with this index.
    #[inline]
    pub(crate) fn of(&self, index: &AnyIndex) -> &ExpiryIndex {
        match (index.tree(), self.in_pages.get()) {
            (Some(_), Some(in_pages)) => in_pages,
            _ => &self.in_memory,
        }
    }

    /// The index of rows in memory; that of rows in the page file, if there is one.
    pub(crate) fn both(&self) -> (&ExpiryIndex, Option<&ExpiryIndex>) {
        (&self.in_memory, self.in_pages.get())
    }

    /// The tree in the page file, if there is one.
    pub(crate) fn tree(&self) -> Option<&BTreeIndex> {
        self.in_pages.get().and_then(ExpiryIndex::tree)
    }
}

pub(crate) struct ExpiryIndex {
    index: AnyIndex,
}

/// A row that has an expiry.
pub(crate) struct Expiring {
    pub(crate) expiry_ms: u64,
    pub(crate) keyspace: u32,
    pub(crate) key: Vec<u8>,
    /// The entry's own key, if it is one of the earlier form.
    hashed: Option<Vec<u8>>,
}

impl Expiring {
    /// The own key of the row's entry.
    pub(crate) fn entry(&self) -> Vec<u8> {
        match &self.hashed {
            Some(entry) => entry.clone(),
            None => entry_of(self.expiry_ms, self.keyspace, &self.key).0,
        }
    }
}

/// Rows that are due.
#[derive(Default)]
pub(crate) struct DueRows {
    pub(crate) rows: Vec<Expiring>,
    /// The last entry that was read, if there may be others behind it.
    pub(crate) more_behind: Option<Vec<u8>>,
}

impl ExpiryIndex {
    pub(crate) fn new(index: AnyIndex) -> ExpiryIndex {
        ExpiryIndex { index }
    }

    /// The tree in a page file, if it is there.
    fn tree(&self) -> Option<&BTreeIndex> {
        self.index.tree()
    }

    /// Adds a row; no harm if it is there.
    #[cold]
    pub(crate) fn add(&self, keyspace: u32, key: &[u8], expiry_ms: u64) -> Result<(), IndexError> {
        let (entry, rest) = entry_of(expiry_ms, keyspace, key);
        self.index
            .update(&entry, ValuePart::Whole, &mut Vec::new(), |old, new| {
                let Some(rest) = rest else {
                    new.push(WHOLE);
                    return Decision::Put(());
                };
                let list = old.map_or(&[][..], |old| &old[1..]);
                if rests(list).any(|other| other == rest) {
                    return Decision::Keep(());
                }
                new.push(SHARED);
                new.extend_from_slice(list);
                push_rest(new, rest);
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
        let (entry, rest) = entry_of(expiry_ms, keyspace, key);
        self.index
            .update(&entry, ValuePart::Whole, &mut Vec::new(), |old, new| {
                let (Some(rest), Some(old)) = (rest, old) else {
                    return Decision::Remove(());
                };
                new.push(SHARED);
                let others = rests(&old[1..]).filter(|other| *other != rest);
                others.for_each(|other| push_rest(new, other));
                if new.len() > 1 {
                    Decision::Put(())
                } else {
                    Decision::Remove(())
                }
            })
    }

    /// Removes the entry that a row was found by.
    pub(crate) fn remove_found(&self, found: &Expiring) -> Result<(), IndexError> {
        match &found.hashed {
            Some(entry) => self
                .index
                .update(entry, ValuePart::Head, &mut Vec::new(), |_, _| {
                    Decision::Remove(())
                }),
            None => self.remove(found.keyspace, &found.key, found.expiry_ms),
        }
    }

    /// Up to about `limit` rows behind an entry that expire at `now_ms` or before, the earliest
    /// first.
    pub(crate) fn due(
        &self,
        from: Bound<&[u8]>,
        now_ms: u64,
        limit: usize,
    ) -> Result<DueRows, IndexError> {
        let mut due = DueRows::default();
        let (mut bytes, mut last) = (0, Vec::new());
        let later = now_ms.checked_add(1).map(u64::to_be_bytes);
        let range = ScanRange {
            to: later
                .as_ref()
                .map_or(Bound::Unbounded, |later| Bound::Excluded(later)),
            // Each entry has a row at least; one more entry tells whether there are others.
            limit: limit.saturating_add(1),
            ..ScanRange::starting_at(from, Direction::Forward)
        };
        self.index.scan(&range, |entry, value| {
            let (expiry, rest) = entry.split_at(8);
            let expiry_ms = expiry.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
            if due.rows.len() >= limit || bytes >= MOST_DUE_BYTES {
                due.more_behind = Some(std::mem::take(&mut last));
                return ControlFlow::Break(());
            }
            let (keyspace, inline) = rest.split_at(4);
            let keyspace = keyspace.iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
            let mut push = |key: Vec<u8>, hashed| {
                bytes += key.len();
                due.rows.push(Expiring {
                    expiry_ms,
                    keyspace,
                    key,
                    hashed,
                });
            };
            match value[0] {
                HASHED => push(value[1..].to_vec(), Some(entry.to_vec())),
                SHARED => rests(&value[1..]).for_each(|rest| push([inline, rest].concat(), None)),
                _ => push(inline.to_vec(), None),
            }
            last.clear();
            last.extend_from_slice(entry);
            ControlFlow::Continue(())
        })?;
        Ok(due)
    }

    /// How many rows have an expiry. Walks them all.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let mut due = self.due(Bound::Unbounded, u64::MAX, usize::MAX);
        let mut count = 0;
        while let Ok(DueRows { rows, more_behind }) = due {
            count += rows.len();
            let Some(last) = more_behind else { break };
            due = self.due(Bound::Excluded(&last), u64::MAX, usize::MAX);
        }
        count
    }
}

/// A row's entry; and what is left of its key, where other keys share the entry.
fn entry_of(expiry_ms: u64, keyspace: u32, key: &[u8]) -> (Vec<u8>, Option<&[u8]>) {
    let (inline, rest) = key.split_at(key.len().min(SHARED_FROM));
    let mut entry = Vec::with_capacity(PREFIX_BYTES + inline.len());
    entry.extend_from_slice(&expiry_ms.to_be_bytes());
    entry.extend_from_slice(&keyspace.to_be_bytes());
    entry.extend_from_slice(inline);
    (entry, (key.len() >= SHARED_FROM).then_some(rest))
}

/// Adds what is left of a key to the list of an entry: twelve bytes at most.
fn push_rest(list: &mut Vec<u8>, rest: &[u8]) {
    list.push(rest.len() as u8);
    list.extend_from_slice(rest);
}

/// What is left of the keys of an entry.
fn rests(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&bytes, behind) = list.split_first()?;
        let (rest, behind) = behind.split_at_checked(bytes.into())?;
        list = behind;
        Some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::kind::IndexKind;

    #[test]
    fn rows_come_due_in_order_and_leave_when_changed() {
        let index = ExpiryIndex::new(AnyIndex::in_memory(IndexKind::default()).unwrap().unwrap());
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
            let due = index.due(Bound::Unbounded, now, limit).unwrap();
            let rows = due.rows.into_iter();
            rows.map(|row| (row.expiry_ms, row.keyspace, row.key))
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

    #[test]
    fn an_entry_of_the_earlier_form_is_read_and_goes_by_its_own_key() {
        let index = ExpiryIndex::new(AnyIndex::in_memory(IndexKind::default()).unwrap().unwrap());
        let key = vec![b'k'; 300];
        let entry = [&entry_of(7, 3, &key[..248]).0[..], &[0x5a; 8]].concat();
        let put = index
            .index
            .update(&entry, ValuePart::Head, &mut Vec::new(), |_, new| {
                new.push(HASHED);
                new.extend_from_slice(&key);
                Decision::Put(())
            });
        put.unwrap();
        index.remove(3, &key, 7).unwrap();
        let due = index.due(Bound::Unbounded, 7, 10).unwrap();
        let row = &due.rows[0];
        assert_eq!((row.expiry_ms, row.keyspace, &row.key), (7, 3, &key));
        index.remove_found(row).unwrap();
        assert_eq!(index.count(), 0);
    }

    #[test]
    fn what_is_due_goes_on_behind_an_entry() {
        let index = ExpiryIndex::new(AnyIndex::in_memory(IndexKind::default()).unwrap().unwrap());
        let longest: Vec<_> = (0..3).map(|n| vec![b'k'; MAX_KEY_BYTES - n]).collect();
        longest.iter().for_each(|key| index.add(1, key, 5).unwrap());
        (0..100u64).for_each(|n| index.add(1, &n.to_be_bytes(), n).unwrap());
        let (mut seen, mut from) = (0, Bound::Unbounded);
        loop {
            let due = index.due(from.as_ref().map(Vec::as_slice), 49, 7).unwrap();
            seen += due.rows.len();
            assert!((1..=9).contains(&due.rows.len()));
            match due.more_behind {
                Some(last) => from = Bound::Excluded(last),
                None => break,
            }
        }
        assert_eq!((seen, index.count()), (53, 103));
    }
}
