//! Pages that a scan will want, asked for before it comes to them.
//!
//! The node above a leaf names the leaves that come next. A scan that has gone past its second leaf
//! asks for the next two, and each time it has used half of what it asked for it asks for more, twice
//! as many as before, up to 32: so the reads of a long scan overlap, and a short one reads nothing in
//! vain. Only children of the same node are asked for. Pages that are in memory cost a look at their
//! state.
//!
//! Values in overflow pages are asked for as well: with the first of a leaf those of the records
//! behind it, unless it is the scan's first leaf.

use std::ops::Range;

use hedgerow_pages::{PageId, Pages, Pool, Restart};

use super::BTreeIndex;
use super::descend::{Aim, Leaf};
use crate::chain::Chain;
use crate::configuration::Configuration;
use crate::page::Image;
use crate::search::Node;
use crate::slotted::{Comparison, Kind};

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

    /// Whether the scan has left its first leaf.
    pub(super) fn goes_on(&self) -> bool {
        self.visited > 1
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Asks for leaves that come after one to which a way leads, if it is time to.
    #[inline]
    pub(super) fn ask_ahead<const FORWARD: bool>(
        &self,
        ahead: &mut Ahead,
        leaf: &Leaf,
        aim: Aim<'_>,
    ) {
        let more = ahead.step();
        if more > 0 {
            self.ask_for_leaves::<FORWARD>(ahead, leaf, aim, more);
        }
    }

    #[cold]
    fn ask_for_leaves<const FORWARD: bool>(
        &self,
        ahead: &mut Ahead,
        leaf: &Leaf,
        aim: Aim<'_>,
        more: usize,
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        let Some(above) = leaf.above else {
            return;
        };
        let page = pool.seen(&above.note);
        // What was changed meanwhile is not worth another look.
        if let Ok(ids) = children_ahead::<C, FORWARD>(page, aim, ahead.asked, more)
            && pool.validate(&above.note).is_ok()
        {
            ahead.asked += ids.len();
            pool.prefetch(&ids);
        }
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
    aim: Aim<'_>,
    asked: usize,
    more: usize,
) -> Result<Vec<PageId>, Restart> {
    let Some((_, index)) = aim.child::<C>(page)? else {
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
