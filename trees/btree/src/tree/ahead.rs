//! Prefetching of the pages that a scan will want.
//!
//! **Leaves.** The node above a leaf names the leaves that follow. After its second leaf a scan
//! prefetches the next two. Each time it has used half of them it prefetches twice as many as
//! before, up to 32. So the reads of a long scan overlap, and a short scan reads nothing in vain.
//! Only children of the same node are prefetched. A page in memory costs a check of its state.
//!
//! **Values** in overflow pages are read together: those of a record and of the records behind it
//! in its leaf that the scan is known to want, 64 at most. For a scan of unknown length they are 1,
//! 4, 8, and so on, so that hardly more is read in vain than is used. A scan that is known to want
//! more than its leaf has prefetches the leaves behind together with the first values.

use std::ops::{Bound, Range};

use hedgerow_pages::{PageId, Pages, Pool, Restart};

use super::BTreeIndex;
use super::descend::{Leaf, SearchTarget};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::leaf_range::Start;
use crate::node::page::Image;
use crate::node::search::Node;
use crate::node::slotted::{Comparison, Kind};

/// Leaves that a scan visits before it reads ahead.
const FIRST: usize = 2;

/// Leaves that are asked for at once, at most.
const MOST: usize = 32;

/// Overflow pages that are asked for at once, at most.
const MOST_OF_VALUES: usize = 64;

/// How far ahead of a scan of one layer leaves were asked for.
#[derive(Default)]
pub(super) struct Ahead {
    visited: usize,
    /// Leaves that were asked for and not visited yet.
    asked: usize,
    window: usize,
}

impl Ahead {
    /// Counts a leaf that is about to be visited; how many behind those that were asked for are to
    /// be asked for now.
    fn step(&mut self) -> usize {
        self.visited += 1;
        self.asked = self.asked.saturating_sub(1);
        if self.visited <= FIRST || 2 * self.asked > self.window {
            return 0;
        }
        self.window = (2 * self.window).clamp(2, MOST);
        self.window
    }

    /// So many leaves behind the one that is visited now will be wanted; how many of them are to be
    /// asked for.
    fn reach(&mut self, wanted: usize) -> usize {
        wanted.min(MOST).saturating_sub(self.asked)
    }

    /// Whether the scan has left its first leaf.
    pub(super) fn goes_on(&self) -> bool {
        self.visited > 1
    }
}

/// How much of a scan is wanted, as far as that is known.
pub(super) struct Extent<'k> {
    to: Option<Start<'k>>,
    /// Records that are still wanted; `usize::MAX` if nobody knows.
    left: usize,
    /// Records whose values were read together last.
    window: usize,
}

impl<'k> Extent<'k> {
    pub(super) fn new(to: Bound<&'k [u8]>, most: usize) -> Self {
        Self {
            to: Start::of(to),
            left: most,
            window: 0,
        }
    }

    /// Counts a leaf of so many places that is about to be visited, all or the first `here` of
    /// which are wanted as far as the end of the scan says: how many of them, and how many
    /// records beyond.
    fn pass(&mut self, places: usize, here: usize) -> (usize, usize) {
        // A scan that goes on all the same, past rows that do not count, say.
        if self.left == 0 {
            self.left = usize::MAX;
        }
        let known = self.left < usize::MAX;
        let wanted = here.min(self.left);
        if known {
            self.left -= wanted;
        }
        let beyond = if known && here == places {
            self.left
        } else {
            0
        };
        (wanted, beyond)
    }

