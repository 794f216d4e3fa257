//! The tree for one writer, whose pages are all in memory.
//!
//! The lab measures the paper's layouts with it: it has no latches, no versions and no pool, so the
//! difference to [`BTreeIndex`](crate::BTreeIndex) is what these cost. The database does not use
//! it.

mod adapt;
mod bulk;
mod get_many;
mod pages;
mod placed_nodes;
mod restructure;
mod scan;
mod statistics;

use std::marker::PhantomData;

use hedgerow_index::Decision;
use hedgerow_memory::Placement;

use self::pages::{Owned, OwnedOverflow, OwnedPages};
use crate::configuration::{Configuration, Hints};
use crate::node::adapt::{Conversions, Sampler};
use crate::node::chain::{Chain, NewRecord};
use crate::node::key::{CutKey, key_prefix_bytes, layer_root};
use crate::node::layout::{Kind, Payload, Record};
use crate::node::overflow;
use crate::node::page::PageNumber;
use crate::node::search::Node;
use crate::node::shared_overflow::KnownFreeSlots;
use crate::node::slotted::Comparison;

/// An ordered map from byte strings to byte strings, for one writer.
///
/// `C` chooses the optimisations and `PAGE` the size of a node in bytes: a power of two from 512
/// (or 256 with heads of at most four bytes) to 65536.
#[derive(Debug)]
pub struct BTree<C = Hints, const PAGE: usize = 4096> {
    pages: OwnedPages<PAGE>,
    root: PageNumber,
    len: usize,
    /// The key that a scan puts together, and its way from the root: kept for the next scan.
    scan_key: Vec<u8>,
    scan_path: PagePath,
    conversions: Conversions,
    /// What adaption draws for point operations, and for scans.
    point_sampler: Sampler,
    scan_sampler: Sampler,
    known_slots: KnownFreeSlots,
    configuration: PhantomData<C>,
}

