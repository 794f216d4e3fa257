//! Finding one thing in a chain: the child that leads to a key, or a key's value.

use hedgerow_memory::prefetch_line;

use crate::mapping_table::NodeId;
use crate::node::base::{Base, Candidate};
use crate::node::key::{compare, filter_of};
use crate::node::record::{IN_BASE, Kind, RecordRef};
use crate::value::Stored;

/// What a descent looks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'k> {
    /// The node that a key belongs to.
    At(&'k [u8]),
    /// The node that the keys just below one belong to.
    Before(&'k [u8]),
    /// The last node.
    Last,
}

impl Target<'_> {
    /// Whether it lies beyond a node with this high key.
    #[inline(always)]
    pub fn is_beyond(self, high: Option<&[u8]>) -> bool {
        match (high, self) {
            (None, _) => false,
            (Some(high), Target::At(key)) => compare(key, high).is_ge(),
            (Some(high), Target::Before(key)) => compare(key, high).is_gt(),
            (Some(_), Target::Last) => true,
        }
    }

    /// Whether it is not below a separator.
    #[inline(always)]
    fn is_from(self, separator: &[u8]) -> bool {
        match self {
            Target::At(key) => key >= separator,
            Target::Before(key) => key > separator,
            Target::Last => true,
        }
    }
}

/// What a leaf has of a key.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'g> {
    pub value: Option<Stored<'g>>,
    /// Of the base node: where the key is or would be, with [`IN_BASE`].
    pub offset: u32,
}

impl<'g> RecordRef<'g> {
    /// The child of an inner node that leads to a target, which is not beyond the node.
    #[inline]
    pub fn child_of(self, target: Target<'_>) -> NodeId {
        let mut record = self;
        loop {
            if record.kind() == Kind::Base {
                return record.base().child_of(target);
            }
            match record.kind() {
                Kind::InsertSeparator | Kind::DeleteSeparator => {
                    if target.is_from(record.key()) && !target.is_beyond(record.child_high()) {
                        return record.child();
                    }
                    record = record.next();
                }
                Kind::Merge => {
                    let right = record.chain();
                    record = if target.is_from(right.low()) {
                        right
                    } else {
                        record.next()
                    };
                }
                _ => record = record.next(),
            }
        }
    }

    /// Whether a lookup of a key walks the records in front of a leaf's base node.
    #[inline(always)]
    pub fn may_have_delta_of(self, key: &[u8]) -> bool {
        match self.kind() {
            Kind::Base => false,
            Kind::Insert | Kind::Update | Kind::Delete => {
                let bits = filter_of(key);
                self.filter() & bits == bits
            }
            _ => true,
        }
    }

    /// What a leaf has of a key, which is not beyond it.
    #[inline]
    pub fn lookup(self, key: &[u8]) -> Lookup<'g> {
        self.locate(key).lookup()
    }

    /// Where in a leaf a key is, which is not beyond it: the walk of the chain and the count of
    /// heads, without a look at the base node's items.
    #[inline]
    pub fn locate<'k>(self, key: &'k [u8]) -> Located<'g, 'k> {
        let bits = filter_of(key);
        if self.may_have_delta_of(key) {
            self.prefetch_chain();
        }
        let mut record = self;
        loop {
            if record.kind() == Kind::Base {
                let base = record.base();
                return Located::InBase(base, base.candidate(key, 0));
            }
            if record.is_leaf_delta() {
                record = if record.filter() & bits != bits {
                    record.base().record()
                } else if record.is_of(key) {
                    return Located::InDelta(Lookup {
                        value: (record.kind() != Kind::Delete).then(|| record.value()),
                        offset: record.header().offset,
                    });
                } else {
                    record.next()
                };
            } else if record.kind() == Kind::Merge {
                let right = record.chain();
                record = if compare(key, right.low()).is_ge() {
                    right
                } else {
                    record.next()
                };
            } else {
                record = record.next();
            }
        }
    }
}

/// Where in a leaf a key is.
#[derive(Clone, Copy)]
pub(crate) enum Located<'g, 'k> {
    /// A delta says what the leaf has of it.
    InDelta(Lookup<'g>),
    /// The base node says it: by the item with the key's head, or by having none.
    InBase(Base<'g>, Result<Candidate<'k>, usize>),
}

impl<'g> Located<'g, '_> {
    /// Asks for the item of the base node that [`lookup`](Self::lookup) reads, if it reads one.
    #[inline(always)]
    pub fn prefetch_item(&self) {
        if let Located::InBase(base, Ok(candidate)) = self {
            prefetch_line(base.item_address(candidate.index()));
        }
    }

    /// What the leaf has of the key.
    #[inline(always)]
    pub fn lookup(self) -> Lookup<'g> {
        let (base, candidate) = match self {
            Located::InDelta(lookup) => return lookup,
            Located::InBase(base, candidate) => (base, candidate),
        };
        let found = match candidate {
            Ok(candidate) => base.search_equal(candidate),
            Err(index) => Err(index),
        };
        match found {
            Ok(index) => Lookup {
                value: Some(base.value(index)),
                offset: index as u32 | IN_BASE,
            },
            Err(index) => Lookup {
                value: None,
                offset: index as u32,
            },
        }
    }
}

impl<'g> Base<'g> {
    /// The child of an inner node that leads to a target.
    #[inline]
    fn child_of(self, target: Target<'_>) -> NodeId {
        let index = match target {
            Target::At(key) => match self.search(key) {
                Ok(index) => index,
                Err(index) => index - 1,
            },
            Target::Before(key) => {
                let (Ok(index) | Err(index)) = self.search(key);
                index - 1
            }
            Target::Last => self.size() - 1,
        };
        self.child(index)
    }
}
