//! Scans in both directions, through layers, without a latch while pairs are visited.
//!
//! A scan copies a leaf, visits the copy, and goes on at the copy's fence. When something is in
//! its way it begins again behind what it has visited last. What it will come to is asked for
//! [ahead](super::ahead), as far as is known how much is wanted of it.

use std::ops::{Bound, ControlFlow, Range};

use hedgerow_index::{Direction, KeySpan};
use hedgerow_pages::{Error, PageId, Pages, Pool, Result, Stop, ViewMut};

use super::BTreeIndex;
use super::ahead::{Ahead, Extent};
use super::descend::{Aim, At, Leaf};
use super::kept::Kept;
use super::read::chance;
use crate::adapt::{SCAN_COUNTS, SCANNED};
use crate::chain::Chain;
use crate::configuration::Configuration;
use crate::leaf::End;
use crate::page::{Image, node};
use crate::scan::Start;
use crate::slotted::{Kind, Payload, SLACK};
use crate::tree::layer_root;

/// Values in overflow pages of which lines are asked for before the first is read: a scan reads a value
/// while those behind it come.
const ASKED: usize = 4;

/// A scan under way.
struct Scan<'t, 'e, C, const PAGE: usize, V> {
    tree: &'t BTreeIndex<C, PAGE>,
    /// Where keys are put together: the layers above, the page's prefix, a record's rest.
    key: Vec<u8>,
    /// Where to begin again, once something was visited: the key, and whether it is included.
    resume: Vec<u8>,
    /// A value that was in overflow pages.
    value: Vec<u8>,
    resumes: Option<bool>,
    /// The keys behind a page that cannot be read.
    lost: Option<KeySpan>,
    extent: Extent<'e>,
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
        self.scan_up_to((from, Bound::Unbounded), direction, usize::MAX, visit)
    }

    /// [`scan`](Self::scan) of which no more is wanted than `most` pairs between two bounds, of which
    /// the second may be the lower one: so much is read together. Only `visit` ends it.
    ///
    /// # Errors
    ///
    /// As for [`scan`](Self::scan).
    pub fn scan_up_to(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), Error> {
        self.scan_to_failure(bounds, direction, most, visit)
            .map_err(|(error, _)| error)
    }

    /// [`scan_up_to`](Self::scan_up_to), which also says which keys are behind a page that cannot be
    /// read.
    pub(super) fn scan_to_failure(
        &self,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        most: usize,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> std::result::Result<(), (Error, Option<KeySpan>)> {
        let mut kept = Kept::take();
        let mut scan = Scan {
            tree: self,
            key: std::mem::take(&mut kept.key),
            resume: std::mem::take(&mut kept.resume),
            value: std::mem::take(&mut kept.value),
            resumes: None,
            lost: None,
            extent: Extent::new(to, most),
            restarts: 0,
            visit,
        };
        let start = Start::of(from);
        let scanned = match direction {
            Direction::Forward => scan.run::<true>(&mut kept, start),
            Direction::Reverse => scan.run::<false>(&mut kept, start),
        };
        (kept.key, kept.resume, kept.value) = (scan.key, scan.resume, scan.value);
        kept.keep();
        scanned.map_err(|error| (error, scan.lost))
    }

    /// Copies a leaf as it is now, in order.
    fn copy_ordered(&self, leaf: &Leaf, page: &mut Image<PAGE>) -> Result<()> {
        page.copy_used::<C>(node(self.share(leaf)?.image()));
        if C::LEAVES.adaptive() && page.counter() < SCANNED && chance(SCAN_COUNTS) {
            self.retouch(leaf, |page, conversions| {
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
    /// Gives a leaf the order of its copy, if it is as it was noted and nobody is in the way.
    fn keep_order(&self, leaf: &Leaf, page: &Image<PAGE>) {
        let mut pool: &Pool<PAGE> = &self.pool;
        if let Ok(mut latch) = pool.upgrade(&leaf.at.note) {
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
        kept: &mut Kept<PAGE>,
        start: Option<Start<'_>>,
    ) -> std::result::Result<(), Error> {
        loop {
            let resume = self
                .resumes
                .map(|inclusive| (self.resume.clone(), inclusive));
            let start = match &resume {
                Some((key, inclusive)) => Some(Start {
                    key,
                    inclusive: *inclusive,
                }),
                None => start,
            };
            let root = self.tree.note_root();
            let root = root.map_err(|stop| self.failed(stop, 0, Aim::Last));
            match root.and_then(|root| self.layer::<FORWARD>(root, 0, start, kept)) {
                Ok(_) => return Ok(()),
                Err(Stop::Restart) => self.tree.pause(&mut self.restarts),
                Err(Stop::Failed(error)) => return Err(*error),
            }
        }
    }

    /// Scans one layer, whose keys all begin with the first `base` bytes of the key.
    fn layer<const FORWARD: bool>(
        &mut self,
        root: At,
        base: usize,
        start: Option<Start<'_>>,
        kept: &mut Kept<PAGE>,
    ) -> Result<ControlFlow<()>> {
        let room = base + BTreeIndex::<C, PAGE>::STEM + SLACK;
        if self.key.len() < room {
            self.key.resize(room, 0);
        }
        let mut root = root;
        let Kept { page, fence, .. } = kept;
        // Whether there is the fence of the leaf visited last, on the side where the next one is.
        let mut fenced = false;
        let mut ahead = Ahead::default();
        loop {
            let (key, inclusive): (&[u8], _) = (fence, FORWARD);
            let (aim, from) = match (fenced, FORWARD) {
                (false, _) => (Self::first_aim::<FORWARD>(start), start),
                (true, true) => (Aim::Key(key), Some(Start { key, inclusive })),
                (true, false) => (Aim::Below(key), Some(Start { key, inclusive })),
            };
            let leaf = self.tree.descend(root, aim);
            let copied = leaf.and_then(|leaf| {
                self.tree.ask_ahead::<FORWARD>(&mut ahead, &leaf, aim);
                self.tree.copy_ordered(&leaf, page)?;
                Ok(leaf)
            });
            let leaf = copied.map_err(|stop| self.failed(stop, base, aim))?;
            let to_leaf = (&leaf, aim);
            if self
                .leaf::<FORWARD>(to_leaf, page, base, from, &mut ahead)?
                .is_break()
            {
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
                let noted = self.tree.note_root();
                root = noted.map_err(|stop| self.failed(stop, 0, Aim::Last))?;
            }
        }
    }

    /// The way to where a layer's scan begins.
    fn first_aim<const FORWARD: bool>(start: Option<Start<'_>>) -> Aim<'_> {
        match start {
            Some(start) => Aim::Key(BTreeIndex::<C, PAGE>::cut(start.key).stem),
            None if FORWARD => Aim::Key(&[]),
            None => Aim::Last,
        }
    }

    /// Scans the copy of a leaf. Its first record may be the stem of the start, of which only a
    /// part is wanted.
    fn leaf<const FORWARD: bool>(
        &mut self,
        (leaf, aim): (&Leaf, Aim<'_>),
        page: &Image<PAGE>,
        base: usize,
        start: Option<Start<'_>>,
        ahead: &mut Ahead,
    ) -> Result<ControlFlow<()>> {
        let stem = BTreeIndex::<C, PAGE>::STEM;
        let (whole, cut) = page.range_from::<C, FORWARD>(start, stem);
        let mut left = whole.clone();
        let mut wanted = 0;
        if self.tree.pool.may_miss() {
            let ahead = (ahead, &mut self.extent);
            let places = (&whole, base);
            wanted = self
                .tree
                .ask_as_far::<FORWARD>(ahead, (leaf, aim), page, places);
        }
        // Records whose values were brought to memory and are not visited yet.
        let mut loaded = 0;
        // Those whose values were not asked for yet.
        let mut unasked = None;
        loop {
            let key = &mut self.key;
            let end = page.walk::<C, FORWARD, V>(left.clone(), key, base, &mut self.visit);
            let (place, len, record) = match end {
                End::Visited => return Ok(ControlFlow::Continue(())),
                End::Stopped => return Ok(ControlFlow::Break(())),
                End::At(place, len, record) => (place, len, record),
            };
            let from = cut.filter(|cut| cut.0 == place).map(|cut| cut.1);
            if FORWARD && from.is_none() {
                self.resume_at_key(len);
            } else if from.is_none()
                && let Some(last) = page.next_place::<C, true>(&mut (place + 1..whole.end))
            {
                let mut key = Vec::new();
                page.node_key::<C>(last, &mut key);
                self.resume_at(base, &key, false);
            }
            let payload = page.payload(record);
            let ended = match payload.kind {
                Kind::Layer => {
                    let root = PageId(layer_root(payload));
                    let root = self.tree.note_below(&leaf.at, root);
                    let root = root.map_err(|stop| self.failed(stop, len, Aim::Last))?;
                    let mut kept = Kept::take();
                    let ended = self.layer::<FORWARD>(root, len, from, &mut kept);
                    kept.keep();
                    ended?
                }
                _ => {
                    if loaded == 0 && wanted > 0 {
                        let (rest, extent) = (remains::<FORWARD>(&left, place), &mut self.extent);
                        let gone = whole.len() - rest.len();
                        let wanted = wanted.saturating_sub(gone);
                        loaded = self.tree.load_some::<FORWARD>(extent, page, rest, wanted);
                    }
                    loaded = loaded.saturating_sub(1);
                    let (more, unasked) = match &mut unasked {
                        Some(unasked) => (1, unasked),
                        None => (ASKED, unasked.insert(left.clone())),
                    };
                    // Records that are passed without a value elsewhere are no turns of this.
                    let rest = remains::<FORWARD>(&left, place);
                    *unasked = unasked.start.max(rest.start)..unasked.end.min(rest.end);
                    for _ in 0..more {
                        self.tree.prefetch_next::<FORWARD>(page, unasked);
                    }
                    self.chain::<FORWARD>(leaf, payload, len, from)?
                }
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

    /// Visits a value in overflow pages, under a stem of `len` bytes.
    fn chain<const FORWARD: bool>(
        &mut self,
        leaf: &Leaf,
        payload: Payload<'_>,
        len: usize,
        from: Option<Start<'_>>,
    ) -> Result<ControlFlow<()>> {
        let pool: &Pool<PAGE> = &self.tree.pool;
        let loaded = {
            let _latch = pool.shared(leaf.at.id)?;
            pool.validate(&leaf.at.note)?;
            self.tree.load_chain_into(payload, &mut self.value)
        };
        loaded.map_err(|stop| {
            let key = self.key[..len].to_vec();
            self.failed(stop, 0, Aim::Key(&key))
        })?;
        let (rest, value) = self.value.split_at(Chain::read::<PAGE>(payload).key_len);
        if !from.is_none_or(|from| from.admits::<FORWARD>(rest)) {
            return Ok(ControlFlow::Continue(()));
        }
        let whole = len + rest.len();
        if self.key.len() < whole {
            self.key.resize(whole, 0);
        }
        self.key[len..whole].copy_from_slice(rest);
        Ok((self.visit)(&self.key[..whole], value))
    }

    /// Looks for the keys that are lost with a page on the way from the root of the layer whose
    /// keys begin with `base` bytes.
    #[cold]
    fn failed(&mut self, stop: Stop, base: usize, aim: Aim<'_>) -> Stop {
        if let Stop::Failed(_) = stop {
            self.lost = self.tree.lost_on(&self.key[..base], aim);
        }
        stop
    }

    /// Notes where to begin again: at the first `len` bytes of the key.
    fn resume_at_key(&mut self, len: usize) {
        self.resume.clear();
        self.resume.extend_from_slice(&self.key[..len]);
        self.resumes = Some(true);
        self.restarts = 0;
    }

    /// Notes where to begin again: at a key of the layer whose keys begin with `base` bytes.
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
