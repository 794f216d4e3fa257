//! An index whose callbacks are pointers, so that it is compiled once.
//!
//! The methods of [`Index`] are generic over their callbacks: a tree is compiled anew, whole
//! descents and all, for each place that calls it. That buys inlined callbacks, and costs
//! megabytes of code and minutes of compiling for each tree of the family. Only the default
//! index pays that price; the others are called through [`ErasedIndex`], at one indirect call
//! for each callback (a few instructions beside the hundreds of a descent).

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Decision, Direction, Index, IndexError, RangeDecision, Statistics};

/// What [`Index::update`] asks.
type Decide<'a> = dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()> + 'a;
/// What [`Index::scan`] calls.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// [`Index`] with callbacks that are pointers. Every index is one; and it is an [`Index`] again.
pub(crate) trait ErasedIndex: Send + Sync {
    fn erased_get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), IndexError>;

    fn erased_get_by_head(&self, key: &[u8], read: &mut dyn FnMut(&[u8]))
    -> Result<(), IndexError>;

    fn erased_get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError>;

    fn erased_prefetch_many(&self, keys: &[&[u8]]);

    fn erased_update(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError>;

    fn erased_update_by_head(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError>;

    fn erased_remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError>;

    fn erased_scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), IndexError>;

    fn erased_scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError>;

    fn erased_partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError>;

    fn erased_statistics(&self) -> Result<Statistics, IndexError>;

    fn erased_counters(&self) -> Statistics;

    fn erased_verify(&self) -> Result<(), String>;
}

impl<I: Index> ErasedIndex for I {
    fn erased_get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<(), IndexError> {
        self.get(key, read).map(drop)
    }

    fn erased_get_by_head(
        &self,
        key: &[u8],
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<(), IndexError> {
        self.get_by_head(key, read).map(drop)
    }

    fn erased_get_many(
        &self,
        keys: &[&[u8]],
        read: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.get_many(keys, read)
    }

    fn erased_prefetch_many(&self, keys: &[&[u8]]) {
        self.prefetch_many(keys);
    }

    fn erased_update(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.update(key, new, decide)
    }

    fn erased_update_by_head(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: &mut Decide<'_>,
    ) -> Result<(), IndexError> {
        self.update_by_head(key, new, decide)
    }

    fn erased_remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        self.remove_range(from, to, decide)
    }

    fn erased_scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), IndexError> {
        self.scan_up_to(from, to, direction, most, visit)
    }

    fn erased_scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan_keys(from, direction, visit)
    }

    fn erased_partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        self.partition(parts)
    }

    fn erased_statistics(&self) -> Result<Statistics, IndexError> {
        self.statistics()
    }

    fn erased_counters(&self) -> Statistics {
        self.counters()
    }

    fn erased_verify(&self) -> Result<(), String> {
        self.verify()
    }
}

/// Runs a lookup whose callback answers nothing with one that answers something, and returns that.
#[inline]
fn answered<R>(
    read: impl FnOnce(&[u8]) -> R,
    get: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<(), IndexError>,
) -> Result<Option<R>, IndexError> {
    let mut read = Some(read);
    let mut result = None;
    get(&mut |value| {
        // An index calls it once; were it called again, the first answer would stand.
        if let Some(read) = read.take() {
            result = Some(read(value));
        }
    })?;
    Ok(result)
}

/// Runs an update whose callback tells nothing with one that tells something, and returns that.
#[inline]
fn told<R>(
    mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    update: impl FnOnce(&mut Decide<'_>) -> Result<(), IndexError>,
) -> Result<R, IndexError> {
    // Only the last call counts, and what it told stays.
    let mut told = None;
    update(&mut |old, new| {
        let (decision, tells) = match decide(old, new) {
            Decision::Keep(tells) => (Decision::Keep(()), tells),
            Decision::Put(tells) => (Decision::Put(()), tells),
            Decision::Remove(tells) => (Decision::Remove(()), tells),
        };
        told = Some(tells);
        decision
    })?;
    Ok(told.expect("an update that succeeded has asked what to do"))
}

impl Index for dyn ErasedIndex + '_ {
    #[inline]
    fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, IndexError> {
        answered(read, |read| self.erased_get(key, read))
    }

    #[inline]
    fn get_by_head<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        answered(read, |read| self.erased_get_by_head(key, read))
    }

    #[inline]
    fn get_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.erased_get_many(keys, &mut read)
    }

    fn prefetch_many(&self, keys: &[&[u8]]) {
        self.erased_prefetch_many(keys);
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        told(decide, |decide| self.erased_update(key, new, decide))
    }

    #[inline]
    fn update_by_head<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        told(decide, |decide| {
            self.erased_update_by_head(key, new, decide)
        })
    }

    fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> Result<(), IndexError> {
        self.erased_remove_range(from, to, decide)
    }

    #[inline]
    fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.erased_scan_up_to(from, Bound::Unbounded, direction, usize::MAX, &mut visit)
    }

    #[inline]
    fn scan_up_to(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.erased_scan_up_to(from, to, direction, most, &mut visit)
    }

    #[inline]
    fn scan_keys(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.erased_scan_keys(from, direction, &mut visit)
    }

    fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        self.erased_partition(parts)
    }

    fn statistics(&self) -> Result<Statistics, IndexError> {
        self.erased_statistics()
    }

    fn counters(&self) -> Statistics {
        self.erased_counters()
    }

    fn verify(&self) -> Result<(), String> {
        self.erased_verify()
    }
}
