//! Runs: where records have been inserted in key order, and so where a full node splits.
//!
//! Where keys ascend or descend, a node that splits in the middle leaves a half that never gets
//! another record, and pages stay half full. PostgreSQL splits behind the new record if it follows
//! the record before (`nbtsplitloc.c`, "split after new item"), and at nine tenths at the right
//! edge. InnoDB counts insertions in one direction in the header of a page.
//!
//! **Detection costs insertions nothing.** The heap of a page grows downwards, so the offsets of
//! records give their order of arrival. The header says where the heap began when the page was last
//! made or compacted ([`built`](Image::built)): records below it arrived since. These are a *run*
//! if nearly all of them were put right before the place of the new record, each behind the one
//! before, or right behind that place, each before the one before. They are an *inexact* run if
//! that holds of records that are a sixteenth of all apart. A random order has no runs.
//!
//! ```text
//! heap     ◄── younger                     built
//!          | 104 | 103 | 102 | 101 | 100 |  | what was there |
//! ascending at 105:   … 100 101 102 103 104 ▲ 200 201 …
//! ```
//!
//! A node splits at the end of a run, or a tenth before the end of an inexact one, as some records
//! arrive late. The records beyond become a node of their own; if they are few, they go along with
//! the new record. Without a run, the nodes at the edges of a tree split at nine tenths, since keys
//! in about ascending order arrive there. So a sparse node is only created at an edge, or beside a
//! full one of which an eighth or more arrived in order.
//!
//! **Fences ahead.** A leaf whose fences share little, or that has no upper fence, truncates little
//! of its keys, and would be far from full if it were closed behind its last record. So its upper
//! fence becomes a key *beyond* the new record that shares all the bytes which the new record
//! shares with the lower fence, if that makes room. The run then goes on in the same leaf, and in
//! the leaves split off it, between fences that are alike.

use std::ops::Range;

use crate::configuration::Configuration;
use crate::node::fingerprint::Fingerprints;
use crate::node::key::shortest_between;
use crate::node::layout::Layout;
use crate::node::leaf::FormOf;
use crate::node::page::{Image, shared};
use crate::node::plan::{Content, Plan};
use crate::node::slotted::Comparison;
use crate::node::split::SplitPoint;

/// Records that came in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    ascending: bool,
    /// Whether each came behind (or before) the one before, and not about so.
    exact: bool,
    /// The index where it ends: that of the new record, if it is exact.
    end: usize,
}

/// Of so many records one is few.
const FEW: usize = 16;

/// How many records came in a row, of at most so many: `at` has their offsets, the last first. Each
/// came before that which is `lag` nearer to the end.
fn run_length(at: impl Fn(usize) -> usize, most: usize, lag: usize, built: usize) -> usize {
    let continues = |&n: &usize| at(n) <= built && (n < lag || at(n) > at(n - lag));
    (0..most).take_while(continues).count()
}

/// The lowest string above `low` and at most `high` that is as short as the shortest: keys that
/// descend from `high` stay above it for longest.
fn lowest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let same = shared(low, high);
    let mut between = high[..same].to_vec();
    between.push(low.get(same).map_or(0, |byte| byte + 1));
    between
}

impl<const PAGE: usize> Image<PAGE> {
    /// The run at whose end a new record would be put at `index`, if there is one.
    fn run_at<L: Layout>(&self, index: usize) -> Option<Run> {
        let (count, built, slots) = (self.count(), self.built(), self.slots_at::<L>());
        let offset = |index: usize| self.u16_at(slots + 2 * index);
        let is_fresh = |&index: &usize| offset(index) <= built;
        let is_run = |run: usize| {
            // What came since the node was built, which most of the time need not be counted.
            let fresh = || (0..count).filter(is_fresh).count();
            run >= (count / 8).max(2) && 4 * run >= 3 * fresh()
        };
        for lag in [1, count / FEW] {
            let exact = lag == 1;
            // About in a row, some records may have come before the new one that are beyond it.
            let near = if exact { 0 } else { lag };
            let beyond = (index..count).take(near).take_while(is_fresh).count();
            let before = (0..index).rev().take(near).take_while(is_fresh).count();
            let (start, end) = (index - before, index + beyond);
            let run = |ascending, end| Run {
                ascending,
                exact,
                end,
            };
            if is_run(run_length(|n| offset(end - 1 - n), end, lag, built)) {
                return Some(run(true, end));
            }
            if is_run(run_length(|n| offset(start + n), count - start, lag, built)) {
                return Some(run(false, start));
            }
        }
        None
    }

