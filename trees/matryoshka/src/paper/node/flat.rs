//! A flat page: one line that routes, and the lines of keys that it routes to, in fixed places.
//!
//! ```text
//! 64-bit keys, 64-bit values: 960 bytes, 56 keys
//!
//! head    | total | keys in line 0 … 6 | (8 bytes free) | separator 0 … 5 |      64
//! lines   | line 0: 8 keys | … | line 6 |                                   7 × 64
//! values  | of line 0 | … | of line 6 |                                     7 × 64
//! ```
//!
//! 32-bit keys have 13 lines of 16: 208 keys. Separator `i` is at or above every key of line `i`
//! and below every key of line `i + 1`; places without a key, and separators that lead to no
//! line yet, hold the greatest integer. Where a line is made, its separator is the greatest that
//! there can be: then the greatest key at or below another is nearly always in the line that is
//! responsible for that one. So a search is two comparisons of a line, one after the
//! other, and its second line and its value come from memory together.
//!
//! **An insert writes one line of keys, its values and the head.** A line that is full is
//! rebalanced with the emptier of its neighbours; with both full, the page is spread evenly while
//! an eighth of it is free. A key above all of a full line opens the line behind it if that is
//! empty, so that ascending inserts fill lines and pages. **A removal writes the same and moves
//! nothing else**: lines may run empty, pages are merged under a quarter.

use std::mem::offset_of;

use hedgerow_memory::prefetch_line;
use hedgerow_simd::Kernel;

use crate::key_bounds::KeyBounds;
use crate::line::Line;
use crate::node_key::{MOST_CHILDREN, NodeKey};
use crate::paper::node::form::{Inserted, KeyPosition, PageForm, equal, inside};
use crate::paper::strategy::Strategy;

/// The most lanes of two lines.
const TWO_LINES: usize = 32;

/// A page of one routing line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct FlatPage<L: NodeKey, V: Copy> {
    head: Line<L>,
    lines: L::Group<Line<L>>,
    values: L::Group<L::Values<V>>,
}

// The page as it is drawn above.
const _: () = {
    assert!(size_of::<FlatPage<i64, i64>>() == 960 && offset_of!(FlatPage<i64, i64>, lines) == 64);
    assert!(offset_of!(FlatPage<i64, i64>, values) == 64 + 7 * 64);
    assert!(offset_of!(FlatPage<i32, i64>, values) == 64 + 13 * 64);
};

impl<L: NodeKey, V: Copy + Default> FlatPage<L, V> {
    /// Lines of keys that a strategy uses.
    const fn lines<S: Strategy>() -> usize {
        if S::SLOTS - 1 < L::INNER + 1 {
            S::SLOTS - 1
        } else {
            L::INNER + 1
        }
    }

    #[inline(always)]
    fn total(&self) -> usize {
        self.head.count()
    }

    #[inline(always)]
    fn count(&self, line: usize) -> usize {
        usize::from(self.head.child(line))
    }

    #[inline(always)]
    fn line(&self, line: usize) -> &Line<L> {
        &self.lines.as_ref()[line]
    }

    /// Sets how many keys a line has, and adds `more` to the page's.
    #[inline(always)]
    fn set_count(&mut self, line: usize, count: usize) {
        let total = self.total() + count - self.count(line);
        self.head.set_child(line, count as u8);
        self.head.set_count(total);
    }

    #[inline(always)]
    fn spot<N: Kernel>(&self, line: usize, key: L) -> KeyPosition {
        let lanes = self.line(line);
        let position = lanes.rank::<N>(key);
        // Where all lanes are below the key, the first is not equal to it either.
        let there = lanes.0.as_ref()[position % L::LANES] == key;
        KeyPosition {
            leaf: line as u8,
            position,
            // The greatest integer fills places without a key, too. In this order: whether a key is
            // there is a branch that nothing foretells.
            found: (key != L::MAX || position < self.count(line)) & there,
        }
    }

    #[inline(always)]
    fn prefetch_values(&self, line: usize) {
        if size_of::<V>() == 0 {
            return;
        }
        let values = self.values.as_ref()[line].as_ref();
        prefetch_line(values.as_ptr());
        if size_of_val(values) > 64 {
            prefetch_line(values.as_ptr().wrapping_byte_add(64));
        }
    }

