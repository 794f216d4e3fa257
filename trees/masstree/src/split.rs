//! Splitting full nodes, from the border upwards (§4.3, Fig. 5).
//!
//! The node and its new right sibling are latched and marked *splitting*; then the parent is
//! latched (always child before parent), receives the sibling, and everything is unlatched;
//! a full parent splits in turn. Keys of one slice never part. A key appended behind the last
//! one of the last node starts a node of its own, so ascending loads leave full nodes behind.

use std::sync::atomic::Ordering;

use hedgerow_sync::VersionWord;

use crate::configuration::{Configuration, Latch};
use crate::key::{Key, LONG};
use crate::node::border::SUFFIX;
use crate::node::{Border, Interior, Node, NodeBlocks, Permutation, ReplacedBag, SuffixBag, WIDTH};
use crate::planted::{PlantedBug, planted};
use crate::statistics::Event;
use crate::tree::Masstree;
use crate::value::Value;

/// Longest inline suffix room of a new node, in lines; larger bags are external.
const INLINE_LINES: usize = 6;

/// Latches `child`'s parent (Fig. 4); null for a root. The caller holds `child`'s latch.
pub(crate) fn lock_parent<'g, C: Configuration>(child: &Node) -> Option<&'g Interior> {
    loop {
        let parent = child.parent.load(Ordering::Acquire);
        // SAFETY: a pinned node's parent pointer names a pinned node.
        let node = unsafe { parent.as_ref() }?;
        Latch::<C>::lock(&node.version);
        if child.parent.load(Ordering::Relaxed) == parent {
            return Some(node);
        }
        Latch::<C>::unlock(&node.version);
    }
}

/// The 16 keys of a split: the node's 15 and the new one at `index`.
struct SplitKeys<'a> {
    node: &'a Border,
    permutation: Permutation,
    index: usize,
    key: &'a Key<'a>,
}

