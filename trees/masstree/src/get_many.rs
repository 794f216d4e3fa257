//! Looking up many keys at once, overlapping their cache misses (§4.8).
//!
//! Each key is a small state machine. A step uses the node that was prefetched for it, asks
//! for the next one, and hands over to the next key; when a key is done, the next of the batch
//! takes its place, so the group stays full. Hand-over-hand validation is kept: a step first
//! loads the child's version (its line is in the cache by now) and then validates the
//! parent's snapshot. Anything out of the ordinary (a dirty or changed version, a split, an
//! unstable slot) sends the key down the single path instead, which can wait.

use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::Version;

use crate::configuration::{Configuration, Guard, Latch};
use crate::descend::{Probe, probe};
use crate::key::Key;
use crate::node::{Border, Interior, Node, prefetch};
use crate::planted::{PlantedBug, planted};
use crate::tree::Masstree;
use crate::value::{Bytes, Value};

/// Keys in flight at once.
///
/// Measured with `lab/own/examples/groups.rs` on a 2-core Zen 3 machine that was busy otherwise (3M
/// random integers, batches of 64; nanoseconds per key, single gets 1,232 in the same run):
/// 8 keys 242, 16 keys 300, 32 keys 380, 64 keys 414. More keys than the processor has
/// line-fill buffers to serve only push each other's lines out before they are used; 16 leaves
/// room for processors with more of them than this one.
const GROUP: usize = 16;

/// The state of one lookup between its steps.
struct Lookup<'k> {
    /// Which key of the batch.
    index: usize,
    key: Key<'k>,
    /// The prefetched node.
    node: *mut Node,
    /// The interior node that led there, and its version; null at a root.
    parent: *const Interior,
    parent_version: Version,
}

enum Progress {
    Running,
    Done(Option<u64>),
    /// A writer is at work, or the tree is split here: look the key up by itself.
    Contended,
}

impl Lookup<'_> {
    /// Uses the node that was prefetched and prefetches the next.
    #[inline(always)]
    fn step<K: Kernel, C: Configuration>(&mut self) -> Progress {
        // SAFETY: reached under the batch's guard, as in a single descent.
        let header = unsafe { &*self.node };
        let version = header.version.load();
        if C::CONCURRENT && (version.is_dirty() || version.is_deleted()) {
            return Progress::Contended;
        }
        // SAFETY: as above; null at a root.
        if let Some(parent) = unsafe { self.parent.as_ref() } {
            if !Latch::<C>::validate(&parent.version, self.parent_version)
                && !planted(PlantedBug::GetManyNotValidated)
            {
                return Progress::Contended;
            }
        } else if !version.is_root() {
            return Progress::Contended;
        }
        if version.is_border() {
            return self.read_border::<K, C>(version);
        }
        // SAFETY: as above, and an interior node.
        let interior = unsafe { &*self.node.cast::<Interior>() };
        let index = K::rank(&interior.slices, interior.count(), self.key.slice());
        let child = interior.child(index);
        prefetch(child);
        self.parent = interior;
        self.parent_version = version;
        self.node = child;
        Progress::Running
    }

    #[inline(always)]
    fn read_border<K: Kernel, C: Configuration>(&mut self, version: Version) -> Progress {
        // SAFETY: as in `step`, and a border node.
        let border = unsafe { &*self.node.cast::<Border>() };
        let probe = probe::<K>(border, &self.key);
        if !Latch::<C>::validate(&border.version, version) {
            return Progress::Contended;
        }
        match probe {
            Probe::Missing => Progress::Done(None),
            Probe::Value(word) => Progress::Done(Some(word)),
            Probe::Unstable => Progress::Contended,
            Probe::Layer(root, _) => {
                prefetch(root);
                self.node = root;
                self.parent = std::ptr::null();
                self.key = self.key.descend();
                Progress::Running
            }
        }
    }
}

struct Batch<'t, V: Value, C: Configuration, F, const G: usize> {
    tree: &'t Masstree<V, C>,
    keys: &'t [&'t [u8]],
    finish: F,
}

