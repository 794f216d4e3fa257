//! Giving memory back: one node, one bag, or the whole tree.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::configuration::Configuration;
use crate::node::border::LAYER;
use crate::node::{Border, Interior, Node, NodeBlocks, SuffixBag};
use crate::tree::{Masstree, layer_root};
use crate::value::Value;
use crate::widen::replacement;

/// Bytes of what [`release_node`] frees beside the node itself: of a border node's external bag.
///
/// # Safety
///
/// The node lives.
pub(crate) unsafe fn bag_bytes(node: *const Node) -> usize {
    // SAFETY: the caller's promise; a border node's bag lives as long as it does.
    unsafe {
        if !(*node).version.load().is_border() {
            return 0;
        }
        let bag = (*node.cast::<Border>()).external_bag();
        match bag.is_null() {
            true => 0,
            false => SuffixBag::block_bytes((*bag).lines()),
        }
    }
}

/// Releases a node and, for a border node, its external bag, but not what its slots own.
///
/// # Safety
///
/// `address` is the exposed address of a node of these blocks that nobody can reach any more.
pub(crate) unsafe fn release_node(blocks: &NodeBlocks, address: usize) {
    let node = std::ptr::with_exposed_provenance_mut::<Node>(address);
    let Some(block) = NonNull::new(node.cast::<u8>()) else {
        return;
    };
    // SAFETY: the node is still allocated and ours alone; its block came from the place that
    // its kind and width name, and this is its last use.
    unsafe {
        if !(*node).version.load().is_border() {
            return blocks.interior().release(block);
        }
        let border = &*node.cast::<Border>();
        let bag = border.external_bag();
        if !bag.is_null() {
            release_bag(blocks, bag.expose_provenance());
        }
        let (width, suffix_bytes) = (border.width(), border.inline_suffix_bytes());
        blocks.release_border(block, width, suffix_bytes);
    }
}

/// Releases an external bag.
///
/// # Safety
///
/// `address` is the exposed address of an external bag of these blocks that nobody can reach any
/// more.
pub(crate) unsafe fn release_bag(blocks: &NodeBlocks, address: usize) {
    let bag = std::ptr::with_exposed_provenance_mut::<SuffixBag>(address);
    // SAFETY: the bag is still allocated and ours alone.
    let lines = unsafe { (*bag).lines() };
    if let Some(block) = NonNull::new(bag.cast::<u8>()) {
        // SAFETY: `SuffixBag::allocate` allocated it with this size.
        unsafe { blocks.release_bag(block, SuffixBag::block_bytes(lines)) }
    }
}

impl<V: Value, C: Configuration> Drop for Masstree<V, C> {
    fn drop(&mut self) {
        // A stack and not recursion: layers may be thousands deep.
        let blocks = self.blocks;
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
                            let layer = release_forwarding(blocks, layer_root(border.value(slot)));
                            nodes.push(root_at_rest(layer));
                        } else {
                            V::release(border.value(slot));
                        }
                    }
                } else {
                    let interior = &*node.cast::<Interior>();
                    nodes.extend((0..=interior.count()).map(|index| interior.child(index)));
                }
                release_node(blocks, node.expose_provenance());
            }
        }
    }
}

/// Releases the nodes that forward from a layer's former root; returns the first that does not.
///
/// # Safety
///
/// `node` is a layer pointer of a tree that is ours alone, and that pointer is not used again.
unsafe fn release_forwarding(blocks: &NodeBlocks, node: *mut Node) -> *mut Node {
    let mut node = node;
    loop {
        // SAFETY: linked, and ours alone.
        let next = unsafe { replacement(node) };
        if next.is_null() {
            return node;
        }
        // SAFETY: the pointer that the caller gave up was the only link to the chain.
        unsafe { release_node(blocks, node.expose_provenance()) };
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