    /// Where an ordered slotted leaf splits for the sake of a key that belongs to a run, or
    /// to an edge of the tree.
    pub(crate) fn cut_at_run<C: Configuration>(&self, key: &[u8]) -> Option<SplitPoint> {
        let (index, present) = self.lower_bound::<C>(key);
        if present || self.count() < 2 {
            return None;
        }
        let run = match self.form::<C>() {
            FormOf::Fingerprint => self.run_at::<Fingerprints>(index),
            _ => self.run_at::<Comparison<C>>(index),
        };
        let cut = match run {
            Some(run) if !run.exact => self.cut_about::<C>(run, key),
            Some(run) if run.ascending => self.cut_ascending::<C>(index, key),
            Some(_) => self.cut_descending::<C>(index, key),
            None => self.cut_apart::<C>(self.edge(index)?),
        };
        // A fence made of the new key may be longer than all that a part loses.
        self.is_room_for::<C>(&cut).then_some(cut)
    }

    /// Whether both parts fit a leaf of the form that is planned for them, or else of the same.
    fn is_room_for<C: Configuration>(&self, cut: &SplitPoint) -> bool {
        let (separator, same) = (cut.separator.as_slice(), self.form::<C>());
        let fits = |lower, upper, places, plan: Option<Plan>| {
            let content = Content {
                lower,
                upper,
                parts: &[(self, places)],
            };
            let form = plan.map_or(same, |plan| plan.form.form());
            content.room_in::<C>(form).is_some()
        };
        fits(self.lower(), separator, 0..cut.at, cut.left)
            && fits(separator, self.upper(), cut.at..self.count(), cut.right)
    }

    /// Splits near the end of an inexact run, so that it leaves room for those that come late.
    fn cut_about<C: Configuration>(&self, run: Run, key: &[u8]) -> SplitPoint {
        let count = self.count();
        let mut last = Vec::new();
        let fence = if run.ascending && run.end == count {
            self.node_key::<C>(count - 1, &mut last);
            self.fence_above::<C>(count, key.max(&last), &[])
        } else if !run.ascending && run.end == 0 {
            self.node_key::<C>(0, &mut last);
            self.fence_below::<C>(0, key.min(&last), &[])
        } else {
            None
        };
        if let Some(fence) = fence {
            return self.cut_with_few::<C>(run.end, fence);
        }
        let late = count / 10;
        let at = match run.ascending {
            true if FEW * (count - run.end) <= count => run.end - late,
            false if FEW * run.end <= count => run.end + late,
            _ => run.end,
        };
        self.cut_apart::<C>(at.clamp(1, count - 1))
    }

    /// Where a node at an edge of its tree splits whose new record belongs there.
    fn edge(&self, index: usize) -> Option<usize> {
        let count = self.count();
        if self.upper().is_empty() && FEW * (count - index) <= count {
            return Some((count - count / 10).min(count - 1));
        }
        if self.lower().is_empty() && FEW * index <= count {
            return Some((count / 10).max(1));
        }
        None
    }

    /// Splits between two records.
    fn cut_apart<C: Configuration>(&self, at: usize) -> SplitPoint {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        self.node_key::<C>(at - 1, &mut low);
        self.node_key::<C>(at, &mut high);
        self.cut_with_few::<C>(at, shortest_between(&low, &high))
    }

