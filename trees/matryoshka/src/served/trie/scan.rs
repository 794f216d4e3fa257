//! Visiting keys in order, through all layers.
//!
//! A stack of trees, one for each layer that the scan is in; nothing is latched, and nothing is
//! allocated before the first layer. Until the first key beyond the bound, layers whose prefix says
//! that they lie before it are passed over, and the one that the bound leads into is entered at the
//! bound's slice. The end of the range is compared with the last slice of each leaf line, and with
//! whole keys only in the line where its own slice is.
//!
//! A layer may fold while the scan is in it: its keys, which may have come to lie in any tree
//! above, are then looked for from the top, with a bound where the scan stood.

use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, KeyBound, ScanRange};
use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::epoch::Guard;

use super::bucket::Bucket;
use super::entry::{Entry, entry, prefetch};
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use crate::served::Capacity;
use crate::served::SharedNodeKey;
use crate::served::tree::Tree;

/// `scan`, for a kernel.
pub(crate) struct Scan<'a, C: Capacity, F> {
    pub(crate) index: &'a MatryoshkaIndex<C>,
    pub(crate) range: ScanRange<'a>,
    pub(crate) guard: &'a Guard,
    pub(crate) visit: F,
}

/// A tree that the scan is in.
struct Frame<'g, C: Capacity> {
    tree: &'g Tree<C>,
    /// What all keys of the tree begin with.
    prefix: &'g [u8],
    /// The next slice; `None` when all have been seen.
    cursor: Option<u64>,
    /// The slice of the scan's end; `None` when all of the tree lies before the end.
    end: Option<u64>,
    /// A bucket whose items come after its layer's, in the reverse direction.
    pending: Option<Bucket<'g>>,
}

/// Why the scan of one tree pauses.
enum Pause<'g, C: Capacity> {
    /// The visitor broke the scan.
    Finished,
    /// A layer begins, at this slice.
    Descend(u64, Layer<'g, C>, Option<Bucket<'g>>),
}

/// Keys from a bound on to the end of a range, in a direction.
struct Visitor<'a, F> {
    from: Bound<Cow<'a, [u8]>>,
    direction: Direction,
    /// Whether a key beyond the bound was seen: then all that follow are.
    inside: bool,
    /// Its end is that of the scan, and its limit is what is left of the scan's.
    range: ScanRange<'a>,
    /// Whether the next keys may be behind the end.
    checks_end: bool,
    visit: F,
}

impl<F: FnMut(Item<'_>) -> ControlFlow<()>> Visitor<'_, F> {
    #[inline(always)]
    fn show<'g, C: Capacity>(&mut self, item: Item<'_>) -> ControlFlow<Pause<'g, C>> {
        if !self.inside {
            let start = KeyBound::of(self.from.as_ref().map(AsRef::as_ref));
            self.inside = start.is_none_or(|start| start.admits_from(item.key, self.direction));
        }
        if !self.inside {
            return ControlFlow::Continue(());
        }
        let is_beyond = self.checks_end && self.range.ends_before(item.key);
        if is_beyond || (self.visit)(item).is_break() {
            return ControlFlow::Break(Pause::Finished);
        }
        self.range.limit -= 1;
        if self.range.limit == 0 {
            return ControlFlow::Break(Pause::Finished);
        }
        ControlFlow::Continue(())
    }

    /// Shows what the pairs of a leaf line name, up to the slice of the scan's end.
    #[inline(always)]
    fn show_line<'g, C: Capacity>(
        &mut self,
        pairs: &[(u64, u64)],
        end: Option<u64>,
    ) -> ControlFlow<Pause<'g, C>> {
        let direction = self.direction;
        let end = end.filter(|&end| {
            let last = pairs.last();
            // The line reaches the slice of the end, or goes on behind it.
            last.is_some_and(|&(last, _)| !is_behind(end, last, direction))
        });
        self.checks_end = end.is_some();
        for &(slice, word) in pairs {
            if end.is_some_and(|end| is_behind(slice, end, direction)) {
                return ControlFlow::Break(Pause::Finished);
            }
            self.show_entry(slice, word)?;
        }
        ControlFlow::Continue(())
    }

    fn show_bucket<'g, C: Capacity>(&mut self, bucket: &Bucket<'_>) -> ControlFlow<Pause<'g, C>> {
        let count = bucket.heads.len();
        for number in 0..count {
            let at = match self.direction {
                Direction::Forward => number,
                Direction::Reverse => count - 1 - number,
            };
            self.show(bucket.item(at))?;
        }
        ControlFlow::Continue(())
    }

    /// The first slice of a tree at `offset` whose keys begin with `prefix`; `None` when all of
    /// them lie before the bound.
    fn start(&self, prefix: &[u8]) -> Option<u64> {
        let whole = match self.direction {
            Direction::Forward => 0,
            Direction::Reverse => u64::MAX,
        };
        let key: &[u8] = match &self.from {
            Bound::Included(key) | Bound::Excluded(key) if !self.inside => key,
            _ => return Some(whole),
        };
        if key.starts_with(prefix) {
            return Some(slice(key, prefix.len()));
        }
        let ahead = match self.direction {
            Direction::Forward => prefix > key,
            Direction::Reverse => prefix < key,
        };
        ahead.then_some(whole)
    }

    /// Where the scan ends in a tree whose keys begin with `prefix`: at a slice, or `None` when all
    /// of them lie before its end. Breaks when all of them lie behind it.
    fn end(&self, prefix: &[u8]) -> ControlFlow<(), Option<u64>> {
        let (Bound::Included(key) | Bound::Excluded(key)) = self.range.to else {
            return ControlFlow::Continue(None);
        };
        if key.starts_with(prefix) {
            return ControlFlow::Continue(Some(slice(key, prefix.len())));
        }
        match self.range.ends_before(prefix) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(None),
        }
    }

    /// Restarts the scan at the keys of a tree from slice `cursor` on, wherever they are now.
    fn restart_at(&mut self, prefix: &[u8], cursor: u64) {
        if !self.inside {
            return;
        }
        self.inside = false;
        self.from = match self.direction {
            // All keys go on after the prefix, and one that ends there was shown before.
            Direction::Forward if cursor == 0 => Bound::Excluded(Cow::Owned(prefix.to_vec())),
            Direction::Forward => Bound::Included(Cow::Owned(least_key(prefix, cursor))),
            Direction::Reverse => match key_beyond_slice(prefix, cursor) {
                Some(key) => Bound::Excluded(Cow::Owned(key)),
                None => Bound::Unbounded,
            },
        };
    }

    /// Shows what a word names; pauses where a layer begins.
    #[inline(always)]
    fn show_entry<'g, C: Capacity>(&mut self, slice: u64, word: u64) -> ControlFlow<Pause<'g, C>> {
        // SAFETY: read and validated just now, under the scan's guard.
        let bucket = match unsafe { entry::<C>(word) } {
            Entry::Item(item) => return self.show(item),
            Entry::Layer(layer) => return ControlFlow::Break(Pause::Descend(slice, layer, None)),
            Entry::Bucket(bucket) => bucket,
        };
        if bucket.layer == 0 {
            return self.show_bucket(&bucket);
        }
        // SAFETY: the bucket names the layer; the same guard keeps both.
        let layer = unsafe { Layer::load(bucket.layer) };
        // Keys that end within the slice come before those that go on.
        match self.direction {
            Direction::Forward => {
                self.show_bucket(&bucket)?;
                ControlFlow::Break(Pause::Descend(slice, layer, None))
            }
            Direction::Reverse => ControlFlow::Break(Pause::Descend(slice, layer, Some(bucket))),
        }
    }
}

