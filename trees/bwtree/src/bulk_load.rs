//! A tree from pairs in ascending order: each level is written from left to right, its nodes full,
//! without deltas, without room for them, and without a descent. The first change of a node
//! consolidates it, which gives it that room.

use hedgerow_index::NotAscending;

use crate::configuration::Configuration;
use crate::epochs::Epochs;
use crate::mapping_table::{Entries, NONE, NodeId, ROOT};
use crate::node::draft::item_bytes;
use crate::node::item::separator;
use crate::node::{Draft, Item, KeyParts, RecordRef};
use crate::tree::{BwTree, WordOf};
use crate::value::{NewValue, Stored};

/// Stands for the id of a node that has none before it is written.
const UNPLACED: NodeId = NodeId::MAX;

/// A node of a finished level, for the level above.
struct Child {
    low: Vec<u8>,
    id: NodeId,
}

/// The leaves that were written. Where ids are places nothing else knows them until there is a
/// root above them, so a load that is refused, or whose pairs end in a panic, frees them here.
struct Leaves<'t, C: Configuration> {
    tree: &'t BwTree<C>,
    written: Vec<Child>,
}

impl<C: Configuration> Drop for Leaves<'_, C> {
    fn drop(&mut self) {
        if !C::Entries::DIRECT {
            return;
        }
        let guard = self.tree.epochs.pin();
        for leaf in self.written.drain(..) {
            let word = self.tree.node(leaf.id, &guard).head.word();
            // SAFETY: the tree is this thread's alone, and its root is still the empty leaf.
            unsafe { self.tree.release_node(word) };
        }
    }
}

/// Pairs of the leaf that is being filled, and where it begins.
struct Leaf {
    low: Vec<u8>,
    id: NodeId,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl<C: Configuration> BwTree<C> {
    /// A tree of these pairs, whose keys ascend.
    ///
    /// # Errors
    ///
    /// [`NotAscending`] at the first key that is not above the one before it.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, NotAscending> {
        let tree = Self::new();
        let mut children = tree.load_leaves(pairs)?;
        let mut level = 1;
        while children.len() > 1 {
            children = tree.load_level(level, children);
            level += 1;
        }
        Ok(tree)
    }

    /// Writes all leaves; a single one into the root. Returns them.
    fn load_leaves<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Vec<Child>, NotAscending> {
        let mut leaves = Leaves {
            tree: self,
            written: Vec::new(),
        };
        let mut leaf = Leaf {
            low: Vec::new(),
            id: NONE,
            pairs: Vec::new(),
            bytes: 0,
        };
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            if let Some((last, _)) = leaf.pairs.last() {
                if last.as_slice() >= key {
                    return Err(NotAscending { position });
                }
                let stored = value.len().min(crate::value::INLINE_BYTES);
                leaf.bytes += key.len() + stored + 4;
                if leaf.pairs.len() == C::LEAF_ITEMS || leaf.bytes > C::NODE_BYTES {
                    let low = separator(KeyParts::whole(last), KeyParts::whole(key));
                    let right = self.reserve_id();
                    if leaf.id == NONE {
                        leaf.id = self.reserve_id();
                    }
                    let id = self.write_leaf(&leaf, Some(&low), right);
                    let low = std::mem::replace(&mut leaf.low, low);
                    self.link_loaded(&mut leaves.written, low, id);
                    leaf.id = right;
                    leaf.pairs.clear();
                    leaf.bytes = 0;
                }
            }
            leaf.pairs.push((key.to_vec(), value.to_vec()));
        }
        if leaf.id == NONE {
            leaf.id = ROOT;
        }
        let id = self.write_leaf(&leaf, None, NONE);
        self.link_loaded(&mut leaves.written, leaf.low, id);
        Ok(std::mem::take(&mut leaves.written))
    }

    /// An id for a node that is written later. Where ids are places, it stands for one.
    fn reserve_id(&self) -> NodeId {
        match C::Entries::DIRECT {
            true => UNPLACED,
            false => self.table.allocate(),
        }
    }

    /// Adds a node that was written to those of its level. Where ids are places, the one before it
    /// learns its id only now.
    fn link_loaded(&self, nodes: &mut Vec<Child>, low: Vec<u8>, id: NodeId) {
        if C::Entries::DIRECT
            && let Some(left) = nodes.last()
        {
            self.link_right(left.id, id);
        }
        nodes.push(Child { low, id });
    }

    fn write_leaf(&self, leaf: &Leaf, high: Option<&[u8]>, right: NodeId) -> NodeId {
        let values: Vec<_> = leaf
            .pairs
            .iter()
            .map(|(_, value)| NewValue::new(value))
            .collect();
        let items = leaf
            .pairs
            .iter()
            .zip(&values)
            .map(|((key, _), value)| Item {
                key: KeyParts::whole(key),
                value: value.stored(),
            });
        let items: Vec<Item<'_>> = items.collect();
        let draft = Draft {
            level: 0,
            low: &leaf.low,
            high,
            right,
            items: &items,
        };
        let id = self.write_node(leaf.id, &draft);
        drop(items);
        values.into_iter().for_each(NewValue::publish);
        id
    }

    /// Writes the nodes above `children`, into the root if one is enough. Returns them.
    fn load_level(&self, level: u8, children: Vec<Child>) -> Vec<Child> {
        let items = children.iter().map(|child| Item {
            key: KeyParts::whole(&child.low),
            value: Stored::of_child(child.id),
        });
        let items: Vec<Item<'_>> = items.collect();
        let parts = cut_evenly::<C>(&items);
        let ids: Vec<NodeId> = match parts.len() {
            1 => vec![ROOT],
            count => (0..count).map(|_| self.reserve_id()).collect(),
        };
        let mut above = Vec::new();
        let mut from = 0;
        for (index, &to) in parts.iter().enumerate() {
            let low = children[from].low.clone();
            let id = self.write_node(
                ids[index],
                &Draft {
                    level,
                    low: &low,
                    high: children.get(to).map(|child| child.low.as_slice()),
                    right: ids.get(index + 1).copied().unwrap_or(NONE),
                    items: &items[from..to],
                },
            );
            self.link_loaded(&mut above, low, id);
            from = to;
        }
        above
    }

    /// Writes a node with an id that was reserved for it, or gives it one. Returns the id.
    fn write_node(&self, id: NodeId, draft: &Draft<'_, '_>) -> NodeId {
        // SAFETY: just written, and this thread's alone.
        let base = unsafe { RecordRef::new(draft.build::<WordOf<C>>(self.placement, 0)) };
        if id == UNPLACED {
            return self.add_node(base);
        }
        if id == ROOT {
            let guard = self.epochs.pin();
            let empty = self.node(ROOT, &guard);
            // SAFETY: the tree is this thread's alone; what its root had is replaced below.
            unsafe { self.release_unpublished(empty.head) };
        }
        self.table.install(id, base.word());
        id
    }
}

/// Where a level is cut into nodes that are about equally full: their ends.
fn cut_evenly<C: Configuration>(items: &[Item<'_>]) -> Vec<usize> {
    let by_count = items.len().div_ceil(C::INNER_ITEMS);
    let by_bytes = item_bytes(items).div_ceil(C::NODE_BYTES);
    // A node has two children at least.
    let count = by_count.max(by_bytes).min(items.len() / 2).max(1);
    (1..=count).map(|part| part * items.len() / count).collect()
}
