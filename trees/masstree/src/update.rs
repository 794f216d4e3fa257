//! Changing one key: find its border node, latch it, decide, apply.
//!
//! A writer descends like a reader, latches one border node, and makes sure that the node is
//! still responsible (a split may have moved the key to the right, a remove may have deleted
//! the node). Then, under the latch, the caller decides with the present value in hand:
//! `put`, `insert`, `remove`, compare-and-swap are all this one primitive.
//!
//! Applying is one store where it can be: an update stores the value word, an insert fills a
//! free slot and stores the permutation. Only reuse of a removed slot, splits, and collapses
//! make the validation of readers fail.

use std::ptr::NonNull;

use hedgerow_index::{Decision, MAX_KEY_BYTES};
use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::Version;

use crate::configuration::{Configuration, Guard, Latch};
use crate::descend::{Found, LayerEntry};
use crate::key::{Key, LONG};
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Node, ReplacedBag, SuffixBag, WIDTH};
use crate::planted::{PlantedBug, planted};
use crate::statistics::Event;
use crate::tree::{Masstree, layer_root, layer_word};
use crate::value::{Bytes, Value};

/// What a decision wants done; `R` goes back to the caller.
pub(crate) enum Change<R> {
    Keep(R),
    /// Store this word, which the slot then owns.
    Put(u64, R),
    Remove(R),
}

/// Where a key stands in the latched node.
#[derive(Clone, Copy)]
pub(crate) enum KeyMatch {
    Present(usize),
    Absent,
    /// Absent, but this slot's long key shares its slice: a layer would have to be made.
    Conflict(usize),
}

pub(crate) struct Located<'k, 'g> {
    pub node: &'g Border,
    pub key: Key<'k>,
    pub place: KeyMatch,
    /// The entry of the key's layer; `None` in the first layer.
    pub entry: Option<LayerEntry<'g>>,
}

struct Modify<'t, 'g, V: Value, C: Configuration, F> {
    tree: &'t Masstree<V, C>,
    guard: &'t C::Guard<'g>,
    key: &'t [u8],
    decide: F,
}

impl<R, V: Value, C: Configuration, F: FnOnce(Option<u64>) -> Change<R>> Task
    for Modify<'_, '_, V, C, F>
{
    type Output = R;

    #[inline(always)]
    fn run<K: Kernel>(self) -> R {
        let located = self.tree.locate::<K>(self.guard, self.key);
        self.tree.apply::<K, R>(self.guard, located, self.decide)
    }
}

/// Unlatches a node if the caller's decision panics.
struct UnlockOnUnwind<'g, C: Configuration>(&'g Border, std::marker::PhantomData<C>);

