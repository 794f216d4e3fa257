//! Visiting keys in order, forwards and in reverse, across layers.
//!
//! A scan takes one validated *snapshot* of a border node at a time (the order, slices,
//! lengths, values, suffixes and the siblings' pointers, copied out and checked against the
//! version), visits its entries, and goes on to the sibling that the snapshot named, whose
//! lines were prefetched while the snapshot was taken. Where an entry is a layer, the scan
//! saves the node and descends; when the layer ends, the scan goes on behind the layer's slice,
//! in the snapshot that it left if that is still there (of the nearest layer above, it is), or in a
//! new one (following splits to the right).
//!
//! Why a key that stays is visited once and none twice: a node's range only ever ends earlier
//! (split) or is extended over a deleted right sibling's. Forwards, a snapshot holds all keys
//! below its `next.low`, and `next` starts exactly there for life. In reverse, `prev` is taken
//! only if its own snapshot says that its next is the node we came from. Whenever a node met
//! this way is deleted, or the links disagree, the scan looks up its position (the last key
//! visited, excluded) from the top again.
//!
//! Dependent misses: a scan reads ahead. While it visits one node it has the snapshot of the next,
//! whose value blocks are on their way, and its parent's further children are being prefetched too
//! ([`SiblingHint`]). An early snapshot is as good as a late one: it is validated when it is
//! taken, no key ever moves to the right into an existing node, and what it names stays alive
//! under the scan's pin. A scan of keys alone ([`ScanRange::values`]) never touches a value.
//!
//! The end of the range is compared with a node's last entry, and with others only in the node in
//! which the range ends ([`Snapshot::entries_before`]). The limit is checked once a node too.
//!
//! Long scans renew their pin every [`RENEW_NODES`] border nodes, so that a scan of
//! everything does not keep all that writers retire meanwhile.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, KeyBound, ScanRange};
use hedgerow_simd::{Kernel, Task};

use crate::configuration::{Configuration, Guard};
use crate::key::{Key, LONG, shortest_bytes};
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Node};
use crate::sibling_hint::SiblingHint;
use crate::snapshot::{Entry, PositionLost, Snapshot};
use crate::tree::{Masstree, layer_root};
use crate::value::{Bytes, Value};

const RENEW_NODES: usize = 512;

/// Where a scan stands between look-ups from the top.
struct Position {
    /// The bound; `None` for no bound.
    key: Option<Vec<u8>>,
    inclusive: bool,
}

/// The snapshot that the scan left for the layer below it, so that coming back costs nothing. It
/// may be old by then, as it may be when a long callback holds up a visit: what it says was true
/// during the scan, and its node stays pinned.
struct SavedSnapshot<'s, 'g> {
    snapshot: &'s mut Snapshot<'g>,
    index: usize,
    /// How many layers down it is; `None` when there is none.
    depth: Option<usize>,
}

