//! Keys with several values: a set of pairs in the order of their keys, then of their values.
//!
//! OpenBw-Tree's leaves take several values for a key, and its deltas name key and value. Here a
//! pair is one key of an ordinary [`BwTree`], whose value is empty, so each operation of a pair is
//! one of the tree, with its costs and its guarantees.
//!
//! ```text
//! key, each byte 0 as 0 255 │ 0 0 │ value
//! ```
//!
//! Encoded pairs compare as (key, value) do: where one key ends, its 0 0 is below whatever another
//! key that begins with it goes on with (0 255, or a byte above 0), and values of one key stand
//! behind equal bytes. No key has the bytes 0 1 there, so they mark the place behind all values of
//! a key.
//!
//! A leaf stores the prefix that its pairs share once. So leaves that have values of one key alone
//! store that key once each, and a further value costs its own bytes and about twelve more. Where
//! keys have few values each, a pair costs the part of the key that its leaf does not share, like
//! any other key.

use std::ops::{Bound, ControlFlow};
use std::{fmt, io};

use hedgerow_index::{Decision, Direction, KeyBound, MAX_KEY_BYTES, ScanRange, Statistics};
use hedgerow_memory::Placement;

use crate::configuration::{Configuration, Standard};
use crate::tree::BwTree;

/// The bytes behind a key in front of a value.
const BEFORE_VALUES: [u8; 2] = [0, 0];
/// Above all values of a key, below the next key.
const BEHIND_VALUES: [u8; 2] = [0, 1];

/// A pair is longer than a multimap takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairTooLong {
    /// Bytes of the encoded pair: of the value, of the key, whose zero bytes count twice, and 2.
    pub bytes: usize,
}

impl fmt::Display for PairTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a key and its value take {} bytes together (zero bytes of the key count twice), more \
             than the {MAX_KEY_BYTES} that a multimap takes; store the value elsewhere, and a \
             shorter name of it here",
            self.bytes
        )
    }
}

impl std::error::Error for PairTooLong {}

/// A Bw-tree of non-unique keys: an ordered set of (key, value) pairs that many threads read and
/// write at once.
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
///
/// let orders = hedgerow_bwtree::BwMultimap::<hedgerow_bwtree::Standard>::new();
/// assert!(orders.insert(b"ada", b"2026-01-03")?);
/// assert!(orders.insert(b"ada", b"2026-01-01")?);
/// assert!(!orders.insert(b"ada", b"2026-01-01")?);
/// let mut days = Vec::new();
/// orders.values(b"ada", |day| {
///     days.push(day.to_vec());
///     ControlFlow::Continue(())
/// });
/// assert_eq!(days, [b"2026-01-01", b"2026-01-03"]);
/// assert!(orders.remove(b"ada", b"2026-01-01"));
/// assert_eq!(orders.count(b"ada"), 1);
/// # Ok::<(), hedgerow_bwtree::PairTooLong>(())
/// ```
pub struct BwMultimap<C: Configuration = Standard> {
    tree: BwTree<C>,
}

impl<C: Configuration> BwMultimap<C> {
    /// An empty multimap, with the mapping table of a [`BwTree`].
    ///
    /// # Panics
    ///
    /// As [`BwTree::new`].
    pub fn new() -> Self {
        Self {
            tree: BwTree::new(),
        }
    }

    /// An empty multimap whose nodes come from there, as those of [`BwTree::with_placement`] do.
    ///
    /// # Errors
    ///
    /// As [`BwTree::try_new`].
    pub fn with_placement(placement: Placement) -> io::Result<Self> {
        let tree = BwTree::with_placement(placement)?;
        Ok(Self { tree })
    }

