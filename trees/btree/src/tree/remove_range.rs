//! Removal of the keys between two bounds, a leaf at a time.
//!
//! Removing one key after the other would cost a descent, a latch and a page change for each. Here
//! the tree finds and latches a leaf once, asks the caller about all of its keys in the range, and
//! stores once what is left of it: of most leaves nothing. Empty leaves merge when the removal has
//! passed the last leaf below their parent, since empty neighbours merge at little cost. The tree
//! [prefetches](super::scan_prefetch) the leaves that follow, as for a scan.
//!
//! The caller sees only the beginning of a value, which is in its record. So the removal reads no
//! pages of values, and collects the slots of [shared overflow pages](super::range_frees).

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, KeyBound, RANGE_VALUE_BYTES, RangeDecision};
use hedgerow_pages::{Error, ExclusiveLatch, Operation, PageId, Pages, Pool, Result, Stop};

use super::descend::{DEEPEST, Leaf, SearchTarget};
use super::lost::after_all;
use super::range_frees::RangeFrees;
use super::scan_prefetch::LeafPrefetch;
use super::{BTreeIndex, MERGES, RANGE_LEAVES, image};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::layer_root;
use crate::node::layout::{Kind, Payload};
use crate::node::leaf::End;
use crate::node::page::Image;
use crate::node::plan::first_leaf;
use crate::node::slotted::SLACK;

/// What a caller says of a pair.
type Decide<'d> = dyn FnMut(&[u8], &[u8]) -> RangeDecision + 'd;

/// A removal under way.
struct Removal<'p, const PAGE: usize> {
    /// Where it continues.
    key: Vec<u8>,
    inclusive: bool,
    /// How far ahead leaves were prefetched, in the layer that so many bytes of the key lead to.
    prefetch: LeafPrefetch,
    prefetch_base: usize,
    sparse_leaf: SparseLeaf,
    frees: RangeFrees<'p, PAGE>,
}

/// Leaves that became sparse: the node above them, and a key of one.
type SparseLeaf = Option<(PageId, Vec<u8>)>;

/// The leaf of a place, latched within an operation.
struct LatchedLeaf<'p, const PAGE: usize> {
    // Dropped in this order: an operation ends after its latches.
    latch: ExclusiveLatch<'p, PAGE>,
    operation: Operation<'p>,
    leaf: Leaf,
    /// Bytes of the key that lead to the leaf's layer.
    base: usize,
}

/// What is removed from a leaf, and why the walk over it ended.
#[derive(Default)]
struct Removed {
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
    KeyBound::of(to).is_some_and(|end| !end.admits_before(key, Direction::Forward))
}

