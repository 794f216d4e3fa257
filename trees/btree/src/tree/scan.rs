//! Scans in both directions, through layers, without a latch while pairs are visited.
//!
//! A scan copies a leaf, visits the copy, and continues at the copy's fence. Where the fence says
//! that the range ends in the leaf, the scan looks up which of its records are the last, so it
//! compares no key with the end. A scan that restarts continues behind the pair that it visited
//! last. The tree [prefetches](super::scan_prefetch) leaves and values as far as it knows how much
//! the scan wants, and [copies](super::value_copies) several long values at a time.

use std::ops::{Bound, ControlFlow, Range};

use hedgerow_index::{Direction, KeyBound, KeySpan, ScanRange};
use hedgerow_pages::{Error, PageId, Pages, Pool, Result, Stop, ViewMut};

use super::BTreeIndex;
use super::descend::{Leaf, SearchTarget};
use super::read::chance;
use super::scan_buffers::ScanBuffers;
use super::scan_prefetch::{LeafPrefetch, Remaining, ValueReads, Wanted};
use super::value_copies::ValueCopies;
use crate::configuration::Configuration;
use crate::node::key::layer_root;
use crate::node::layout::{Kind, Payload};
use crate::node::leaf::End;
use crate::node::page::{Image, node};
use crate::node::slotted::SLACK;
use crate::restructure::NodeRef;

/// Where a scan of a layer, or of a part of it, begins and ends, if not at an end of the layer.
#[derive(Clone, Copy)]
struct ScanBounds<'k> {
    start: Option<KeyBound<'k>>,
    end: Option<KeyBound<'k>>,
}

/// A leaf that a scan visits.
struct LeafVisit<'a, const PAGE: usize> {
    leaf: &'a Leaf,
    /// The target that led there.
    target: SearchTarget<'a>,
    /// A copy of the leaf, in order.
    page: &'a Image<PAGE>,
    /// Bytes of its keys that the layers above have.
    base: usize,
    /// The bounds of the scan within the layer; the end only if it is in the leaf.
    bounds: ScanBounds<'a>,
}

/// The long values of a leaf under a scan.
#[derive(Default)]
struct LeafValues {
    /// Of how many of the leaf's records the scan wants the values, where some may be on disk.
    wanted: usize,
    /// Of how many records the values were read from storage, but not copied yet.
    loaded: usize,
}

