//! Walks over trees whose every node has a pair, for quiet moments.

/// A node on a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visited {
    /// Its address.
    pub(crate) address: u64,
    /// That of its parent.
    pub(crate) parent: u64,
    pub(crate) key: u64,
}

/// What a walk counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    /// Nodes on the longest path.
    pub(crate) height: usize,
}

/// Visits each node below `root`, which has no pair, before its children, and checks that keys are
/// in order. `root` leads to `first`; `read` returns a node's key and the addresses of its
/// children.
///
/// # Errors
///
/// A key that is out of order, or the first visit's that fails.
pub(crate) fn walk(
    root: u64,
    first: Option<u64>,
    read: impl Fn(u64) -> (u64, [Option<u64>; 2]),
    mut visit: impl FnMut(&Visited) -> Result<(), String>,
) -> Result<Shape, String> {
    let mut shape = Shape::default();
    // Nodes to visit, with parent, depth, and the keys between which theirs are.
    let mut waiting = vec![];
    waiting.extend(first.map(|first| (first, root, 1, [None, None])));
    while let Some((address, parent, depth, [low, high])) = waiting.pop() {
        let (key, [left, right]) = read(address);
        if low.is_some_and(|low| key <= low) || high.is_some_and(|high| key >= high) {
            return Err(format!(
                "key {key:#x} is not between {low:x?} and {high:x?}"
            ));
        }
        visit(&Visited {
            address,
            parent,
            key,
        })?;
        shape.nodes += 1;
        shape.height = shape.height.max(depth);
        let right = right.map(|right| (right, address, depth + 1, [Some(key), high]));
        let left = left.map(|left| (left, address, depth + 1, [low, Some(key)]));
        waiting.extend(right.into_iter().chain(left));
    }
    Ok(shape)
}