impl<C: Configuration> Drop for UnlockOnUnwind<'_, C> {
    fn drop(&mut self) {
        Latch::<C>::unlock(&self.0.version);
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Changes one key as `decide` says, given the present value word. `decide` runs once,
    /// under the border node's latch.
    ///
    /// # Panics
    ///
    /// When a key of more than [`MAX_KEY_BYTES`] is put: a node says the length of a suffix in 16
    /// bits.
    #[inline(always)]
    pub(crate) fn modify<R>(&self, key: &[u8], decide: impl FnOnce(Option<u64>) -> Change<R>) -> R {
        let decide = |present| {
            let change = decide(present);
            let fits = key.len() <= MAX_KEY_BYTES || !matches!(change, Change::Put(..));
            assert!(fits, "key of {} bytes", key.len());
            change
        };
        let guard = C::write(&self.entry);
        self.level.run(Modify {
            tree: self,
            guard: &guard,
            key,
            decide,
        })
    }

    /// Latches the node responsible for a key and says where the key stands in it.
    #[inline(always)]
    pub(crate) fn locate<'k, 'g, K: Kernel>(
        &self,
        guard: &C::Guard<'_>,
        bytes: &'k [u8],
    ) -> Located<'k, 'g> {
        'restart: loop {
            let mut key = Key::new(bytes);
            let mut root = self.root();
            let mut entry = None;
            loop {
                let Some((node, version)) = self.find_border::<K>(root, key.slice()) else {
                    self.restarted();
                    continue 'restart;
                };
                // Layers above the key's own are passed as readers do, without latching.
                if key.class() == LONG
                    && let Found::Layer(layer, above) = self.examine::<K>(node, version, &key)
                {
                    root = self.adopt_root(guard, layer, above);
                    entry = Some(above);
                    key = key.descend();
                    continue;
                }
                let Some(node) = self.latch_responsible(node, version, key.slice()) else {
                    self.restarted();
                    continue 'restart;
                };
                let place = match_latched::<K>(node, &key);
                if let KeyMatch::Present(slot) = place
                    && node.length(slot) == LAYER
                {
                    root = layer_root(node.value(slot));
                    entry = Some(LayerEntry { node, slot });
                    Latch::<C>::unlock(&node.version);
                    key = key.descend();
                    continue;
                }
                return Located {
                    node,
                    key,
                    place,
                    entry,
                };
            }
        }
    }

    /// Latches `node`, or the sibling that splits made responsible for `slice`; `None` if the
    /// node was deleted.
    #[inline(always)]
    pub(crate) fn latch_responsible<'g>(
        &self,
        node: &'g Border,
        version: Version,
        slice: u64,
    ) -> Option<&'g Border> {
        let latched = Latch::<C>::lock(&node.version);
        if !latched.split_since(version) {
            return Some(node);
        }
        self.latch_right(node, slice)
    }

    /// `node` is latched and split or was deleted since it was found.
    #[cold]
    #[inline(never)]
    fn latch_right<'g>(&self, node: &'g Border, slice: u64) -> Option<&'g Border> {
        let mut node = node;
        loop {
            if node.version.load().is_deleted() {
                Latch::<C>::unlock(&node.version);
                return None;
            }
            // SAFETY: a sibling of a pinned node is a pinned node.
            let next = match unsafe { node.next().as_ref() } {
                Some(next) if slice >= next.low() => next,
                _ => return Some(node),
            };
            self.counters.count(Event::Forward as usize);
            Latch::<C>::unlock(&node.version);
            Latch::<C>::lock(&next.version);
            node = next;
        }
    }

    /// The true root of a layer; if the entry above still names a node that splits have
    /// demoted, brings it up to date (§4.6.4: "updated lazily during later operations").
    #[inline(always)]
    fn adopt_root(
        &self,
        guard: &C::Guard<'_>,
        layer: *mut Node,
        entry: LayerEntry<'_>,
    ) -> *mut Node {
        // SAFETY: a layer pointer read under the guard is a pinned node.
        if unsafe { &(*layer).version }.load().is_root() {
            return layer;
        }
        self.replace_root(guard, layer, entry)
    }

    #[cold]
    #[inline(never)]
    fn replace_root(
        &self,
        guard: &C::Guard<'_>,
        layer: *mut Node,
        entry: LayerEntry<'_>,
    ) -> *mut Node {
        let Some((root, _)) = self.true_root(layer) else {
            return layer; // gone: the descent will notice and restart
        };
        let LayerEntry { node: above, slot } = entry;
        Latch::<C>::lock(&above.version);
        let current = !above.version.load().is_deleted()
            && above.replacement().is_null()
            && above.permutation().is_live(slot)
            && above.length(slot) == LAYER
            && above.value(slot) == layer_word(layer);
        if current {
            // One aligned store; old and new root both lead to the layer. The new one is an
            // ancestor of the layer's first border node, as every root is, so like the old
            // one it lives as long as the layer.
            above.set_value(slot, layer_word(root));
        }
        Latch::<C>::unlock(&above.version);
        if current {
            self.retire_forwarding(guard, layer, root);
        }
        root
    }

    #[inline(always)]
    fn apply<K: Kernel, R>(
        &self,
        guard: &C::Guard<'_>,
        located: Located<'_, '_>,
        decide: impl FnOnce(Option<u64>) -> Change<R>,
    ) -> R {
        let Located {
            node,
            key,
            place,
            entry,
        } = located;
        let unlock = UnlockOnUnwind::<C>(node, std::marker::PhantomData);
        let present = match place {
            KeyMatch::Present(slot) => Some(node.value(slot)),
            _ => None,
        };
        let change = decide(present);
        std::mem::forget(unlock);
        match (change, place) {
            (Change::Put(word, result), KeyMatch::Present(slot)) => {
                node.set_value(slot, word);
                Latch::<C>::unlock(&node.version);
                self.retire_value(guard, present);
                result
            }
            (Change::Put(word, result), KeyMatch::Absent) => {
                self.insert::<K>(guard, node, &key, word, entry);
                result
            }
            (Change::Put(word, result), KeyMatch::Conflict(slot)) => {
                self.make_layer(node, slot, &key, word);
                result
            }
            (Change::Remove(result), KeyMatch::Present(slot)) => {
                let collapsible = self.remove_slot(guard, node, slot, &key);
                self.retire_value(guard, present);
                self.collapse_after_removal(guard, collapsible.then(|| key.prefix()));
                result
            }
            (Change::Keep(result) | Change::Remove(result), _) => {
                Latch::<C>::unlock(&node.version);
                result
            }
        }
    }

    #[inline(always)]
    fn retire_value(&self, guard: &C::Guard<'_>, word: Option<u64>) {
        if V::OWNING
            && let Some(word) = word
        {
            // SAFETY: the word left its slot for good under the latch, and lives until it is
            // released; readers that loaded it are covered by the guard's promise.
            unsafe { guard.retire(V::owned_bytes(word), move || V::release(word)) }
        }
    }

    /// Puts a new key into the latched node (splitting it when full) and unlatches it.
    #[inline(always)]
    fn insert<K: Kernel>(
        &self,
        guard: &C::Guard<'_>,
        node: &Border,
        key: &Key<'_>,
        word: u64,
        entry: Option<LayerEntry<'_>>,
    ) {
        let permutation = node.permutation();
        let index = index_for::<K>(node, key);
        if permutation.count() == node.width() {
            if node.is_narrow() {
                self.widen(node, key, index, word);
                if let Some(entry) = entry {
                    self.replace_root(guard, node.as_node(), entry);
                }
            } else {
                self.split_border(guard, node, key, index, word);
            }
            return;
        }
        let (slot, permutation) = permutation.insert(index);
        let removed = node.removed();
        if removed & (1 << slot) != 0 {
            if !planted(PlantedBug::ReuseNotCounted) {
                Latch::<C>::mark_inserting(&node.version);
            }
            node.set_removed(removed & !(1 << slot));
            self.counters.count(Event::SlotReuse as usize);
        }
        let class = key.class();
        let replaced = match class {
            LONG => self.store_suffix(node, slot, key.suffix()),
            _ => None,
        };
        node.fill(slot, key.slice(), class, word);
        node.publish(permutation);
        Latch::<C>::unlock(&node.version);
        self.retire_bag(guard, replaced);
    }

    /// Gives `slot` a suffix, moving to a larger external bag when the present one is full. That
    /// has no suffix for any other slot than those of live long keys; see [`Border::suffix`]. The
    /// bag that was replaced is the caller's to retire, if that was external.
    pub(crate) fn store_suffix(
        &self,
        node: &Border,
        slot: usize,
        suffix: &[u8],
    ) -> Option<ReplacedBag> {
        let bag = node.bag();
        // SAFETY: the latched node's bag is alive, and the latch makes us its only writer.
        if !bag.is_null() && unsafe { SuffixBag::append(bag, slot, suffix) } {
            return None;
        }
        self.counters.count(Event::SuffixGrowth as usize);
        let permutation = node.permutation();
        let live: Vec<(usize, &[u8])> = (0..permutation.count())
            .map(|index| permutation.slot(index))
            .filter(|&other| other != slot && node.length(other) == SUFFIX)
            .filter_map(|other| {
                // SAFETY: as above.
                Some((other, unsafe { node.suffix(other) }?))
            })
            .chain([(slot, suffix)])
            .collect();
        let bytes: usize = live.iter().map(|(_, suffix)| suffix.len()).sum();
        let room = bytes + bytes / 2;
        let bag = SuffixBag::allocate(self.blocks, SuffixBag::lines_for(room, WIDTH));
        for (slot, suffix) in live {
            // SAFETY: the new bag is ours alone until it is published.
            let fits = unsafe { SuffixBag::append(bag, slot, suffix) };
            assert!(fits, "a new suffix bag is made large enough");
        }
        let replaced = node.external_bag();
        node.set_bag(bag);
        NonNull::new(replaced).map(ReplacedBag)
    }

    /// Retires a bag. The caller holds no latches: what was deferred elsewhere may run here and
    /// now.
    pub(crate) fn retire_bag(&self, guard: &C::Guard<'_>, bag: Option<ReplacedBag>) {
        if let Some(ReplacedBag(bag)) = bag {
            let blocks = self.blocks;
            // SAFETY: the bag was reachable through its node only, which names another one; it
            // lives until it is released.
            unsafe {
                let bytes = SuffixBag::block_bytes((*bag.as_ptr()).lines());
                let bag = bag.as_ptr().expose_provenance();
                guard.retire(bytes, move || crate::release::release_bag(blocks, bag));
            }
        }
    }
}

