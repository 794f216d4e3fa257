//! Giving memory back: one node, one bag, or the whole tree.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::configuration::Configuration;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, NODE_BYTES, Node, SuffixBag};
use crate::tree::{Masstree, layer_root};
use crate::value::Value;
use crate::widen::replacement;

/// Releases a node and, for a border node, its external bag, but not what its slots own.
///
/// # Safety
///
/// `address` is the exposed address of a node that nobody can reach any more.
pub(crate) unsafe fn release_node(address: usize) {
    let node = std::ptr::with_exposed_provenance_mut::<Node>(address);
    // SAFETY: the node is still allocated and ours alone.
    let size_bytes = unsafe {
        if (*node).version.load().is_border() {
            let border = &*node.cast::<Border>();
            let bag = border.external_bag();
            if !bag.is_null() {
                release_bag(bag.expose_provenance());
            }
            border.block_bytes()
        } else {
            NODE_BYTES
        }
    };
    if let Some(block) = NonNull::new(node.cast::<u8>()) {
        // SAFETY: the node was allocated with this size, and this is its last use.
        unsafe { hedgerow_memory::release(block, size_bytes) }
    }
}

/// Releases an external bag.
///
/// # Safety
///
/// `address` is the exposed address of an external bag that nobody can reach any more.
pub(crate) unsafe fn release_bag(address: usize) {
    let bag = std::ptr::with_exposed_provenance_mut::<SuffixBag>(address);
    // SAFETY: the bag is still allocated and ours alone.
    let lines = unsafe { (*bag).lines() };
    if let Some(block) = NonNull::new(bag.cast::<u8>()) {
        // SAFETY: `SuffixBag::allocate` allocated it with this size.
        unsafe { hedgerow_memory::release(block, SuffixBag::block_bytes(lines)) }
    }
}

impl<V: Value, C: Configuration> Drop for Masstree<V, C> {
    fn drop(&mut self) {
        // A stack and not recursion: layers may be thousands deep.
        let mut nodes = vec![self.root()];
        while let Some(node) = nodes.pop() {
            // SAFETY: `&mut self` says that no operation is running, so every linked node is
            // ours, each reachable by exactly one child or layer pointer from a true root.
            unsafe {
                if (*node).version.load().is_border() {
                    let border = &*node.cast::<Border>();
                    let permutation = border.permutation();
                    for slot in (0..permutation.count()).map(|index| permutation.slot(index)) {
                        if border.length(slot) == LAYER {
                            let layer = release_forwarding(layer_root(border.value(slot)));
                            nodes.push(root_at_rest(layer));
                        } else {
                            V::release(border.value(slot));
                        }
                    }
                } else {
                    let interior = &*node.cast::<Interior>();
                    nodes.extend((0..=interior.count()).map(|index| interior.child(index)));
                }
                release_node(node.expose_provenance());
            }
        }
    }
}

/// Releases the nodes that forward from a layer's former root; returns the first that does not.
///
/// # Safety
///
/// `node` is a layer pointer of a tree that is ours alone, and that pointer is not used again.
unsafe fn release_forwarding(node: *mut Node) -> *mut Node {
    let mut node = node;
    loop {
        // SAFETY: linked, and ours alone.
        let next = unsafe { replacement(node) };
        if next.is_null() {
            return node;
        }
        // SAFETY: the pointer that the caller gave up was the only link to the chain.
        unsafe { release_node(node.expose_provenance()) };
        node = next;
    }
}

/// The true root above a layer pointer, in a tree at rest.
///
/// # Safety
///
/// `node` is linked and no operation is running.
pub(crate) unsafe fn root_at_rest(node: *mut Node) -> *mut Node {
    let mut node = node;
    loop {
        // SAFETY: linked nodes have linked parents; nothing changes meanwhile.
        let header = unsafe { &*node };
        if header.version.load().is_root() {
            return node;
        }
        node = header.parent.load(Ordering::Acquire).cast();
    }
}