    /// A cut. A part of few records, or none, which say too little of what will come, gets the
    /// form that suits all of them.
    fn cut_with_few<C: Configuration>(&self, at: usize, separator: Vec<u8>) -> SplitPoint {
        let count = self.count();
        let plan = || -> Option<Plan> {
            let whole = Content {
                lower: self.lower(),
                upper: self.upper(),
                parts: &[(self, 0..count)],
            };
            Some(whole.slotted::<C>(self.counter()))
        };
        let mut cut = SplitPoint::new(at, separator);
        if FEW * (count - at) <= count {
            cut.right = plan();
        } else if FEW * at <= count {
            cut.left = plan();
        }
        cut
    }

    /// Splits at the end of an ascending run, where a key belongs.
    fn cut_ascending<C: Configuration>(&self, index: usize, key: &[u8]) -> SplitPoint {
        let count = self.count();
        let (mut last, mut next) = (Vec::new(), Vec::new());
        self.node_key::<C>(index - 1, &mut last);
        if index < count {
            self.node_key::<C>(index, &mut next);
        }
        if let Some(fence) = self.fence_above::<C>(index, key, &next) {
            return self.cut_with_few::<C>(index, fence);
        }
        let separator = shortest_between(&last, key);
        // Where all records stay, or nearly all, there may be no room for a longer fence.
        let (free, _) = self.node_free::<C>();
        let fits = free + self.upper().len() >= separator.len();
        if fits && FEW * (count - index) <= count {
            self.cut_with_few::<C>(index, separator)
        } else if index < count {
            self.cut_with_few::<C>(index, shortest_between(key, &next))
        } else {
            self.cut_apart::<C>(count - 1)
        }
    }

    /// Splits at the end of a descending run, where a key belongs.
    fn cut_descending<C: Configuration>(&self, index: usize, key: &[u8]) -> SplitPoint {
        let (mut last, mut next) = (Vec::new(), Vec::new());
        if index > 0 {
            self.node_key::<C>(index - 1, &mut last);
        }
        self.node_key::<C>(index, &mut next);
        if let Some(fence) = self.fence_below::<C>(index, key, &last) {
            return self.cut_with_few::<C>(index, fence);
        }
        let separator = shortest_between(key, &next);
        let (free, _) = self.node_free::<C>();
        let fits = free + self.lower().len() >= separator.len();
        if fits && FEW * index <= self.count() {
            self.cut_with_few::<C>(index, separator)
        } else if index > 0 {
            self.cut_with_few::<C>(index, lowest_between(&last, key))
        } else {
            self.cut_apart::<C>(1)
        }
    }

    /// A fence above a key whose place is `index`, but not above the record there (`next`, if
    /// there is one), that lets the records below leave out more.
    fn fence_above<C: Configuration>(
        &self,
        index: usize,
        key: &[u8],
        next: &[u8],
    ) -> Option<Vec<u8>> {
        let prefix = shared(self.lower(), key);
        // The highest that has so much in common with the lower fence, but for longer ones.
        let fence = [&key[..prefix], &[0xff]].concat();
        let is_between = *key < *fence
            && (index == self.count() || *fence <= *next)
            && (self.upper().is_empty() || *fence < *self.upper());
        (is_between && self.gains::<C>(prefix, self.lower(), &fence, 0..index)).then_some(fence)
    }

    /// A fence at or below a key whose place is `index`, but above the record before (`last`, if
    /// there is one), that lets the records from there on leave out more.
    fn fence_below<C: Configuration>(
        &self,
        index: usize,
        key: &[u8],
        last: &[u8],
    ) -> Option<Vec<u8>> {
        let prefix = shared(key, self.upper());
        let fence = key[..prefix].to_vec();
        let is_between = *fence > *self.lower() && (index == 0 || *fence > *last);
        let places = index..self.count();
        (is_between && self.gains::<C>(prefix, &fence, self.upper(), places)).then_some(fence)
    }

    /// Whether the records of these places, between other fences which have a prefix of so many
    /// bytes, take so much less that a leaf between these is worth while: an eighth of the page if
    /// no records are left for another leaf, which the run then fills when it comes there, else a
    /// quarter.
    fn gains<C: Configuration>(
        &self,
        prefix: usize,
        lower: &[u8],
        upper: &[u8],
        places: Range<usize>,
    ) -> bool {
        if !C::PREFIX || prefix <= self.prefix_len() {
            return false;
        }
        let least = if places.len() == self.count() {
            PAGE / 8
        } else {
            PAGE / 4
        };
        let content = Content {
            lower,
            upper,
            parts: &[(self, places)],
        };
        let room = content.room_in::<C>(self.form::<C>());
        room.is_some_and(|room| room >= least)
    }