    /// Of how many of `wanted` records the values are to be read now.
    fn next_window(&mut self, wanted: usize) -> usize {
        self.window = match self.window {
            _ if self.left < usize::MAX => MOST_OF_VALUES,
            0 => 1,
            1 => 4,
            window => (2 * window).min(MOST_OF_VALUES),
        };
        self.window.min(wanted)
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Asks for leaves that come after one to which a way leads, if it is time to.
    #[inline]
    pub(super) fn ask_ahead<const FORWARD: bool>(
        &self,
        ahead: &mut Ahead,
        leaf: &Leaf,
        target: SearchTarget<'_>,
    ) {
        let more = ahead.step();
        if more > 0 {
            self.ask_for_leaves::<FORWARD>(ahead, leaf, target, more);
        }
    }

    #[cold]
    fn ask_for_leaves<const FORWARD: bool>(
        &self,
        ahead: &mut Ahead,
        leaf: &Leaf,
        target: SearchTarget<'_>,
        more: usize,
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        let Some(above) = leaf.above else {
            return;
        };
        let page = pool.seen(&above.snapshot);
        // What was changed meanwhile is not worth another look.
        if let Ok(ids) = children_ahead::<C, FORWARD>(page, target, ahead.asked, more)
            && pool.validate(&above.snapshot).is_ok()
        {
            ahead.asked += ids.len();
            pool.prefetch(&ids);
        }
    }

    /// Counts a leaf of a scan, of which `places` will be visited, and asks for those behind it
    /// that are known to be wanted: of how many records of the leaf the values are.
    #[cold]
    pub(super) fn ask_as_far<const FORWARD: bool>(
        &self,
        (ahead, extent): (&mut Ahead, &mut Extent<'_>),
        (leaf, target): (&Leaf, SearchTarget<'_>),
        page: &Image<PAGE>,
        (places, base): (&Range<usize>, usize),
    ) -> usize {
        let mut here = places.clone();
        // Within a layer keys go on in other ways than the end of the scan.
        if base == 0 && extent.to.is_some() {
            if FORWARD {
                let (before, _) = page.range_from::<C, false>(extent.to, Self::KEY_PREFIX_BYTES);
                here.end = here.end.min(before.end);
            } else {
                let (behind, _) = page.range_from::<C, true>(extent.to, Self::KEY_PREFIX_BYTES);
                here.start = here.start.max(behind.start);
            }
        }
        let (wanted, beyond) = extent.pass(places.len(), here.len());
        let more = ahead.reach(beyond.div_ceil(page.count().max(1)));
        if more > 0 {
            self.ask_for_leaves::<FORWARD>(ahead, leaf, target, more);
        }
        wanted
    }

    /// Brings the overflow pages of the next records of a leaf to memory, `wanted` at most: of how
    /// many records, one at least.
    #[cold]
    pub(super) fn load_some<const FORWARD: bool>(
        &self,
        extent: &mut Extent<'_>,
        page: &Image<PAGE>,
        mut left: Range<usize>,
        wanted: usize,
    ) -> usize {
        let pool: &Pool<PAGE> = &self.pool;
        // What others read ahead is not to be displaced.
        let most_pages = MOST_OF_VALUES.min(pool.limit() / 8);
        let most = extent.next_window(wanted);
        let (mut ids, mut records) = (Vec::new(), 0);
        while records < most
            && ids.len() < most_pages
            && let Some(place) = page.next_place::<C, FORWARD>(&mut left)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            if matches!(payload.kind, Kind::Overflow | Kind::Long) {
                ids.extend(Chain::read::<PAGE>(payload).named().map(PageId));
                records += 1;
            }
        }
        // One is read by whoever comes to it.
        if records > 1 {
            ids.sort_unstable_by_key(|id| id.0);
            ids.dedup();
            pool.load_many(&ids);
        }
        records.max(1)
    }

    /// Asks for overflow pages of records of a leaf.
    #[cold]
    pub(super) fn ask_for_values<const FORWARD: bool>(
        &self,
        page: &Image<PAGE>,
        mut left: Range<usize>,
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        let mut ids = Vec::new();
        while ids.len() < MOST_OF_VALUES
            && let Some(place) = page.next_place::<C, FORWARD>(&mut left)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            if matches!(payload.kind, Kind::Overflow | Kind::Long) {
                ids.extend(Chain::read::<PAGE>(payload).named().map(PageId));
            }
        }
        pool.prefetch(&ids);
    }
}

/// The children of a node on the far side of the one that a way leads to, but for those right
/// behind it that were `asked` for.
fn children_ahead<C: Configuration, const FORWARD: bool>(
    page: impl Node,
    target: SearchTarget<'_>,
    asked: usize,
    more: usize,
) -> Result<Vec<PageId>, Restart> {
    let Some((_, index)) = target.child::<C>(page)? else {
        return Ok(Vec::new());
    };
    let count = page.records()?;
    let child = |index| page.child_at::<Comparison<C>>(index, count).map(PageId);
    if FORWARD {
        let first = index + 1 + asked;
        (first..(first + more).min(count + 1)).map(child).collect()
    } else {
        let end = index.saturating_sub(asked);
        (end.saturating_sub(more)..end).rev().map(child).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_scan_whose_length_is_known_all_is_wanted_at_once_and_no_more() {
        let mut known = Extent::new(Bound::Unbounded, 50);
        assert_eq!(known.pass(30, 30), (30, 20));
        assert_eq!(known.next_window(30), 30);
        assert_eq!(known.pass(30, 30), (20, 0));
        assert_eq!(known.next_window(20), 20);
        // The end of the range is nearer.
        assert_eq!(Extent::new(Bound::Unbounded, 50).pass(30, 7), (7, 0));
        let mut unknown = Extent::new(Bound::Unbounded, usize::MAX);
        assert_eq!(unknown.pass(100, 100), (100, 0));
        let windows: Vec<_> = (0..8).map(|_| unknown.next_window(100)).collect();
        assert_eq!(windows, [1, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(unknown.next_window(3), 3);
    }

    #[test]
    fn a_scan_asks_late_and_then_for_more_and_more() {
        let mut ahead = Ahead::default();
        let mut asked = Vec::new();
        for _ in 0..200 {
            let more = ahead.step();
            ahead.asked += more;
            asked.push(more);
        }
        assert_eq!(asked[..8], [0, 0, 2, 4, 0, 0, 8, 0]);
        assert!(asked.iter().all(|&more| more <= MOST) && asked.contains(&MOST));
        // It never runs out, nor gets far ahead.
        let (mut left, mut most) = (0, 0);
        for &more in &asked[2..] {
            left += more;
            most = left.max(most);
            assert!(left > 0);
            left -= 1;
        }
        assert!(most <= 2 * MOST, "{most}");
    }
}
