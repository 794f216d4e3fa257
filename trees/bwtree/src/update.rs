//! Changing one key: an insert, update or delete record on the chain of its leaf.
//!
//! Which of them, follows from what the chain says of the key (Table 2 of the thesis): an update of
//! a key that is there, an insert of one that is not, a delete of one that is. A writer whose
//! compare-and-swap fails looks at the same node again, and only where that node is removed or no
//! longer has the key does it descend; or always, as a type ([`Retry`]).

use hedgerow_index::Decision;

use crate::append::Outcome;
use crate::configuration::{Configuration, Retry};
use crate::descend::Help;
use crate::epochs::Epochs;
use crate::events::Event;
use crate::mapping_table::ROOT;
use crate::node::Kind;
use crate::node::route::Target;
use crate::node::view::Change;
use crate::tree::{BwTree, Guard, Node};
use crate::value::{Block, NewValue, Stored};

impl<C: Configuration> BwTree<C> {
    /// Atomically replaces, inserts or removes one key, as [`hedgerow_index::Index::update`] does,
    /// with `decide` compiled in; returns what its last call returned.
    #[inline]
    pub fn update_with<R>(
        &self,
        key: &[u8],
        new: &mut Vec<u8>,
        mut decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<R>,
    ) -> R {
        self.modify(key, new, |present, new| {
            new.clear();
            decide(present, new)
        })
    }

    /// As [`update_with`](Self::update_with), with the new value in any form.
    #[inline]
    fn modify<N: AsRef<[u8]>, R>(
        &self,
        key: &[u8],
        mut new: N,
        mut decide: impl FnMut(Option<&[u8]>, &mut N) -> Decision<R>,
    ) -> R {
        let guard = self.epochs.pin();
        let mut leaf = self.leaf_to_change(key, &guard);
        loop {
            let found = leaf.head.lookup(key);
            let decision = decide(found.value.as_ref().map(Stored::get), &mut new);
            let present = found.value.is_some();
            let block = found.value.as_ref().and_then(Stored::block);
            let frees = block.map_or(0, Block::length);
            let (outcome, result) = match decision {
                Decision::Keep(result) => return result,
                Decision::Remove(result) if !present => return result,
                Decision::Remove(result) => {
                    let outcome = self.delete(leaf, key, found.offset, frees, &guard);
                    (outcome, result)
                }
                Decision::Put(result) => {
                    let value = NewValue::new(new.as_ref());
                    let change = Change {
                        kind: if present { Kind::Update } else { Kind::Insert },
                        key,
                        value: value.stored(),
                        child_high: None,
                        offset: found.offset,
                        frees,
                    };
                    let outcome = self.apply(leaf, &change, &guard);
                    if outcome != Outcome::Lost {
                        value.publish();
                    }
                    (outcome, result)
                }
            };
            if outcome != Outcome::Lost {
                return result;
            }
            self.counters.count(Event::Retries as usize);
            leaf = self.leaf_to_change_again(leaf, key, &guard);
        }
    }

    fn delete(
        &self,
        leaf: Node<'_>,
        key: &[u8],
        offset: u32,
        frees: usize,
        guard: &Guard<C>,
    ) -> Outcome {
        let change = Change {
            kind: Kind::Delete,
            key,
            value: Stored::EMPTY,
            child_high: None,
            offset,
            frees,
        };
        let outcome = self.apply(leaf, &change, guard);
        let left = leaf.head.header().size - 1;
        let look = match outcome {
            Outcome::Lost => false,
            Outcome::Consolidated => (left as usize) * 4 < C::LEAF_ITEMS,
            _ => left == 0,
        };
        if look && leaf.id != ROOT {
            self.merge_underfull(0, key, guard);
        }
        outcome
    }

    /// The leaf of a key, without a merge on top.
    #[inline]
    fn leaf_to_change<'g>(&self, key: &[u8], guard: &'g Guard<C>) -> Node<'g> {
        loop {
            let leaf = self.find_leaf(Target::At(key), Help::Post, guard);
            if leaf.head.kind() != Kind::Merge {
                return leaf;
            }
            self.rebuild(leaf, None, guard);
        }
    }

    /// The leaf of a key after a lost compare-and-swap: the same node if it still has the key.
    #[cold]
    fn leaf_to_change_again<'g>(
        &self,
        lost: Node<'_>,
        key: &[u8],
        guard: &'g Guard<C>,
    ) -> Node<'g> {
        if matches!(C::RETRY, Retry::AtRoot) {
            self.counters.count(Event::RootRetries as usize);
            return self.leaf_to_change(key, guard);
        }
        let leaf = self.node(lost.id, guard);
        let header = leaf.head.header();
        let same = !matches!(header.kind, Kind::Remove | Kind::Merge)
            && header.level == 0
            && !Target::At(key).is_beyond(leaf.head.high());
        if same {
            leaf
        } else {
            self.counters.count(Event::RootRetries as usize);
            self.leaf_to_change(key, guard)
        }
    }

    /// Stores `value` under `key`; says whether the key was there before.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> bool {
        self.modify(key, value, |present, _| Decision::Put(present.is_some()))
    }

    /// Removes `key`; says whether it was there.
    #[inline]
    pub fn remove(&self, key: &[u8]) -> bool {
        self.modify(key, [], |present, _| Decision::Remove(present.is_some()))
    }
}
