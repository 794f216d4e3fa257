//! From a layer's root to the border node responsible for a slice (Fig. 6), and what that
//! node says about a key (the inner part of Fig. 7).
//!
//! Every pointer followed here was read under the operation's guard. Child, sibling, parent
//! and layer pointers always name nodes that were in the tree at or after the moment the
//! guard was taken (node modules say how writers keep that), so dereferencing before
//! validation is safe; validation only decides whether what was read *means* anything.

use std::sync::atomic::Ordering;

use hedgerow_simd::Kernel;
use hedgerow_sync::Version;

use crate::configuration::{Configuration, Latch};
use crate::key::{Key, LONG};
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Interior, Node, prefetch};
use crate::statistics::Event;
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// The entry of a layer, in the layer above.
#[derive(Clone, Copy)]
pub(crate) struct LayerEntry<'g> {
    pub node: &'g Border,
    pub slot: usize,
}

/// What a border node says about a key.
pub(crate) enum Found<'g> {
    /// No such key.
    Missing,
    /// Its value word.
    Value(u64),
    /// It would be in this deeper layer, which has that entry.
    Layer(*mut Node, LayerEntry<'g>),
    /// The node was deleted: restart at the root.
    Restart,
}

pub(crate) enum Probe {
    Missing,
    Value(u64),
    Layer(*mut Node, usize),
    Unstable,
}

/// Looks for `key` in `node`, without validation.
#[inline(always)]
pub(crate) fn probe<K: Kernel>(node: &Border, key: &Key<'_>) -> Probe {
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
        let value = node.value(slot);
        if length < LONG {
            return Probe::Value(value);
        }
        // The slot may be turning into a layer: only the same class on both sides of the
        // value's (acquire) load says what the value is.
        if node.length(slot) != length {
            return Probe::Unstable;
        }
        return match length {
            LAYER => Probe::Layer(layer_root(value), slot),
            // SAFETY: `node` was reached under the running operation's guard.
            SUFFIX => match unsafe { node.suffix(slot) } {
                Some(suffix) if suffix == key.suffix() => Probe::Value(value),
                Some(_) => Probe::Missing,
                None => Probe::Unstable,
            },
            _ => Probe::Unstable,
        };
    }
    Probe::Missing
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// The border node responsible for `slice` in the layer of `root`, and its version;
    /// `None` when the layer is gone.
    #[inline(always)]
    pub(crate) fn find_border<'g, K: Kernel>(
        &self,
        root: *mut Node,
        slice: u64,
    ) -> Option<(&'g Border, Version)> {
        'retry: loop {
            let (mut node, mut version) = self.true_root(root)?;
            loop {
                if version.is_border() {
                    // SAFETY: a pinned node (module doc) whose border bit never changes.
                    return Some((unsafe { &*node.cast::<Border>() }, version));
                }
                // SAFETY: as above, and not a border node.
                let interior = unsafe { &*node.cast::<Interior>() };
                let index = K::rank(&interior.slices, interior.count(), slice);
                let child = interior.child(index);
                prefetch(child);
                // SAFETY: a child of a pinned node is a pinned node.
                let child_version = Latch::<C>::stable(unsafe { &(*child).version });
                if Latch::<C>::validate(&interior.version, version) {
                    node = child;
                    version = child_version;
                    if C::CONCURRENT && version.is_deleted() {
                        self.counters.count(Event::RootRetry as usize);
                        continue 'retry;
                    }
                    continue;
                }
                let now = interior.version.stable();
                if now.split_since(version) {
                    self.counters.count(Event::RootRetry as usize);
                    continue 'retry;
                }
                self.counters.count(Event::LocalRetry as usize);
                version = now;
            }
        }
    }

    /// Climbs from a layer pointer, which splits leave behind, to the present root.
    #[inline(always)]
    pub(crate) fn true_root(&self, root: *mut Node) -> Option<(*mut Node, Version)> {
        let mut node = root;
        loop {
            // SAFETY: layer pointers and parents are pinned nodes (module doc).
            let header = unsafe { &*node };
            let version = Latch::<C>::stable(&header.version);
            if version.is_deleted() {
                return None;
            }
            if version.is_root() {
                return Some((node, version));
            }
            let parent = header.parent.load(Ordering::Acquire);
            debug_assert!(!parent.is_null(), "a node that is no root has a parent");
            node = parent.cast();
        }
    }

    /// What the border node says about `key`, validated; follows splits to the right.
    #[inline(always)]
    pub(crate) fn examine<'g, K: Kernel>(
        &self,
        node: &'g Border,
        version: Version,
        key: &Key<'_>,
    ) -> Found<'g> {
        let (mut node, mut version) = (node, version);
        let mut rounds = 0;
        loop {
            if version.is_deleted() {
                return Found::Restart;
            }
            let probe = probe::<K>(node, key);
            if Latch::<C>::validate(&node.version, version) {
                match probe {
                    Probe::Missing => return Found::Missing,
                    Probe::Value(value) => return Found::Value(value),
                    Probe::Layer(root, slot) => {
                        return Found::Layer(root, LayerEntry { node, slot });
                    }
                    Probe::Unstable => rounds = Latch::<C>::pause(rounds),
                }
                continue;
            }
            (node, version) = self.follow_splits(node, key.slice());
        }
    }

    /// The node at or to the right of `node` that is responsible for `slice` now.
    #[cold]
    #[inline(never)]
    pub(crate) fn follow_splits<'g>(&self, node: &'g Border, slice: u64) -> (&'g Border, Version) {
        let mut node = node;
        let mut version = node.version.stable();
        self.counters.count(Event::LocalRetry as usize);
        while !version.is_deleted() {
            // SAFETY: a sibling of a pinned node is a pinned node (module doc).
            let Some(next) = (unsafe { node.next().as_ref() }) else {
                break;
            };
            if slice < next.low() {
                break;
            }
            self.counters.count(Event::Forward as usize);
            node = next;
            version = node.version.stable();
        }
        (node, version)
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_simd::{Level, Task};

    use super::*;

    struct Probed<'a>(&'a Border, Key<'a>);

    impl Task for Probed<'_> {
        type Output = Probe;

        fn run<K: Kernel>(self) -> Probe {
            probe::<K>(self.0, &self.1)
        }
    }

    /// A slot becomes a layer, and a later insert moves the suffixes without it. Neither ends the
    /// reader's version, so one that read the slot's class before finds no suffix.
    #[test]
    fn a_key_whose_suffix_went_into_a_layer_is_not_missing() {
        let tree: Masstree<u64> = Masstree::new();
        // SAFETY: the only node of the first layer, which outlives the borrow.
        let node = unsafe { &*tree.root().cast::<Border>() };
        tree.put(b"12345678zz", 1);
        let version = node.version.stable();
        tree.put(b"12345678yy", 2);
        tree.put(&[b'a'; 200], 3);
        assert!(node.version.validate(version));
        // The class as the reader loaded it.
        node.set_length(0, SUFFIX);
        let probed = Level::detect().run(Probed(node, Key::new(b"12345678zz")));
        node.set_length(0, LAYER);
        assert!(
            matches!(probed, Probe::Unstable),
            "a key that stays was lost"
        );
        assert_eq!(tree.get(b"12345678zz"), Some(1));
    }
}
