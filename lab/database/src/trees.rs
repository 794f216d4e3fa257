//! The trees that indexes can be made over, by name.

use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_memory::Placement;

use crate::key_map::KeyMap;

/// Makes an empty tree whose nodes come from there.
pub type NewTree = fn(Placement) -> Box<dyn KeyMap>;

/// A tree by name.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// The name, that of Table 1 for the paper's trees.
    pub name: &'static str,
    /// Without the flaws of Table 3.
    pub improved: NewTree,
    /// As published; none for trees that are not the paper's. Their nodes have one place only:
    /// pools of their own.
    pub baseline: Option<NewTree>,
}

/// All trees.
#[must_use]
pub fn trees() -> Vec<Tree> {
    vec![Tree {
        name: "matryoshka",
        improved: |_| Box::new(SharedMatryoshka::<u64>::new()),
        baseline: None,
    }]
}
