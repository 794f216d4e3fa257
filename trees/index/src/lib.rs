//! The interface between Hedgerow's engine and its index family.
//!
//! An index is an ordered map from byte keys to byte values that many threads read and
//! write at once through `&self`. The engine stores encoded rows in it and knows nothing of
//! nodes, versions or layouts; a tree knows nothing of logs, transactions or sockets. This
//! crate holds the trait that separates the two, and the small types of its signatures.
//!
//! Trees that are keyed by integers and written by one thread have a trait of their own,
//! [`IntIndex`].

#![forbid(unsafe_code)]

use std::ops::{Bound, ControlFlow};

mod error;
mod integers;
#[cfg(any(test, feature = "locked-map"))]
mod locked_map;
mod remove_range;
mod statistics;

pub use error::{IndexError, IndexErrorKind, KeySpan};
pub use integers::{BulkLoad, IntIndex, IntKey, NotAscending};
#[cfg(any(test, feature = "locked-map"))]
pub use locked_map::LockedMap;
pub use remove_range::RangeDecision;
pub use statistics::{Statistic, Statistics};

/// The longest key that an index must accept, in bytes (64 KiB).
pub const MAX_KEY_BYTES: usize = 64 * 1024;

/// The bytes of a value that [`Index::remove_range`] shows at least: enough for a header that tells
/// whether to remove the pair, and so few that an index need not read the rest of a long value.
pub const RANGE_VALUE_BYTES: usize = 24;

/// What an [`Index::update`] callback decides about its key.
///
/// `update` returns the callback's `R` unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<R> {
    /// Leave the key as it is.
    Keep(R),
    /// Store the bytes that the callback left in its `new` buffer.
    Put(R),
    /// Remove the key; a no-op when it is absent.
    Remove(R),
}

/// The order in which [`Index::scan`] visits keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending by key bytes, from the bound upwards.
    Forward,
    /// Descending by key bytes, from the bound downwards.
    Reverse,
}

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
/// use hedgerow_index::{Decision, Direction, Index, IndexError};
/// use hedgerow_masstree::{Bytes, Masstree};
///
/// /// Adds to a counter under a key; returns its new value.
/// fn add(index: &impl Index, key: &[u8], n: u64) -> Result<u64, IndexError> {
///     index.update(key, &mut Vec::new(), |old, new| {
///         let old = old.and_then(|bytes| bytes.try_into().ok());
///         let sum = old.map_or(0, u64::from_le_bytes) + n;
///         new.extend_from_slice(&sum.to_le_bytes());
///         Decision::Put(sum)
///     })
/// }
///
/// /// The first key at or above another.
/// fn first_key(index: &impl Index, from: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
///     let mut first = None;
///     index.scan(Bound::Included(from), Direction::Forward, |key, _value| {
///         first = Some(key.to_vec());
///         ControlFlow::Break(())
///     })?;
///     Ok(first)
/// }
///
/// let index = Masstree::<Bytes>::new();
/// add(&index, b"apples", 3)?;
/// add(&index, b"pears", 5)?;
/// assert_eq!(add(&index, b"apples", 4)?, 7);
/// assert_eq!(first_key(&index, b"b")?, Some(b"pears".to_vec()));
/// assert_eq!(first_key(&index, b"z")?, None);
/// # Ok::<(), IndexError>(())
/// ```
///
/// # Errors
///
/// An index in memory never fails. One whose pages lie in a file can fail at any call; then that
/// call changed nothing, and callbacks may have been called for what was read before.
pub trait Index: Send + Sync {
    /// Runs `read` on the value of `key` and returns its result, or `None` when absent.
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError>;

    /// [`get`](Self::get) for a `read` that needs no more of the value than its first
    /// [`RANGE_VALUE_BYTES`], and may be shown no more.
    fn get_by_head<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.get(key, read)
    }

    /// Looks up all `keys`, overlapping their cache misses, and calls `read(i, value)`
    /// exactly once for each `keys[i]`, in no particular order. Of a call that fails, it may have
    /// been called for some.
    ///
    /// Each lookup is atomic by itself; the batch is not a snapshot.
    fn get_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError>;

    /// Brings the nodes that operations on `keys` will touch into the cache, overlapping
    /// their misses, so that a following run of updates does not wait for each in turn.
    ///
    /// Purely a hint, so it does not fail. The default does a `get_many` and drops the answers.
    fn prefetch_many(&self, keys: &[&[u8]]) {
        // The operation that needs the key reports why it cannot be read.
        let _ = self.get_many(keys, |_, _| {});
    }

    /// Atomically replaces, inserts or removes one key.
    ///
    /// `decide` receives the present value (if any) and a buffer, empty at each call; for
    /// [`Decision::Put`] the bytes in the buffer become the value. `decide` may be called
    /// again when the key changed underneath an optimistic implementation: only the last
    /// call counts. No other update of this key happens between the last call and its
    /// effect.
    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError>;

    /// [`update`](Self::update) for a `decide` that needs no more of the present value than its
    /// first [`RANGE_VALUE_BYTES`], and may be shown no more: so a long value that is replaced as a
    /// whole need not be read.
    fn update_by_head<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        self.update(key, new, decide)
    }

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

    /// Visits pairs in key order, starting at `from`, until `visit` breaks or keys end.
    ///
    /// With [`Direction::Forward`], `from` is a lower bound; with [`Direction::Reverse`] an
    /// upper bound. A key that exists unchanged throughout the scan is visited exactly once;
    /// no key is visited twice; a key inserted or removed meanwhile may or may not be seen.
    /// The key slice is only valid during the call.
    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;

    /// [`scan`](Self::scan) whose caller wants at most `most` pairs (`usize::MAX`: unknown) before
    /// `to`. Both are hints: `visit` alone ends the scan. An index that reads ahead can read so
    /// many pairs at once, and none beyond.
    fn scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let _ = (to, most);
        self.scan(from, direction, visit)
    }

    /// [`scan`](Self::scan) of keys alone: an index that keeps values apart from keys does not
    /// touch them.
    fn scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan(from, direction, |key, _| visit(key))
    }

    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal
    /// size, for parallel scans. Fewer (even none) when the index is small.
    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError>;

    /// Numbers that show every mechanism at work: nodes by kind, bytes, fill, retries.
    /// Walks the whole index: costs as much as a full scan.
    fn statistics(&self) -> Result<Statistics, IndexError>;

    /// Those of the [`statistics`](Self::statistics) that are counted as things happen: splits,
    /// merges, retries. Walks nothing. They only grow.
    fn counters(&self) -> Statistics {
        Statistics::new()
    }

    /// Checks every structural invariant and returns the first violation in words.
    ///
    /// Meant for quiescent moments (tests, `hedgerow check`): concurrent writers may make
    /// it report violations that are none.
    fn verify(&self) -> Result<(), String>;
}
