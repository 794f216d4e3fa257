//! Many lookups at once, a level at a time: pages that are not in memory are read together.

use std::ops::Range;

use hedgerow_pages::{Error, PageId, Pages, Pool};

use super::BTreeIndex;
use super::descend::{DEEPEST, Leaf, SearchTarget};
use super::group::{GROUP, Places};
use super::prefetched::{self, LikelyPlace};
use super::read::LeafLookup;
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::layout::Kind;
use crate::node::page::{Image, node};
use crate::node::prefetch::{prefetch_heap, prefetch_keys};
use crate::node::slotted::Comparison;
use crate::restructure::NodeRef;

/// A node, and the keys whose path leads through it, by their indices.
struct Subrange {
    keys: Range<usize>,
    at: NodeRef,
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Looks up all `keys` and calls `read(i, value)` once for each `keys[i]`, in no particular
    /// order.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read; some keys were read then, others not.
    pub fn get_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(usize, Option<&[u8]>),
    ) -> std::result::Result<(), Error> {
        for (number, group) in keys.chunks(GROUP).enumerate() {
            prefetch_keys(group);
            let mut places = Places::NONE;
            self.prefetch_places(group, &mut places);
            if self.pool.may_miss() {
                self.load_values_of(group, &places);
            }
            for (index, key) in group.iter().enumerate() {
                let at = number * GROUP + index;
                let mut some = Some(|value: &[u8]| read(at, Some(value)));
                let mut found = None;
                if let Some(leaf) = places.leaf(index) {
                    let (cut, likely) = (Self::cut(key), places.likely(index));
                    match self.lookup_leaf(&leaf, cut, likely, usize::MAX, &mut some) {
                        Ok(LeafLookup::Answer(answer)) => found = Some(answer),
                        Ok(LeafLookup::Layer(_)) | Err(_) => {}
                    }
                }
                // What is in a layer, or was in somebody's way, goes down alone; so does what
                // cannot be read, to say why.
                let found = match found {
                    Some(found) => found,
                    None => self.get(key, |value| read(at, Some(value)))?,
                };
                if found.is_none() {
                    read(at, None);
                }
            }
        }
        Ok(())
    }

    /// Brings the leaves of keys to memory, all pages of a level at once, and then the pages that
    /// the keys' values have elsewhere. The thread's next writes of these keys begin at the leaves.
    pub(super) fn load_leaves(&self, keys: &[&[u8]]) {
        let pool: &Pool<PAGE> = &self.pool;
        prefetched::restart(self.number);
        for group in keys.chunks(GROUP) {
            prefetch_keys(group);
            let mut places = Places::NONE;
            self.prefetch_places(group, &mut places);
            for index in places.indices().filter(|&index| !places.is_there(index)) {
                if let Some(leaf) = places.leaf(index) {
                    // What changed meanwhile is asked for in vain.
                    let _ = prefetch_heap(pool.seen(&leaf.at.snapshot));
                }
            }
            prefetched::add(places.indices().filter_map(|index| {
                let place = LikelyPlace {
                    leaf: places.leaf(index)?,
                    index: places.likely(index),
                };
                Some((group[index], place))
            }));
            if self.pool.may_miss() {
                self.load_values_of(group, &places);
            }
        }
    }

    /// Brings the pages to memory that the values of keys have beside their leaves.
    fn load_values_of(&self, keys: &[&[u8]], places: &Places) {
        let mut pages = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            // What changed meanwhile is left to its user, as is what cannot be read.
            let latch = places
                .leaf(index)
                .and_then(|leaf| self.latch_shared(&leaf).ok());
            if let Some(latch) = latch {
                Self::name_values(node(latch.image()), key, &mut pages);
            }
        }
        // What would displace the leaves that led here, or what others read ahead, is left to its
        // user.
        pages.truncate((self.pool.limit() / 8).max(1));
        self.load_named(&mut pages);
    }

    /// Adds the pages that the value of a key has beside its leaf.
    fn name_values(page: &Image<PAGE>, key: &[u8], pages: &mut Vec<PageId>) {
        let Some(record) = page.find::<C>(Self::cut(key).key_prefix) else {
            return;
        };
        if matches!(record.kind, Kind::Overflow | Kind::Long) {
            let chain = Chain::read::<PAGE>(page.payload(record));
            pages.extend(chain.named().map(PageId));
        }
    }

    /// Brings pages to memory, each once.
    fn load_named(&self, pages: &mut Vec<PageId>) {
        let pool: &Pool<PAGE> = &self.pool;
        pages.sort_unstable_by_key(|page| page.0);
        pages.dedup();
        if !pages.is_empty() {
            pool.load_many(pages);
        }
    }

    /// Brings the leaves of ascending `keys` to memory, all pages of a level at once but no more
    /// than `most`, and then the pages that the keys' values have elsewhere, about as many as
    /// `most_of_values`: of how many keys that takes care, one at least. A hint that does not fail.
    pub fn read_ahead(&self, keys: &[&[u8]], most: usize, most_of_values: usize) -> usize {
        let pool: &Pool<PAGE> = &self.pool;
        let mut covered = keys.len();
        let mut nodes = Vec::new();
        if let Ok(at) = self.snapshot_root() {
            nodes.push(Subrange {
                keys: 0..covered,
                at,
            });
        }
        for _ in 0..DEEPEST {
            let below = self.step_down(keys, &nodes, most.max(1), &mut covered);
            if below.is_empty() {
                break;
            }
            let ids: Vec<PageId> = below.iter().map(|(_, child)| *child).collect();
            pool.load_many(&ids);
            nodes.clear();
            for (subrange, child) in below {
                if let Ok(at) = self.snapshot_child(&subrange.at, child) {
                    let keys = subrange.keys;
                    nodes.push(Subrange { keys, at });
                }
            }
        }
        self.load_values(keys, &nodes, most_of_values, &mut covered);
        covered
    }

    /// Brings the pages to memory that the values of keys have beside their leaves; `covered`
    /// becomes the number of keys before those of which there would be too many.
    fn load_values(&self, keys: &[&[u8]], leaves: &[Subrange], most: usize, covered: &mut usize) {
        let mut pages: Vec<PageId> = Vec::new();
        'leaves: for Subrange {
            keys: keys_of_leaf,
            at,
        } in leaves
        {
            let leaf = Leaf {
                at: *at,
                above: None,
            };
            // What changed meanwhile is left to its user, as is what cannot be read.
            let Ok(latch) = self.latch_shared(&leaf) else {
                continue;
            };
            let page = node(latch.image());
            let keys_of_leaf = (keys_of_leaf.start, keys_of_leaf.end.min(*covered));
            for (index, key) in keys
                .iter()
                .enumerate()
                .take(keys_of_leaf.1)
                .skip(keys_of_leaf.0)
            {
                if pages.len() >= most.max(1) {
                    *covered = index;
                    break 'leaves;
                }
                Self::name_values(page, key, &mut pages);
            }
        }
        self.load_named(&mut pages);
    }

    /// The children over runs of keys, no more than `most`; `covered` becomes the number of keys
    /// that are before those beyond.
    fn step_down(
        &self,
        keys: &[&[u8]],
        nodes: &[Subrange],
        most: usize,
        covered: &mut usize,
    ) -> Vec<(Subrange, PageId)> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut below: Vec<(Subrange, PageId)> = Vec::new();
        for node in nodes {
            let page = pool.seen(&node.at.snapshot);
            let first = below.len();
            for index in node.keys.start..node.keys.end.min(*covered) {
                let key = Self::cut(keys[index]).key_prefix;
                // A leaf has no children; what changed meanwhile is left to its user.
                let Ok(Some((child, _))) = SearchTarget::Key(key).child::<Comparison<C>>(page)
                else {
                    break;
                };
                if let Some((subrange, last)) = below[first..].last_mut()
                    && *last == child
                {
                    subrange.keys.end = index + 1;
                } else if below.len() == most {
                    *covered = index;
                    return below;
                } else {
                    let (keys, at) = (index..index + 1, node.at);
                    below.push((Subrange { keys, at }, child));
                }
            }
        }
        below
    }
}