    /// Puts a pair into a line that has room.
    #[inline(always)]
    fn put(&mut self, line: usize, position: usize, key: L, value: V) {
        L::push_in(&mut self.lines.as_mut()[line].0, position, key);
        L::push_value(&mut self.values.as_mut()[line], position, value);
        self.set_count(line, self.count(line) + 1);
    }

    /// Fills a line without keys with the first `count` of these pairs.
    #[inline(always)]
    fn set_line(&mut self, line: usize, pairs: &[(L, V)], count: usize) {
        let lanes = self.lines.as_mut()[line].0.as_mut();
        let values = self.values.as_mut()[line].as_mut();
        // Where there are as many, all pairs of a whole line are copied, and what is too much is
        // chosen away: a loop of a fixed length has no branches.
        if let Some(whole) = pairs.get(..L::LANES) {
            for at in 0..L::LANES {
                lanes[at] = if at < count { whole[at].0 } else { L::MAX };
                values[at] = whole[at].1;
            }
            return;
        }
        for ((lane, value), pair) in lanes.iter_mut().zip(values).zip(&pairs[..count]) {
            (*lane, *value) = *pair;
        }
    }

    /// The pair at `position` of a line, which has that many lanes.
    #[inline(always)]
    fn pair(&self, line: usize, position: usize) -> (L, V) {
        let position = position % L::LANES;
        let value = self.values.as_ref()[line].as_ref()[position];
        (self.line(line).0.as_ref()[position], value)
    }

    /// The value of a key in its line.
    #[inline(always)]
    fn value_in<N: Kernel>(&self, line: usize, key: L) -> Option<V> {
        let spot = self.spot::<N>(line, key);
        // The value is read before it is known whether it is the key's: without a branch.
        let (_, value) = self.pair(line, spot.position);
        spot.found.then_some(value)
    }

    /// The last pair of the lines before this one.
    #[cold]
    #[inline(never)]
    fn last_before(&self, line: usize) -> Option<(L, V)> {
        let line = (0..line).rev().find(|&line| self.count(line) > 0)?;
        Some(self.pair(line, self.count(line) - 1))
    }

    /// The first pair from this line on.
    #[cold]
    #[inline(never)]
    fn first_from(&self, line: usize) -> Option<(L, V)> {
        let lines = self.lines.as_ref().len();
        let line = (line..lines).find(|&line| self.count(line) > 0)?;
        Some(self.pair(line, 0))
    }

    /// Finds room for a pair whose line is full.
    #[inline(never)]
    fn insert_into_full<N: Kernel, S: Strategy>(
        &mut self,
        spot: KeyPosition,
        key: L,
        value: V,
    ) -> Inserted<V> {
        let (line, lines) = (usize::from(spot.leaf), Self::lines::<S>());
        let count_of = |page: &Self, line: Option<usize>| {
            let line = line.filter(|&line| line < lines);
            line.map_or(L::LANES, |line| page.count(line))
        };
        let left = count_of(self, line.checked_sub(1));
        let right = count_of(self, Some(line + 1));
        if right == 0 && spot.position == L::LANES {
            self.head.set_separator(line, key.before());
            self.put(line + 1, 0, key, value);
        } else if left.min(right) < L::LANES {
            let first = if left < right { line - 1 } else { line };
            let before = if first < line { left } else { 0 };
            self.rebalance(first, before + spot.position, key, value);
        } else if self.total() <= L::LANES * lines * 7 / 8 {
            // With an eighth of the places free and evenly spread, no line is full: this does not
            // come here again.
            let mut pairs = Vec::with_capacity(L::LANES * lines);
            PageForm::<L, V, S>::pairs(self, &mut pairs);
            *self = PageForm::<L, V, S>::build(&pairs);
            return PageForm::<L, V, S>::insert::<N>(self, key, value);
        } else {
            return Inserted::Full;
        }
        Inserted::New
    }

