//! Every structural invariant, checked on a tree at rest.
//!
//! 1. Versions are unlocked, clean and not deleted; exactly the root of a layer says *root*.
//! 2. Parent pointers name the parent; separators ascend and bound each child's slices.
//! 3. The border nodes, in key order, are doubly linked from the leftmost, whose `low` is the
//!    lowest of all; a node's `low` is at most its first slice and is the separator above it.
//! 4. Permutations name every slot once; live keys ascend by (slice, length class), with at
//!    most one long key or layer per slice; slices never straddle nodes.
//! 5. Length classes are 0 to 8, suffix or layer; suffixes are not empty; padding is zero.
//! 6. A narrow border node is its layer's root, and its permutation orders its own slots.
//! 7. Only the leftmost border node of a layer may be empty.

use std::sync::atomic::Ordering;

use crate::configuration::Configuration;
use crate::key::LONG;
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Interior, Node};
use crate::release::root_at_rest;
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// A subtree to check: its node, its parent, and the slices it may hold.
struct Subtree {
    node: *mut Node,
    parent: *mut Interior,
    from: u64,
    below: Option<u64>,
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Checks every structural invariant; the first violation is returned in words. Meant for
    /// moments without writers, who may make it report violations that are none.
    pub fn verify(&self) -> Result<(), String> {
        let guard = C::read(&self.entry);
        let mut layers = vec![self.root()];
        while let Some(root) = layers.pop() {
            verify_layer(root, &mut layers)?;
        }
        drop(guard);
        Ok(())
    }
}

fn verify_layer(root: *mut Node, layers: &mut Vec<*mut Node>) -> Result<(), String> {
    let mut subtrees = vec![Subtree {
        node: root,
        parent: std::ptr::null_mut(),
        from: 0,
        below: None,
    }];
    let mut left: *mut Border = std::ptr::null_mut();
    while let Some(subtree) = subtrees.pop() {
        verify_header(&subtree, root)?;
        // SAFETY: linked in a tree at rest, under the guard.
        let header = unsafe { &*subtree.node };
        if header.version.load().is_border() {
            // SAFETY: as above, and a border node.
            let border = unsafe { &*subtree.node.cast::<Border>() };
            verify_links(border, left, subtree.from)?;
            verify_border(border, &subtree, layers)?;
            left = subtree.node.cast();
        } else {
            // SAFETY: as above, and an interior node.
            let interior = unsafe { &*subtree.node.cast::<Interior>() };
            push_children(interior, &subtree, &mut subtrees)?;
        }
    }
    // SAFETY: the last border node is linked.
    match unsafe { left.as_ref() } {
        Some(last) if !last.next().is_null() => {
            Err("the rightmost border node has a right sibling".into())
        }
        _ => Ok(()),
    }
}

fn verify_header(subtree: &Subtree, root: *mut Node) -> Result<(), String> {
    // SAFETY: linked in a tree at rest, under the guard.
    let header = unsafe { &*subtree.node };
    let version = header.version.load();
    if version.is_deleted() || version.is_locked() || version.is_dirty() {
        return Err(format!("a linked node's version at rest is {version:?}"));
    }
    if version.is_root() != std::ptr::eq(subtree.node, root) {
        return Err(format!("a node says root: {}", version.is_root()));
    }
    // SAFETY: as above; the kind never changes.
    let narrow = version.is_border() && unsafe { &*subtree.node.cast::<Border>() }.is_narrow();
    if narrow && !version.is_root() {
        return Err("a narrow node is not its layer's root".into());
    }
    if !narrow && header.parent.load(Ordering::Relaxed) != subtree.parent {
        return Err("a node's parent pointer does not name its parent".into());
    }
    Ok(())
}

fn push_children(
    interior: &Interior,
    subtree: &Subtree,
    subtrees: &mut Vec<Subtree>,
) -> Result<(), String> {
    let count = interior.count();
    let mut from = subtree.from;
    let mut children = Vec::with_capacity(count + 1);
    for index in 0..=count {
        let below = if index < count {
            Some(interior.slice(index))
        } else {
            subtree.below
        };
        if below.is_some_and(|below| below <= from) {
            return Err(format!(
                "separators do not ascend: {from:#x}, then {below:x?}"
            ));
        }
        let parent = std::ptr::from_ref(interior).cast_mut();
        children.push(Subtree {
            node: interior.child(index),
            parent,
            from,
            below,
        });
        from = below.unwrap_or(u64::MAX);
    }
    subtrees.extend(children.into_iter().rev());
    Ok(())
}

fn verify_links(border: &Border, left: *mut Border, from: u64) -> Result<(), String> {
    if border.prev() != left {
        return Err("a border node's prev is not its left neighbour".into());
    }
    // SAFETY: the left neighbour was met just before.
    if let Some(left) = unsafe { left.as_ref() }
        && !std::ptr::eq(left.next(), border)
    {
        return Err("a border node's next is not its right neighbour".into());
    }
    if border.low() != from {
        return Err(format!(
            "low is {:#x}, the separator {from:#x}",
            border.low()
        ));
    }
    Ok(())
}

fn verify_border(
    border: &Border,
    subtree: &Subtree,
    layers: &mut Vec<*mut Node>,
) -> Result<(), String> {
    let version = border.version.load();
    let permutation = border.permutation();
    if !permutation.is_valid() {
        return Err(format!("not a permutation: {:#x}", permutation.raw()));
    }
    let width = border.width();
    if permutation.count() > width || (0..width).any(|index| permutation.slot(index) >= width) {
        return Err(format!("{:#x} orders {width} slots", permutation.raw()));
    }
    if permutation.count() == 0 && !border.prev().is_null() {
        return Err("an empty border node that is not leftmost is still linked".into());
    }
    let mut before = None;
    for slot in (0..permutation.count()).map(|index| permutation.slot(index)) {
        let (slice, length) = (border.slice(slot), border.length(slot));
        let place = (slice, length.min(LONG));
        if before.is_some_and(|before| before >= place) {
            return Err(format!("keys do not ascend: {before:x?}, then {place:x?}"));
        }
        before = Some(place);
        if slice < subtree.from || subtree.below.is_some_and(|below| slice >= below) {
            return Err(format!("slice {slice:#x} lies outside of its node's range"));
        }
        match length {
            0..8 if slice << (8 * u32::from(length)) != 0 => {
                return Err(format!("a {length}-byte slice is padded with {slice:#x}"));
            }
            // SAFETY: linked in a tree at rest, under the guard.
            SUFFIX if unsafe { border.suffix(slot) }.is_none() => {
                return Err("a long key without a suffix".into());
            }
            LAYER => {
                let root = layer_root(border.value(slot));
                // A writer may have made the entry a value, or another layer's, in between.
                if border.length(slot) != LAYER || !border.version.validate(version) {
                    return Err("a writer changed a layer's entry".into());
                }
                // SAFETY: as above; a layer's pointer leads up to its root, and this is one: of a
                // node that no writer changed since `version`, with the class before and after.
                layers.push(unsafe { root_at_rest(root) });
            }
            0..=SUFFIX => {}
            _ => return Err(format!("length class {length} at rest")),
        }
    }
    Ok(())
}
