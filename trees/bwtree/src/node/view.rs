//! The items of a logical node in order: its base node with its deltas applied.
//!
//! This is **fast consolidation**: a delta names the place of its key in the base node, so the base
//! node's items between two deltas are taken over as they are, without a comparison of keys. Only
//! the few deltas are put in order.
//!
//! **How keys beyond a split key leave the old node**, which the thesis could not find in
//! OpenBw-Tree: a split is put on a node that was consolidated for it, and names how many of the
//! base node's items stay. Every later delta is about a key below the split key, as its writer
//! compared it with the node's high key. So a consolidation takes no more than that many items of
//! the base node, and the others are left behind with it.

use crate::node::item::{Item, KeyParts};
use crate::node::ordered::{Newest, Ordered};
use crate::node::record::{Kind, RecordRef};
use crate::value::{Block, Stored};

/// A change of one key that is applied as if it were the newest delta.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub kind: Kind,
    pub key: &'a [u8],
    /// The new value; of a separator, the child.
    pub value: Stored<'a>,
    /// Of a separator: its child's high key, `None` if there is none.
    pub child_high: Option<&'a [u8]>,
    /// Where in the base node the key is or would be.
    pub offset: u32,
    /// Bytes of the block that had the key's value, if one did.
    pub frees: usize,
}

/// What a consolidation takes from a chain.
#[derive(Default)]
pub(crate) struct View<'a> {
    /// The items in order.
    pub items: Vec<Item<'a>>,
    /// Blocks of values that are not among them.
    pub garbage: Vec<Block>,
    deltas: Vec<Newest<'a>>,
}

impl<'a> View<'a> {
    /// The view of a chain, with a change on top.
    pub fn of(head: RecordRef<'a>, change: Option<&Change<'a>>) -> Self {
        let mut view = View::default();
        view.load(head, change);
        view
    }

    /// Appends the items of a chain.
    pub fn load(&mut self, head: RecordRef<'a>, change: Option<&Change<'a>>) {
        match head.kind() {
            Kind::Merge => {
                debug_assert!(change.is_none(), "a merge is consolidated before changes");
                self.load(head.next(), None);
                self.load(head.chain(), None);
            }
            _ => self.load_chain(head, change),
        }
    }

    fn load_chain(&mut self, head: RecordRef<'a>, change: Option<&Change<'a>>) {
        let (base, stay) = self.load_deltas(head, change);
        self.merge(base, stay);
    }

    /// Puts the deltas of a chain in order, the newest one of each key. Returns the base node, and
    /// how many of its items stay.
    fn load_deltas(
        &mut self,
        head: RecordRef<'a>,
        change: Option<&Change<'a>>,
    ) -> (RecordRef<'a>, usize) {
        self.deltas.clear();
        head.prefetch_chain();
        if let Some(change) = change {
            let gone = matches!(change.kind, Kind::Delete | Kind::DeleteSeparator);
            self.keep_newest(Newest {
                offset: change.offset,
                key: change.key,
                value: (!gone).then_some(change.value),
            });
        }
        let mut record = head;
        let mut stay = record.base().size();
        loop {
            let value = match record.kind() {
                Kind::Base => break,
                Kind::Insert | Kind::Update => Some(record.value()),
                Kind::InsertSeparator => Some(Stored::of_child(record.child())),
                Kind::Delete | Kind::DeleteSeparator => None,
                Kind::Split => {
                    stay = record.offset();
                    record = record.next();
                    continue;
                }
                _ => {
                    record = record.next();
                    continue;
                }
            };
            self.keep_newest(Newest {
                offset: record.header().offset,
                key: record.key(),
                value,
            });
            record = record.next();
        }
        (record, stay)
    }

    /// A chain, but a merge, as items that can be walked in order without a copy of them.
    pub fn ordered(&mut self, head: RecordRef<'a>) -> Ordered<'a, '_> {
        debug_assert_ne!(head.kind(), Kind::Merge);
        self.garbage.clear();
        let (base, stay) = self.load_deltas(head, None);
        Ordered::new(base.base(), stay, &self.deltas)
    }

    /// Keeps a delta, in the order of keys, unless there is a newer one of its key.
    fn keep_newest(&mut self, delta: Newest<'a>) {
        match self.deltas.binary_search_by(|other| other.order(&delta)) {
            Ok(_) => self.leave_out(delta.value),
            Err(index) => self.deltas.insert(index, delta),
        }
    }

    fn leave_out(&mut self, value: Option<Stored<'a>>) {
        self.garbage.extend(value.and_then(|value| value.block()));
    }

    /// Appends the first `stay` items of the base node with the deltas applied.
    fn merge(&mut self, base: RecordRef<'a>, stay: usize) {
        let base = base.base();
        let is_leaf = base.record().header().level == 0;
        let mut next = 0;
        self.items.reserve(stay + self.deltas.len());
        for delta in std::mem::take(&mut self.deltas) {
            let place = delta.place() as usize;
            self.items
                .extend((next..place).map(|index| base.item(index)));
            next = next.max(place);
            if delta.is_in_base() {
                if is_leaf {
                    self.leave_out(Some(base.value(next)));
                }
                next += 1;
            }
            self.items.extend(delta.value.map(|value| Item {
                key: KeyParts::whole(delta.key),
                value,
            }));
        }
        self.items
            .extend((next..stay).map(|index| base.item(index)));
    }
}
