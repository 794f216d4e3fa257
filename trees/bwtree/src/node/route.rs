//! Finding one thing in a chain: the child that leads to a key, or a key's value.

use crate::mapping_table::NodeId;
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
            (Some(high), Target::At(key)) => key >= high,
            (Some(high), Target::Before(key)) => key > high,
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
            match record.kind() {
                Kind::InsertSeparator | Kind::DeleteSeparator => {
                    if target.is_from(record.key()) && !target.is_beyond(record.second()) {
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
                Kind::Base => {
                    let base = record.base();
                    let index = match target {
                        Target::At(key) => match base.search(key) {
                            Ok(index) => index,
                            Err(index) => index - 1,
                        },
                        Target::Before(key) => {
                            let (Ok(index) | Err(index)) = base.search(key);
                            index - 1
                        }
                        Target::Last => base.size() - 1,
                    };
                    return base.child(index);
                }
                _ => record = record.next(),
            }
        }
    }

    /// What a leaf has of a key, which is not beyond it; `head` is the key's.
    #[inline]
    pub fn lookup(self, head: u64, key: &[u8]) -> Lookup<'g> {
        let mut record = self;
        loop {
            match record.kind() {
                Kind::Insert | Kind::Update if record.is_of(head, key) => {
                    return Lookup {
                        value: Some(record.value()),
                        offset: record.header().offset,
                    };
                }
                Kind::Delete if record.is_of(head, key) => {
                    return Lookup {
                        value: None,
                        offset: record.header().offset,
                    };
                }
                Kind::Base => {
                    let base = record.base();
                    return match base.search(key) {
                        Ok(index) => Lookup {
                            value: Some(base.value(index)),
                            offset: index as u32 | IN_BASE,
                        },
                        Err(index) => Lookup {
                            value: None,
                            offset: index as u32,
                        },
                    };
                }
                Kind::Merge => {
                    let right = record.chain();
                    record = if key >= right.low() {
                        right
                    } else {
                        record.next()
                    };
                }
                _ => record = record.next(),
            }
        }
    }
}
