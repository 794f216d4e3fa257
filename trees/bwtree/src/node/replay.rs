//! Consolidation as the first Bw-tree had it, for comparison: the deltas of a chain are applied one
//! after the other, oldest first, to a copy of the base node's items, which is then sorted.
//!
//! The product puts the few deltas in order instead and takes over the items between them (module
//! `view`). Both leave the same items and the same garbage.

use crate::node::item::{Item, KeyParts};
use crate::node::record::{Kind, RecordRef};
use crate::node::view::{Change, View};
use crate::value::Stored;

/// The items of a chain while its deltas are applied.
struct Replay<'v, 'a> {
    view: &'v mut View<'a>,
    /// Where the chain's items begin in the view.
    from: usize,
    /// Up to where they are in order: those of the base node. New ones stand behind.
    sorted: usize,
}

impl<'a> View<'a> {
    /// As [`View::of`], by replay.
    pub fn replayed(head: RecordRef<'a>, change: Option<&Change<'a>>) -> Self {
        let mut view = View::default();
        view.replay(head, change);
        view
    }

    fn replay(&mut self, head: RecordRef<'a>, change: Option<&Change<'a>>) {
        if head.kind() == Kind::Merge {
            debug_assert!(change.is_none(), "a merge is consolidated before changes");
            self.replay(head.next(), None);
            self.replay(head.chain(), None);
            return;
        }
        let base = head.base();
        let mut stay = base.size();
        let mut deltas = Vec::new();
        let mut record = head;
        while record.kind() != Kind::Base {
            match record.kind() {
                Kind::Insert | Kind::Update => deltas.push((record.key(), Some(record.value()))),
                Kind::InsertSeparator => {
                    deltas.push((record.key(), Some(Stored::of_child(record.child()))));
                }
                Kind::Delete | Kind::DeleteSeparator => deltas.push((record.key(), None)),
                Kind::Split => stay = record.offset(),
                _ => {}
            }
            record = record.next();
        }
        let from = self.items.len();
        self.items.extend((0..stay).map(|index| base.item(index)));
        let mut replay = Replay {
            sorted: self.items.len(),
            view: self,
            from,
        };
        for (key, value) in deltas.into_iter().rev() {
            replay.apply(key, value);
        }
        if let Some(change) = change {
            let gone = matches!(change.kind, Kind::Delete | Kind::DeleteSeparator);
            replay.apply(change.key, (!gone).then_some(change.value));
        }
        self.items[from..].sort_unstable_by(|one, other| one.key.order(&other.key));
    }
}

impl<'a> Replay<'_, 'a> {
    fn apply(&mut self, key: &'a [u8], value: Option<Stored<'a>>) {
        match (self.find(key), value) {
            (Some(index), Some(value)) => {
                let old = std::mem::replace(&mut self.view.items[index].value, value);
                self.view.garbage.extend(old.block());
            }
            (Some(index), None) => {
                let old = self.view.items.remove(index);
                self.sorted -= usize::from(index < self.sorted);
                self.view.garbage.extend(old.value.block());
            }
            (None, Some(value)) => self.view.items.push(Item {
                key: KeyParts::whole(key),
                value,
            }),
            (None, None) => debug_assert!(false, "a delete record is about a key that is there"),
        }
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        let (sorted, new) = self.view.items[self.from..].split_at(self.sorted - self.from);
        let among_sorted = sorted.binary_search_by(|item| item.key.compare(key));
        let index = among_sorted.ok().or_else(|| {
            let index = new.iter().position(|item| item.key.compare(key).is_eq());
            index.map(|index| sorted.len() + index)
        });
        index.map(|index| self.from + index)
    }
}