/// A running scan; with `VALUES` it reads values and not only keys.
///
/// Its snapshots are large, so they lie elsewhere (`'s`) and only references change places.
struct Scan<'t, 's, V: Value, C: Configuration, const FORWARD: bool, const VALUES: bool> {
    tree: &'t Masstree<V, C>,
    /// Where the scan ends; `None` for no bound.
    end: Option<KeyBound<'s>>,
    /// How many more entries to visit.
    left: usize,
    snapshot: &'s mut Snapshot<'t>,
    /// The snapshot of a sibling, taken early; without a node when there is none.
    ahead: &'s mut Snapshot<'t>,
    upper: SavedSnapshot<'s, 't>,
    hint: Option<SiblingHint<'t>>,
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

impl<'t, 's, V: Value, C: Configuration, const FORWARD: bool, const VALUES: bool>
    Scan<'t, 's, V, C, FORWARD, VALUES>
{
    const DIRECTION: Direction = Direction::of(FORWARD);

    #[inline(always)]
    fn new(
        tree: &'t Masstree<V, C>,
        range: ScanRange<'s>,
        [snapshot, ahead, upper]: [&'s mut Snapshot<'t>; 3],
    ) -> Self {
        let first = KeyBound {
            key: &[],
            inclusive: true,
        };
        let start = KeyBound::of(range.from).or(FORWARD.then_some(first));
        Self {
            tree,
            end: KeyBound::of(range.to),
            left: range.limit,
            snapshot,
            ahead,
            upper: SavedSnapshot {
                snapshot: upper,
                index: 0,
                depth: None,
            },
            hint: None,
            index: 0,
            above: Vec::new(),
            key: Vec::with_capacity(64),
            key_visited: false,
            position: Position {
                key: start.map(|start| start.key.to_vec()),
                inclusive: start.is_some_and(|start| start.inclusive),
            },
            nodes: 0,
        }
    }

    fn offset(&self) -> usize {
        self.above.len() * 8
    }

    fn take(&mut self, node: &'t Border) -> Result<(), PositionLost> {
        self.nodes += 1;
        self.snapshot.take::<V, C, VALUES>(node, Self::DIRECTION)
    }

    /// Snapshots the sibling in the direction of the scan early, if that succeeds: its value
    /// blocks are then fetched while the present node is visited.
    fn snapshot_ahead(&mut self) {
        let sibling = match Self::DIRECTION {
            Direction::Forward => self.snapshot.next,
            Direction::Reverse => self.snapshot.prev,
        };
        self.ahead.node = None;
        // SAFETY: a sibling of a pinned node is a pinned node.
        if let Some(sibling) = unsafe { sibling.as_ref() } {
            // A deleted sibling is found again, and dealt with, when the scan gets there.
            let _ = self.ahead.take::<V, C, VALUES>(sibling, Self::DIRECTION);
        }
    }

    /// Makes `node` the snapshot, by the early one if that is of this node.
    fn move_to(&mut self, node: &'t Border) -> Result<(), PositionLost> {
        if self
            .ahead
            .node
            .is_some_and(|ahead| std::ptr::eq(ahead, node))
        {
            std::mem::swap(&mut self.snapshot, &mut self.ahead);
            self.ahead.node = None;
            self.nodes += 1;
            return Ok(());
        }
        self.take(node)
    }

    /// Snapshots the node responsible for `slice`, at or to the right of `node`.
    fn take_responsible(&mut self, node: &'t Border, slice: u64) -> Result<(), PositionLost> {
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

    /// Looks the position up, and prefetches what follows it.
    fn begin<K: Kernel>(&mut self) {
        self.seek::<K>();
        if let Some(node) = self.snapshot.node {
            self.hint = SiblingHint::of::<K>(node, self.above.len(), Self::DIRECTION);
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

    fn try_seek<K: Kernel>(&mut self, position: Option<&[u8]>) -> Result<(), PositionLost> {
        self.above.clear();
        self.upper.depth = None;
        self.key.clear();
        let mut root = self.tree.root();
        let Some(position) = position else {
            return self.enter::<K>(root);
        };
        let mut key = Key::new(position);
        loop {
            let (node, _) = self
                .tree
                .find_border::<K>(root, key.slice())
                .ok_or(PositionLost)?;
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
            let before = match entry.suffix_or_empty().cmp(rest) {
                Ordering::Less => true,
                // Forwards, what is before the position is skipped; in reverse it is visited.
                Ordering::Equal => FORWARD != self.position.inclusive,
                Ordering::Greater => false,
            };
            self.index += usize::from(before);
            return Ok(());
        }
    }

    /// Saves the snapshot's node on the way into the layer below `slice`.
    fn descend_into(&mut self, slice: u64) {
        let offset = self.offset();
        self.key.truncate(offset);
        self.key.extend_from_slice(&slice.to_be_bytes());
        self.above.extend(self.snapshot.node);
    }

    /// Keeps the snapshot of the node from which we just descended.
    fn save_upper(&mut self) {
        std::mem::swap(&mut self.snapshot, &mut self.upper.snapshot);
        self.upper.index = self.index;
        self.upper.depth = Some(self.above.len() - 1);
    }

    /// Snapshots the layer's first node, or its last in reverse.
    fn enter<K: Kernel>(&mut self, root: *mut Node) -> Result<(), PositionLost> {
        let slice = match Self::DIRECTION {
            Direction::Forward => 0,
            Direction::Reverse => u64::MAX,
        };
        let (node, _) = self
            .tree
            .find_border::<K>(root, slice)
            .ok_or(PositionLost)?;
        self.take_responsible(node, slice)?;
        self.index = match Self::DIRECTION {
            Direction::Forward => 0,
            Direction::Reverse => self.snapshot.count,
        };
        Ok(())
    }

    /// Goes on to the sibling, or up to the layer above.
    fn advance(&mut self) -> Result<Step, PositionLost> {
        let sibling = match Self::DIRECTION {
            Direction::Forward => self.snapshot.next,
            Direction::Reverse => self.snapshot.prev,
        };
        // SAFETY: a sibling of a pinned node is a pinned node.
        match unsafe { sibling.as_ref() } {
            Some(sibling) if FORWARD => {
                self.move_to(sibling)?;
                self.index = 0;
            }
            Some(sibling) => {
                let Some(right) = self.snapshot.node else {
                    return Err(PositionLost);
                };
                self.move_to(sibling)?;
                if !std::ptr::eq(self.snapshot.next, right) {
                    self.seek_below(right);
                    return Err(PositionLost);
                }
                self.index = self.snapshot.count;
            }
            None => return self.leave_layer(),
        }
        SiblingHint::prefetch_next(&mut self.hint, self.above.len(), Self::DIRECTION);
        if V::OWNING && VALUES {
            self.snapshot_ahead();
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

    fn leave_layer(&mut self) -> Result<Step, PositionLost> {
        let Some(node) = self.above.pop() else {
            return Ok(Step::Done);
        };
        if self.upper.depth == Some(self.above.len()) {
            std::mem::swap(&mut self.snapshot, &mut self.upper.snapshot);
            self.index = self.upper.index;
            self.upper.depth = None;
            return Ok(Step::Go);
        }
        let offset = self.offset();
        let slice = Key::at(&self.key, offset).slice();
        self.take_responsible(node, slice)?;
        self.index = match Self::DIRECTION {
            Direction::Forward => self.snapshot.lower_bound(slice, LONG + 1),
            Direction::Reverse => self.snapshot.lower_bound(slice, LONG),
        };
        Ok(Step::Go)
    }

    /// The entries of the snapshot before the end of the range; see [`Snapshot::entries_before`].
    #[inline(always)]
    fn entries_in_range(&self) -> (usize, bool) {
        let prefix = &self.key[..self.offset()];
        match self.end {
            Some(end) => self.snapshot.entries_before::<FORWARD>(end, prefix),
            None if FORWARD => (self.snapshot.count, false),
            None => (0, false),
        }
    }

    /// Visits what the snapshot still has of the range, descending into layers on the way. Breaks
    /// at the end of the range, at its limit, or where `visit` does.
    #[inline(always)]
    fn visit_entries<K: Kernel>(
        &mut self,
        visit: &mut impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, PositionLost> {
        'node: loop {
            let (end, ends) = self.entries_in_range();
            let first = self.index;
            // Layers do not count: behind one the rest is counted anew.
            let stop = match Self::DIRECTION {
                Direction::Forward => end.min(first.saturating_add(self.left)),
                Direction::Reverse => end.max(first.saturating_sub(self.left)),
            };
            loop {
                let at = match Self::DIRECTION {
                    Direction::Forward if self.index < stop => self.index,
                    Direction::Reverse if self.index > stop => self.index - 1,
                    _ => break,
                };
                let entry = &self.snapshot.entries[at];
                if entry.length == LAYER {
                    self.left -= self.index.abs_diff(first);
                    let (slice, layer) = (entry.slice, layer_root(entry.value));
                    self.pass(at);
                    self.save_position();
                    self.descend_into(slice);
                    self.save_upper();
                    self.enter::<K>(layer)?;
                    continue 'node;
                }
                let offset = self.above.len() * 8;
                write_slice(&mut self.key, offset, entry);
                if entry.length == SUFFIX {
                    append_short(&mut self.key, entry.suffix_or_empty());
                }
                self.key_visited = true;
                let value = entry.value;
                self.pass(at);
                if visit(&self.key, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.left -= self.index.abs_diff(first);
            if ends || self.left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            return Ok(ControlFlow::Continue(()));
        }
    }

    /// Counts an entry as visited.
    #[inline(always)]
    fn pass(&mut self, at: usize) {
        self.index = match Self::DIRECTION {
            Direction::Forward => at + 1,
            Direction::Reverse => at,
        };
    }

    fn run<K: Kernel>(
        &mut self,
        guard: &mut C::Guard<'_>,
        visit: &mut impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.begin::<K>();
        loop {
            match self.visit_entries::<K>(visit) {
                Ok(ControlFlow::Break(())) => return,
                Ok(ControlFlow::Continue(())) => match self.advance() {
                    Ok(Step::Done) => return,
                    Ok(Step::Go) => {}
                    Err(PositionLost) => self.begin::<K>(),
                },
                Err(PositionLost) => self.begin::<K>(),
            }
            if self.nodes >= RENEW_NODES && self.key_visited {
                // Everything borrowed under the old pin is dropped before the new one.
                self.nodes = 0;
                self.save_position();
                self.above.clear();
                *self.snapshot = Snapshot::empty();
                *self.ahead = Snapshot::empty();
                *self.upper.snapshot = Snapshot::empty();
                self.hint = None;
                guard.renew();
                self.begin::<K>();
            }
        }
    }
}

/// A scan to be compiled for a SIMD level. The scan itself is made inside: its snapshots are
/// too large to be moved about.
struct ScanTask<'t, 'x, V: Value, C: Configuration, F, const FORWARD: bool, const VALUES: bool> {
    tree: &'t Masstree<V, C>,
    range: ScanRange<'x>,
    guard: &'x mut C::Guard<'t>,
    visit: F,
}

impl<V, C, F, const FORWARD: bool, const VALUES: bool> Task
    for ScanTask<'_, '_, V, C, F, FORWARD, VALUES>
where
    V: Value,
    C: Configuration,
    F: FnMut(&[u8], u64) -> ControlFlow<()>,
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self) {
        let (mut here, mut ahead, mut upper) =
            (Snapshot::empty(), Snapshot::empty(), Snapshot::empty());
        let snapshots = [&mut here, &mut ahead, &mut upper];
        Scan::<V, C, FORWARD, VALUES>::new(self.tree, self.range, snapshots)
            .run::<K>(self.guard, &mut self.visit);
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    #[inline]
    fn scan_words<const VALUES: bool>(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        match range.direction {
            Direction::Forward => self.scan_towards::<true, VALUES>(range, visit),
            Direction::Reverse => self.scan_towards::<false, VALUES>(range, visit),
        }
    }

    #[inline]
    fn scan_towards<const FORWARD: bool, const VALUES: bool>(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        let mut guard = C::read(&self.entry);
        self.level.run(ScanTask::<V, C, _, FORWARD, VALUES> {
            tree: self,
            range: *range,
            guard: &mut guard,
            visit,
        });
    }
}

/// Makes `key` its first `offset` bytes and the entry's slice: one store of constant length, then
/// a cut.
#[inline(always)]
fn write_slice(key: &mut Vec<u8>, offset: usize, entry: &Entry<'_>) {
    let bytes = entry.slice.to_be_bytes();
    match key.get_mut(offset..offset + 8) {
        Some(place) => place.copy_from_slice(&bytes),
        None => {
            key.truncate(offset);
            key.extend_from_slice(&bytes);
        }
    }
    key.truncate(offset + usize::from(entry.length.min(8)));
}

/// Appends bytes of which there are mostly few: for up to 8, a call to copy memory would cost
/// more than the copy.
#[inline(always)]
fn append_short(key: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > 8 {
        key.extend_from_slice(bytes);
        return;
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    let length = key.len() + bytes.len();
    key.extend_from_slice(&word);
    key.truncate(length);
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
        self.scan_words::<true>(&ScanRange::starting_at(from, direction), visit);
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
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.scan_range(&ScanRange::starting_at(from, direction), visit);
    }

    /// Visits the pairs of a range, as [`hedgerow_index::Index::scan`] does, with `visit` compiled
    /// in. Without values, which lie in blocks of their own, it costs half as much or less.
    #[inline]
    pub fn scan_range(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        if range.values {
            self.scan_words::<true>(range, |key, word| {
                // SAFETY: from a validated snapshot, and the scan's guard is held during the call.
                visit(key, unsafe { Bytes::load(word) })
            });
        } else {
            self.scan_words::<false>(range, |key, _| visit(key, &[]));
        }
    }
}
