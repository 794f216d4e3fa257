//! Insertions, replacements and removals: all of them are [`BTreeIndex::update`].

use hedgerow_index::{Decision, ValuePart};
use hedgerow_pages::{Error, ExclusiveLatch, Operation, Pages, Pool, Result, Stop, ViewMut};

use super::contention::Contention;
use super::descend::SearchTarget;
use super::prefetched::{self, LikelyPlace};
use super::read::{chance, shown_bytes};
use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::chain::{Chain, NewRecord};
use crate::node::edit::Edit;
use crate::node::key::{CutKey, layer_root};
use crate::node::layout::{Kind, Payload, Record};
use crate::node::leaf::{FormOf, put_in_gap, take_from};
use crate::node::page::{COUNTER_AT, Image};
use crate::restructure::NodeRef;

/// Where a key is or would be: in a leaf that is latched, within an operation.
struct Site<'p, 'k, const PAGE: usize> {
    // Dropped in this order: an operation ends after its latches.
    latch: ExclusiveLatch<'p, PAGE>,
    operation: Operation<'p>,
    /// The root of the layer, if it is not the first.
    layer: Option<NodeRef>,
    /// Whether the leaf is the root of its layer.
    is_root: bool,
    /// Whether another thread was writing to the leaf when it was asked for.
    waited: bool,
    cut: CutKey<'k>,
    place: usize,
    record: Option<Record>,
}

/// What is at a site.
enum Found {
    Absent,
    /// The value is in the leaf.
    Inline,
    /// The value, from an offset on, in overflow pages.
    Chained(Vec<u8>, usize),
    /// A longer key with the same key prefix, alone there.
    Other,
}

/// A value whose bytes are not all in its leaf.
struct ChainedValue<'v> {
    chain: Chain,
    value: &'v [u8],
}

/// Whether a value could be stored in its leaf as that is.
enum PutInPlace {
    Done,
    /// It could not; the change counts for the choice of the leaf's form, or not.
    Not {
        counted: bool,
    },
}

/// What is left to do after a change, without any latch.
#[derive(Clone, Copy)]
enum FollowUp {
    None,
    /// The leaf became so empty that it may go.
    Merge,
    /// Writers wait for each other at the leaf.
    Split,
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Atomically replaces, inserts or removes one key.
    ///
    /// `decide` receives the present value (if any) and a buffer, empty at each call; for
    /// [`Decision::Put`] the bytes in the buffer become the value. It is called again when a leaf
    /// had to be split first: only the last call counts. It runs while the leaf is latched.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read or give. A call that fails changed nothing.
    pub fn update<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> std::result::Result<R, Error> {
        self.update_part(key, ValuePart::Whole, new, decide)
    }

    /// [`update`](Self::update) which shows `decide` the present value or its head: a long value is
    /// replaced or removed by its head without being read.
    ///
    /// # Errors
    ///
    /// As for [`update`](Self::update).
    pub fn update_part<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> std::result::Result<R, Error> {
        let shown = shown_bytes(part);
        let prefetched = prefetched::take(self.number, key);
        let mut prefetched = prefetched.as_ref();
        let (result, follow_up) = self.repeat(|| {
            let site = self.site(key, prefetched.take())?;
            self.change(site, new, shown, &mut decide)
        })?;
        self.finish(key, follow_up);
        Ok(result)
    }

    /// Does what is left to do after a change.
    #[inline(always)]
    fn finish(&self, key: &[u8], follow_up: FollowUp) {
        self.apply_frees_if_many();
        match follow_up {
            FollowUp::None => {}
            FollowUp::Merge => self.merge_all_around(key),
            FollowUp::Split => self.split_contended(key),
        }
    }

    /// Whether a site's leaf is one that writers wait for, as far as this one is looked at.
    #[inline(always)]
    fn sample(&self, site: &Site<'_, '_, PAGE>) -> FollowUp {
        let splits = self.contention.as_ref().is_some_and(|contention| {
            let pool: &Pool<PAGE> = &self.pool;
            let leaf = pool.id(&site.latch);
            Contention::samples() && contention.count(leaf, site.cut.key_prefix, site.waited)
        });
        if splits {
            FollowUp::Split
        } else {
            FollowUp::None
        }
    }

