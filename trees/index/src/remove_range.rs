//! The removal of a range by any index: collect keys by a scan, then remove them one by one.

use std::ops::{Bound, ControlFlow};

use crate::{Decision, Direction, Index, IndexError, ScanRange, ValuePart};

/// The most keys, and the most bytes of keys, that are collected before they are removed.
const CHUNK_KEYS: usize = 1024;
const CHUNK_BYTES: usize = 1 << 20;

/// What the callback of [`Index::remove_range`] decides about a pair: whether the index removes it,
/// or that the removal ends before it.
pub type RangeDecision = ControlFlow<(), bool>;

/// Keys copied out of an index, since a scan must not change what it walks.
#[derive(Default)]
struct CollectedKeys {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl CollectedKeys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.lengths.push(key.len());
    }

    fn is_full(&self) -> bool {
        self.lengths.len() == CHUNK_KEYS || self.bytes.len() >= CHUNK_BYTES
    }

    /// Removes the keys.
    fn remove(&mut self, index: &(impl Index + ?Sized)) -> Result<(), IndexError> {
        let mut rest = self.bytes.as_slice();
        for &length in &self.lengths {
            let (key, left) = rest.split_at(length);
            rest = left;
            index.update(key, ValuePart::Head, &mut Vec::new(), &mut |_, _| {
                Decision::Remove(())
            })?;
        }
        self.bytes.clear();
        self.lengths.clear();
        Ok(())
    }
}

/// Removes a range key by key.
pub(crate) fn by_keys(
    index: &(impl Index + ?Sized),
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
) -> Result<(), IndexError> {
    let mut collected = CollectedKeys::default();
    // The key at which the last scan stopped because the buffer was full.
    let mut last: Option<Vec<u8>> = None;
    loop {
        let from = last.as_deref().map_or(from, Bound::Excluded);
        let mut stopped = None;
        let range = ScanRange::between((from, to), Direction::Forward);
        index.scan(&range, &mut |key, value| {
            if decide(key, value)? {
                collected.push(key);
            }
            if collected.is_full() {
                stopped = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        collected.remove(index)?;
        if stopped.is_none() {
            return Ok(());
        }
        last = stopped;
    }
}
