//! An index in a tree that takes several values for a key: the Bw-tree's multimap.
//!
//! ```text
//!   key ──► mix64 ──► 8 bytes │ ! number (8 bytes) │ value (8 bytes)       a pair of the Bw-tree
//! ```
//!
//! The tree orders the values of a key by their bytes, and an index wants the newest first. So a
//! stored value begins with the complement of a number that is drawn for each insertion, the most
//! significant byte first: a later number sorts before an earlier one. The numbers also tell equal
//! values of a key apart, as a pair is in the tree at most once.
//!
//! There are no locks: a visit is a scan, the newest value is the first pair of one, and an
//! insertion and a removal are one change of the tree each. A removal searches the values for the
//! one that it removes, as in a list.
//!
//! The tree balances itself and would not need mixed keys. They are mixed all the same, so that
//! indexes of both sorts are given the same keys: in the order of the rows' keys all insertions
//! would meet in the last leaf, and what is searched together would lie together, which no index
//! over lists has. Mixing also keeps the order of keys from being used: indexes have none.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_bwtree::BwMultimap;
use hedgerow_index::{Direction, ScanRange};
use hedgerow_lab_data::random::mix64;
use hedgerow_memory::Placement;

use crate::multimap::Multimap;

/// A [`BwMultimap`] whose values come the newest first.
pub struct NewestFirst {
    pairs: BwMultimap,
    /// How many values were ever added. All threads that insert share it.
    added: AtomicU64,
}

/// Bytes of a stored value.
const STORED_BYTES: usize = 16;

/// Why no pair is too long.
const SHORT: &str = "a key of 8 bytes and a value of 16 are short enough";

impl NewestFirst {
    /// An empty one, whose nodes come from there.
    ///
    /// # Panics
    ///
    /// If the kernel does not give the address space of a mapping table.
    #[must_use]
    pub fn with_placement(placement: Placement) -> Self {
        let pairs = BwMultimap::with_placement(placement);
        Self {
            pairs: pairs.expect("address space for a mapping table"),
            added: AtomicU64::new(0),
        }
    }

    /// Visits all pairs, in order, until `visit` breaks.
    fn for_each_pair(&self, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) {
        let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        self.pairs.scan(&all, visit);
    }
}

impl Multimap for NewestFirst {
    fn insert(&self, key: u64, value: u64) {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        let is_new = self.pairs.insert(&stored_key(key), &stored(number, value));
        assert!(is_new.expect(SHORT), "each number is drawn once");
    }

    fn remove(&self, key: u64, value: u64) -> bool {
        let is_wanted = |stored: &[u8]| read(stored).is_some_and(|(_, found)| found == value);
        self.pairs.remove_first(&stored_key(key), is_wanted)
    }

    fn visit(&self, key: u64, visit: &mut dyn FnMut(u64) -> ControlFlow<()>) {
        self.pairs.values(&stored_key(key), |stored| {
            let (_, value) = read(stored).expect("what was stored in the tree");
            visit(value)
        });
    }

    /// A scan of one pair: without the limit it would ask for more of the leaf, and for the next
    /// one.
    fn newest(&self, key: u64) -> Option<u64> {
        let key = stored_key(key);
        let of_key = (Bound::Included(&key[..]), Bound::Included(&key[..]));
        let first = ScanRange::between(of_key, Direction::Forward).limited(1);
        let mut newest = None;
        self.pairs.scan(&first, |_, stored| {
            newest = read(stored).map(|(_, value)| value);
            ControlFlow::Break(())
        });
        newest
    }

    fn len(&self) -> usize {
        let mut len = 0;
        self.for_each_pair(|_, _| {
            len += 1;
            ControlFlow::Continue(())
        });
        len
    }

    fn verify(&self) -> Result<(), String> {
        self.pairs.verify()?;
        let added = self.added.load(Ordering::Relaxed);
        let mut broken = None;
        self.for_each_pair(|key, stored| {
            let number = read(stored).map(|(number, _)| number);
            if key.len() == 8 && number.is_some_and(|number| number < added) {
                return ControlFlow::Continue(());
            }
            broken = Some(format!("{key:?} has {stored:?}, of {added} added values"));
            ControlFlow::Break(())
        });
        broken.map_or(Ok(()), Err)
    }
}

fn stored_key(key: u64) -> [u8; 8] {
    mix64(key).to_be_bytes()
}

fn stored(number: u64, value: u64) -> [u8; STORED_BYTES] {
    let mut stored = [0; STORED_BYTES];
    stored[..8].copy_from_slice(&(!number).to_be_bytes());
    stored[8..].copy_from_slice(&value.to_be_bytes());
    stored
}

/// The number and the value that bytes of the tree stand for.
fn read(stored: &[u8]) -> Option<(u64, u64)> {
    let stored: &[u8; STORED_BYTES] = stored.try_into().ok()?;
    let (number, value) = stored.split_first_chunk::<8>()?;
    let value: [u8; 8] = value.try_into().ok()?;
    Some((!u64::from_be_bytes(*number), u64::from_be_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_compare_as_newest_first() {
        let numbers = [0, 1, 255, 256, u64::MAX / 2, u64::MAX - 1];
        let values = [0, 7, u64::MAX];
        for (older, newer) in numbers.iter().zip(&numbers[1..]) {
            for (value, other) in values
                .iter()
                .flat_map(|v| values.iter().map(move |o| (v, o)))
            {
                assert!(stored(*newer, *value) < stored(*older, *other));
            }
        }
        assert_eq!(read(&stored(300, 7)), Some((300, 7)));
        assert_eq!(read(&[0; STORED_BYTES - 1]), None);
    }

    /// A value of another length, and one whose number was not drawn.
    #[test]
    fn values_that_no_insertion_stored_are_found() {
        for foreign in [&[7; 15][..], &stored(1, 7)] {
            let multimap = NewestFirst::with_placement(Placement::Merged);
            multimap.insert(1, 10);
            multimap.verify().expect("intact");
            assert_eq!(multimap.pairs.insert(&stored_key(2), foreign), Ok(true));
            let error = multimap.verify().expect_err("no value of ours");
            assert!(error.contains("of 1 added values"), "{error}");
        }
    }
}