/// Whether a scan in this direction comes to a slice after another one.
#[inline(always)]
fn is_behind(slice: u64, other: u64, direction: Direction) -> bool {
    match direction {
        Direction::Forward => slice > other,
        Direction::Reverse => slice < other,
    }
}

/// The least key that begins with `prefix` and has this slice behind it: keys are padded with zeros
/// to slices, so that it is the one without any at its end.
pub(super) fn least_key(prefix: &[u8], slice: u64) -> Vec<u8> {
    let bytes = slice.to_be_bytes();
    let zeros = (slice.trailing_zeros() / 8) as usize;
    [prefix, &bytes[..bytes.len() - zeros]].concat()
}

/// A key above all that begin with `prefix` and have this slice or a lower one behind it, and not
/// above any other; `None` when no key is.
fn key_beyond_slice(prefix: &[u8], slice: u64) -> Option<Vec<u8>> {
    if let Some(next) = slice.checked_add(1) {
        return Some(least_key(prefix, next));
    }
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

impl<'a, C, F> Task for Scan<'a, C, F>
where
    C: Capacity,
    F: FnMut(Item<'_>) -> ControlFlow<()>,
{
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self {
            index,
            range,
            guard: _guard,
            visit,
        } = self;
        let direction = range.direction;
        let mut visitor = Visitor {
            from: range.from.map(Cow::Borrowed),
            direction,
            inside: false,
            range,
            checks_end: false,
            visit,
        };
        let mut above: Vec<Frame<'a, C>> = Vec::new();
        let first = |visitor: &Visitor<'_, F>| Frame {
            tree: &index.tree,
            prefix: &[],
            cursor: visitor.start(&[]),
            end: visitor.end(&[]).continue_value().flatten(),
            pending: None,
        };
        let mut frame = first(&visitor);
        loop {
            if let Some(bucket) = frame.pending.take() {
                visitor.checks_end = true;
                if visitor.show_bucket::<C>(&bucket).is_break() {
                    return;
                }
            }
            let (tree, end) = (frame.tree, frame.end);
            let outcome = match frame.cursor {
                Some(cursor) => tree.scan::<N, _>(cursor, direction, &index.events, |pairs| {
                    pairs.iter().for_each(|pair| prefetch(pair.1));
                    visitor.show_line(pairs, end)
                }),
                None => Ok(ControlFlow::Continue(())),
            };
            match outcome {
                Err(cursor) => {
                    visitor.restart_at(frame.prefix, cursor);
                    above.clear();
                    frame = first(&visitor);
                }
                Ok(ControlFlow::Break(Pause::Finished)) => return,
                Ok(ControlFlow::Break(Pause::Descend(slice, layer, pending))) => {
                    frame.cursor = slice.beyond(direction);
                    frame.pending = pending;
                    above.push(frame);
                    let ControlFlow::Continue(end) = visitor.end(layer.prefix) else {
                        return;
                    };
                    frame = Frame {
                        tree: layer.tree,
                        prefix: layer.prefix,
                        cursor: visitor.start(layer.prefix),
                        end,
                        pending: None,
                    };
                }
                Ok(ControlFlow::Continue(())) => match above.pop() {
                    Some(before) => frame = before,
                    None => return,
                },
            }
        }
    }
}