    /// Which of its keys an inner node gives up for the sake of a separator near `key`, if that
    /// belongs to a run or to an edge of the tree: the shortest of a few.
    pub(crate) fn inner_key_at_run<C: Configuration>(&self, key: &[u8]) -> Option<usize> {
        let (index, equal) = self.search::<Comparison<C>>(key);
        let (index, count) = (index + usize::from(equal), self.count());
        let last = count - 1;
        let width = count / FEW;
        // Of equal lengths the one that leaves most on the side that is done with.
        let shortest = |keys: &mut dyn Iterator<Item = usize>| {
            keys.min_by_key(|&key| self.leaf_record::<C>(key).key_len)
        };
        match self.run_at::<Comparison<C>>(index) {
            Some(run) if run.ascending => {
                if FEW * (count - run.end) > count {
                    return Some(run.end);
                }
                let end = index.saturating_sub(1);
                shortest(&mut (end.saturating_sub(width)..=end).rev())
            }
            Some(run) => {
                if FEW * run.end > count {
                    return Some(run.end - 1);
                }
                let start = index.min(last);
                shortest(&mut (start..=(start + width).min(last)))
            }
            None => self.edge(index).map(|at| at.min(last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Adaptive;
    use crate::node::adapt::Conversions;
    use crate::node::layout::{Kind, Payload};
    use crate::node::plan::Planned;

    fn inline(bytes: &[u8]) -> Payload<'_> {
        Payload {
            kind: Kind::Inline,
            bytes,
        }
    }

    /// Four large records, and then small ones in a row up to them: of all of them the heads are
    /// good.
    fn records(same: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let large = (0..4_u8).map(|n| {
            let key = [&vec![b'm'; same + 1][..], &[n]].concat();
            (key, vec![n; 901 - same])
        });
        // Of two lengths, so that they are no array of values.
        let small = (1..=60_u8).map(|n| (vec![n; 2 - usize::from(n % 2)], Vec::new()));
        let last = (vec![b'm'; 20], Vec::new());
        large.chain(small).chain([last]).collect()
    }

    /// A record that belongs between the small records and the large ones begins as the latter do,
    /// and so does the separator that cuts these off. They may fit beside it as they lie, by
    /// fingerprints, but not in the form that suits the heads of all records.
    #[test]
    fn the_few_records_behind_a_run_fit_the_form_that_they_get() {
        let mut long = 0;
        for same in 300..450 {
            let mut page = Image::<4096>::zeroed();
            page.begin::<Adaptive>(Planned::Fingerprint.into(), &[], &[]);
            let records = records(same);
            for (key, value) in &records {
                let (place, _) = page.locate::<Adaptive>(key);
                assert!(page.add::<Adaptive>(place, key, inline(value)));
            }
            page.order::<Adaptive>();
            let key = [&vec![b'm'; same][..], b"a"].concat();
            assert!(!page.has_room::<Adaptive>(&key, inline(&[])), "{same}");
            let cut = page.cut_for::<Adaptive>(&key, inline(&[]));
            long += usize::from(cut.separator.len() > same);
            let (mut left, mut right) = (page.clone(), Image::zeroed());
            let conversions = &mut Conversions::default();
            page.right_half::<Adaptive>(&cut, &mut right, conversions);
            page.left_half::<Adaptive>(&cut, &mut left, conversions);
            for (key, value) in &records {
                let half = if *key < cut.separator { &left } else { &right };
                let found = half.find::<Adaptive>(key);
                let found = found.map(|record| half.payload(record));
                assert_eq!(found, Some(inline(value)), "{same}");
            }
            left.verify_form::<Adaptive>().unwrap();
            right.verify_form::<Adaptive>().unwrap();
        }
        assert!(long > 0, "no cut was behind the run");
    }
}
