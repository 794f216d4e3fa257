//! Putting a delta record on a chain.

use std::ptr::NonNull;

use crate::chunk;
use crate::configuration::{Configuration, Deltas};
use crate::delta_blocks;
use crate::events::Event;
use crate::node::key::filter_of;
use crate::node::record::write_record;
use crate::node::view::Change;
use crate::node::{Body, Header, Kind, RecordRef};
use crate::tree::{BwTree, Guard, Node, WordOf};

/// A value in a block of so many bytes goes with its chain at once when it is replaced or deleted:
/// the block is in memory as long as the chain is, which may be for ever.
const CONSOLIDATED_AT_ONCE_BYTES: usize = 64 << 10;

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Another thread changed the node first: nothing happened.
    Lost,
    /// A delta says it.
    Appended,
    /// The node was consolidated with it.
    Consolidated,
    /// There is no room for a delta, in the chunk or in a block that is near: nothing happened.
    ChunkFull,
}

/// The attributes that a new record does not take from the one below it.
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub kind: Kind,
    pub size: u32,
    pub right: u32,
    pub offset: u32,
}

impl<C: Configuration> BwTree<C> {
    /// Makes a change to a node, if it still is as it was: by a delta, or by consolidation where
    /// the chain is long enough or its chunk is full.
    pub(crate) fn apply(&self, node: Node<'_>, change: &Change<'_>, guard: &Guard<C>) -> Outcome {
        let header = node.head.header();
        let is_large = change.frees >= CONSOLIDATED_AT_ONCE_BYTES;
        if !is_large && header.depth < Self::longest_chain(header.level) {
            let body = match change.kind {
                Kind::InsertSeparator | Kind::DeleteSeparator => Body::Separator {
                    key: change.key,
                    child: change.value.child(),
                    child_high: change.child_high,
                },
                _ => Body::Value {
                    filter: match C::FILTERS {
                        true => node.head.filter() | filter_of(change.key),
                        false => u64::MAX,
                    },
                    key: change.key,
                    value: change.value,
                },
            };
            let size = match change.kind {
                Kind::Insert | Kind::InsertSeparator => header.size + 1,
                Kind::Delete | Kind::DeleteSeparator => header.size - 1,
                _ => header.size,
            };
            let attributes = Attributes {
                kind: change.kind,
                size,
                right: node.head.right(),
                offset: change.offset,
            };
            let outcome = self.append(node, attributes, &body);
            if outcome != Outcome::ChunkFull {
                return outcome;
            }
            self.counters.count(match C::DELTAS {
                Deltas::InChunk => Event::ChunksFull as usize,
                Deltas::InBlocks => Event::FarDeltas as usize,
            });
        }
        if self.rebuild(node, Some(change), guard) {
            Outcome::Consolidated
        } else {
            Outcome::Lost
        }
    }

    /// Puts a record on a node's chain. An abort on top is left out of the new chain.
    pub(crate) fn append(
        &self,
        node: Node<'_>,
        attributes: Attributes,
        body: &Body<'_>,
    ) -> Outcome {
        debug_assert!(!matches!(node.head.kind(), Kind::Merge | Kind::Remove));
        let below = match node.head.kind() {
            Kind::Abort => node.head.next(),
            _ => node.head,
        };
        let has_block = matches!(C::DELTAS, Deltas::InBlocks) && body.is_about_a_key();
        let place = if has_block {
            let base = below.base().record();
            delta_blocks::allocate::<WordOf<C>>(base, self.placement, body.record_bytes())
        } else {
            chunk::claim::<WordOf<C>>(below.base(), body.record_bytes())
        };
        let Some(at) = place else {
            return Outcome::ChunkFull;
        };
        // SAFETY: the bytes are this thread's alone, in the chunk or in a block that is near.
        let record = unsafe { write_above(at, below, attributes, body) };
        if self.table.replace(node.id, node.head.word(), record.word()) {
            Outcome::Appended
        } else {
            self.counters.count(Event::LostAppends as usize);
            if has_block {
                let bytes = body.record_bytes();
                // SAFETY: just allocated with this size, and not published.
                unsafe { delta_blocks::release_one::<WordOf<C>>(at, self.placement, bytes) };
            }
            Outcome::Lost
        }
    }
}

/// Writes a record in front of an older one.
///
/// # Safety
///
/// `at` was claimed in the chunk of `below`, or allocated for its chain, with the body's size, and
/// is not published.
unsafe fn write_above<'g>(
    at: NonNull<u8>,
    below: RecordRef<'g>,
    attributes: Attributes,
    body: &Body<'_>,
) -> RecordRef<'g> {
    // SAFETY: only the address is used before the record is written.
    let record = unsafe { RecordRef::new(at) };
    let older = below.header();
    let bound = if attributes.kind == Kind::Split {
        record
    } else {
        below.bound()
    };
    let header = Header {
        kind: attributes.kind,
        level: older.level,
        depth: older.depth + 1,
        size: attributes.size,
        right: attributes.right,
        offset: attributes.offset,
        next: record.distance_to(below),
        base: record.distance_to(below.base().record()),
        bound: record.distance_to(bound),
        key_bytes: 0,
    };
    // SAFETY: the caller claimed or allocated the record's bytes, in multiples of 8.
    unsafe { write_record(at, header, body) };
    record
}

/// A split record on a base node that nobody else knows yet, whose chunk has room for it.
pub(crate) fn split_unpublished<'g, C: Configuration>(
    base: RecordRef<'g>,
    attributes: Attributes,
    separator: &[u8],
) -> RecordRef<'g> {
    let body = Body::Value {
        filter: 0,
        key: separator,
        value: crate::value::Stored::EMPTY,
    };
    let at = chunk::claim::<WordOf<C>>(base.base(), body.record_bytes());
    let at = at.expect("the chunk was made with room for the split");
    // SAFETY: just claimed, and not published.
    unsafe { write_above(at, base, attributes, &body) }
}
