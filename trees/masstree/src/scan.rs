//! Visiting keys in order, forwards and in reverse, across layers.
//!
//! A scan takes one validated *snapshot* of a border node at a time (the order, slices,
//! lengths, values, suffixes and the siblings' pointers, copied out and checked against the
//! version), visits its entries, and goes on to the sibling that the snapshot named, whose
//! lines were asked for while the snapshot was taken. Where an entry is a layer, the scan
//! notes the node and descends; when the layer ends, the noted node is snapshotted again and
//! the scan goes on behind the layer's slice (following splits to the right).
//!
//! Why a key that stays is visited once and none twice: a node's range only ever ends earlier
//! (split) or is extended over a deleted right sibling's. Forwards, a snapshot holds all keys
//! below its `next.low`, and `next` starts exactly there for life. In reverse, `prev` is taken
//! only if its own snapshot says that its next is the node we came from. Whenever a node met
//! this way is deleted, or the links disagree, the scan looks up its position (the last key
//! visited, excluded) from the top again.
//!
//! Dependent misses: one per border node, overlapped with the visits of the node before; value
//! blocks are asked for when the snapshot is taken.
//!
//! Long scans let go of their epoch every [`RENEW_NODES`] border nodes, so that a scan of
//! everything does not keep all that writers retire meanwhile.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use hedgerow_index::Direction;
use hedgerow_simd::{Kernel, Task};

use crate::configuration::{Configuration, Guard, Latch};
use crate::key::{Key, LONG, shortest_bytes};
use crate::node::border::{LAYER, SUFFIX, UNSTABLE};
use crate::node::{Border, Node, SuffixBag, WIDTH, prefetch};
use crate::tree::{Masstree, layer_root};
use crate::value::{Bytes, Value};

const RENEW_NODES: usize = 512;

/// One key of a snapshot.
#[derive(Clone, Copy)]
struct Entry<'g> {
    slice: u64,
    value: u64,
    length: u8,
    suffix: &'g [u8],
}

const NO_ENTRY: Entry<'static> = Entry {
    slice: 0,
    value: 0,
    length: 0,
    suffix: &[],
};

/// A consistent copy of a border node.
struct Snapshot<'g> {
    node: Option<&'g Border>,
    next: *mut Border,
    prev: *mut Border,
    count: usize,
    entries: [Entry<'g>; WIDTH],
}

/// The position cannot be continued from here: look it up again.
struct Lost;

impl<'g> Snapshot<'g> {
    fn empty() -> Self {
        Self {
            node: None,
            next: std::ptr::null_mut(),
            prev: std::ptr::null_mut(),
            count: 0,
            entries: [NO_ENTRY; WIDTH],
        }
    }

