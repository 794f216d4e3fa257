//! Giving memory and ids back: through the epoch while the tree is shared, at once when it is
//! dropped.
//!
//! Each thread has a list of its own for what it retires (`hedgerow_sync::epoch`), the
//! decentralised scheme of OpenBw-Tree.

use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use hedgerow_memory::{Placement, SizedPools};
use hedgerow_sync::Counters;

use crate::chunk;
use crate::configuration::{Configuration, Deltas};
use crate::delta_blocks;
use crate::epochs::Epochs;
use crate::events::Event;
use crate::mapping_table::NodeId;
use crate::node::record::write_record;
use crate::node::view::View;
use crate::node::{Body, Header, Kind, RecordRef};
use crate::planted::{PlantedBug, planted};
use crate::tree::{BwTree, Guard, WordOf};
use crate::value::Block;

impl<C: Configuration> BwTree<C> {
    /// Retires the chunks of a chain.
    ///
    /// # Safety
    ///
    /// The chain is unreachable for operations that begin from now on, and retired once.
    pub(crate) unsafe fn retire_chain(&self, head: RecordRef<'_>, guard: &Guard<C>) {
        if head.kind() == Kind::Merge {
            // SAFETY: the merge was the only way to the chain of the removed node, whose remove
            // record leads nobody there any more: they find it merged.
            unsafe { self.retire_chain(head.chain(), guard) };
        }
        let chunk = chunk::word::<WordOf<C>>(head.base());
        let placement = self.placement;
        match C::DELTAS {
            Deltas::InChunk => {
                let release = move || {
                    // SAFETY: the caller's promise, and the epoch has ended.
                    unsafe { chunk::release::<WordOf<C>>(chunk, placement) }
                };
                // SAFETY: the caller's promise.
                unsafe { C::Epochs::retire(guard, 0, counted(release)) };
            }
            Deltas::InBlocks => {
                let word = head.word();
                let release = move || {
                    // SAFETY: as above; the deltas are freed before the chunk that they lead to.
                    unsafe {
                        delta_blocks::release::<WordOf<C>>(RecordRef::of_word(word), placement);
                        chunk::release::<WordOf<C>>(chunk, placement);
                    }
                };
                // SAFETY: the caller's promise.
                unsafe { C::Epochs::retire(guard, 0, counted(release)) };
            }
        }
    }

    /// Retires blocks of values.
    ///
    /// # Safety
    ///
    /// No record that an operation can reach from now on names them.
    pub(crate) unsafe fn retire_blocks(&self, blocks: &[Block], guard: &Guard<C>) {
        for &block in blocks {
            let release = move || {
                // SAFETY: the caller's promise, and the epoch has ended.
                unsafe { block.release() }
            };
            // SAFETY: the caller's promise.
            unsafe { C::Epochs::retire(guard, block.length(), counted(release)) };
        }
    }

    /// Retires a removed node's id and its remove record.
    ///
    /// # Safety
    ///
    /// Nothing leads to the id any more, and it is retired once.
    pub(crate) unsafe fn retire_id(&self, id: NodeId, remove: RecordRef<'_>, guard: &Guard<C>) {
        let word = remove.word();
        let table = Arc::clone(&self.table);
        self.counters.count(Event::IdsRetired as usize);
        if planted(PlantedBug::IdRecycledEarly) {
            table.recycle(id);
            return;
        }
        self.table.mark_retired(id, word);
        let placement = self.placement;
        let release = move || {
            // SAFETY: the epoch has ended, so no operation that could reach the id is running.
            unsafe { release_remove(word, placement) };
            table.recycle(id);
        };
        // SAFETY: the caller's promise.
        unsafe { C::Epochs::retire_id(guard, counted(release)) };
    }

    /// Frees a node, with its values, unless it was removed.
    ///
    /// # Safety
    ///
    /// The tree is this thread's alone, the word is that of a node in it, and nothing leads there
    /// from now on.
    pub(crate) unsafe fn release_node(&self, word: u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let head = RecordRef::of_word(word);
            if head.kind() == Kind::Remove {
                return;
            }
            let view = View::of(head, None);
            if head.header().level == 0 {
                let blocks = view.items.iter().filter_map(|item| item.value.block());
                blocks
                    .chain(view.garbage.iter().copied())
                    .for_each(|block| block.release());
            }
            if head.kind() == Kind::Merge {
                self.release_unpublished(head.chain());
            }
            self.release_unpublished(head);
        }
    }

    /// Frees a chain that was never published.
    ///
    /// # Safety
    ///
    /// Nobody else knows it.
    pub(crate) unsafe fn release_unpublished(&self, head: RecordRef<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            let chunk = chunk::word::<WordOf<C>>(head.base());
            if matches!(C::DELTAS, Deltas::InBlocks) {
                delta_blocks::release::<WordOf<C>>(head, self.placement);
            }
            chunk::release::<WordOf<C>>(chunk, self.placement);
        }
    }
}

const RETIRED: usize = 0;
const RELEASED: usize = 1;

/// What all trees of the process retired and released: their epochs' lists are not a tree's own.
static RECLAMATION: LazyLock<Counters<2>> = LazyLock::new(Counters::new);

/// A release that is counted, and that it is waited for.
fn counted(release: impl FnOnce() + Send) -> impl FnOnce() + Send {
    RECLAMATION.count(RETIRED);
    move || {
        release();
        RECLAMATION.count(RELEASED);
    }
}

/// Chunks, blocks and ids that the trees of this process have retired, and those of them that were
/// released; the others wait for the end of an epoch.
pub(crate) fn retired_and_released() -> (u64, u64) {
    // In this order, so that no release is counted whose retirement is not.
    let released = RECLAMATION.sum(RELEASED);
    (RECLAMATION.sum(RETIRED), released)
}

static REMOVE_RECORDS: SizedPools = SizedPools::new("bwtree remove record");

/// A remove record in a block of its own.
pub(crate) fn allocate_remove<'g>(
    below: RecordRef<'g>,
    into: NodeId,
    placement: Placement,
) -> RecordRef<'g> {
    let body = Body::Remove {
        chain: below.word(),
        into,
        key: below.low(),
    };
    let block = REMOVE_RECORDS.allocate(placement, body.record_bytes());
    block.as_ptr().expose_provenance();
    let header = Header {
        kind: Kind::Remove,
        depth: below.header().depth + 1,
        ..*below.header()
    };
    // SAFETY: the block is new, with room for the record.
    unsafe {
        write_record(block, header, &body);
        RecordRef::new(block)
    }
}

/// Frees the block of a remove record.
///
/// # Safety
///
/// It is of that placement, and nobody uses it any more.
pub(crate) unsafe fn release_remove(word: u64, placement: Placement) {
    // SAFETY: the caller owns the block, which `allocate_remove` filled.
    unsafe {
        let remove = RecordRef::of_word(word);
        let body = Body::Remove {
            chain: 0,
            into: 0,
            key: remove.key(),
        };
        let address: NonNull<u8> = remove.address();
        REMOVE_RECORDS.release(placement, address, body.record_bytes());
    }
}

impl<C: Configuration> Drop for BwTree<C> {
    fn drop(&mut self) {
        // What is retired is released through the epoch's lists, at this moment perhaps, by another
        // thread: the record of such an id must not be read.
        for word in self.table.in_use().chain(self.words_below_root()) {
            // SAFETY: the tree is this thread's alone, so every record of an id in use is alive and
            // used by nobody.
            unsafe { self.release_node(word) };
        }
    }
}