    /// Puts a pair at `position` of the keys of two neighbouring lines, and halves them anew.
    fn rebalance(&mut self, first: usize, position: usize, key: L, value: V) {
        let (left, right) = (self.count(first), self.count(first + 1));
        let mut keys = [L::MAX; TWO_LINES];
        let mut values = [V::default(); TWO_LINES];
        // Whole lines are copied, as their length is known: what is too much is written over.
        for (line, at) in [(first, 0), (first + 1, left)] {
            keys[at..at + L::LANES].copy_from_slice(self.line(line).0.as_ref());
            values[at..at + L::LANES].copy_from_slice(self.values.as_ref()[line].as_ref());
        }
        let total = left + right;
        keys.copy_within(position..total, position + 1);
        values.copy_within(position..total, position + 1);
        (keys[position], values[position]) = (key, value);
        let half = (total + 1).div_ceil(2);
        for (line, from, to) in [(first, 0, half), (first + 1, half, total + 1)] {
            let lanes = self.lines.as_mut()[line].0.as_mut();
            lanes.fill(L::MAX);
            lanes[..to - from].copy_from_slice(&keys[from..to]);
            self.values.as_mut()[line].as_mut()[..to - from].copy_from_slice(&values[from..to]);
            self.set_count(line, to - from);
        }
        self.head.set_separator(first, keys[half].before());
    }
}

impl<L: NodeKey, V: Copy + Default, S: Strategy> PageForm<L, V, S> for FlatPage<L, V> {
    const CAPACITY: usize = Self::lines::<S>() * L::LANES;
    const STEPS: usize = 1;
    const TAGGED: bool = false;

    fn build(pairs: &[(L, V)]) -> Self {
        const { assert!(size_of::<L::Group<u8>>() == L::INNER + 1) };
        let mut page = Self {
            head: Line(L::PADDING),
            lines: L::group(Line(L::PADDING)),
            values: L::group(L::values(V::default())),
        };
        for byte in 0..=MOST_CHILDREN {
            L::set_byte(&mut page.head.0, byte, 0);
        }
        // A few keys share all lines evenly, so that each has room; one key leaves the other
        // lines to those that ascend after it.
        let lines = Self::lines::<S>().min(pairs.len().max(1));
        let mut from = 0;
        for line in 0..lines {
            let to = pairs.len() * (line + 1) / lines;
            page.set_line(line, &pairs[from..], to - from);
            page.head.set_child(line, (to - from) as u8);
            if line + 1 < lines {
                page.head.set_separator(line, pairs[to].0.before());
            }
            from = to;
        }
        page.head.set_count(pairs.len());
        page
    }

    #[inline(always)]
    fn key_count(&self) -> usize {
        self.total()
    }