/// Where `key` stands in a latched node.
#[inline(always)]
fn match_latched<K: Kernel>(node: &Border, key: &Key<'_>) -> KeyMatch {
    let permutation = node.permutation();
    let class = key.class();
    let mut mask = node.equal::<K>(permutation, key.slice());
    while mask != 0 {
        let slot = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        let length = node.length(slot);
        if length.min(LONG) != class || !permutation.is_live(slot) {
            continue;
        }
        if length == SUFFIX {
            // SAFETY: the node is latched and pinned.
            let same = unsafe { node.suffix(slot) } == Some(key.suffix());
            return if same {
                KeyMatch::Present(slot)
            } else {
                KeyMatch::Conflict(slot)
            };
        }
        return KeyMatch::Present(slot);
    }
    KeyMatch::Absent
}

/// The index at which `key`, which is absent, belongs in a latched node.
#[inline(always)]
fn index_for<K: Kernel>(node: &Border, key: &Key<'_>) -> usize {
    let permutation = node.permutation();
    let mut index = node.below::<K>(permutation, key.slice());
    while index < permutation.count() {
        let slot = permutation.slot(index);
        if node.slice(slot) != key.slice() || node.length(slot).min(LONG) > key.class() {
            break;
        }
        index += 1;
    }
    index
}

