//! What every index can do besides: operations whose callbacks return something.

use std::ops::{Bound, ControlFlow};

use crate::{Decision, Direction, Index, IndexError, ScanRange, ValuePart};

/// Methods of every [`Index`] with callbacks that return something, at the cost of one indirect
/// call for each callback.
pub trait IndexExt: Index {
    /// Runs `read` on the value of `key`, or on its head, and returns the result; `None` when the
    /// key is absent.
    ///
    /// # Errors
    ///
    /// As for [`Index::get`].
    #[inline]
    fn read<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        let mut read = Some(read);
        let mut result = None;
        self.get(key, part, &mut |value| {
            // An index calls it once; were it called again, the first answer would stand.
            if let Some(read) = read.take() {
                result = Some(read(value));
            }
        })?;
        Ok(result)
    }

    /// [`Index::update`] that returns what the last call of `decide` returned.
    ///
    /// # Errors
    ///
    /// As for [`Index::update`].
    #[inline]
    fn modify<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<R, IndexError> {
        let mut last = None;
        self.update(key, part, new, &mut |old, new| {
            let (decision, result) = match decide(old, new) {
                Decision::Keep(result) => (Decision::Keep(()), result),
                Decision::Put(result) => (Decision::Put(()), result),
                Decision::Remove(result) => (Decision::Remove(()), result),
            };
            last = Some(result);
            decision
        })?;
        Ok(last.expect("an update that succeeded has called `decide`"))
    }

    /// Visits all pairs from a bound on until `visit` breaks.
    ///
    /// # Errors
    ///
    /// As for [`Index::scan`].
    #[inline]
    fn scan_from(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        self.scan(&ScanRange::starting_at(from, direction), &mut visit)
    }
}

impl<I: Index + ?Sized> IndexExt for I {}