    /// Adds a pair; says whether it was absent. Atomic, at the cost of one insert.
    ///
    /// # Errors
    ///
    /// [`PairTooLong`] if key and value take more than [`MAX_KEY_BYTES`] together.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, PairTooLong> {
        let pair = encode(key, value);
        if pair.len() > MAX_KEY_BYTES {
            return Err(PairTooLong { bytes: pair.len() });
        }
        Ok(self
            .tree
            .update_with(&pair, &mut Vec::new(), |present, _| match present {
                Some(_) => Decision::Keep(false),
                None => Decision::Put(true),
            }))
    }

    /// Removes a pair; says whether it was there. Atomic, at the cost of one remove.
    pub fn remove(&self, key: &[u8], value: &[u8]) -> bool {
        self.tree.remove(&encode(key, value))
    }

    /// Removes the first value of a key, in ascending order, that is wanted; says whether there was
    /// one. Where several threads want the same value, one of them removes it and the others look
    /// again, so a call that returns true has removed a value of its own. A wanted value that stays
    /// during the call is found. It costs a walk up to the value and one remove, again for each
    /// value that another thread removed first.
    pub fn remove_first(&self, key: &[u8], mut is_wanted: impl FnMut(&[u8]) -> bool) -> bool {
        loop {
            let mut first = None;
            self.values(key, |value| match is_wanted(value) {
                true => {
                    first = Some(value.to_vec());
                    ControlFlow::Break(())
                }
                false => ControlFlow::Continue(()),
            });
            let Some(first) = first else { return false };
            if self.remove(key, &first) {
                return true;
            }
        }
    }

    /// Whether a pair is there.
    pub fn contains(&self, key: &[u8], value: &[u8]) -> bool {
        self.tree.contains(&encode(key, value))
    }

    /// Visits the values of a key in ascending order, until `visit` breaks. Values that stay during
    /// the call are visited once each.
    pub fn values(&self, key: &[u8], mut visit: impl FnMut(&[u8]) -> ControlFlow<()>) {
        let (lower, upper) = values_of(key);
        let range = ScanRange::between(bounds(&lower, &upper), Direction::Forward);
        self.tree
            .scan_range(&range.keys_only(), |pair, _| visit(&pair[lower.len()..]));
    }

    /// How many values a key has; costs a walk over them.
    pub fn count(&self, key: &[u8]) -> usize {
        let mut count = 0;
        self.values(key, |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    /// Visits the pairs whose keys lie in a range in the order of (key, value), or the reverse of
    /// it, as [`hedgerow_index::Index::scan`] visits keys. The limit is of pairs. Values are shown
    /// whether or not the range asks for them.
    pub fn scan(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        let (lower, upper) = range.bounds();
        let lower = KeyBound::of(lower).map(|bound| {
            let end = if bound.inclusive {
                BEFORE_VALUES
            } else {
                BEHIND_VALUES
            };
            encode_key(bound.key, end)
        });
        let upper = KeyBound::of(upper).map(|bound| {
            let end = if bound.inclusive {
                BEHIND_VALUES
            } else {
                BEFORE_VALUES
            };
            encode_key(bound.key, end)
        });
        let lower = lower.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let upper = upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let pairs = ScanRange::between((lower, upper), range.direction)
            .limited(range.limit)
            .keys_only();
        // The pairs of one key follow each other: it is decoded once.
        let (mut encoded, mut key) = (Vec::new(), Vec::new());
        self.tree.scan_range(&pairs, |pair, _| {
            if encoded.is_empty() || !pair.starts_with(&encoded) {
                let value_at = decode_key(pair, &mut key);
                encoded.clear();
                encoded.extend_from_slice(&pair[..value_at]);
            }
            visit(&key, &pair[encoded.len()..])
        });
    }

    /// Removes all values of a key, a leaf at a time ([`BwTree::remove_range`]); returns how many.
    /// Each pair is removed atomically. Of pairs that others insert or remove meanwhile, some may
    /// be counted and removed.
    pub fn remove_all(&self, key: &[u8]) -> usize {
        let (lower, upper) = values_of(key);
        let (lower, upper) = bounds(&lower, &upper);
        let mut count = 0;
        self.tree.remove_range(lower, upper, |_, _| {
            count += 1;
            ControlFlow::Continue(true)
        });
        count
    }

    /// The numbers of the tree of pairs, with a walk of the whole tree; `keys` counts pairs.
    pub fn statistics(&self) -> Statistics {
        self.tree.statistics()
    }

    /// Checks the tree of pairs as [`BwTree::verify`] does, and that each of its keys is a pair.
    ///
    /// # Errors
    ///
    /// The first violation in words.
    pub fn verify(&self) -> Result<(), String> {
        self.tree.verify()?;
        let all = ScanRange::starting_at(Bound::Unbounded, Direction::Forward);
        let (mut key, mut broken) = (Vec::new(), None);
        self.tree.scan_range(&all, |pair, _| {
            let value_at = decode_key(pair, &mut key);
            if encode(&key, &pair[value_at..]) == pair {
                return ControlFlow::Continue(());
            }
            broken = Some(format!("{pair:?} is no pair of a key and a value"));
            ControlFlow::Break(())
        });
        broken.map_or(Ok(()), Err)
    }
}

impl<C: Configuration> Default for BwMultimap<C> {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes in front of and behind all values of a key.
fn values_of(key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (
        encode_key(key, BEFORE_VALUES),
        encode_key(key, BEHIND_VALUES),
    )
}

fn bounds<'b>(lower: &'b [u8], upper: &'b [u8]) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
    (Bound::Included(lower), Bound::Excluded(upper))
}

fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut pair = encode_key(key, BEFORE_VALUES);
    pair.extend_from_slice(value);
    pair
}

fn encode_key(key: &[u8], end: [u8; 2]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(key.len() + 16);
    for part in key.split_inclusive(|&byte| byte == 0) {
        encoded.extend_from_slice(part);
        if part.ends_with(&[0]) {
            encoded.push(255);
        }
    }
    encoded.extend_from_slice(&end);
    encoded
}

/// Decodes the key of a pair into `key`; returns where the value begins.
fn decode_key(pair: &[u8], key: &mut Vec<u8>) -> usize {
    key.clear();
    let mut at = 0;
    while at < pair.len() {
        if pair[at] == 0 {
            match pair.get(at + 1) {
                Some(255) => at += 1,
                _ => return (at + 2).min(pair.len()),
            }
            key.push(0);
        } else {
            key.push(pair[at]);
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_pairs_compare_as_pairs() {
        let parts: [&[u8]; 11] = [
            b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"\x01", b"a", b"a\0", b"a\0b", b"ab",
            b"\xff",
        ];
        let parts = &parts[..if cfg!(miri) { 5 } else { parts.len() }];
        let pairs = parts
            .iter()
            .flat_map(|key| parts.iter().map(|value| (*key, *value)));
        let pairs: Vec<_> = pairs.collect();
        let mut key = Vec::new();
        for one in &pairs {
            let encoded = encode(one.0, one.1);
            let value_at = decode_key(&encoded, &mut key);
            assert_eq!((key.as_slice(), &encoded[value_at..]), *one);
            let (lower, upper) = values_of(one.0);
            for other in &pairs {
                let compared = encode(other.0, other.1);
                assert_eq!(one.cmp(other), encoded.cmp(&compared), "{one:?}, {other:?}");
                let is_between = lower <= compared && compared < upper;
                assert_eq!(is_between, one.0 == other.0, "{one:?}, {other:?}");
            }
        }
    }
}
