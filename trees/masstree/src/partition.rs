//! Cutting the key space into ranges of similar size, for parallel scans: what a node leads to.
//!
//! Keys of any number may lie in a layer of any depth, so [`hedgerow_index::split_keys`] estimates
//! how many there are. A layer of one entry, as each slice of a shared prefix makes one, is passed
//! through: it would count as a node of the way down.

use std::rc::Rc;

use hedgerow_index::{Add, Below, split_keys};

use crate::configuration::{Configuration, Latch};
use crate::key::shortest_bytes;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, Node};
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// A node on the way down, read under a guard.
struct Place {
    /// A node, or what an entry names as the root of its layer.
    node: *mut Node,
    is_layer: bool,
    /// What all keys of the layer above the entry begin with.
    prefix: Rc<[u8]>,
    /// The slice of the entry.
    slice: Option<u64>,
}

/// The entries of a border node: each one's slice, and the word of its layer if it has one.
type Entries = Vec<(u64, Option<u64>)>;

/// What a node has.
enum Contents {
    Border(Entries),
    /// Separators, and one more children.
    Interior(Vec<u64>, Vec<*mut Node>),
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Up to `parts - 1` ascending keys that cut the key space into ranges of similar numbers of
    /// keys; fewer when the tree is small. The work depends on `parts`, not on the tree's size.
    pub fn partition(&self, parts: usize) -> Vec<Vec<u8>> {
        let guard = C::read(&self.entry);
        let top = Place {
            node: self.root(),
            is_layer: true,
            prefix: Rc::new([]),
            slice: None,
        };
        let keys = split_keys(parts, top, |place, add| self.open(place, add));
        drop(guard);
        keys
    }

    /// Tells what a place leads to; nothing if it is not linked any more. The caller's guard is the
    /// one under which the place was read.
    fn open(&self, place: &Place, add: &mut Add<'_, Place>) {
        let mut prefix = place.prefix.to_vec();
        prefix.extend(place.slice.iter().flat_map(|slice| slice.to_be_bytes()));
        let (mut node, mut is_layer) = (place.node, place.is_layer);
        let mut rounds = 0;
        loop {
            // Splits and widenings leave the pointers to a layer's root behind.
            let root = is_layer.then(|| self.true_root(node));
            let (at, version) = match root {
                Some(Some(root)) => root,
                Some(None) => return,
                // SAFETY: reached under the caller's guard.
                None => (node, Latch::<C>::stable(unsafe { &(*node).version })),
            };
            if version.is_deleted() {
                return;
            }
            // SAFETY: as above.
            let contents = unsafe { read(at, version.is_border()) };
            // SAFETY: as above.
            if !Latch::<C>::validate(unsafe { &(*at).version }, version) {
                continue;
            }
            match contents {
                Some(Contents::Interior(slices, children)) => {
                    return add_children(&prefix, &slices, &children, add);
                }
                Some(Contents::Border(entries)) => {
                    let [(slice, Some(layer))] = entries[..] else {
                        return add_entries(&prefix, &entries, add);
                    };
                    prefix.extend(slice.to_be_bytes());
                    (node, is_layer) = (layer_root(layer), true);
                }
                None => rounds = Latch::<C>::pause(rounds),
            }
        }
    }
}

/// What a node has, to be validated; `None` if an entry is just becoming a layer.
///
/// # Safety
///
/// The node was reached under a guard of the caller's, which still lasts.
unsafe fn read(node: *mut Node, is_border: bool) -> Option<Contents> {
    if is_border {
        // SAFETY: as the caller promises, and a border node.
        return entries(unsafe { &*node.cast::<Border>() }).map(Contents::Border);
    }
    // SAFETY: as the caller promises, and an interior node.
    let interior = unsafe { &*node.cast::<Interior>() };
    let count = interior.count();
    let slices = (0..count).map(|index| interior.slice(index)).collect();
    let children = (0..=count).map(|index| interior.child(index)).collect();
    Some(Contents::Interior(slices, children))
}

fn entries(border: &Border) -> Option<Entries> {
    let permutation = border.permutation();
    let slots = (0..permutation.count()).map(|index| permutation.slot(index));
    let entry = |slot| {
        let length = border.length(slot);
        let word = border.value(slot);
        // The word is what the length says if that is the same on both sides of its load.
        (border.length(slot) == length)
            .then(|| (border.slice(slot), (length == LAYER).then_some(word)))
    };
    slots.map(entry).collect()
}

fn add_children(prefix: &[u8], slices: &[u64], children: &[*mut Node], add: &mut Add<'_, Place>) {
    let (mut from, shared) = (prefix.to_vec(), Rc::<[u8]>::from(prefix));
    for (index, &node) in children.iter().enumerate() {
        from.truncate(prefix.len());
        if let Some(slice) = index.checked_sub(1).map(|before| slices[before]) {
            let (bytes, count) = shortest_bytes(slice);
            from.extend_from_slice(&bytes[..count]);
        }
        let child = Place {
            node,
            is_layer: false,
            prefix: Rc::clone(&shared),
            slice: None,
        };
        add(&from, Below::Node(child));
    }
}

fn add_entries(prefix: &[u8], entries: &Entries, add: &mut Add<'_, Place>) {
    let (mut from, shared) = (prefix.to_vec(), Rc::<[u8]>::from(prefix));
    for &(slice, layer) in entries {
        from.truncate(prefix.len());
        let Some(word) = layer else {
            let (bytes, count) = shortest_bytes(slice);
            from.extend_from_slice(&bytes[..count]);
            add(&from, Below::Keys(1));
            continue;
        };
        from.extend(slice.to_be_bytes());
        let layer = Place {
            node: layer_root(word),
            is_layer: true,
            prefix: Rc::clone(&shared),
            slice: Some(slice),
        };
        add(&from, Below::Node(layer));
    }
}
