//! Removal of the keys between two bounds, a leaf at a time.
//!
//! A key after the other would cost a descent, a latch and a change of a page each. Here a leaf is
//! found and latched once, all of its keys in the range are asked about, and what is left of it is
//! stored once, which for most leaves is nothing. Empty leaves go when the last one below a parent
//! is done: empty neighbours merge at little cost. Leaves that follow are [asked for](super::ahead)
//! as a scan's are.
//!
//! Of a value only the beginning is shown, which is in its record, so that pages of values go
//! unseen; shared overflow pages go [by and by](super::range_frees).

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use hedgerow_index::{RANGE_VALUE_BYTES, RangeDecision};
use hedgerow_pages::{Error, ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::ahead::Ahead;
use super::descend::{DEEPEST, Leaf, SearchTarget};
use super::lost::after_all;
use super::range_frees::RangeFrees;
use super::{BTreeIndex, MERGES, RANGE_LEAVES, image};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::layer_root;
use crate::node::leaf::End;
use crate::node::leaf_range::Start;
use crate::node::page::Image;
use crate::node::plan::first_leaf;
use crate::node::slotted::{Kind, SLACK};

/// What a caller says of a pair.
type Decide<'d> = dyn FnMut(&[u8], &[u8]) -> RangeDecision + 'd;

/// A removal under way.
struct Removal<'p, const PAGE: usize> {
    /// Where it goes on.
    key: Vec<u8>,
    inclusive: bool,
    /// How far ahead leaves were asked for, in the layer that so many bytes of the key lead to.
    ahead: Ahead,
    ahead_base: usize,
    untidy: Untidy,
    frees: RangeFrees<'p, PAGE>,
}

/// Leaves that became sparse: the node above them, and a key of one.
type Untidy = Option<(PageId, Vec<u8>)>;

/// The leaf of a place, latched within an operation.
struct Site<'p, const PAGE: usize> {
    // Dropped in this order: an operation ends after its latches.
    latch: ExclusiveLatch<'p, PAGE>,
    operation: Operation<'p>,
    leaf: Leaf,
    /// Bytes of the key that lead to the leaf's layer.
    base: usize,
}

/// What goes from a leaf, and why the walk over it came to its end.
#[derive(Default)]
struct Doomed {
    places: Vec<usize>,
    chains: Vec<Chain>,
    ended: Option<Ended>,
}

enum Ended {
    /// At the end of the range, or because the caller has enough.
    Whole,
    /// At a layer, or at a value that cannot be read, under this key prefix.
    Before(Vec<u8>, Option<Stop>),
}

