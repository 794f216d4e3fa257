//! Between which separators the keys of a page or node lie.

/// Bounds of keys, each of which may be absent.
#[derive(Debug, Clone, Copy)]
pub struct KeyBounds<L> {
    /// Keys lie above it.
    pub low: Option<L>,
    /// Keys lie at or below it.
    pub high: Option<L>,
}

impl<L> KeyBounds<L> {
    /// Any key.
    pub const NONE: Self = Self {
        low: None,
        high: None,
    };
}

impl<L: Copy> KeyBounds<L> {
    /// The bounds of child `index` of a node with these bounds and separators.
    pub fn of_child(self, separators: &[L], index: usize) -> Self {
        let before = index.checked_sub(1).and_then(|at| separators.get(at));
        Self {
            low: before.copied().or(self.low),
            high: separators.get(index).copied().or(self.high),
        }
    }
}
