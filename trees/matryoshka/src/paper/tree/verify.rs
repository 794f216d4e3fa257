//! The tree's invariants, checked one by one, and its numbers.

use hedgerow_index::{IntIndex, Statistics};

use crate::key_bounds::KeyBounds;
use crate::node_key::MapKey;
use crate::paper::node::form::{PageForm, equal, inside};
use crate::paper::strategy::Strategy;
use crate::paper::tree::{Matryoshka, tag, untag};

/// What the walk has seen so far.
struct Walk {
    pages: usize,
    inner: usize,
    keys: usize,
    superpages: usize,
    /// The superpage whose pages are being walked.
    superpage: Option<u32>,
}

/// Checks everything; the first violation in words.
pub(crate) fn verify<K, V, S>(tree: &Matryoshka<K, V, S>) -> Result<(), String>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    let mut walk = Walk {
        pages: 0,
        inner: 0,
        keys: 0,
        superpages: 0,
        superpage: None,
    };
    subtree(tree, tree.root, tree.height, KeyBounds::NONE, &mut walk)?;
    equal("keys", walk.keys, tree.len)?;
    equal("pages", walk.pages, tree.pages.live())?;
    equal("inner nodes", walk.inner, tree.inner.live())?;
    if S::SUPERPAGES {
        equal(
            "superpages",
            walk.superpages.max(1),
            tree.pages.superpages_in_use(),
        )?;
    }
    Ok(())
}

fn subtree<K, V, S>(
    tree: &Matryoshka<K, V, S>,
    child: u32,
    height: usize,
    bounds: KeyBounds<K::NodeKey>,
    walk: &mut Walk,
) -> Result<(), String>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    if height == 0 {
        let number = untag(child);
        let page = tree.pages.get(number);
        equal("a page's tag", child, tag(number, page.tag()))?;
        if tree.edge != Matryoshka::<K, V, S>::NO_EDGE {
            let last = bounds.high.is_none();
            equal("the last page", tree.edge.1 == number, last)?;
            equal("its bound", !last || bounds.low == Some(tree.edge.0), true)?;
        }
        if let Some(superpage) = walk.superpage {
            equal(
                "a page's superpage",
                Matryoshka::<K, V, S>::superpage_of(number),
                superpage,
            )?;
        }
        if tree.height > 0 && page.key_count() == 0 {
            return Err(format!("page {number} is empty"));
        }
        let keys = page
            .verify(bounds)
            .map_err(|problem| format!("page {number}: {problem}"))?;
        walk.pages += 1;
        walk.keys += keys;
        return Ok(());
    }
    let level = tree.height - height;
    if tree.heads_at(level) {
        walk.superpages += 1;
        walk.superpage = Some(child);
    } else {
        walk.inner += 1;
    }
    let node = tree.node(level, child);
    let keys = node.keys();
    if keys.is_empty() || node.children().len() > tree.most_children(level) {
        return Err(format!("inner node {child} has {} separators", keys.len()));
    }
    inside(&keys, bounds)?;
    node.verify_samples()?;
    for (index, &below) in node.children().iter().enumerate() {
        subtree(tree, below, height - 1, bounds.of_child(&keys, index), walk)?;
    }
    Ok(())
}

/// Nodes, bytes and fill.
pub(crate) fn statistics<K, V, S>(tree: &Matryoshka<K, V, S>) -> Statistics
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    let pages = tree.pages.live() as f64;
    let node_bytes = pages * size_of::<S::Page<K::NodeKey, V, S>>() as f64;
    let capacity = Matryoshka::<K, V, S>::CAPACITY as f64;
    let keys = tree.len() as f64;
    let mut statistics = Statistics::new();
    let mut push = |name, value, help| statistics.push(name, value, help);
    push("keys", keys, "Keys stored.");
    push(
        "outer_height",
        tree.height as f64,
        "Inner levels above pages.",
    );
    push("pages", pages, "Pages with their sub-trees.");
    push(
        "inner_nodes",
        tree.inner.live() as f64,
        "Nodes above pages.",
    );
    push(
        "page_fill",
        keys / (pages * capacity),
        "Keys by room for keys.",
    );
    let reserved = (tree.pages.bytes() + tree.inner.bytes()) as f64;
    push(
        "page_bytes",
        node_bytes,
        "Bytes of pages and values in use.",
    );
    push("reserved_bytes", reserved, "Bytes taken from the kernel.");
    push(
        "bytes_per_key",
        node_bytes / keys.max(1.0),
        "Bytes of pages by keys.",
    );
    statistics
}