impl<V, C, F, const G: usize> Task for Batch<'_, V, C, F, G>
where
    V: Value,
    C: Configuration,
    F: FnMut(usize, Option<u64>),
{
    type Output = ();

    #[inline(always)]
    fn run<K: Kernel>(mut self) {
        let root = self.tree.root();
        // SAFETY: the root is reached under the batch's guard.
        let version = unsafe { (*root).version.load() };
        let start = |index: usize| Lookup {
            index,
            key: Key::new(self.keys[index]),
            node: root,
            parent: std::ptr::null(),
            parent_version: version,
        };
        let mut lookups: [Lookup<'_>; G] =
            std::array::from_fn(|i| start(i.min(self.keys.len() - 1)));
        let mut active = self.keys.len().min(G);
        let mut next = active;
        let mut at = 0;
        while active > 0 {
            let lookup = &mut lookups[at];
            let done = match lookup.step::<K, C>() {
                Progress::Running => false,
                Progress::Done(word) => {
                    (self.finish)(lookup.index, word);
                    true
                }
                Progress::Contended => {
                    let word = self.tree.find::<K>(self.keys[lookup.index]);
                    (self.finish)(lookup.index, word);
                    true
                }
            };
            if done {
                if next < self.keys.len() {
                    lookups[at] = start(next);
                    next += 1;
                } else {
                    active -= 1;
                    lookups.swap(at, active);
                    at = if at >= active { 0 } else { at };
                    continue;
                }
            }
            at += 1;
            if at >= active {
                at = 0;
            }
        }
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    #[inline(always)]
    fn find_many<const G: usize>(
        &self,
        _guard: &impl Guard,
        keys: &[&[u8]],
        finish: impl FnMut(usize, Option<u64>),
    ) {
        if keys.is_empty() {
            return;
        }
        self.level.run(Batch::<V, C, _, G> {
            tree: self,
            keys,
            finish,
        });
    }

    /// Brings the nodes (and value blocks) that operations on `keys` will touch into the
    /// cache, overlapping their misses.
    pub fn prefetch_many(&self, keys: &[&[u8]]) {
        let guard = C::read(&self.entry);
        self.find_many::<GROUP>(&guard, keys, |_, word| {
            if let Some(word) = word {
                V::prefetch(word);
            }
        });
    }
}

impl<C: Configuration> Masstree<u64, C> {
    /// Looks up all `keys` with overlapping misses; calls `read` once for each, in no
    /// particular order.
    pub fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<u64>)) {
        let guard = C::read(&self.entry);
        self.find_many::<GROUP>(&guard, keys, read);
    }

    /// [`get_many`](Self::get_many) with `G` keys in flight instead of 16, to measure
    /// which number is best.
    pub fn get_many_in_groups<const G: usize>(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, Option<u64>),
    ) {
        let guard = C::read(&self.entry);
        self.find_many::<G>(&guard, keys, read);
    }
}

impl<C: Configuration> Masstree<Bytes, C> {
    /// Looks up all `keys` with overlapping misses; calls `read` once for each, in no
    /// particular order.
    pub fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        let guard = C::read(&self.entry);
        // Value blocks are prefetched when a lookup ends and read a few lookups later.
        const DELAY: usize = 8;
        let mut waiting = [(0_usize, 0_u64); DELAY];
        let mut found = 0_usize;
        self.find_many::<GROUP>(&guard, keys, |index, word| {
            let Some(word) = word else {
                read(index, None);
                return;
            };
            Bytes::prefetch(word);
            let place = &mut waiting[found % DELAY];
            if found >= DELAY {
                // SAFETY: a validated read of a live slot, under the guard held here.
                read(place.0, Some(unsafe { Bytes::load(place.1) }));
            }
            *place = (index, word);
            found += 1;
        });
        for (index, word) in &waiting[..found.min(DELAY)] {
            // SAFETY: as above.
            read(*index, Some(unsafe { Bytes::load(*word) }));
        }
    }
}
