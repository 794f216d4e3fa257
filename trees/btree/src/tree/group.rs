//! Descents of a group of keys, a level at a time, so that their cache misses overlap.
//!
//! All keys step down a level, and each asks for the lines that the search of its next node begins
//! with; then all go on. At the leaves the search of each takes two more steps, between which the
//! others take theirs: by the hints to the heads, and by those to the record. What each of these
//! steps found is kept for the one after it, and what the last found, the record's likely index,
//! for the operation that the descent was for.

use hedgerow_pages::{PageId, Pages, Pool};
use hedgerow_simd::{Kernel, Operation};

use super::BTreeIndex;
use super::descend::{DEEPEST, Leaf, SearchTarget};
use crate::configuration::Configuration;
use crate::node::prefetch::{LikelyRecord, prefetch_record, prefetch_search};
use crate::node::search::{HINT_BYTES, HeadSearch};
use crate::restructure::NodeRef;

/// Keys that go down together: about as many as a core has cache misses outstanding.
pub(super) const GROUP: usize = 16;

/// Where the records of a group's keys are, or would be, by the keys' indices.
pub(super) struct Places {
    /// The leaves that were found.
    leaves: [Option<NodeRef>; GROUP],
    /// The nodes above those, or how far descents came; none of a leaf that is the root.
    above: [Option<NodeRef>; GROUP],
    /// The records in their leaves, none if a search has to tell.
    likely: [Option<LikelyRecord>; GROUP],
    /// A bit for each key whose leaf was found.
    arrived: u32,
}

impl Places {
    /// Of no key.
    pub(super) const NONE: Self = Self {
        leaves: [None; GROUP],
        above: [None; GROUP],
        likely: [None; GROUP],
        arrived: 0,
    };

    /// The leaf that covers a key, if it was found.
    #[inline(always)]
    pub(super) fn leaf(&self, index: usize) -> Option<Leaf> {
        let (at, above) = (self.leaves[index]?, self.above[index]);
        Some(Leaf { at, above })
    }

    /// The index of a key's record in its leaf, unless the leaf changed.
    #[inline(always)]
    pub(super) fn likely(&self, index: usize) -> Option<usize> {
        Some(self.likely[index]?.index)
    }

    /// Whether a key has a record, as far as its beginning tells.
    #[inline(always)]
    pub(super) fn is_there(&self, index: usize) -> bool {
        self.likely[index].is_some_and(|likely| likely.is_there)
    }

    /// The keys whose leaves were found.
    #[inline(always)]
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.arrived)
    }
}

/// The indices of the bits of a word that are set, upwards.
#[inline(always)]
fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = word.trailing_zeros();
        word &= word.checked_sub(1)?;
        Some(index as usize)
    })
}

/// [`BTreeIndex::prefetch_places`] as an operation.
struct PrefetchPlaces<'g, C, const PAGE: usize> {
    tree: &'g BTreeIndex<C, PAGE>,
    keys: &'g [&'g [u8]],
    /// Of no key before, and written to where it lies: it is large.
    places: &'g mut Places,
}

impl<C: Configuration, const PAGE: usize> Operation for PrefetchPlaces<'_, C, PAGE> {
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(self) {
        let begun = self.tree.descend_together::<K>(self.keys, self.places);
        self.tree
            .prefetch_records::<K>(self.keys, self.places, &begun);
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Finds the likely places of a group's keys, and asks for their lines. `places` are of no key
    /// before. Compiled apart from each caller's callback.
    #[inline(never)]
    pub(super) fn prefetch_places(&self, keys: &[&[u8]], places: &mut Places) {
        let tree = self;
        self.level
            .run_operation(PrefetchPlaces { tree, keys, places });
    }

    /// Goes down to the leaves of keys in the first layer, as far as nobody is in the way, and
    /// begins the searches there.
    #[inline(always)]
    fn descend_together<K: Kernel>(
        &self,
        keys: &[&[u8]],
        places: &mut Places,
    ) -> [Option<HeadSearch>; GROUP] {
        let pool: &Pool<PAGE> = &self.pool;
        let mut begun = [None; GROUP];
        let Ok(root) = self.snapshot_root() else {
            return begun;
        };
        let (mut at, mut children) = ([root; GROUP], [root.id; GROUP]);
        let mut going = (1_u32 << keys.len()) - 1;
        for depth in 0..DEEPEST {
            if depth > 0 && pool.may_miss() {
                self.load_children(&children, going);
            }
            let mut stepping = 0;
            for index in bits(going) {
                if depth > 0 {
                    let Ok(below) = self.snapshot_child(&at[index], children[index]) else {
                        continue;
                    };
                    places.above[index] = Some(at[index]);
                    at[index] = below;
                }
                let at = &at[index];
                let key_prefix = Self::cut(keys[index]).key_prefix;
                match self.child_below::<K>(at, SearchTarget::Key(key_prefix)) {
                    Ok(Some((child, _))) => {
                        pool.prefetch_lines(child, 0..HINT_BYTES);
                        children[index] = child;
                        stepping |= 1 << index;
                    }
                    Ok(None) => {
                        let page = pool.seen(&at.snapshot);
                        let search = prefetch_search::<C, K>(page, key_prefix);
                        // What makes no sense is for the operation to find out.
                        begun[index] = search.unwrap_or(None);
                        places.leaves[index] = Some(*at);
                        places.arrived |= 1 << index;
                    }
                    Err(_) => {}
                }
            }
            if stepping == 0 {
                break;
            }
            going = stepping;
        }
        // Pages that name each other in a circle led to no leaf: the operation tells of them.
        begun
    }

    /// Brings those of a group's children to memory that are named by bits.
    #[cold]
    fn load_children(&self, children: &[PageId; GROUP], named: u32) {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut ids, mut count) = ([PageId(0); GROUP], 0);
        for index in bits(named) {
            ids[count] = children[index];
            count += 1;
        }
        pool.load_many(&ids[..count]);
    }

    /// Asks for the lines of the record that the search of each leaf finds.
    #[inline(always)]
    fn prefetch_records<K: Kernel>(
        &self,
        keys: &[&[u8]],
        places: &mut Places,
        begun: &[Option<HeadSearch>; GROUP],
    ) {
        let pool: &Pool<PAGE> = &self.pool;
        for index in places.indices() {
            if let Some(leaf) = &places.leaves[index] {
                let page = pool.seen(&leaf.snapshot);
                let key_prefix = Self::cut(keys[index]).key_prefix;
                let found = prefetch_record::<C, K>(page, key_prefix, begun[index]);
                places.likely[index] = found.unwrap_or(None);
            }
        }
    }
}