    /// Copies `node`, or is lost when it is deleted.
    #[inline(always)]
    fn take<V: Value, C: Configuration>(
        &mut self,
        node: &'g Border,
        direction: Direction,
    ) -> Result<(), Lost> {
        loop {
            let version = Latch::<C>::stable(&node.version);
            if version.is_deleted() {
                return Err(Lost);
            }
            self.next = node.next();
            self.prev = node.prev();
            let ahead = match direction {
                Direction::Forward => self.next,
                Direction::Reverse => self.prev,
            };
            prefetch(ahead.cast::<Node>());
            let steady = self.copy_entries::<V>(node);
            if steady && !Latch::<C>::changed(&node.version, version) {
                self.node = Some(node);
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn copy_entries<V: Value>(&mut self, node: &'g Border) -> bool {
        let permutation = node.permutation();
        self.count = permutation.count();
        for (index, entry) in self.entries[..self.count].iter_mut().enumerate() {
            let slot = permutation.slot(index) % WIDTH;
            let length = node.length(slot);
            entry.slice = node.slice(slot);
            entry.value = node.value(slot);
            entry.length = length;
            if length < LONG {
                V::prefetch(entry.value);
                continue;
            }
            if length == SUFFIX {
                V::prefetch(entry.value);
                let bag = node.suffixes.load(Ordering::Acquire);
                if bag.is_null() {
                    return false;
                }
                // SAFETY: reached under the scan's guard, which lives for `'g`; see `renew`.
                entry.suffix = unsafe { SuffixBag::get(bag, slot) };
            }
            // As in `probe`: the class must be the same on both sides of the value's load.
            if length == UNSTABLE || node.length(slot) != length {
                return false;
            }
        }
        true
    }

    /// The first entry at or above (`slice`, `class`).
    fn lower_bound(&self, slice: u64, class: u8) -> usize {
        self.entries[..self.count]
            .iter()
            .position(|entry| (entry.slice, entry.length.min(LONG)) >= (slice, class))
            .unwrap_or(self.count)
    }
}

/// Where a scan stands between look-ups from the top.
struct Position {
    /// The bound; `None` for no bound.
    key: Option<Vec<u8>>,
    inclusive: bool,
}

/// A running scan.
struct Scan<'t, V: Value, C: Configuration> {
    tree: &'t Masstree<V, C>,
    direction: Direction,
    snapshot: Snapshot<'t>,
    /// Entries `..index` (reverse) or `index..` (forward) are still to be visited.
    index: usize,
    /// Border nodes of upper layers whose entry we are inside.
    above: Vec<&'t Border>,
    /// The last key visited, or its prefix where a layer was entered since.
    key: Vec<u8>,
    /// Whether `key` is a key that was visited.
    key_visited: bool,
    position: Position,
    nodes: usize,
}

enum Step {
    Go,
    Done,
}

impl<'t, V: Value, C: Configuration> Scan<'t, V, C> {
    fn new(tree: &'t Masstree<V, C>, from: Bound<&[u8]>, direction: Direction) -> Self {
        let (key, inclusive) = match from {
            Bound::Included(key) => (Some(key), true),
            Bound::Excluded(key) => (Some(key), false),
            Bound::Unbounded if direction == Direction::Forward => (Some(&[][..]), true),
            Bound::Unbounded => (None, false),
        };
        Self {
            tree,
            direction,
            snapshot: Snapshot::empty(),
            index: 0,
            above: Vec::new(),
            key: Vec::with_capacity(64),
            key_visited: false,
            position: Position {
                key: key.map(<[u8]>::to_vec),
                inclusive,
            },
            nodes: 0,
        }
    }

    fn offset(&self) -> usize {
        self.above.len() * 8
    }

    fn take(&mut self, node: &'t Border) -> Result<(), Lost> {
        self.nodes += 1;
        self.snapshot.take::<V, C>(node, self.direction)
    }

    /// Snapshots the node responsible for `slice`, at or to the right of `node`.
    fn take_responsible(&mut self, node: &'t Border, slice: u64) -> Result<(), Lost> {
        let mut node = node;
        loop {
            self.take(node)?;
            // SAFETY: a sibling of a pinned node is a pinned node.
            match unsafe { self.snapshot.next.as_ref() } {
                Some(next) if slice >= next.low() => node = next,
                _ => return Ok(()),
            }
        }
    }

    /// Makes the last key visited the position to look up.
    fn save_position(&mut self) {
        if self.key_visited {
            let key = self.position.key.get_or_insert_default();
            key.clear();
            key.extend_from_slice(&self.key);
            self.position.inclusive = false;
            self.key_visited = false;
        }
    }

    /// Looks the position up from the top.
    fn seek<K: Kernel>(&mut self) {
        self.save_position();
        let position = self.position.key.take();
        while self.try_seek::<K>(position.as_deref()).is_err() {
            self.tree.restarted();
        }
        self.position.key = position;
    }

    fn try_seek<K: Kernel>(&mut self, position: Option<&[u8]>) -> Result<(), Lost> {
        self.above.clear();
        self.key.clear();
        let mut root = self.tree.root();
        let Some(position) = position else {
            return self.enter::<K>(root);
        };
        let mut key = Key::new(position);
        loop {
            let (node, _) = self.tree.find_border::<K>(root, key.slice()).ok_or(Lost)?;
            self.take_responsible(node, key.slice())?;
            let class = key.class();
            self.index = self.snapshot.lower_bound(key.slice(), class);
            let Some(entry) = self.snapshot.entries[..self.snapshot.count].get(self.index) else {
                return Ok(());
            };
            if (entry.slice, entry.length.min(LONG)) != (key.slice(), class) {
                return Ok(());
            }
            if entry.length == LAYER {
                root = layer_root(entry.value);
                self.descend_into(entry.slice);
                key = key.descend();
                continue;
            }
            let rest = if class == LONG { key.suffix() } else { &[] };
            let forward = self.direction == Direction::Forward;
            let before = match entry.suffix_or_empty().cmp(rest) {
                std::cmp::Ordering::Less => true,
                // Forwards, what is before the position is skipped; in reverse it is visited.
                std::cmp::Ordering::Equal => forward != self.position.inclusive,
                std::cmp::Ordering::Greater => false,
            };
            self.index += usize::from(before);
            return Ok(());
        }
    }

    /// Notes that we go from the snapshot's node into the layer below `slice`.
    fn descend_into(&mut self, slice: u64) {
        let offset = self.offset();
        self.key.truncate(offset);
        self.key.extend_from_slice(&slice.to_be_bytes());
        self.above.extend(self.snapshot.node);
    }

    /// Snapshots the layer's first node, or its last in reverse.
    fn enter<K: Kernel>(&mut self, root: *mut Node) -> Result<(), Lost> {
        let slice = match self.direction {
            Direction::Forward => 0,
            Direction::Reverse => u64::MAX,
        };
        let (node, _) = self.tree.find_border::<K>(root, slice).ok_or(Lost)?;
        self.take_responsible(node, slice)?;
        self.index = match self.direction {
            Direction::Forward => 0,
            Direction::Reverse => self.snapshot.count,
        };
        Ok(())
    }

    /// Goes on to the sibling, or up to the layer above.
    fn advance(&mut self) -> Result<Step, Lost> {
        let sibling = match self.direction {
            Direction::Forward => self.snapshot.next,
            Direction::Reverse => self.snapshot.prev,
        };
        // SAFETY: a sibling of a pinned node is a pinned node.
        match unsafe { sibling.as_ref() } {
            Some(sibling) if self.direction == Direction::Forward => {
                self.take(sibling)?;
                self.index = 0;
            }
            Some(sibling) => {
                let Some(right) = self.snapshot.node else {
                    return Err(Lost);
                };
                self.take(sibling)?;
                if !std::ptr::eq(self.snapshot.next, right) {
                    self.seek_below(right);
                    return Err(Lost);
                }
                self.index = self.snapshot.count;
            }
            None => return self.leave_layer(),
        }
        Ok(Step::Go)
    }

    /// Reverse: makes everything below `node` of this layer the position.
    fn seek_below(&mut self, node: &Border) {
        let offset = self.offset();
        let (bytes, count) = shortest_bytes(node.low());
        let mut key = self.key[..offset].to_vec();
        key.extend_from_slice(&bytes[..count]);
        self.position = Position {
            key: Some(key),
            inclusive: false,
        };
        self.key_visited = false;
    }

    fn leave_layer(&mut self) -> Result<Step, Lost> {
        let Some(node) = self.above.pop() else {
            return Ok(Step::Done);
        };
        let offset = self.offset();
        let slice = Key::at(&self.key, offset).slice();
        self.take_responsible(node, slice)?;
        self.index = match self.direction {
            Direction::Forward => self.snapshot.lower_bound(slice, LONG + 1),
            Direction::Reverse => self.snapshot.lower_bound(slice, LONG),
        };
        Ok(Step::Go)
    }

    /// Visits what the snapshot still has, descending into layers on the way.
    #[inline(always)]
    fn visit_entries<K: Kernel>(
        &mut self,
        visit: &mut impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Lost> {
        loop {
            let entry = match self.direction {
                Direction::Forward if self.index < self.snapshot.count => {
                    self.index += 1;
                    self.snapshot.entries[self.index - 1]
                }
                Direction::Reverse if self.index > 0 => {
                    self.index -= 1;
                    self.snapshot.entries[self.index]
                }
                _ => return Ok(ControlFlow::Continue(())),
            };
            if entry.length == LAYER {
                self.save_position();
                self.descend_into(entry.slice);
                self.enter::<K>(layer_root(entry.value))?;
                continue;
            }
            let offset = self.offset();
            self.key.truncate(offset);
            let kept = usize::from(entry.length.min(8));
            self.key
                .extend_from_slice(&entry.slice.to_be_bytes()[..kept]);
            self.key.extend_from_slice(entry.suffix_or_empty());
            self.key_visited = true;
            if visit(&self.key, entry.value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    fn run<K: Kernel>(
        &mut self,
        guard: &mut C::Guard<'_>,
        visit: &mut impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.seek::<K>();
        loop {
            match self.visit_entries::<K>(visit) {
                Ok(ControlFlow::Break(())) => return,
                Ok(ControlFlow::Continue(())) => match self.advance() {
                    Ok(Step::Done) => return,
                    Ok(Step::Go) => {}
                    Err(Lost) => self.seek::<K>(),
                },
                Err(Lost) => self.seek::<K>(),
            }
            if self.nodes >= RENEW_NODES && self.key_visited {
                // Everything borrowed under the old pin is dropped before the new one.
                self.nodes = 0;
                self.save_position();
                self.above.clear();
                self.snapshot = Snapshot::empty();
                guard.renew();
                self.seek::<K>();
            }
        }
    }
}

impl<'g> Entry<'g> {
    #[inline(always)]
    fn suffix_or_empty(&self) -> &'g [u8] {
        if self.length == SUFFIX {
            self.suffix
        } else {
            &[]
        }
    }
}

struct ScanTask<'t, 'x, V: Value, C: Configuration, F> {
    scan: Scan<'t, V, C>,
    guard: &'x mut C::Guard<'t>,
    visit: F,
}

impl<V, C, F> Task for ScanTask<'_, '_, V, C, F>
where
    V: Value,
    C: Configuration,
    F: FnMut(&[u8], u64) -> ControlFlow<()>,
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self) {
        self.scan.run::<K>(self.guard, &mut self.visit);
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    #[inline]
    fn scan_words(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        let mut guard = C::read(&self.entry);
        let scan = Scan::new(self, from, direction);
        self.level.run(ScanTask {
            scan,
            guard: &mut guard,
            visit,
        });
    }
}

impl<C: Configuration> Masstree<u64, C> {
    /// Visits keys and values in key order from `from`, until `visit` breaks; see
    /// [`hedgerow_index::Index::scan`] for what a scan beside writers may see.
    #[inline]
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.scan_words(from, direction, visit);
    }
}

impl<C: Configuration> Masstree<Bytes, C> {
    /// Visits keys and values in key order from `from`, until `visit` breaks; see
    /// [`hedgerow_index::Index::scan`] for what a scan beside writers may see.
    #[inline]
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.scan_words(from, direction, |key, word| {
            // SAFETY: from a validated snapshot, and the scan's guard is held during the call.
            visit(key, unsafe { Bytes::load(word) })
        });
    }
}
