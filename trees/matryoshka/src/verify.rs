//! The tree's invariants, checked one by one, and its numbers.

use hedgerow_index::{IntIndex, IntKey, Statistics};

use crate::lane::Lane;
use crate::page::{NONE, Page};
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, tag, untag};

/// What the walk has seen so far.
struct Walk {
    pages: usize,
    inner: usize,
    keys: usize,
    lines: usize,
    /// The page before, and the `next` that it named.
    last: (u32, u32),
}

/// Checks everything; the first violation in words.
pub(crate) fn verify<K, V, S>(tree: &Matryoshka<K, V, S>) -> Result<(), String>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    let mut walk = Walk {
        pages: 0,
        inner: 0,
        keys: 0,
        lines: 0,
        last: (NONE, NONE),
    };
    subtree(tree, tree.root, tree.height, (None, None), &mut walk)?;
    equal("keys", walk.keys, tree.len)?;
    equal("pages", walk.pages, tree.pages.live())?;
    equal("inner nodes", walk.inner, tree.inner.live())?;
    equal("the last page's next", walk.last.1, NONE)
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: found {got:?}, expected {want:?}"))
    }
}

/// Keys must lie above the first of `bounds` and at or below the second.
type Bounds<L> = (Option<L>, Option<L>);

fn inside<L: Lane>(keys: &[L], bounds: Bounds<L>) -> Result<(), String> {
    let ascending = keys.windows(2).all(|pair| pair[0] < pair[1]);
    let above = bounds.0.is_none_or(|low| keys.iter().all(|&key| low < key));
    let below = bounds
        .1
        .is_none_or(|high| keys.iter().all(|&key| key <= high));
    if ascending && above && below {
        Ok(())
    } else {
        Err(format!("keys {keys:?} do not ascend within {bounds:?}"))
    }
}

/// The bounds of child `index`.
fn of_child<L: Lane>(keys: &[L], index: usize, bounds: Bounds<L>) -> Bounds<L> {
    let low = index.checked_sub(1).and_then(|before| keys.get(before));
    (
        low.copied().or(bounds.0),
        keys.get(index).copied().or(bounds.1),
    )
}

fn subtree<K, V, S>(
    tree: &Matryoshka<K, V, S>,
    child: u32,
    height: usize,
    bounds: Bounds<K::Encoded>,
    walk: &mut Walk,
) -> Result<(), String>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    if height == 0 {
        let number = untag(child);
        let page = tree.pages.get(number);
        equal("a page's tag", child, tag(number, page.head.root))?;
        equal("previous page", page.head.previous, walk.last.0)?;
        if walk.pages > 0 {
            equal("next page", walk.last.1, number)?;
        }
        walk.last = (number, page.head.next);
        walk.pages += 1;
        walk.keys += usize::from(page.head.keys);
        if tree.height > 0 && page.head.keys == 0 {
            return Err(format!("page {number} is empty"));
        }
        return self::page::<_, _, S>(page, bounds, walk)
            .map_err(|problem| format!("page {number}: {problem}"));
    }
    walk.inner += 1;
    let node = tree.inner.get(child);
    let keys = node.keys();
    if keys.is_empty() || node.children().len() > S::FAN_OUT {
        return Err(format!("inner node {child} has {} separators", keys.len()));
    }
    inside(&keys, bounds)?;
    node.verify_samples()?;
    for (index, &below) in node.children().iter().enumerate() {
        subtree(
            tree,
            below,
            height - 1,
            of_child(&keys, index, bounds),
            walk,
        )?;
    }
    Ok(())
}

fn page<L: Lane, V: Copy, S: Strategy>(
    page: &Page<L, V>,
    bounds: Bounds<L>,
    walk: &mut Walk,
) -> Result<(), String> {
    let mut seen = 1_u64;
    let keys = lines(page, page.head.root, page.head.height, bounds, &mut seen)?;
    equal("its count of keys", usize::from(page.head.keys), keys)?;
    equal("its bitmap", page.head.used, seen)?;
    let used = seen.count_ones() as usize - 1;
    walk.lines += used;
    if used > S::SLOTS {
        return Err(format!("{used} lines are in use"));
    }
    let fenced = usize::from(page.head.fenced);
    if fenced == 0 {
        return Ok(());
    }
    let root = page.line(page.head.root).unpack();
    equal("fences", fenced, root.count + 1)?;
    equal(
        "fence keys",
        &page.head.fence_keys.as_ref()[..root.count],
        &root.keys[..root.count],
    )?;
    equal(
        "fence slots",
        &page.head.fence_slots[..fenced],
        &root.children[..fenced],
    )
}

/// Checks the lines below `slot`; how many keys they hold.
fn lines<L: Lane, V: Copy>(
    page: &Page<L, V>,
    slot: u8,
    height: u8,
    bounds: Bounds<L>,
    seen: &mut u64,
) -> Result<usize, String> {
    if !(1..=63).contains(&slot) || *seen & 1 << slot != 0 {
        return Err(format!("line {slot} is reached twice, or is none"));
    }
    *seen |= 1 << slot;
    let line = page.line(slot);
    if height == 0 {
        let keys = line.leaf_keys();
        equal("a leaf's count", line.count(), keys.len())?;
        let padding = &line.0.as_ref()[1 + keys.len()..];
        if padding.iter().any(|&lane| lane != L::MAX) {
            return Err(format!("leaf {slot} has a key behind its last"));
        }
        inside(keys, bounds).map_err(|problem| format!("leaf {slot}: {problem}"))?;
        if page.head.height > 0 && keys.is_empty() {
            return Err(format!("leaf {slot} is empty"));
        }
        return Ok(keys.len());
    }
    let node = line.unpack();
    let keys = line.separators();
    equal("an inner line's count", line.count(), keys.len())?;
    if keys.is_empty() {
        return Err(format!("inner line {slot} has one child"));
    }
    inside(keys, bounds).map_err(|problem| format!("inner line {slot}: {problem}"))?;
    let mut found = 0;
    for (index, &child) in node.children[..=node.count].iter().enumerate() {
        let bounds = of_child(keys, index, bounds);
        found += lines(page, child, height - 1, bounds, seen)?;
    }
    Ok(found)
}

/// Nodes, bytes and fill.
pub(crate) fn statistics<K, V, S>(tree: &Matryoshka<K, V, S>) -> Statistics
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    let pages = tree.pages.live() as f64;
    let node_bytes = pages * size_of::<Page<K::Encoded, V>>() as f64;
    let capacity = Page::<K::Encoded, V>::capacity::<S>() as f64;
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