/// Which places of a leaf a scan visits.
struct LeafPlaces<'k> {
    /// How many places are behind the start, whatever the end is.
    behind_start: usize,
    /// Those between start and end.
    whole: Range<usize>,
    /// The place whose key prefix the start, or the end, cuts through, with that bound below it.
    cut: Option<(usize, KeyBound<'k>)>,
    end_cut: Option<(usize, KeyBound<'k>)>,
}

impl<'k> LeafPlaces<'k> {
    #[inline(always)]
    fn of<C: Configuration, const FORWARD: bool, const PAGE: usize>(
        page: &Image<PAGE>,
        bounds: ScanBounds<'k>,
    ) -> Self {
        let ScanBounds { start, end } = bounds;
        let key_prefix = BTreeIndex::<C, PAGE>::KEY_PREFIX_BYTES;
        let (mut whole, cut) = page.range_from::<C, FORWARD>(start, key_prefix);
        let (behind_start, mut end_cut) = (whole.len(), None);
        if let Some(end) = end {
            let before;
            (before, end_cut) = page.range_to::<C, FORWARD>(end, key_prefix);
            whole = whole.start.max(before.start)..whole.end.min(before.end);
        }
        Self {
            behind_start,
            whole,
            cut,
            end_cut,
        }
    }
}

/// A scan under way.
struct Scan<'t, 'e, C, const PAGE: usize, V> {
    tree: &'t BTreeIndex<C, PAGE>,
    /// Where it ends.
    end: Option<KeyBound<'e>>,
    remaining: &'e Remaining,
    /// Whether values in overflow pages are wanted.
    values: bool,
    /// Where keys are put together: the layers above, the page's prefix, a record's rest.
    key: Vec<u8>,
    /// Where to begin again, once something was visited: the key, and whether it is included.
    resume: Vec<u8>,
    /// Values in overflow pages of the records that come next.
    copies: ValueCopies,
    resumes: Option<bool>,
    /// The keys behind a page that cannot be read.
    lost: Option<KeySpan>,
    reads: ValueReads,
    restarts: u32,
    visit: V,
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Visits pairs in key order, starting at `from`, until `visit` breaks or keys end.
    ///
    /// With [`Direction::Forward`], `from` is a lower bound; with [`Direction::Reverse`] an upper
    /// bound. Each leaf is visited as it was at one moment.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read. What comes before them was visited.
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), Error> {
        self.scan_range(&ScanRange::starting_at(from, direction), visit)
    }

    /// Visits the pairs of a range, at most as many as its limit, until `visit` breaks. What the
    /// range is known to want is read together, and nothing behind it.
    ///
    /// # Errors
    ///
    /// As for [`scan`](Self::scan).
    pub fn scan_range(
        &self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), Error> {
        self.scan_to_failure(range, visit)
            .map_err(|(error, _)| error)
    }

    /// [`scan_range`](Self::scan_range), which also says which keys are behind a page that cannot
    /// be read.
    pub(super) fn scan_to_failure(
        &self,
        range: &ScanRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), (Error, Option<KeySpan>)> {
        if range.is_empty() {
            return Ok(());
        }
        let remaining = Remaining::of(range.limit);
        let mut buffers = ScanBuffers::take();
        let mut scan = Scan {
            tree: self,
            end: KeyBound::of(range.to),
            remaining: &remaining,
            values: range.values,
            key: std::mem::take(&mut buffers.key),
            resume: std::mem::take(&mut buffers.resume),
            copies: ValueCopies::new(std::mem::take(&mut buffers.value), range.values),
            resumes: None,
            lost: None,
            reads: ValueReads::of(range),
            restarts: 0,
            visit: |key: &[u8], value: &[u8]| {
                visit(key, value)?;
                remaining.count()
            },
        };
        let start = KeyBound::of(range.from);
        let scanned = match range.direction {
            Direction::Forward => scan.run::<true>(&mut buffers, start),
            Direction::Reverse => scan.run::<false>(&mut buffers, start),
        };
        (buffers.key, buffers.resume) = (scan.key, scan.resume);
        buffers.value = scan.copies.into_room();
        buffers.put_back();
        scanned.map_err(|error| (error, scan.lost))
    }

    /// Copies a leaf as it is now, in order.
    fn copy_ordered(&self, leaf: &Leaf, page: &mut Image<PAGE>) -> Result<()> {
        page.copy_used::<C>(node(self.latch_shared(leaf)?.image()));
        let counts = C::LEAVES.adaptive() && page.counts_scans::<C>();
        if counts && chance(C::THRESHOLDS.scan_counts) {
            self.change_form(leaf, |page, conversions| {
                page.raise_counter::<C>(conversions)
            });
        }
        if !page.is_ordered::<C>() {
            page.order::<C>();
            self.keep_order(leaf, page);
        }
        Ok(())
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Gives a leaf the order of its copy, if its snapshot still holds and no other thread has it
    /// latched.
    fn keep_order(&self, leaf: &Leaf, page: &Image<PAGE>) {
        let mut pool: &Pool<PAGE> = &self.pool;
        if let Ok(mut latch) = pool.upgrade(&leaf.at.snapshot) {
            let arrays = 0..page.unused::<C>().start;
            Pages::touch(&mut pool, &mut latch).take_lines(arrays, page.image());
        }
    }
}

impl<C, const PAGE: usize, V> Scan<'_, '_, C, PAGE, V>
where
    C: Configuration,
    V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
{
    fn run<const FORWARD: bool>(
        &mut self,
        buffers: &mut ScanBuffers<PAGE>,
        start: Option<KeyBound<'_>>,
    ) -> std::result::Result<(), Error> {
        loop {
            let resume = self
                .resumes
                .map(|inclusive| (self.resume.clone(), inclusive));
            let start = match &resume {
                Some((key, inclusive)) => Some(KeyBound {
                    key,
                    inclusive: *inclusive,
                }),
                None => start,
            };
            let root = self.tree.snapshot_root();
            let root = root.map_err(|stop| self.failed(stop, 0, SearchTarget::Last));
            let end = self.end;
            let bounds = ScanBounds { start, end };
            match root.and_then(|root| self.layer::<FORWARD>(root, 0, bounds, buffers)) {
                Ok(_) => return Ok(()),
                Err(Stop::Restart) => self.tree.pause(&mut self.restarts),
                Err(Stop::Failed(error)) => return Err(*error),
            }
        }
    }

    /// Scans one layer, whose keys all begin with the first `base` bytes of the key.
    fn layer<const FORWARD: bool>(
        &mut self,
        root: NodeRef,
        base: usize,
        bounds: ScanBounds<'_>,
        buffers: &mut ScanBuffers<PAGE>,
    ) -> Result<ControlFlow<()>> {
        let ScanBounds { start, end } = bounds;
        let key_prefix = BTreeIndex::<C, PAGE>::KEY_PREFIX_BYTES;
        let room = base + BTreeIndex::<C, PAGE>::KEY_PREFIX_BYTES + SLACK;
        if self.key.len() < room {
            self.key.resize(room, 0);
        }
        let mut root = root;
        let ScanBuffers { page, fence, .. } = buffers;
        // Whether there is the fence of the leaf visited last, on the side where the next one is.
        let mut fenced = false;
        let mut prefetch = LeafPrefetch::default();
        loop {
            let (key, inclusive): (&[u8], _) = (fence, FORWARD);
            let fence_bound = Some(KeyBound { key, inclusive });
            let (target, start) = match (fenced, FORWARD) {
                (false, _) => (Self::first_target::<FORWARD>(start), start),
                (true, true) => (SearchTarget::Key(key), fence_bound),
                (true, false) => (SearchTarget::Below(key), fence_bound),
            };
            let leaf = self.tree.descend(root, target);
            let copied = leaf.and_then(|leaf| {
                self.tree
                    .prefetch_next_leaves::<FORWARD>(&mut prefetch, &leaf, target);
                self.tree.copy_ordered(&leaf, page)?;
                Ok(leaf)
            });
            let leaf = copied.map_err(|stop| self.failed(stop, base, target))?;
            let end = end.filter(|end| page.is_last_before::<FORWARD>(*end, key_prefix));
            let visit = LeafVisit {
                leaf: &leaf,
                target,
                page,
                base,
                bounds: ScanBounds { start, end },
            };
            let ended = self.leaf::<FORWARD>(&visit, &mut prefetch)?;
            if ended.is_break() || end.is_some() {
                return Ok(ControlFlow::Break(()));
            }
            let next = if FORWARD { page.upper() } else { page.lower() };
            if next.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            self.resume_at(base, next, FORWARD);
            fence.clear();
            fence.extend_from_slice(next);
            fenced = true;
            if base == 0 {
                let snapshot = self.tree.snapshot_root();
                root = snapshot.map_err(|stop| self.failed(stop, 0, SearchTarget::Last))?;
            }
        }
    }

    /// The target of the descent with which a layer's scan begins.
    fn first_target<const FORWARD: bool>(start: Option<KeyBound<'_>>) -> SearchTarget<'_> {
        match start {
            Some(start) => SearchTarget::Key(BTreeIndex::<C, PAGE>::cut(start.key).key_prefix),
            None if FORWARD => SearchTarget::Key(&[]),
            None => SearchTarget::Last,
        }
    }

    /// Scans the copy of a leaf, up to the end of the scan if that is in the leaf. Its first record
    /// may be the key prefix of the start, of which only a part is wanted, and its last one that of
    /// the end.
    fn leaf<const FORWARD: bool>(
        &mut self,
        visit: &LeafVisit<'_, PAGE>,
        prefetch: &mut LeafPrefetch,
    ) -> Result<ControlFlow<()>> {
        let &LeafVisit { page, base, .. } = visit;
        let LeafPlaces {
            behind_start,
            whole,
            cut,
            end_cut,
        } = LeafPlaces::of::<C, FORWARD, PAGE>(page, visit.bounds);
        let mut left = whole.clone();
        let mut values = LeafValues::default();
        if self.tree.pool.may_miss() {
            let wanted = Wanted::of(behind_start, whole.len(), self.remaining.known());
            values.wanted = wanted.here;
            let &LeafVisit { leaf, target, .. } = visit;
            self.tree
                .prefetch_wanted_leaves::<FORWARD>(prefetch, leaf, target, page, wanted);
        }
        self.copies.clear();
        loop {
            let key = &mut self.key;
            let end = page.walk::<C, FORWARD, V>(left.clone(), key, base, &mut self.visit);
            let (place, len, record) = match end {
                End::Visited => return Ok(ControlFlow::Continue(())),
                End::Stopped => return Ok(ControlFlow::Break(())),
                End::NotInline {
                    place,
                    key_len,
                    record,
                } => (place, key_len, record),
            };
            let bounds = ScanBounds {
                start: cut.filter(|cut| cut.0 == place).map(|cut| cut.1),
                end: end_cut.filter(|cut| cut.0 == place).map(|cut| cut.1),
            };
            let payload = page.payload(record);
            let is_layer = payload.kind == Kind::Layer;
            // While copies are visited nothing restarts. A scan that began within the record
            // begins there again.
            if bounds.start.is_none() && (is_layer || self.copies.is_empty()) {
                self.resume_at_place::<FORWARD>(visit, place, len, whole.end);
            }
            let ended = if is_layer {
                self.layer_below::<FORWARD>(visit.leaf, payload, len, bounds)?
            } else if payload.kind == Kind::Overflow && !self.values {
                (self.visit)(&self.key[..len], &[])
            } else {
                if self.copies.is_empty() {
                    let rest = remains::<FORWARD>(&left, place);
                    let visited = whole.len() - rest.len();
                    self.copy_values::<FORWARD>(visit, rest, visited, len, &mut values)?;
                }
                self.visit_copies::<FORWARD>(len, bounds)
            };
            if ended.is_break() {
                return Ok(ended);
            }
            left = if FORWARD {
                place + 1..left.end
            } else {
                left.start..place
            };
        }
    }

    /// Scans the layer that a record names, whose keys begin with the first `len` bytes of the key.
    fn layer_below<const FORWARD: bool>(
        &mut self,
        leaf: &Leaf,
        payload: Payload<'_>,
        len: usize,
        bounds: ScanBounds<'_>,
    ) -> Result<ControlFlow<()>> {
        let root = PageId(layer_root(payload));
        let root = self.tree.snapshot_child(&leaf.at, root);
        let root = root.map_err(|stop| self.failed(stop, len, SearchTarget::Last))?;
        let mut buffers = ScanBuffers::take();
        let ended = self.layer::<FORWARD>(root, len, bounds, &mut buffers);
        buffers.put_back();
        ended
    }

    /// Copies values of the records of a leaf that are left after so many were `visited`, and reads
    /// them from storage first where they may be there. The key of the first is put together, of
    /// `len` bytes.
    fn copy_values<const FORWARD: bool>(
        &mut self,
        visit: &LeafVisit<'_, PAGE>,
        rest: Range<usize>,
        visited: usize,
        len: usize,
        values: &mut LeafValues,
    ) -> Result<()> {
        let &LeafVisit { leaf, page, .. } = visit;
        let wanted = values.wanted.saturating_sub(visited);
        if values.loaded == 0 && wanted > 0 {
            let (rest, reads) = (rest.clone(), &mut self.reads);
            values.loaded = self
                .tree
                .load_next_values::<FORWARD>(reads, page, rest, wanted);
        }
        // No thread is to wait at the leaf while others are read from storage.
        let most = match self.tree.pool.may_miss() {
            true => values.loaded,
            false => usize::MAX,
        };
        let copies = &mut self.copies;
        let window = copies.next_window(self.remaining.known()).min(most).max(1);
        let copied = self
            .tree
            .copy_values::<FORWARD>(copies, leaf, page, rest, window);
        let copied = copied.map_err(|stop| {
            let key = self.key[..len].to_vec();
            self.failed(stop, 0, SearchTarget::Key(&key))
        })?;
        values.loaded = values.loaded.saturating_sub(copied);
        Ok(())
    }

    /// Visits the next value that was copied, under a key prefix of `len` bytes.
    fn visit_copies<const FORWARD: bool>(
        &mut self,
        len: usize,
        bounds: ScanBounds<'_>,
    ) -> ControlFlow<()> {
        let (rest, value) = self.copies.take().expect("a value of this record");
        let (ScanBounds { start, end }, direction) = (bounds, Direction::of(FORWARD));
        if !start.is_none_or(|start| start.admits_from(rest, direction)) {
            return ControlFlow::Continue(());
        }
        if !end.is_none_or(|end| end.admits_before(rest, direction)) {
            return ControlFlow::Break(());
        }
        let whole = len + rest.len();
        if !rest.is_empty() {
            if self.key.len() < whole {
                self.key.resize(whole, 0);
            }
            self.key[len..whole].copy_from_slice(rest);
        }
        (self.visit)(&self.key[..whole], value)
    }

    /// Looks for the keys that are lost with a page on the way from the root of the layer whose
    /// keys begin with `base` bytes.
    #[cold]
    fn failed(&mut self, stop: Stop, base: usize, target: SearchTarget<'_>) -> Stop {
        if let Stop::Failed(_) = stop {
            self.lost = self.tree.lost_on(&self.key[..base], target);
        }
        stop
    }

    /// Remembers where to begin again: at the record at a place of a leaf, whose key of `len` bytes
    /// is put together, and behind which the range ends at the place `end`.
    fn resume_at_place<const FORWARD: bool>(
        &mut self,
        visit: &LeafVisit<'_, PAGE>,
        place: usize,
        len: usize,
        end: usize,
    ) {
        if FORWARD {
            self.resume_at_key(len);
        } else if let Some(last) = visit.page.next_place::<C, true>(&mut (place + 1..end)) {
            let mut key = Vec::new();
            visit.page.node_key::<C>(last, &mut key);
            self.resume_at(visit.base, &key, false);
        }
    }

    /// Remembers where to begin again: at the first `len` bytes of the key.
    fn resume_at_key(&mut self, len: usize) {
        self.resume.clear();
        self.resume.extend_from_slice(&self.key[..len]);
        self.resumes = Some(true);
        self.restarts = 0;
    }

    /// Remembers where to begin again: at a key of the layer whose keys begin with `base` bytes.
    fn resume_at(&mut self, base: usize, key: &[u8], inclusive: bool) {
        self.resume.clear();
        self.resume.extend_from_slice(&self.key[..base]);
        self.resume.extend_from_slice(key);
        self.resumes = Some(inclusive);
        self.restarts = 0;
    }
}

/// The places of a leaf that a scan has not passed, from the one on where it is.
fn remains<const FORWARD: bool>(left: &Range<usize>, place: usize) -> Range<usize> {
    if FORWARD {
        place..left.end
    } else {
        left.start..place + 1
    }
}