impl<C: Configuration> Masstree<u64, C> {
    /// Stores `value` under `key`; returns the value it replaces.
    ///
    /// # Panics
    ///
    /// For a key of more than [`MAX_KEY_BYTES`], as the other methods that put one do.
    #[inline]
    pub fn put(&self, key: &[u8], value: u64) -> Option<u64> {
        self.modify(key, |present| Change::Put(value, present))
    }

    /// Atomically changes `key`'s value to what `decide` makes of the present one: `None`
    /// removes the key (or leaves it absent). Returns the value before.
    #[inline]
    pub fn update(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<u64>) -> Option<u64>,
    ) -> Option<u64> {
        self.modify(key, |present| match decide(present) {
            Some(value) => Change::Put(value, present),
            None => Change::Remove(present),
        })
    }

    /// Removes `key`; returns the value it had.
    #[inline]
    pub fn remove(&self, key: &[u8]) -> Option<u64> {
        self.modify(key, Change::Remove)
    }
}

impl<C: Configuration> Masstree<Bytes, C> {
    /// Atomically replaces, inserts or removes one key, as [`hedgerow_index::Index::update`] does,
    /// with `decide` compiled in; returns what `decide` returned.
    #[inline]
    pub fn update_with<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        self.modify(key, |present| {
            new.clear();
            // SAFETY: the word is in its slot, whose node is latched during this call.
            let present = present.map(|word| unsafe { Bytes::load(word) });
            match decide(present, new) {
                Decision::Keep(result) => Change::Keep(result),
                Decision::Put(result) => Change::Put(Bytes::store(new), result),
                Decision::Remove(result) => Change::Remove(result),
            }
        })
    }

    /// Stores `value` under `key`; says whether the key was there before.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> bool {
        let word = Bytes::store(value);
        self.modify(key, |present| Change::Put(word, present.is_some()))
    }

    /// Removes `key`; says whether it was there.
    #[inline]
    pub fn remove(&self, key: &[u8]) -> bool {
        self.modify(key, |present| Change::Remove(present.is_some()))
    }
}