/// Bytes of a chain that a caller is shown: the rest of the key, and the beginning of the value.
fn shown_bytes(chain: &Chain) -> usize {
    chain.key_len + RANGE_VALUE_BYTES
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
        let start = KeyBound::of(from);
        let mut at = Removal {
            key: start.map_or_else(Vec::new, |start| start.key.to_vec()),
            inclusive: start.is_none_or(|start| start.inclusive),
            prefetch: LeafPrefetch::default(),
            prefetch_base: 0,
            sparse_leaf: None,
            frees: RangeFrees::default(),
        };
        let mut restarts = 0;
        let removed = loop {
            match self.remove_in_leaf(&mut at, to, decide) {
                Ok(ControlFlow::Continue(())) => restarts = 0,
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(Stop::Restart) => self.pause(&mut restarts),
                // Emptied leaves that are given back make room for the change of the next.
                Err(Stop::Failed(error)) if error.is_disk_full() => match at.sparse_leaf.take() {
                    Some((_, key)) => self.merge_all_around(&key),
                    None => break Err(*error),
                },
                Err(Stop::Failed(error)) => break Err(*error),
            }
        };
        self.apply_range_frees(&mut at.frees);
        if let Some((_, key)) = at.sparse_leaf {
            self.merge_all_around(&key);
        }
        removed.map_err(|error| (error, at.key))
    }

    /// Merges empty leaves around a key. When their parents merge, too, empty leaves of both may
    /// be left below one, so it tries until nothing merges.
    #[cold]
    pub(super) fn merge_all_around(&self, key: &[u8]) {
        // Each merge gives a page back.
        let _reserve_use = self.pool.allow_reserve_use();
        for _ in 0..DEEPEST {
            let before = self.events.sum(MERGES);
            self.merge_around(key);
            if self.events.sum(MERGES) == before {
                return;
            }
        }
    }

    /// Removes what the caller decides from the leaf where a removal continues, and moves on.
    fn remove_in_leaf<'p>(
        &'p self,
        at: &mut Removal<'p, PAGE>,
        to: Bound<&[u8]>,
        decide: &mut Decide<'_>,
    ) -> Result<ControlFlow<()>> {
        self.apply_range_frees_if_full(&mut at.frees);
        let mut leaf_latch = self.latch_leaf_of(at)?;
        let mut page = Image::zeroed();
        page.copy_used::<C>(image(&leaf_latch.latch));
        page.order::<C>();
        // Before the caller is asked: what it decides to remove must be removed.
        self.pool
            .enforce_dirty_limit_for_removal(&leaf_latch.latch)?;
        let removed = self.ask_caller(&page, &leaf_latch, at, to, decide);
        self.events.count(RANGE_LEAVES);
        let upper = page.upper().to_vec();
        if !removed.places.is_empty() {
            // If a checkpoint needs the leaf and cannot save it, the checkpoint fails, not this.
            let _reserve_use = self.pool.allow_reserve_use();
            self.prepare(&mut leaf_latch.latch, &leaf_latch.operation)?;
            self.take_all(&mut leaf_latch, &mut page, &removed, &mut at.frees);
        }
        let (base, leaf) = (leaf_latch.base, leaf_latch.leaf);
        drop(leaf_latch);
        let parent = leaf.above.unwrap_or(leaf.at).id;
        let sparse = match leaf.above {
            Some(_) => page.sparse::<C>(),
            None => base > 0 && page.count() == 0,
        };
        let is_other = |(other, _): &mut (PageId, Vec<u8>)| *other != parent || !sparse;
        if let Some((_, key)) = at.sparse_leaf.take_if(is_other) {
            self.merge_all_around(&key);
        }
        if sparse {
            at.sparse_leaf = Some((parent, at.key.clone()));
        }
        let next = match removed.ended {
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

    /// Descends to the leaf of a key, through layers.
    fn latch_leaf_of<'p>(&'p self, at: &mut Removal<'p, PAGE>) -> Result<LatchedLeaf<'p, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut layer, mut base) = (self.snapshot_root()?, 0);
        loop {
            let cut = Self::cut(&at.key[base..]);
            let target = SearchTarget::Key(cut.key_prefix);
            let leaf = self.descend(layer, target)?;
            if base == at.prefetch_base {
                self.prefetch_next_leaves::<true>(&mut at.prefetch, &leaf, target);
            }
            let operation = pool.begin();
            let latch = self.latch_exclusive(&leaf)?;
            let page = image(&latch);
            match page.find::<C>(cut.key_prefix) {
                Some(record) if record.kind == Kind::Layer => {
                    layer = self.snapshot_layer_root(layer_root(page.payload(record)))?;
                    base += cut.key_prefix.len();
                }
                _ => {
                    if base != at.prefetch_base {
                        (at.prefetch, at.prefetch_base) = (LeafPrefetch::default(), base);
                    }
                    return Ok(LatchedLeaf {
                        latch,
                        operation,
                        leaf,
                        base,
                    });
                }
            }
        }
    }

    /// Asks the caller about the pairs of a leaf from a place on.
    fn ask_caller(
        &self,
        page: &Image<PAGE>,
        leaf_latch: &LatchedLeaf<'_, PAGE>,
        at: &Removal<'_, PAGE>,
        to: Bound<&[u8]>,
        decide: &mut Decide<'_>,
    ) -> Removed {
        let base = leaf_latch.base;
        let start = KeyBound {
            key: &at.key[base..],
            inclusive: at.inclusive,
        };
        let (mut left, through) = page.range_from::<C, true>(Some(start), Self::KEY_PREFIX_BYTES);
        let mut key = at.key[..base].to_vec();
        key.resize(base + Self::KEY_PREFIX_BYTES + SLACK, 0);
        let mut removed = Removed::default();
        let mut may_prefetch = at.prefetch.is_past_first_leaf();
        let mut ask = |key: &[u8], value: &[u8]| {
            if is_beyond(to, key) {
                return ControlFlow::Break(());
            }
            decide(key, value)
        };
        removed.ended = loop {
            let mut places = page.taken::<C>(left.clone());
            let mut visit = |key: &[u8], value: &[u8]| {
                let place = places.next();
                if ask(key, value)? {
                    removed.places.extend(place);
                }
                ControlFlow::Continue(())
            };
            let (place, len, record) =
                match page.walk::<C, true, _>(left.clone(), &mut key, base, &mut visit) {
                    End::Visited => break None,
                    End::Stopped => break Some(Ended::Whole),
                    End::NotInline {
                        place,
                        key_len,
                        record,
                    } => (place, key_len, record),
                };
            let key_prefix = &key[..len];
            if is_beyond(to, key_prefix) {
                break Some(Ended::Whole);
            }
            if record.kind == Kind::Layer {
                break Some(Ended::Before(key_prefix.to_vec(), None));
            }
            let payload = page.payload(record);
            let chain = Chain::read::<PAGE>(payload);
            if chain.head < shown_bytes(&chain).min(chain.len) && std::mem::take(&mut may_prefetch)
            {
                self.prefetch_values::<true>(page, left.clone());
            }
            let from = through.filter(|cut| cut.0 == place).map(|cut| cut.1);
            match self.ask_about_chain(key_prefix, payload, from, &mut ask) {
                Ok(true) => {
                    removed.places.push(place);
                    removed.chains.push(chain);
                }
                Ok(false) => {}
                Err(ended) => break Some(ended),
            }
            left.start = place + 1;
        };
        removed
    }

    /// Asks the caller about a record in overflow pages, if its key is not before `from`: whether
    /// it is removed, or why the walk over the leaf ends before it.
    fn ask_about_chain(
        &self,
        key_prefix: &[u8],
        payload: Payload<'_>,
        from: Option<KeyBound<'_>>,
        ask: &mut impl FnMut(&[u8], &[u8]) -> RangeDecision,
    ) -> std::result::Result<bool, Ended> {
        let chain = Chain::read::<PAGE>(payload);
        let bytes = self
            .load_chain(payload, shown_bytes(&chain))
            .map_err(|stop| Ended::Before(key_prefix.to_vec(), Some(stop)))?;
        let (rest, value) = bytes.split_at(chain.key_len);
        if from.is_some_and(|from| !from.admits_from(rest, Direction::Forward)) {
            return Ok(false);
        }
        match ask(&[key_prefix, rest].concat(), value) {
            ControlFlow::Continue(is_removed) => Ok(is_removed),
            ControlFlow::Break(()) => Err(Ended::Whole),
        }
    }

    /// Removes records from a leaf; `page` is an ordered copy of it, which becomes what is left.
    fn take_all<'p>(
        &'p self,
        leaf_latch: &mut LatchedLeaf<'p, PAGE>,
        page: &mut Image<PAGE>,
        Removed { places, chains, .. }: &Removed,
        frees: &mut RangeFrees<'p, PAGE>,
    ) {
        if places.len() == page.count() {
            let (lower, upper) = (page.lower().to_vec(), page.upper().to_vec());
            page.begin::<C>(first_leaf::<C>(), &lower, &upper);
        } else {
            // From behind, since those behind a sorted slot move.
            places.iter().rev().for_each(|&place| page.take::<C>(place));
        }
        self.store_node(&mut leaf_latch.latch, page);
        self.keys.add(-(places.len() as i64));
        for chain in chains {
            self.release_with_range(chain, frees, &leaf_latch.operation);
        }
    }
}
