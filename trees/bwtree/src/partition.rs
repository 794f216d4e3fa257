//! Cutting the key space into ranges of similar size, for parallel scans: by the separators of the
//! highest level that has enough of them.

use crate::configuration::Configuration;
use crate::epochs::Epochs;
use crate::mapping_table::{NONE, NodeId};
use crate::node::Kind;
use crate::node::route::Target;
use crate::node::view::View;
use crate::tree::{BwTree, Guard};

/// Separators per part wanted, so that choosing evenly among them evens out the parts.
const OVERSAMPLING: usize = 16;

impl<C: Configuration> BwTree<C> {
    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal numbers
    /// of keys; fewer when the tree is small.
    pub fn partition(&self, parts: usize) -> Vec<Vec<u8>> {
        let wanted = parts.saturating_sub(1);
        let guard = self.epochs.pin();
        let root = self.find_leaf_root_level(&guard);
        let mut separators = Vec::new();
        for level in (1..=root).rev() {
            if separators.len() >= wanted.saturating_mul(OVERSAMPLING) {
                break;
            }
            separators = self.separators_of(level);
        }
        drop(guard);
        let chosen = wanted.min(separators.len());
        let keys =
            (1..=chosen).map(|part| separators[part * separators.len() / (chosen + 1)].clone());
        let mut keys: Vec<Vec<u8>> = keys.collect();
        keys.dedup();
        keys
    }

    fn find_leaf_root_level(&self, guard: &Guard<C>) -> u8 {
        self.node(crate::mapping_table::ROOT, guard)
            .head
            .header()
            .level
    }

    /// The separators of all nodes of a level, in order; none if the tree is not that high any
    /// more.
    fn separators_of(&self, level: u8) -> Vec<Vec<u8>> {
        let guard = self.epochs.pin();
        let mut separators: Vec<Vec<u8>> = Vec::new();
        let mut next: Option<NodeId> = None;
        loop {
            let node = match next {
                Some(id) => self.node(id, &guard),
                None => match self.find(Target::At(&[]), level, &guard) {
                    Some(node) => node,
                    None => return separators,
                },
            };
            // A merge came in between: what was found so far is good enough.
            if node.head.kind() == Kind::Remove {
                return separators;
            }
            let view = View::of(node.head, None);
            let last = separators.last().cloned();
            let keys = view.items.iter().skip(1).map(|item| item.key.to_vec());
            separators.extend(keys.filter(|key| last.as_ref().is_none_or(|last| last < key)));
            match (node.head.right(), node.head.high()) {
                (NONE, _) | (_, None) => return separators,
                (right, Some(high)) => {
                    separators.push(high.to_vec());
                    next = Some(right);
                }
            }
        }
    }
}
