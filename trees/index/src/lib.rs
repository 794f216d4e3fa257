//! The interface between Hedgerow's engine and its index family.
//!
//! An index is an ordered map from byte keys to byte values that many threads read and
//! write at once through `&self`. The engine stores encoded rows in it and knows nothing of
//! nodes, versions or layouts; a tree knows nothing of logs, transactions or sockets. This
//! crate holds the trait that separates the two, and the small types of its signatures.
//!
//! [`Index`] is object safe, so that the engine compiles each tree once. [`IndexExt`] adds methods
//! whose callbacks return something.
//!
//! Trees that are keyed by integers and written by one thread have a trait of their own,
//! [`IntIndex`]; those that many threads write have [`ConcurrentIntMap`].

#![forbid(unsafe_code)]

use std::ops::{Bound, ControlFlow};

mod concurrent_integers;
mod error;
mod extension;
mod integers;
#[cfg(any(test, feature = "locked-map"))]
mod locked_map;
mod partition;
mod remove_range;
mod scan_range;
mod statistics;

pub use concurrent_integers::{ConcurrentIntMap, OrderedIntMap};
pub use error::{IndexError, IndexErrorKind, KeySpan};
pub use extension::IndexExt;
pub use integers::{BulkLoad, IntIndex, IntKey, NotAscending};
#[cfg(any(test, feature = "locked-map"))]
pub use locked_map::LockedMap;
pub use partition::{Add, Below, split_keys};
pub use remove_range::RangeDecision;
pub use scan_range::{Direction, KeyBound, ScanRange, is_inverted};
pub use statistics::{Statistic, Statistics};

/// The longest key that an index must accept, in bytes (64 KiB).
pub const MAX_KEY_BYTES: usize = 64 * 1024;

/// The bytes of a value that its [head](ValuePart::Head) has at least, and that
/// [`Index::remove_range`] shows at least: enough for a header that tells what to do with the pair,
/// and so few that an index need not read the rest of a long value.
pub const RANGE_VALUE_BYTES: usize = 24;

/// How much of a present value a callback needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValuePart {
    /// All of it.
    Whole,
    /// Its first [`RANGE_VALUE_BYTES`], or all of a shorter value. The index may show more. A long
    /// value that a caller replaces as a whole is then not read.
    Head,
}

/// Which numbers [`Index::statistics`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatisticsKind {
    /// Those that the index counts as things happen: splits, merges, retries. They only grow, and
    /// cost nothing to tell.
    Counters,
    /// All: also nodes by kind, bytes and fill, which take a walk of the whole index. It costs as
    /// much as a full scan.
    All,
}

/// What an [`Index::update`] callback decides about its key.
///
/// [`IndexExt::modify`] returns the callback's `R` unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<R = ()> {
    /// Leave the key as it is.
    Keep(R),
    /// Store the bytes that the callback left in its `new` buffer.
    Put(R),
    /// Remove the key; a no-op when it is absent.
    Remove(R),
}

/// What [`Index::update`] calls: present value, buffer for the new one.
pub type Decide<'f> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision + 'f;

/// What [`Index::scan`] calls with a key and its value, until it breaks.
pub type Visit<'f> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'f;