impl<C: Configuration, const PAGE: usize> Default for BTree<C, PAGE> {
    fn default() -> Self {
        Self::with_placement(Placement::Segregated)
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// An empty tree whose pages come from there. Segregated ones, as those of the default, lie
    /// side by side in superpages of the tree's own, or while they are few in one block; a page's
    /// number then says where it is. Others have a block each, and every step down looks its page
    /// up in a table.
    #[must_use]
    pub fn with_placement(placement: Placement) -> Self {
        const { assert!(Self::KEY_PREFIX_BYTES >= 12, "the page is too small") };
        let mut pages = OwnedPages::new(placement);
        let root = pages.allocate();
        pages.page_mut(root).start::<C>();
        Self {
            pages,
            root,
            len: 0,
            scan_key: Vec::new(),
            scan_path: PagePath::new(),
            conversions: Conversions::default(),
            point_sampler: Sampler::default(),
            scan_sampler: Sampler::default(),
            known_slots: KnownFreeSlots::default(),
            configuration: PhantomData,
        }
    }
}

/// Inner nodes and the indices of children, from a root downwards.
type PagePath = Vec<(PageNumber, usize)>;

/// Where a key prefix is or would be in its leaf.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    /// The record that is there.
    record: Option<Record>,
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Bytes after which keys are cut: about an eighth of a page.
    pub(crate) const KEY_PREFIX_BYTES: usize = key_prefix_bytes::<C, PAGE>();

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn cut(key: &[u8]) -> CutKey<'_> {
        CutKey::at(key, Self::KEY_PREFIX_BYTES)
    }

    /// The leaf that covers a key prefix.
    #[inline(always)]
    fn leaf_of(&self, root: PageNumber, key_prefix: &[u8]) -> PageNumber {
        let mut page = root;
        loop {
            let image = self.pages.page(page);
            image.prefetch_first();
            if !image.is_inner() {
                return page;
            }
            page = image.child_for::<Comparison<C>>(key_prefix).0;
        }
    }

    /// Runs `read` on the value of `key` and returns its result, or `None` when absent.
    ///
    /// The value is not copied, unless it lies in overflow pages. A lookup may give its leaf
    /// another form, which is why this takes the tree.
    #[inline]
    pub fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (mut root, mut cut) = (self.root, Self::cut(key));
        loop {
            let page = self.leaf_of(root, cut.key_prefix);
            self.count_point(page);
            let image = self.pages.page(page);
            let payload = image.payload(image.find::<C>(cut.key_prefix)?);
            match payload.kind {
                Kind::Inline => return Some(read(payload.bytes)),
                Kind::Layer => {
                    root = layer_root(payload);
                    cut = Self::cut(cut.rest.unwrap_or(&[]));
                }
                _ => return self.get_chained(payload, cut, read),
            }
        }
    }

    #[cold]
    fn get_chained<R>(
        &self,
        payload: Payload<'_>,
        cut: CutKey<'_>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let (bytes, key_len) = self.load_chain(payload);
        let (rest, value) = bytes.split_at(key_len);
        (rest == cut.rest.unwrap_or(&[])).then(|| read(value))
    }

    /// Stores a value; true if the key is new.
    ///
    /// # Panics
    ///
    /// When the key is longer than 4 GiB, or all 2³² pages are in use.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        let new = self.insert_below(self.root, key, value);
        self.len += usize::from(new);
        new
    }

    /// [`insert`](Self::insert) into a layer, or one below it.
    fn insert_below(&mut self, mut root: PageNumber, mut key: &[u8], value: &[u8]) -> bool {
        loop {
            let cut = Self::cut(key);
            let page = self.leaf_of(root, cut.key_prefix);
            self.count_point(page);
            let image = self.pages.page(page);
            let (index, present) = image.locate::<C>(cut.key_prefix);
            if !present {
                let record = None;
                self.put_record(root, page, cut, Place { index, record }, value);
                return true;
            }
            let record = image.leaf_record::<C>(index);
            let payload = image.payload(record);
            if payload.kind == Kind::Layer {
                root = layer_root(payload);
                key = cut.rest.unwrap_or(&[]);
                continue;
            }
            if self.is_of(payload, cut) {
                let record = Some(record);
                self.put_record(root, page, cut, Place { index, record }, value);
                return false;
            }
            root = self.make_layer(root, page, cut.key_prefix);
            key = cut.rest.unwrap_or(&[]);
        }
    }

    /// Whether a record under the key prefix of a key, no layer, is that of the key: a long key may
    /// have a key prefix of which another is alone so far.
    fn is_of(&self, payload: Payload<'_>, cut: CutKey<'_>) -> bool {
        if payload.kind != Kind::Long {
            return true;
        }
        let key_len = Chain::read::<PAGE>(payload).key_len;
        let Ok(rest) = overflow::load(&Owned(&self.pages), payload, key_len);
        cut.rest == Some(&rest)
    }

    /// What a record of overflow pages names: the rest of a key, of so many bytes, and a value.
    fn load_chain(&self, payload: Payload<'_>) -> (Vec<u8>, usize) {
        let Ok(bytes) = overflow::load(&Owned(&self.pages), payload, usize::MAX);
        (bytes, Chain::read::<PAGE>(payload).key_len)
    }

    /// The pages, to take some and give some back.
    fn overflow(&mut self) -> OwnedOverflow<'_, PAGE> {
        OwnedOverflow {
            pages: &mut self.pages,
            known_slots: &mut self.known_slots,
            tree: self.root,
        }
    }

    /// Puts a value under a key prefix, in `page` if it fits there.
    #[inline]
    fn put_record(
        &mut self,
        root: PageNumber,
        page: PageNumber,
        cut: CutKey<'_>,
        place: Place,
        value: &[u8],
    ) {
        if cut.fits(value, Self::KEY_PREFIX_BYTES) {
            let payload = Payload {
                kind: Kind::Inline,
                bytes: value,
            };
            return self.put_payload(root, page, cut.key_prefix, place, payload);
        }
        let chain = Chain::plan::<PAGE>(cut, value, Self::KEY_PREFIX_BYTES);
        let Ok(record) = overflow::store(&mut self.overflow(), chain, cut, value);
        self.put_payload(root, page, cut.key_prefix, place, record.payload());
    }

    #[inline]
    fn put_payload(
        &mut self,
        root: PageNumber,
        page: PageNumber,
        key_prefix: &[u8],
        place: Place,
        payload: Payload<'_>,
    ) {
        let Place { index, record } = place;
        if let Some(old) = record {
            self.release_chain(page, old);
            let image = self.pages.page_mut(page);
            if image.overwrite(old, payload) {
                return;
            }
            image.take::<C>(index);
        }
        if !self
            .pages
            .page_mut(page)
            .add::<C>(index, key_prefix, payload)
        {
            self.split_and_put(root, key_prefix, payload);
        }
    }

    /// Adds a record whose leaf has no room.
    #[cold]
    fn split_and_put(&mut self, root: PageNumber, key_prefix: &[u8], payload: Payload<'_>) {
        loop {
            self.make_room(root, key_prefix, payload);
            let page = self.leaf_of(root, key_prefix);
            let image = self.pages.page_mut(page);
            let (index, _) = image.locate::<C>(key_prefix);
            if image.add::<C>(index, key_prefix, payload) {
                return;
            }
        }
    }

    /// Gives back the overflow pages of a record.
    fn release_chain(&mut self, page: PageNumber, record: Record) {
        if matches!(record.kind, Kind::Overflow | Kind::Long) {
            let chain = Chain::read::<PAGE>(self.pages.page(page).payload(record));
            let Ok(()) = overflow::release(&mut self.overflow(), &chain);
        }
    }

    /// Turns the lone long key of a key prefix into a layer of one key, and returns its root.
    fn make_layer(&mut self, root: PageNumber, page: PageNumber, key_prefix: &[u8]) -> PageNumber {
        let image = self.pages.page(page);
        let record = image.find::<C>(key_prefix).expect("found before");
        let (bytes, key_len) = self.load_chain(image.payload(record));
        let (rest, value) = bytes.split_at(key_len);
        let layer = self.pages.allocate();
        self.pages.page_mut(layer).start::<C>();
        self.insert_below(layer, rest, value);
        let image = self.pages.page(page);
        let index = image.index_of::<C>(key_prefix).expect("found before");
        let record = Some(image.leaf_record::<C>(index));
        let new = NewRecord::layer(layer);
        let place = Place { index, record };
        self.put_payload(root, page, key_prefix, place, new.payload());
        layer
    }

    /// Removes a key; true if it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let mut above = Vec::new();
        let (mut root, mut key) = (self.root, key);
        let cut = loop {
            let cut = Self::cut(key);
            let page = self.leaf_of(root, cut.key_prefix);
            self.count_point(page);
            let image = self.pages.page(page);
            let Some(record) = image.find::<C>(cut.key_prefix) else {
                return false;
            };
            let payload = image.payload(record);
            if payload.kind == Kind::Layer {
                above.push((root, cut.key_prefix));
                root = layer_root(payload);
                key = cut.rest.unwrap_or(&[]);
                continue;
            }
            if !self.is_of(payload, cut) {
                return false;
            }
            self.release_chain(page, record);
            break cut;
        };
        self.len -= 1;
        self.drop_record(root, cut.key_prefix);
        // A layer that lost its last key goes, and its record in the layer above with it.
        while let Some((upper_root, key_prefix)) = above.pop() {
            let image = self.pages.page(root);
            if image.is_inner() || image.count() > 0 {
                break;
            }
            self.pages.release(root);
            self.drop_record(upper_root, key_prefix);
            root = upper_root;
        }
        true
    }

    /// Takes a record out of its leaf, and merges the leaf with a neighbour if it became empty.
    fn drop_record(&mut self, root: PageNumber, key_prefix: &[u8]) {
        let page = self.leaf_of(root, key_prefix);
        let image = self.pages.page_mut(page);
        let index = image.index_of::<C>(key_prefix).expect("found before");
        image.take::<C>(index);
        if page != root && self.pages.page(page).sparse::<C>() {
            self.merge_towards(root, key_prefix);
        }
    }

    /// Replaces, inserts or removes one key by what `decide` says of its present value; `decide`
    /// leaves a new value in the buffer, which is empty when it is called.
    pub fn update<R>(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        new.clear();
        let mut decide = Some(decide);
        let mut ask = |value: Option<&[u8]>| (decide.take().expect("asked once"))(value, new);
        let decision = match self.get(key, |value| ask(Some(value))) {
            Some(decision) => decision,
            None => ask(None),
        };
        match decision {
            Decision::Keep(result) => result,
            Decision::Put(result) => {
                self.insert(key, new);
                result
            }
            Decision::Remove(result) => {
                self.remove(key);
                result
            }
        }
    }
}