impl SplitKeys<'_> {
    /// The node's slot of key `i`, or `None` for the new key.
    fn slot(&self, i: usize) -> Option<usize> {
        match i.cmp(&self.index) {
            std::cmp::Ordering::Less => Some(self.permutation.slot(i)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(self.permutation.slot(i - 1)),
        }
    }

    fn slice(&self, i: usize) -> u64 {
        self.slot(i)
            .map_or(self.key.slice(), |slot| self.node.slice(slot))
    }

    fn suffix(&self, i: usize) -> Option<&[u8]> {
        match self.slot(i) {
            None => (self.key.class() == LONG).then(|| self.key.suffix()),
            Some(slot) if self.node.length(slot) == SUFFIX => {
                // SAFETY: the node is latched and pinned during the split.
                unsafe { self.node.suffix(slot) }
            }
            Some(_) => None,
        }
    }

    /// How many keys stay left: near the middle, but not between keys of one slice.
    fn cut(&self) -> usize {
        let parts = |at: usize| self.slice(at - 1) != self.slice(at);
        (0..8)
            .flat_map(|distance| [8 - distance, 8 + distance])
            .find(|&at| (1..=WIDTH).contains(&at) && parts(at))
            .expect("at most ten of sixteen keys share a slice")
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Splits the latched full `node` around the new key, which belongs at `index`, and
    /// unlatches everything.
    #[cold]
    #[inline(never)]
    pub(crate) fn split_border(
        &self,
        guard: &C::Guard<'_>,
        node: &Border,
        key: &Key<'_>,
        index: usize,
        word: u64,
    ) {
        let permutation = node.permutation();
        let keys = SplitKeys {
            node,
            permutation,
            index,
            key,
        };
        let sequential = index == WIDTH && node.next().is_null() && key.slice() != keys.slice(14);
        self.counters.count(Event::Split as usize);
        if sequential {
            self.counters.count(Event::SequentialSplit as usize);
        }
        let cut = if sequential { WIDTH } else { keys.cut() };
        if !planted(PlantedBug::SplitNotCounted) {
            Latch::<C>::mark_splitting(&node.version);
        }
        let right = new_right::<C>(self.blocks, &keys, cut, word);
        let replaced = if index < cut {
            self.insert_left(node, &keys, permutation.truncate(cut - 1), word)
        } else {
            node.publish(permutation.truncate(cut));
            None
        };
        // Readers that saw the moved slots notice the split; no slot needs its mark any more.
        node.set_removed(0);
        // SAFETY: made by `new_right`, latched, ours until linked below.
        let right = unsafe { &*right };
        link_right(node, right);
        self.insert_into_parent(node.as_node(), right.as_node(), right.low(), sequential);
        self.retire_bag(guard, replaced);
    }

    /// Puts the new key into the left half, whose order without it is `remaining`. Returns the bag
    /// of suffixes that this replaced.
    fn insert_left(
        &self,
        node: &Border,
        keys: &SplitKeys<'_>,
        remaining: Permutation,
        word: u64,
    ) -> Option<ReplacedBag> {
        // Publishing first lets a full suffix bag be rebuilt without the moved keys.
        node.publish(remaining);
        let (slot, order) = remaining.insert(keys.index);
        let replaced = match keys.key.class() {
            LONG => self.store_suffix(node, slot, keys.key.suffix()),
            _ => None,
        };
        node.fill(slot, keys.key.slice(), keys.key.class(), word);
        node.publish(order);
        replaced
    }

    /// Gives the parent of `left` its new child `right`, splitting upwards as needed, and
    /// unlatches both (Fig. 5 from `ascend` on).
    fn insert_into_parent(
        &self,
        left: *mut Node,
        right: *mut Node,
        separator: u64,
        sequential: bool,
    ) {
        let (mut left, mut right, mut separator) = (left, right, separator);
        loop {
            // SAFETY: both are latched by us, hence alive.
            let (left_node, right_node) = unsafe { (&*left, &*right) };
            let Some(parent) = lock_parent::<C>(left_node) else {
                self.grow_root(left, right, separator);
                return;
            };
            let index = parent.index_of(left);
            let parent_pointer = std::ptr::from_ref(parent).cast_mut();
            if parent.count() < WIDTH {
                Latch::<C>::mark_inserting(&parent.version);
                right_node.parent.store(parent_pointer, Ordering::Release);
                parent.insert_child(index, separator, right);
                Latch::<C>::unlock(&left_node.version);
                Latch::<C>::unlock(&right_node.version);
                Latch::<C>::unlock(&parent.version);
                return;
            }
            Latch::<C>::mark_splitting(&parent.version);
            Latch::<C>::unlock(&left_node.version);
            let (sibling, middle) =
                split_interior::<C>(self.blocks, parent, index, separator, right, sequential);
            self.counters.count(Event::InteriorSplit as usize);
            Latch::<C>::unlock(&right_node.version);
            left = parent_pointer.cast();
            right = sibling.cast();
            separator = middle;
        }
    }

    /// Puts a new root above the split old one. The caller holds both latches; only the
    /// holder of a root's latch replaces it.
    fn grow_root(&self, left: *mut Node, right: *mut Node, separator: u64) {
        let root = Interior::allocate(self.blocks, VersionWord::new(false, true));
        // SAFETY: new and ours; left and right are latched by us.
        let (new, left_node, right_node) = unsafe { (&*root, &*left, &*right) };
        new.children[0].store(left, Ordering::Relaxed);
        new.children[1].store(right, Ordering::Relaxed);
        new.slices[0].store(separator, Ordering::Relaxed);
        new.count.store(1, Ordering::Release);
        right_node.parent.store(root, Ordering::Release);
        left_node.parent.store(root, Ordering::Release);
        Latch::<C>::clear_root(&left_node.version);
        // Deeper layers' entries are brought up to date by later writers.
        if self.root.load(Ordering::Relaxed) == left {
            self.root.store(root.cast(), Ordering::Release);
        }
        Latch::<C>::unlock(&left_node.version);
        Latch::<C>::unlock(&right_node.version);
    }
}

/// Room for suffixes in a node that receives `count` of them with `bytes` in all.
fn suffix_room(count: usize, bytes: usize) -> usize {
    // Expect the node to fill to about 12 keys of the same sort.
    bytes.max(bytes * 12 / count.max(1))
}

/// Makes the latched right half: keys `cut..16`.
fn new_right<C: Configuration>(
    blocks: &NodeBlocks,
    keys: &SplitKeys<'_>,
    cut: usize,
    word: u64,
) -> *mut Border {
    let suffixes = || (cut..=WIDTH).filter_map(|i| keys.suffix(i));
    let bytes: usize = suffixes().map(<[u8]>::len).sum();
    let room = suffix_room(suffixes().count(), bytes);
    let lines = if bytes == 0 {
        0
    } else {
        SuffixBag::lines_for(room, WIDTH)
    };
    let inline = if lines <= INLINE_LINES { lines } else { 0 };
    let version = Latch::<C>::new_sibling(true);
    let right = Border::allocate(blocks, version, keys.slice(cut), inline);
    // SAFETY: new and ours.
    let node = unsafe { &*right };
    if lines > INLINE_LINES {
        node.set_bag(SuffixBag::allocate(blocks, lines));
    }
    let bag = node.bag();
    for (slot, i) in (cut..=WIDTH).enumerate() {
        match keys.slot(i) {
            None => node.fill(slot, keys.key.slice(), keys.key.class(), word),
            Some(old) => node.fill(
                slot,
                keys.node.slice(old),
                keys.node.length(old),
                keys.node.value(old),
            ),
        }
        if let Some(suffix) = keys.suffix(i) {
            // SAFETY: the new node's bag is ours alone.
            let fits = unsafe { SuffixBag::append(bag, slot, suffix) };
            assert!(fits, "a new suffix bag is made large enough");
        }
    }
    node.publish(Permutation::sequential(WIDTH + 1 - cut));
    right
}

/// Links `right` behind `node`, whose latch protects both pointers and `next.prev`.
fn link_right(node: &Border, right: &Border) {
    let right_pointer = std::ptr::from_ref(right).cast_mut();
    let next = node.next();
    right.set_prev(std::ptr::from_ref(node).cast_mut());
    right.set_next(next);
    // SAFETY: the sibling of a latched node is in the tree: its unlinking needs our latch.
    if let Some(next) = unsafe { next.as_ref() } {
        next.set_prev(right_pointer);
    }
    node.set_next(right_pointer);
}

/// Splits the latched full `node` while inserting `right` after child `index`; returns the
/// latched right half and the separator between the halves.
fn split_interior<C: Configuration>(
    blocks: &NodeBlocks,
    node: &Interior,
    index: usize,
    separator: u64,
    right: *mut Node,
    sequential: bool,
) -> (*mut Interior, u64) {
    let mut slices = [0; WIDTH + 1];
    let mut children = [std::ptr::null_mut(); WIDTH + 2];
    children[0] = node.child(0);
    for i in 0..=WIDTH {
        let (slice, child) = match i.cmp(&index) {
            std::cmp::Ordering::Less => (node.slice(i), node.child(i + 1)),
            std::cmp::Ordering::Equal => (separator, right),
            std::cmp::Ordering::Greater => (node.slice(i - 1), node.child(i)),
        };
        slices[i] = slice;
        children[i + 1] = child;
    }
    // Separators left of the middle stay, the middle goes up. Ascending loads stay full.
    let middle = if sequential && index == WIDTH {
        WIDTH - 1
    } else {
        WIDTH / 2
    };
    let sibling = Interior::allocate(blocks, Latch::<C>::new_sibling(false));
    // SAFETY: new and ours.
    let new = unsafe { &*sibling };
    for (to, from) in (middle + 1..=WIDTH + 1).enumerate() {
        new.children[to].store(children[from], Ordering::Relaxed);
        if from <= WIDTH {
            new.slices[to].store(slices[from], Ordering::Relaxed);
        }
        // SAFETY: a child of a latched parent is in the tree; its parent pointer is protected
        // by the parent's latch, which we hold (or it is `right`, which we hold).
        unsafe { &*children[from] }
            .parent
            .store(sibling, Ordering::Release);
    }
    new.count.store((WIDTH - middle) as u64, Ordering::Release);
    for i in 0..middle {
        node.slices[i].store(slices[i], Ordering::Relaxed);
        node.children[i + 1].store(children[i + 1], Ordering::Release);
    }
    if index < middle {
        // SAFETY: `right` is latched by us.
        let right_node = unsafe { &*right };
        let parent = std::ptr::from_ref(node).cast_mut();
        right_node.parent.store(parent, Ordering::Release);
    }
    node.count.store(middle as u64, Ordering::Release);
    (sibling, slices[middle])
}