/// An ordered, concurrent map from byte strings to byte strings.
///
/// Keys are compared bytewise (as `[u8]` compares), may be empty, may hold NUL bytes and are
/// at most [`MAX_KEY_BYTES`] long; values may have any length. Every method may be called
/// from any number of threads at once and is atomic per key. Reads allocate nothing and
/// write no shared memory.
///
/// Callbacks run while the calling thread is pinned (and, in `update`, while a node is
/// latched), so they must be short and must not call back into the same index.
///
/// # Examples
///
/// ```
/// use std::ops::{Bound, ControlFlow};
///
/// use hedgerow_index::{Decision, Direction, Index, IndexError, IndexExt, ScanRange, ValuePart};
/// use hedgerow_masstree::{Bytes, Masstree};
///
/// /// Adds to a counter under a key; returns its new value.
/// fn add(index: &dyn Index, key: &[u8], n: u64) -> Result<u64, IndexError> {
///     index.modify(key, ValuePart::Whole, &mut Vec::new(), |old, new| {
///         let old = old.and_then(|bytes| bytes.try_into().ok());
///         let sum = old.map_or(0, u64::from_le_bytes) + n;
///         new.extend_from_slice(&sum.to_le_bytes());
///         Decision::Put(sum)
///     })
/// }
///
/// /// Up to `limit` keys between two bounds.
/// fn keys_between(
///     index: &dyn Index,
///     lower: &[u8],
///     upper: &[u8],
///     limit: usize,
/// ) -> Result<Vec<Vec<u8>>, IndexError> {
///     let mut keys = Vec::new();
///     let bounds = (Bound::Included(lower), Bound::Excluded(upper));
///     let range = ScanRange::between(bounds, Direction::Forward).limited(limit).keys_only();
///     index.scan(&range, &mut |key, _| {
///         keys.push(key.to_vec());
///         ControlFlow::Continue(())
///     })?;
///     Ok(keys)
/// }
///
/// let index = Masstree::<Bytes>::new();
/// add(&index, b"apples", 3)?;
/// add(&index, b"pears", 5)?;
/// assert_eq!(add(&index, b"apples", 4)?, 7);
/// assert_eq!(index.read(b"pears", ValuePart::Whole, |value| value[0])?, Some(5));
/// assert_eq!(keys_between(&index, b"a", b"z", 10)?, [b"apples".to_vec(), b"pears".to_vec()]);
/// assert_eq!(keys_between(&index, b"a", b"z", 1)?, [b"apples".to_vec()]);
/// assert!(keys_between(&index, b"q", b"z", 10)?.is_empty());
/// # Ok::<(), IndexError>(())
/// ```
///
/// # Errors
///
/// An index in memory never fails. One whose pages lie in a file can fail at any call; then that
/// call changed nothing, and callbacks may have been called for what was read before.
pub trait Index: Send + Sync {
    /// Calls `read` once with the value of `key`, or with its head; not at all when the key is
    /// absent.
    fn get(
        &self,
        key: &[u8],
        part: ValuePart,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError>;

    /// Looks up all `keys`, overlapping their cache misses, and calls `read(i, value)`
    /// exactly once for each `keys[i]`, in no particular order. Of a call that fails, it may have
    /// been called for some.
    ///
    /// Each lookup is atomic by itself; the batch is not a snapshot.
    fn get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError>;

    /// Brings the nodes that operations on `keys` will touch into the cache, overlapping
    /// their misses, so that a following run of updates does not wait for each in turn.
    ///
    /// Purely a hint, so it does not fail. The default does a `get_many` and drops the answers.
    fn prefetch_many(&self, keys: &[&[u8]]) {
        // The operation that needs the key reports why it cannot be read.
        let _ = self.get_many(keys, &mut |_, _| {});
    }

    /// Atomically replaces, inserts or removes one key.
    ///
    /// `decide` receives the present value or its head (if the key is there), and a buffer, empty
    /// at each call; for [`Decision::Put`] the bytes in the buffer become the value. `decide` may
    /// be called again when the key changed underneath an optimistic implementation: only the last
    /// call counts. No other update of this key happens between the last call and its effect.
    fn update(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError>;

    /// Removes the pairs between two bounds for which `decide` returns true, in key order, until
    /// `decide` breaks or the range ends.
    ///
    /// The index calls `decide` once for each pair. A call that fails has applied every decision
    /// made so far and stops before the pair that it cannot read. No other thread may change the
    /// pairs meanwhile. The index may call `decide` while a node is latched; `decide` must use no
    /// index. It shows `decide` the first [`RANGE_VALUE_BYTES`] of a value at least: all of a short
    /// value, maybe no more of a long one.
    ///
    /// The default, for indexes that never fail, removes key by key.
    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        remove_range::by_keys(self, from, to, decide)
    }

    /// Visits the pairs of a range in key order, at most as many as its limit, until `visit`
    /// breaks. The index compares no key with the end of the range where a whole node lies before
    /// it.
    ///
    /// A key that exists unchanged throughout the scan is visited exactly once; no key is visited
    /// twice; a key inserted or removed meanwhile may or may not be seen. The slices are only
    /// valid during the call. Where the range wants no values, an index may show empty ones.
    ///
    /// An index that reads ahead reads no more than the range and its limit ask for.
    fn scan(&self, range: &ScanRange<'_>, visit: &mut Visit<'_>) -> Result<(), IndexError>;

    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal
    /// size, for parallel scans. Fewer (even none) when the index is small.
    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError>;

    /// Numbers that show every mechanism at work, or those of them that cost nothing.
    fn statistics(&self, kind: StatisticsKind) -> Result<Statistics, IndexError>;

    /// Checks every structural invariant and returns the first violation in words.
    ///
    /// Meant for quiescent moments (tests, `hedgerow check`): concurrent writers may make
    /// it report violations that are none.
    fn verify(&self) -> Result<(), String>;
}
