//! `--index bst`: an index of byte keys of exactly 8 bytes in `occ-avl-2-ret`.
//!
//! A key is the integer of its bytes, big-endian, which sorts as the key does. The words of the
//! tree are addresses of values, immutable blocks that are retired when a word is replaced or
//! removed. An update decides under its node's lock, so it is atomic and decides once.
//!
//! A key of another width is never there: reads do not find it, and removing it changes nothing.
//! Storing one is an error.

mod key;
mod value;

use std::fmt;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{
    Decide, Decision, Direction, Index, IndexError, IndexErrorKind, IntKey, OrderedIntMap,
    ScanRange, Statistics, StatisticsKind, ValuePart, Visit,
};
use hedgerow_memory::{PlacedNode, VisitNodes};
use hedgerow_sync::epoch;

use self::key::KEY_BYTES;
use crate::occ_avl::{Change, OccAvl2Ret};
use crate::tree::SearchTree;

/// Keys of a batch that are looked up together.
const BATCH: usize = 64;

/// A concurrent ordered map from byte strings of 8 bytes to byte strings of any length.
///
/// # Examples
///
/// ```
/// use hedgerow_bst::BstIndex;
/// use hedgerow_index::{Decision, Index, IndexExt, ValuePart};
///
/// let index = BstIndex::new();
/// let put = |key: &[u8]| {
///     index.modify(key, ValuePart::Head, &mut Vec::new(), |_, new| {
///         new.extend_from_slice(b"a value");
///         Decision::Put(())
///     })
/// };
/// put(&7_u64.to_be_bytes())?;
/// assert!(put(b"another width").is_err());
/// assert_eq!(index.read(&7_u64.to_be_bytes(), ValuePart::Whole, <[u8]>::len)?, Some(7));
/// assert_eq!(index.read(b"another width", ValuePart::Whole, <[u8]>::len)?, None);
/// # Ok::<(), hedgerow_index::IndexError>(())
/// ```
pub struct BstIndex {
    tree: OccAvl2Ret<u64>,
}

impl BstIndex {
    /// The width of every key, in bytes.
    pub const KEY_BYTES: usize = KEY_BYTES;

    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tree: OccAvl2Ret::segregated(),
        }
    }
}

impl Default for BstIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for BstIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BstIndex").finish_non_exhaustive()
    }
}

impl Drop for BstIndex {
    fn drop(&mut self) {
        self.tree.for_each_word(|word| {
            // SAFETY: nobody else has the tree, and each word is in it once.
            unsafe { value::release(word) }
        });
    }
}

#[cold]
fn another_width(key: &[u8]) -> IndexError {
    let words = format!(
        "the key has {} bytes, and the index bst stores keys of {KEY_BYTES} bytes only; use such \
         keys, or a keyspace with another index",
        key.len()
    );
    IndexError::new(IndexErrorKind::KeyWidth, words)
}

impl Index for BstIndex {
    fn get(
        &self,
        key: &[u8],
        _part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        let guard = epoch::pin();
        let number = key::number(key);
        if let Some(word) = number.and_then(|number| self.tree.lookup(number.encode(), &guard)) {
            // SAFETY: the word was in the tree under `guard`.
            read(unsafe { value::load(word) });
        }
        Ok(())
    }

    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        for (batch, keys) in keys.chunks(BATCH).enumerate() {
            let guard = epoch::pin();
            let (mut numbers, mut places, mut count) = ([0; BATCH], [0; BATCH], 0);
            for (at, key) in keys.iter().enumerate() {
                if let Some(number) = key::number(key) {
                    (numbers[count], places[count]) = (number, at);
                    count += 1;
                }
            }
            let mut words = [None; BATCH];
            self.tree
                .lookup_many(&numbers[..count], &guard, |at, word| {
                    word.into_iter().for_each(value::prefetch);
                    words[places[at]] = word;
                });
            for (at, word) in words.into_iter().enumerate().take(keys.len()) {
                // SAFETY: the word was in the tree under `guard`.
                let value = word.map(|word| unsafe { value::load(word) });
                read(batch * BATCH + at, value);
            }
        }
        Ok(())
    }

    fn update(
        &self,
        key: &[u8],
        _part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        let Some(number) = key::number(key) else {
            new.clear();
            return match decide(None, new) {
                Decision::Put(()) => Err(another_width(key)),
                Decision::Keep(()) | Decision::Remove(()) => Ok(()),
            };
        };
        let guard = epoch::pin();
        let replaced = self.tree.update_word(number.encode(), &guard, |word| {
            new.clear();
            // SAFETY: the word is in the tree under `guard`.
            let value = word.map(|word| unsafe { value::load(word) });
            match decide(value, new) {
                Decision::Keep(()) => Change::Keep,
                Decision::Put(()) => Change::Put(value::store(new)),
                Decision::Remove(()) => Change::Remove,
            }
        });
        if let Some(word) = replaced {
            // SAFETY: this update took the word out of the tree.
            unsafe { value::retire(&guard, word) }
        }
        Ok(())
    }

    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError> {
        if range.is_empty() {
            return Ok(());
        }
        let is_forward = range.direction == Direction::Forward;
        let (from, to) = match is_forward {
            true => (key::lower(range.from), key::upper(range.to)),
            false => (key::upper(range.from), key::lower(range.to)),
        };
        let ends_before = |number: u64| match (to, is_forward) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(to), true) => number > to,
            (Bound::Excluded(to), true) => number >= to,
            (Bound::Included(to), false) => number < to,
            (Bound::Excluded(to), false) => number <= to,
        };
        let mut left = range.limit;
        self.tree.scan(from, range.direction, |number, word| {
            if ends_before(number) {
                return ControlFlow::Break(());
            }
            // SAFETY: the tree shows words under a guard of its own, that lives meanwhile.
            visit(&key::bytes(number), unsafe { value::load(word) })?;
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        Ok(())
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        let keys = self.tree.keys_at_the_top(parts.saturating_mul(16));
        let mut cuts: Vec<Vec<u8>> = (1..parts)
            .filter_map(|part| keys.get(part * keys.len() / parts))
            .map(|&number| key::bytes(number).to_vec())
            .collect();
        cuts.dedup();
        Ok(cuts)
    }

    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError> {
        if kind == StatisticsKind::Counters {
            return Ok(self.tree.counters());
        }
        let mut statistics = self.tree.describe();
        let mut bytes = 0;
        let _guard = epoch::pin();
        self.tree.for_each_word(|word| {
            // SAFETY: the word was in the tree under the guard.
            bytes += unsafe { value::block_bytes(word) };
        });
        statistics.push("value_bytes", bytes as f64, "Bytes in blocks of values.");
        let number = |name| statistics.get(name).unwrap_or(0.0);
        let all = number("nodes") * number("node_bytes") + bytes as f64;
        let each = all / number("keys").max(1.0);
        statistics.push("bytes_per_key", each, "Bytes of nodes and values, by keys.");
        Ok(statistics)
    }

    fn verify(&self) -> Result<(), String> {
        self.tree.check()
    }
}

impl VisitNodes for BstIndex {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        self.tree.visit_nodes(visit);
    }
}