    #[inline(always)]
    fn tag(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn prefetch(&self, _: u32) {
        prefetch_line(&raw const self.head);
    }

    #[inline(always)]
    fn prefetch_scan(&self) {
        let lines = self.lines.as_ref().iter().zip(self.values.as_ref());
        prefetch_line(&raw const self.head);
        for (line, values) in lines {
            prefetch_line(line);
            prefetch_line(values);
        }
    }

    #[inline(always)]
    fn find<N: Kernel>(&self, key: L) -> KeyPosition {
        let line = self.head.route::<N>(key);
        self.prefetch_values(line);
        self.spot::<N>(line, key)
    }

    #[inline(always)]
    fn get<N: Kernel>(&self, key: L) -> Option<V> {
        let line = self.head.route::<N>(key);
        self.prefetch_values(line);
        self.value_in::<N>(line, key)
    }

    #[inline(always)]
    fn floor<N: Kernel>(&self, key: L) -> Option<(L, V)> {
        let line = self.head.route::<N>(key);
        self.prefetch_values(line);
        // What is below the next key is at or below this one. The greatest integer has no next
        // one, and fills places without a key, too.
        let up_to = if key == L::MAX {
            self.count(line)
        } else {
            self.line(line).rank::<N>(key.next())
        };
        match up_to.checked_sub(1) {
            Some(last) => Some(self.pair(line, last)),
            None => self.last_before(line),
        }
    }

    #[inline(always)]
    fn ceiling<N: Kernel>(&self, key: L) -> Option<(L, V)> {
        let line = self.head.route::<N>(key);
        self.prefetch_values(line);
        let position = self.line(line).rank::<N>(key);
        let pair = self.pair(line, position);
        // Where all lanes are below the key, the first is; the greatest integer may be no key.
        if key <= pair.0 && pair.0 != L::MAX {
            return Some(pair);
        }
        if position < self.count(line) {
            return Some(pair);
        }
        self.first_from(line + 1)
    }

    #[inline(always)]
    fn insert<N: Kernel>(&mut self, key: L, value: V) -> Inserted<V> {
        let spot = PageForm::<L, V, S>::find::<N>(self, key);
        let line = usize::from(spot.leaf);
        if spot.found {
            let place = &mut self.values.as_mut()[line].as_mut()[spot.position];
            return Inserted::Replaced(std::mem::replace(place, value));
        }
        if self.count(line) < L::LANES {
            self.put(line, spot.position, key, value);
            return Inserted::New;
        }
        self.insert_into_full::<N, S>(spot, key, value)
    }

    #[inline(always)]
    fn remove<N: Kernel>(&mut self, key: L) -> Option<V> {
        let spot = PageForm::<L, V, S>::find::<N>(self, key);
        let line = usize::from(spot.leaf);
        if !spot.found {
            return None;
        }
        let value = self.values.as_ref()[line].as_ref()[spot.position];
        L::pull_out(&mut self.lines.as_mut()[line].0, spot.position, L::MAX);
        L::pull_value(&mut self.values.as_mut()[line], spot.position);
        self.set_count(line, self.count(line) - 1);
        Some(value)
    }

    #[inline(always)]
    fn enter(&self) -> u8 {
        0
    }

    #[inline(always)]
    fn step<N: Kernel>(&self, _: usize, _: u8, key: L) -> u8 {
        let line = self.head.route::<N>(key);
        prefetch_line(self.line(line));
        self.prefetch_values(line);
        line as u8
    }

    #[inline(always)]
    fn prefetch_insert(&self, leaf: u8) -> bool {
        let (line, lines) = (usize::from(leaf), Self::lines::<S>());
        if self.count(line) < L::LANES {
            return false;
        }
        // A full line is rebalanced with a neighbour, or the page is written anew.
        let beside = line.saturating_sub(1)..lines.min(line + 2);
        let insert_into_full = beside.clone().all(|line| self.count(line) == L::LANES);
        let near = if insert_into_full { 0..lines } else { beside };
        for line in near {
            prefetch_line(self.line(line));
            self.prefetch_values(line);
        }
        insert_into_full && self.total() > L::LANES * lines * 7 / 8
    }

    #[inline(always)]
    fn find_in<N: Kernel>(&self, leaf: u8, key: L) -> KeyPosition {
        self.spot::<N>(usize::from(leaf), key)
    }

    #[inline(always)]
    fn get_in<N: Kernel>(&self, leaf: u8, key: L) -> Option<V> {
        self.value_in::<N>(usize::from(leaf), key)
    }

    fn leaves(&self) -> ([u8; 64], usize) {
        (std::array::from_fn(|line| line as u8), Self::lines::<S>())
    }

    #[inline(always)]
    fn keys(&self, leaf: u8) -> &[L] {
        let line = usize::from(leaf);
        &self.line(line).0.as_ref()[..self.count(line)]
    }

    #[inline(always)]
    fn values(&self, leaf: u8) -> &[V] {
        self.values.as_ref()[usize::from(leaf)].as_ref()
    }

    fn verify(&self, bounds: KeyBounds<L>) -> Result<usize, String> {
        let separators = &self.head.separators_all()[..Self::lines::<S>() - 1];
        if !separators.is_sorted() {
            return Err(format!("separators {separators:?} do not ascend"));
        }
        let mut keys = 0;
        for line in 0..L::INNER + 1 {
            let lanes = self.line(line).0.as_ref();
            let count = self.count(line);
            if count > L::LANES || (line >= Self::lines::<S>() && count > 0) {
                return Err(format!("line {line} has {count} keys"));
            }
            if lanes[count..].iter().any(|&lane| lane != L::MAX) {
                return Err(format!("line {line} has a key behind its last"));
            }
            inside(&lanes[..count], bounds.of_child(separators, line))
                .map_err(|problem| format!("line {line}: {problem}"))?;
            keys += count;
        }
        equal("its count of keys", self.total(), keys)?;
        Ok(keys)
    }
}