    /// Stores a value; true if the key is new.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read or give. A call that fails changed nothing.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> std::result::Result<bool, Error> {
        let prefetched = prefetched::take(self.number, key);
        let mut prefetched = prefetched.as_ref();
        let (is_new, follow_up) = self.repeat(|| {
            let site = self.site(key, prefetched.take())?;
            let is_new = match self.found(&site, 0)? {
                Found::Inline | Found::Chained(..) => false,
                Found::Absent => true,
                Found::Other => {
                    self.make_layer(site)?;
                    return Err(Stop::Restart);
                }
            };
            let follow_up = self.put(site, value)?;
            Ok((is_new, follow_up))
        })?;
        self.finish(key, follow_up);
        Ok(is_new)
    }

    /// Removes a key; true if it was there.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read. A call that fails changed nothing.
    pub fn remove(&self, key: &[u8]) -> std::result::Result<bool, Error> {
        let prefetched = prefetched::take(self.number, key);
        let mut prefetched = prefetched.as_ref();
        let (present, follow_up) = self.repeat(|| {
            let site = self.site(key, prefetched.take())?;
            match self.found(&site, 0)? {
                Found::Inline | Found::Chained(..) => Ok((true, self.take(site)?)),
                Found::Absent | Found::Other => Ok((false, FollowUp::None)),
            }
        })?;
        self.finish(key, follow_up);
        Ok(present)
    }

    /// Goes down to the leaf of a key, through layers. Begins at the leaf that a prefetch found, if
    /// any.
    fn site<'p, 'k>(
        &'p self,
        key: &'k [u8],
        mut prefetched: Option<&LikelyPlace>,
    ) -> Result<Site<'p, 'k, PAGE>> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut layer, mut cut) = (None, Self::cut(key));
        loop {
            let descended;
            let leaf = if let Some(likely) = prefetched {
                &likely.leaf
            } else {
                let root = self.root_of(layer)?;
                descended = self.descend(root, SearchTarget::Key(cut.key_prefix))?;
                &descended
            };
            let operation = pool.begin();
            let latch = match self.latch_exclusive(leaf) {
                Ok(latch) => latch,
                // The page may be another's by now, and why it cannot be read is not ours to say.
                Err(_) if prefetched.is_some() => return Err(Stop::Restart),
                Err(stop) => return Err(stop),
            };
            let likely = prefetched.take().and_then(|likely| likely.index);
            let page = image(&latch);
            let (place, present) = page.locate_likely::<C>(cut.key_prefix, likely);
            let record = present.then(|| page.leaf_record::<C>(place));
            if let Some(record) = record
                && record.kind == Kind::Layer
            {
                layer = Some(self.snapshot_layer_root(layer_root(page.payload(record)))?);
                cut = Self::cut(cut.rest.unwrap_or(&[]));
                continue;
            }
            // Most wait while the descent takes the leaf's snapshot, and find it free afterwards.
            let waited = leaf.at.snapshot.waited() || latch.waited();
            return Ok(Site {
                is_root: leaf.above.is_none(),
                waited,
                latch,
                operation,
                layer,
                cut,
                place,
                record,
            });
        }
    }

    /// The root of a layer, or of the first.
    #[inline(always)]
    fn root_of(&self, layer: Option<NodeRef>) -> Result<NodeRef> {
        layer.map_or_else(|| self.snapshot_root(), Ok)
    }

    /// Asks what to do at a site and does it. Says also what is left to do.
    #[inline(always)]
    fn change<'p, R>(
        &'p self,
        site: Site<'p, '_, PAGE>,
        new: &mut Vec<u8>,
        shown: usize,
        decide: &mut impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> Result<(R, FollowUp)> {
        new.clear();
        let found = self.found(&site, shown)?;
        let decision = match (&found, site.record) {
            (Found::Inline, Some(record)) => {
                decide(Some(image(&site.latch).payload(record).bytes), new)
            }
            (Found::Chained(bytes, from), _) => decide(Some(&bytes[*from..]), new),
            _ => decide(None, new),
        };
        let present = matches!(found, Found::Inline | Found::Chained(..));
        match decision {
            Decision::Keep(result) => Ok((result, FollowUp::None)),
            Decision::Put(_) if matches!(found, Found::Other) => {
                self.make_layer(site)?;
                Err(Stop::Restart)
            }
            Decision::Put(result) => {
                let follow_up = self.put(site, new)?;
                Ok((result, follow_up))
            }
            Decision::Remove(result) if present => Ok((result, self.take(site)?)),
            Decision::Remove(result) => Ok((result, FollowUp::None)),
        }
    }

    /// What is at a site. Overflow pages are read as far as they have the rest of a key and the
    /// first `shown` bytes of the value.
    fn found(&self, site: &Site<'_, '_, PAGE>, shown: usize) -> Result<Found> {
        let Some(record) = site.record else {
            return Ok(Found::Absent);
        };
        if record.kind == Kind::Inline {
            return Ok(Found::Inline);
        }
        let payload = image(&site.latch).payload(record);
        let key_len = Chain::read::<PAGE>(payload).key_len;
        let bytes = self.load_chain(payload, key_len.saturating_add(shown))?;
        if bytes[..key_len] == *site.cut.rest.unwrap_or(&[]) {
            Ok(Found::Chained(bytes, key_len))
        } else {
            Ok(Found::Other)
        }
    }

    /// Stores a value at a site; restarts after making room if there is none.
    #[inline(always)]
    fn put<'p>(&'p self, mut site: Site<'p, '_, PAGE>, value: &[u8]) -> Result<FollowUp> {
        let follow_up = self.sample(&site);
        if let PutInPlace::Not { counted } = self.put_in_place(&mut site, value)? {
            self.put_anew(site, value, counted)?;
        }
        Ok(follow_up)
    }

    /// Stores a value in place of one of its length, or a record where there is a gap for it: most
    /// changes.
    #[inline(always)]
    fn put_in_place<'p>(
        &'p self,
        site: &mut Site<'p, '_, PAGE>,
        value: &[u8],
    ) -> Result<PutInPlace> {
        let (place, key_prefix) = (site.place, site.cut.key_prefix);
        let inline = site.cut.fits(value, Self::KEY_PREFIX_BYTES);
        let is_chained = site.record.is_some_and(|old| old.kind != Kind::Inline);
        let mut pool: &Pool<PAGE> = &self.pool;
        if inline
            && !is_chained
            && let Some(old) = site.record
            && old.value_len == value.len()
        {
            let mut page = Pages::change(&mut pool, &mut site.latch, &site.operation)?;
            page.put(old.value_at, value);
            return Ok(PutInPlace::Done);
        }
        let payload = Payload {
            kind: Kind::Inline,
            bytes: value,
        };
        let page = image(&site.latch);
        let counted = counts::<C, PAGE>(page);
        if !inline
            || is_chained
            || !page.has_gap::<C>(place, key_prefix, payload)
            || converts::<C, PAGE>(page, counted)
        {
            return Ok(PutInPlace::Not { counted });
        }
        let mut change = Pages::change(&mut pool, &mut site.latch, &site.operation)?;
        if site.record.is_some() {
            take_from::<C, PAGE>(&mut change, place);
        } else {
            self.keys.add(1);
        }
        put_in_gap::<C, PAGE>(&mut change, place, key_prefix, payload);
        lower_counter(&mut change, counted);
        Ok(PutInPlace::Done)
    }

    /// Stores a value at a site by a new image of the leaf.
    #[inline(never)]
    fn put_anew<'p>(&'p self, site: Site<'p, '_, PAGE>, value: &[u8], counted: bool) -> Result<()> {
        let cut = site.cut;
        if cut.fits(value, Self::KEY_PREFIX_BYTES) {
            let payload = Payload {
                kind: Kind::Inline,
                bytes: value,
            };
            return self.put_payload(site, payload, None, counted);
        }
        // What the record will be, but for the numbers of pages.
        let chain = Chain::plan::<PAGE>(cut, value, Self::KEY_PREFIX_BYTES);
        let head = cut.rest.unwrap_or(&[]).iter().chain(value).take(chain.head);
        let record = chain.new_record(&head.copied().collect::<Vec<u8>>());
        let chained = Some(ChainedValue { chain, value });
        self.put_payload(site, record.payload(), chained, counted)
    }

    /// Stores a record at a site; of a chained value, its chain first.
    fn put_payload<'p>(
        &'p self,
        mut site: Site<'p, '_, PAGE>,
        payload: Payload<'_>,
        chained: Option<ChainedValue<'_>>,
        counted: bool,
    ) -> Result<()> {
        let cut = site.cut;
        let mut page = image(&site.latch).clone();
        if site.record.is_some() {
            page.take::<C>(site.place);
        }
        if !page.add::<C>(site.place, cut.key_prefix, payload) {
            let layer = site.layer;
            drop(site);
            self.make_room(self.root_of(layer)?, cut.key_prefix, payload)?;
            return Err(Stop::Restart);
        }
        let old = site.chain();
        self.prepare(&mut site.latch, &site.operation)?;
        if let Some(ChainedValue { chain, value }) = chained {
            let new_record = self.store_chain(chain, cut, value, &site.operation)?;
            let record = page.find::<C>(cut.key_prefix).expect("just added");
            let done = page.overwrite(record, new_record.payload());
            assert!(done, "as long as it was");
        }
        self.count_write(&mut page, counted);
        self.store_node(&mut site.latch, &page);
        if site.record.is_none() {
            self.keys.add(1);
        }
        self.release_old(old, &site.operation);
        Ok(())
    }

    /// Gives back what a record named that is gone. What cannot be read of it stays in use: the
    /// change is made.
    pub(super) fn release_old<'p>(&'p self, chain: Option<Chain>, operation: &Operation<'p>) {
        if let Some(chain) = chain {
            let _ = self.release_chain(&chain, operation);
        }
    }

    /// Counts a change of a leaf that is being made.
    fn count_write(&self, page: &mut Image<PAGE>, counted: bool) {
        if counted {
            let mut conversions = Conversions::default();
            page.lower_counter::<C>(&mut conversions);
            self.conversions().absorb(&conversions);
        }
    }

    /// Removes the record at a site.
    fn take<'p>(&'p self, mut site: Site<'p, '_, PAGE>) -> Result<FollowUp> {
        let follow_up = self.sample(&site);
        let page = image(&site.latch);
        let counted = counts::<C, PAGE>(page);
        let old = site.chain();
        let mut pool: &Pool<PAGE> = &self.pool;
        if converts::<C, PAGE>(page, counted) {
            let mut page = page.clone();
            page.take::<C>(site.place);
            self.count_write(&mut page, counted);
            self.prepare_removal(&mut site.latch, &site.operation)?;
            self.store_node(&mut site.latch, &page);
        } else {
            self.prepare_removal(&mut site.latch, &site.operation)?;
            let mut change = Pages::touch(&mut pool, &mut site.latch);
            take_from::<C, PAGE>(&mut change, site.place);
            lower_counter(&mut change, counted);
        }
        self.keys.add(-1);
        self.sample_removal();
        self.release_old(old, &site.operation);
        let page = image(&site.latch);
        let sparse = if site.is_root {
            site.layer.is_some() && page.count() == 0
        } else {
            page.sparse::<C>()
        };
        Ok(if sparse { FollowUp::Merge } else { follow_up })
    }

    /// Turns the lone long key of a key prefix into a layer of one key.
    fn make_layer<'p>(&'p self, mut site: Site<'p, '_, PAGE>) -> Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let record = site.record.expect("a lone long key has a record");
        let payload = image(&site.latch).payload(record);
        let chain = Chain::read::<PAGE>(payload);
        let bytes = self.load_chain(payload, usize::MAX)?;
        let (key, value) = bytes.split_at(chain.key_len);
        self.prepare(&mut site.latch, &site.operation)?;
        let mut latch = pool.allocate(&site.operation)?;
        let mut below = Image::<PAGE>::zeroed();
        below.start::<C>();
        if let Err(error) = self.put_first(&mut below, key, value, &site.operation) {
            pool.release(latch, &site.operation)?;
            return Err(error);
        }
        self.store_node(&mut latch, &below);
        let layer = pool.id(&latch);
        drop(latch);
        let record = NewRecord::layer(layer.0);
        let mut page = image(&site.latch).clone();
        page.take::<C>(site.place);
        let done = page.add::<C>(site.place, site.cut.key_prefix, record.payload());
        assert!(done, "shorter than what was there");
        self.store_node(&mut site.latch, &page);
        self.release_old(Some(chain), &site.operation);
        Ok(())
    }

    /// Puts a record into an empty leaf.
    fn put_first<'p>(
        &'p self,
        page: &mut Image<PAGE>,
        key: &[u8],
        value: &[u8],
        operation: &Operation<'p>,
    ) -> Result<()> {
        let cut = Self::cut(key);
        let new_record;
        let payload = if cut.fits(value, Self::KEY_PREFIX_BYTES) {
            Payload {
                kind: Kind::Inline,
                bytes: value,
            }
        } else {
            let chain = Chain::plan::<PAGE>(cut, value, Self::KEY_PREFIX_BYTES);
            new_record = self.store_chain(chain, cut, value, operation)?;
            new_record.payload()
        };
        let (place, _) = page.locate::<C>(cut.key_prefix);
        let done = page.add::<C>(place, cut.key_prefix, payload);
        assert!(done, "an empty leaf takes any record");
        Ok(())
    }
}

