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

use std::cell::Cell;
use std::ops::{ControlFlow, Range};

use hedgerow_pages::{PageId, Pages, Pool, Restart};

use super::BTreeIndex;
use super::descend::{Leaf, SearchTarget};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::layout::Kind;
use crate::node::page::Image;
use crate::node::search::Node;
use crate::node::slotted::Comparison;

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

/// How many more pairs a scan visits at most.
pub(super) struct Remaining {
    left: Cell<usize>,
    is_limited: bool,
}

impl Remaining {
    /// Those of a scan with a limit; `usize::MAX` is none.
    pub(super) fn of(limit: usize) -> Self {
        Self {
            left: Cell::new(limit),
            is_limited: limit < usize::MAX,
        }
    }

    /// Counts a pair that was visited; breaks behind the last.
    #[inline(always)]
    pub(super) fn count(&self) -> ControlFlow<()> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// How many there are, if the scan has a limit.
    pub(super) fn known(&self) -> Option<usize> {
        self.is_limited.then(|| self.left.get())
    }
}

/// How many values a scan reads together.
pub(super) struct Extent {
    /// Whether values in overflow pages are wanted.
    values: bool,
    /// Records whose values were read together last.
    window: usize,
}

impl Extent {
    pub(super) fn new(values: bool) -> Self {
        Self { values, window: 0 }
    }

    /// Of how many of `wanted` records the values are to be read now.
    fn next_window(&mut self, wanted: usize, is_limited: bool) -> usize {
        self.window = match self.window {
            _ if is_limited => MOST_OF_VALUES,
            0 => 1,
            1 => 4,
            window => (2 * window).min(MOST_OF_VALUES),
        };
        self.window.min(wanted)
    }
}

/// Of a leaf with so many places from the scan's position on, of which `here` are before its end:
/// how many are wanted, and how many records behind the leaf, as far as a limit tells.
fn wanted_of(places: usize, here: usize, left: Option<usize>) -> (usize, usize) {
    let Some(left) = left else {
        return (here, 0);
    };
    let wanted = here.min(left);
    let beyond = if here == places { left - wanted } else { 0 };
    (wanted, beyond)
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

    /// Asks for the leaves behind one of which `here` of so many places are before the scan's end,
    /// as far as a limit tells that they are wanted: of how many records of the leaf the values
    /// are.
    #[cold]
    pub(super) fn ask_as_far<const FORWARD: bool>(
        &self,
        (ahead, left): (&mut Ahead, Option<usize>),
        (leaf, target): (&Leaf, SearchTarget<'_>),
        page: &Image<PAGE>,
        (places, here): (usize, usize),
    ) -> usize {
        let (wanted, beyond) = wanted_of(places, here, left);
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
        extent: &mut Extent,
        page: &Image<PAGE>,
        mut left: Range<usize>,
        (wanted, is_limited): (usize, bool),
    ) -> usize {
        let pool: &Pool<PAGE> = &self.pool;
        // What others read ahead is not to be displaced.
        let most_pages = MOST_OF_VALUES.min(pool.limit() / 8);
        let most = extent.next_window(wanted, is_limited);
        let (mut ids, mut records) = (Vec::new(), 0);
        while records < most
            && ids.len() < most_pages
            && let Some(place) = page.next_place::<C, FORWARD>(&mut left)
        {
            let payload = page.payload(page.leaf_record::<C>(place));
            let is_wanted = match payload.kind {
                Kind::Overflow => extent.values,
                Kind::Long => true,
                Kind::Inline | Kind::Layer => false,
            };
            if is_wanted {
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
        let remaining = Remaining::of(50);
        assert_eq!(wanted_of(30, 30, remaining.known()), (30, 20));
        assert_eq!(Extent::new(true).next_window(30, true), 30);
        (0..30).for_each(|_| assert!(remaining.count().is_continue()));
        assert_eq!(wanted_of(30, 30, remaining.known()), (20, 0));
        // The end of the range is nearer.
        assert_eq!(wanted_of(30, 7, remaining.known()), (7, 0));
        (0..19).for_each(|_| assert!(remaining.count().is_continue()));
        assert!(remaining.count().is_break());
        assert_eq!(Remaining::of(usize::MAX).known(), None);
        assert_eq!(wanted_of(100, 100, None), (100, 0));
        let mut unknown = Extent::new(true);
        let windows: Vec<_> = (0..8).map(|_| unknown.next_window(100, false)).collect();
        assert_eq!(windows, [1, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(unknown.next_window(3, false), 3);
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