/// Whether a key is behind the end of a range.
fn is_beyond(to: Bound<&[u8]>, key: &[u8]) -> bool {
    match to {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Removes the pairs between two bounds of which `decide` says so, in the order of their keys,
    /// until it breaks. It is asked once of each pair, while the pair's leaf is latched, and what
    /// it said is then done: also of a call that fails, which goes no further than what cannot be
    /// read. It must not use an index whose pages are in the same pool.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read or give.
    pub fn remove_range(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut dyn FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> std::result::Result<(), Error> {
        self.remove_to_failure(from, to, decide)
            .map_err(|(error, _)| error)
    }

    /// [`remove_range`](Self::remove_range), which also says at which key it failed.
    pub(super) fn remove_to_failure(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        decide: &mut Decide<'_>,
    ) -> std::result::Result<(), (Error, Vec<u8>)> {
        let start = Start::of(from);
        let mut at = Removal {
            key: start.map_or_else(Vec::new, |start| start.key.to_vec()),
            inclusive: start.is_none_or(|start| start.inclusive),
            ahead: Ahead::default(),
            ahead_base: 0,
            untidy: None,
            frees: RangeFrees::default(),
        };
        let mut restarts = 0;
        let removed = loop {
            match self.remove_in_leaf(&mut at, to, decide) {
                Ok(ControlFlow::Continue(())) => restarts = 0,
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(Stop::Restart) => self.pause(&mut restarts),
                // Emptied leaves that are given back make room for the change of the next.
                Err(Stop::Failed(error)) if error.is_disk_full() => match at.untidy.take() {
                    Some((_, key)) => self.tidy_whole(&key),
                    None => break Err(*error),
                },
                Err(Stop::Failed(error)) => break Err(*error),
            }
        };
        self.apply_range_frees(&mut at.frees);
        if let Some((_, key)) = at.untidy {
            self.tidy_whole(&key);
        }
        removed.map_err(|error| (error, at.key))
    }

    /// Merges empty leaves around a key. When their parents merge, too, empty leaves of both may
    /// be left below one, so it tries until nothing merges.
    #[cold]
    pub(super) fn tidy_whole(&self, key: &[u8]) {
        // Each merge gives a page back.
        let _spending = self.pool.spend_reserve();
        for _ in 0..DEEPEST {
            let before = self.events.sum(MERGES);
            self.tidy(key);
            if self.events.sum(MERGES) == before {
                return;
            }
        }
    }

    /// Removes what is in the leaf where a removal goes on, which moves to what comes behind.
    fn remove_in_leaf<'p>(
        &'p self,
        at: &mut Removal<'p, PAGE>,
        to: Bound<&[u8]>,
        decide: &mut Decide<'_>,
    ) -> Result<ControlFlow<()>> {
        self.apply_range_frees_if_full(&mut at.frees);
        let mut site = self.site_of(at)?;
        let mut page = Image::zeroed();
        page.copy_used::<C>(image(&site.latch));
        page.order::<C>();
        // Before anybody is asked: what is said to go, goes.
        self.pool.afford_removal(&site.latch)?;
        let doomed = self.doomed(&page, &site, at, to, decide);
        self.events.count(RANGE_LEAVES);
        let upper = page.upper().to_vec();
        if !doomed.places.is_empty() {
            // If a checkpoint needs the leaf and cannot save it, the checkpoint fails, not this.
            let _spending = self.pool.spend_reserve();
            self.prepare(&mut site.latch, &site.operation)?;
            self.take_all(&mut site, &mut page, &doomed, &mut at.frees);
        }
        let (base, leaf) = (site.base, site.leaf);
        drop(site);
        let parent = leaf.above.unwrap_or(leaf.at).id;
        let sparse = match leaf.above {
            Some(_) => page.sparse::<C>(),
            None => base > 0 && page.count() == 0,
        };
        let is_other = |(other, _): &mut (PageId, Vec<u8>)| *other != parent || !sparse;
        if let Some((_, key)) = at.untidy.take_if(is_other) {
            self.tidy_whole(&key);
        }
        if sparse {
            at.untidy = Some((parent, at.key.clone()));
        }
        let next = match doomed.ended {
            Some(Ended::Whole) => None,
            Some(Ended::Before(key, stop)) => {
                (at.key, at.inclusive) = (key, true);
                return stop.map_or(Ok(ControlFlow::Continue(())), Err);
            }
            None if upper.is_empty() => after_all(&at.key[..base]),
            None => Some([&at.key[..base], &upper].concat()),
        };
        Ok(match next.filter(|key| !is_beyond(to, key)) {
            Some(key) => {
                (at.key, at.inclusive) = (key, true);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        })
    }

    /// Goes down to the leaf of a key, through layers.
    fn site_of<'p>(&'p self, at: &mut Removal<'p, PAGE>) -> Result<Site<'p, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut layer, mut base) = (self.snapshot_root()?, 0);
        loop {
            let cut = Self::cut(&at.key[base..]);
            let target = SearchTarget::Key(cut.key_prefix);
            let leaf = self.descend(layer, target)?;
            if base == at.ahead_base {
                self.ask_ahead::<true>(&mut at.ahead, &leaf, target);
            }
            let operation = pool.begin();
            let latch = self.own(&leaf)?;
            let page = image(&latch);
            match page.find::<C>(cut.key_prefix) {
                Some(record) if record.kind == Kind::Layer => {
                    layer = self.snapshot_layer_root(layer_root(page.payload(record)))?;
                    base += cut.key_prefix.len();
                }
                _ => {
                    if base != at.ahead_base {
                        (at.ahead, at.ahead_base) = (Ahead::default(), base);
                    }
                    return Ok(Site {
                        latch,
                        operation,
                        leaf,
                        base,
                    });
                }
            }
        }
    }

    /// Asks about the pairs of a leaf from a place on.
    fn doomed(
        &self,
        page: &Image<PAGE>,
        site: &Site<'_, PAGE>,
        at: &Removal<'_, PAGE>,
        to: Bound<&[u8]>,
        decide: &mut Decide<'_>,
    ) -> Doomed {
        let base = site.base;
        let start = Start {
            key: &at.key[base..],
            inclusive: at.inclusive,
        };
        let (mut left, through) = page.range_from::<C, true>(Some(start), Self::KEY_PREFIX_BYTES);
        let mut key = at.key[..base].to_vec();
        key.resize(base + Self::KEY_PREFIX_BYTES + SLACK, 0);
        let mut doomed = Doomed::default();
        let mut values = at.ahead.goes_on();
        let mut ask = |key: &[u8], value: &[u8]| {
            if is_beyond(to, key) {
                return ControlFlow::Break(());
            }
            decide(key, value)
        };
        loop {
            let mut places = page.taken::<C>(left.clone());
            let mut visit = |key: &[u8], value: &[u8]| {
                let place = places.next();
                if ask(key, value)? {
                    doomed.places.extend(place);
                }
                ControlFlow::Continue(())
            };
            let end = page.walk::<C, true, _>(left.clone(), &mut key, base, &mut visit);
            let (place, len, record) = match end {
                End::Visited => return doomed,
                End::Stopped => {
                    doomed.ended = Some(Ended::Whole);
                    return doomed;
                }
                End::At(place, len, record) => (place, len, record),
            };
            let key_prefix = &key[..len];
            if is_beyond(to, key_prefix) {
                doomed.ended = Some(Ended::Whole);
                return doomed;
            }
            if record.kind == Kind::Layer {
                doomed.ended = Some(Ended::Before(key_prefix.to_vec(), None));
                return doomed;
            }
            let payload = page.payload(record);
            let chain = Chain::read::<PAGE>(payload);
            let shown = chain.key_len + RANGE_VALUE_BYTES;
            if chain.head < shown.min(chain.len) && std::mem::take(&mut values) {
                self.ask_for_values::<true>(page, left.clone());
            }
            let bytes = match self.load_chain(payload, shown) {
                Ok(bytes) => bytes,
                Err(stop) => {
                    doomed.ended = Some(Ended::Before(key_prefix.to_vec(), Some(stop)));
                    return doomed;
                }
            };
            let (rest, value) = bytes.split_at(chain.key_len);
            let from = through.filter(|cut| cut.0 == place).map(|cut| cut.1);
            if from.is_none_or(|from| from.admits::<true>(rest)) {
                match ask(&[key_prefix, rest].concat(), value) {
                    ControlFlow::Continue(false) => {}
                    ControlFlow::Continue(true) => {
                        doomed.places.push(place);
                        doomed.chains.push(chain);
                    }
                    ControlFlow::Break(()) => {
                        doomed.ended = Some(Ended::Whole);
                        return doomed;
                    }
                }
            }
            left.start = place + 1;
        }
    }

    /// Takes records out of a leaf, of which `page` is an ordered copy that becomes what is left.
    fn take_all<'p>(
        &'p self,
        site: &mut Site<'p, PAGE>,
        page: &mut Image<PAGE>,
        Doomed { places, chains, .. }: &Doomed,
        frees: &mut RangeFrees<'p, PAGE>,
    ) {
        if places.len() == page.count() {
            let (lower, upper) = (page.lower().to_vec(), page.upper().to_vec());
            page.begin::<C>(first_leaf::<C>(), &lower, &upper);
        } else {
            // From behind, since those behind a sorted slot move.
            places.iter().rev().for_each(|&place| page.take::<C>(place));
        }
        self.store_node(&mut site.latch, page);
        self.len.fetch_sub(places.len() as u64, Ordering::Relaxed);
        for chain in chains {
            self.release_with_range(chain, frees, &site.operation);
        }
    }
}