/// Whether this change of a leaf counts for the choice of its form.
#[inline(always)]
fn counts<C: Configuration, const PAGE: usize>(page: &Image<PAGE>) -> bool {
    // As a signed byte, a disabled counter is negative.
    C::LEAVES.adaptive()
        && (page.counter() as u8).cast_signed() > 0
        && chance(C::THRESHOLDS.point_counts)
}

/// Whether a change that counts gives the leaf another form.
#[inline(always)]
fn converts<C: Configuration, const PAGE: usize>(page: &Image<PAGE>, counted: bool) -> bool {
    counted && page.counter() == 1 && page.form::<C>() == FormOf::Comparison
}

/// Counts a change that gives the leaf no other form.
#[inline(always)]
fn lower_counter<const PAGE: usize>(page: &mut impl Edit<PAGE>, counted: bool) {
    if counted {
        let counter = page.node().counter() as u8;
        page.put_u8(COUNTER_AT, counter - 1);
    }
}

impl<const PAGE: usize> Site<'_, '_, PAGE> {
    /// The chain of the record that is there.
    fn chain(&self) -> Option<Chain> {
        let record = self.record?;
        let chained = matches!(record.kind, Kind::Overflow | Kind::Long);
        chained.then(|| Chain::read::<PAGE>(image(&self.latch).payload(record)))
    }
}
