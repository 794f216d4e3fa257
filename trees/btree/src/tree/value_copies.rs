//! Copies of the long values that a scan visits next.
//!
//! A value in overflow pages is read under its leaf's latch and visited without any. So a scan
//! copies the values of several records under one latch and visits the copies. It prefetches the
//! lines of each value while it copies those before it.
//!
//! A scan that says how much it wants copies as many values at once, eight at most, which stay in
//! the first-level cache. Another scan copies 1, 2, 4, and then 8. A record that names a layer ends
//! a group of copies.

use std::ops::Range;

use hedgerow_pages::{PageId, Pool, Result};

use super::BTreeIndex;
use super::descend::Leaf;
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::layout::{Kind, Payload};
use crate::node::page::Image;
use crate::node::shared_overflow;

/// Values that are copied at once, at most.
const MOST: usize = 8;

/// Bytes that are copied at once, unless one value alone is longer.
const MOST_BYTES: usize = 1 << 14;

/// Bytes of a value that are prefetched. The processor prefetches the lines behind them by itself.
const PREFETCHED_BYTES: usize = 256;

/// Copies of the values of records that a scan comes to next.
#[derive(Default)]
pub(super) struct ValueCopies {
    bytes: Vec<u8>,
    /// Where the rest of a key and its value end, and how long that rest is.
    ends: [(usize, usize); MOST],
    taken: usize,
    count: usize,
    /// Whether the values of records with whole keys are wanted.
    values: bool,
    /// How many were to be copied last by a scan without a limit.
    window: usize,
}

impl ValueCopies {
    /// Those of a scan, with room for bytes that is there already.
    pub(super) fn new(bytes: Vec<u8>, values: bool) -> Self {
        Self {
            bytes,
            values,
            ..Self::default()
        }
    }

    /// The room for bytes, to be used again.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken == self.count
    }

    /// Drops what was not taken.
    pub(super) fn clear(&mut self) {
        (self.taken, self.count) = (0, 0);
    }

    /// Takes the next: the rest of a key, and the value.
    pub(super) fn take(&mut self) -> Option<(&[u8], &[u8])> {
        if self.is_empty() {
            return None;
        }
        let start = match self.taken {
            0 => 0,
            taken => self.ends[taken - 1].0,
        };
        let (end, key_len) = self.ends[self.taken];
        self.taken += 1;
        Some(self.bytes[start..end].split_at(key_len))
    }

    /// How many are to be copied now by a scan that visits so many more records, if it has a
    /// limit.
    pub(super) fn next_window(&mut self, left: Option<usize>) -> usize {
        match left {
            None => {
                self.window = (2 * self.window).clamp(1, MOST);
                self.window
            }
            Some(left) => left.min(MOST),
        }
    }

    /// Keeps the value that was appended last.
    fn keep(&mut self, key_len: usize) {
        self.ends[self.count] = (self.bytes.len(), key_len);
        self.count += 1;
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Copies the values of the next records of a leaf, of `window` at most, and says of how many:
    /// one at least, if there is one. Fails if the first cannot be read.
    pub(super) fn copy_values<const FORWARD: bool>(
        &self,
        copies: &mut ValueCopies,
        leaf: &Leaf,
        page: &Image<PAGE>,
        mut rest: Range<usize>,
        window: usize,
    ) -> Result<usize> {
        copies.clear();
        copies.bytes.clear();
        let mut chains = [const { None::<(Payload<'_>, Chain)> }; MOST];
        let (mut found, mut bytes) = (0, 0);
        while found < window
            && let Some(place) = page.next_place::<C, FORWARD>(&mut rest)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            match payload.kind {
                Kind::Long => {}
                Kind::Overflow if copies.values => {}
                // Visited from the leaf's copy.
                Kind::Inline | Kind::Overflow => continue,
                // Its own values come first, in the room of these.
                Kind::Layer => break,
            }
            let chain = Chain::read::<PAGE>(payload);
            bytes = chain.len.saturating_add(bytes);
            if found > 0 && bytes > MOST_BYTES {
                break;
            }
            self.prefetch_chain(&chain);
            chains[found] = Some((payload, chain));
            found += 1;
        }
        let _latch = self.latch_node(&leaf.at)?;
        for (payload, chain) in chains.iter().flatten() {
            match self.append_chain(chain, *payload, &mut copies.bytes) {
                Ok(()) => copies.keep(chain.key_len),
                // Those before it are to be visited first; then it is the first.
                Err(_) if copies.count > 0 => break,
                Err(stop) => return Err(stop),
            }
        }
        Ok(copies.count)
    }

    /// Prefetches the first lines of what a record names.
    #[inline(always)]
    fn prefetch_chain(&self, chain: &Chain) {
        let pool: &Pool<PAGE> = &self.pool;
        if let Some(first) = chain.number(0) {
            pool.prefetch_lines(PageId(first), 0..PREFETCHED_BYTES);
        } else if chain.class > 0 {
            let at = shared_overflow::slot_at::<PAGE>(chain.class, chain.slot);
            pool.prefetch_lines(PageId(chain.slot_page), 0..1);
            pool.prefetch_lines(PageId(chain.slot_page), at..at + PREFETCHED_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(copies: &mut ValueCopies, left: Option<usize>) -> usize {
        let window = copies.next_window(left);
        copies.clear();
        (0..window).for_each(|_| copies.keep(0));
        window
    }

    #[test]
    fn of_a_scan_whose_length_is_known_no_more_is_copied() {
        let mut known = ValueCopies::new(Vec::new(), true);
        let windows: Vec<_> = [19, 11, 3]
            .map(|left| copies(&mut known, Some(left)))
            .into();
        assert_eq!(windows, [8, 8, 3]);
        let mut unknown = ValueCopies::new(Vec::new(), true);
        let windows: Vec<_> = (0..5).map(|_| copies(&mut unknown, None)).collect();
        assert_eq!(windows, [1, 2, 4, 8, 8]);
    }

    #[test]
    fn what_was_copied_is_taken_in_order_and_once() {
        let mut copies = ValueCopies::new(Vec::new(), true);
        for (rest, value) in [(&b""[..], &b"first"[..]), (b"rest", b"")] {
            copies.bytes.extend_from_slice(rest);
            copies.bytes.extend_from_slice(value);
            copies.keep(rest.len());
        }
        assert!(!copies.is_empty());
        assert_eq!(copies.take(), Some((&b""[..], &b"first"[..])));
        assert_eq!(copies.take(), Some((&b"rest"[..], &b""[..])));
        assert!(copies.is_empty() && copies.take().is_none());
    }
}
