//! The tree itself: the mapping table and the event counters.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use hedgerow_memory::Placement;
use hedgerow_sync::Counters;

use crate::configuration::{Configuration, Standard};
use crate::epochs::Epochs;
use crate::events::EVENTS;
use crate::mapping_table::{Entries, MappingTable, NodeId, ROOT};
use crate::node::{Draft, RecordRef};

/// A Bw-tree from byte strings to byte strings.
///
/// It implements [`hedgerow_index::Index`]. See the crate's documentation for the design.
pub struct BwTree<C: Configuration = Standard> {
    pub(crate) table: Arc<MappingTable<C::Entries>>,
    pub(crate) counters: Counters<EVENTS>,
    pub(crate) epochs: C::Epochs,
    /// Where the memory of its nodes comes from.
    pub(crate) placement: Placement,
    configuration: PhantomData<C>,
    sharing: PhantomData<<C::Entries as Entries>::Sharing>,
}

/// The atomic word of a configuration.
pub(crate) type WordOf<C> = <<C as Configuration>::Entries as Entries>::Word;

/// What an operation keeps while it runs.
pub(crate) type Guard<C> = <<C as Configuration>::Epochs as Epochs>::Guard;

/// A logical node as it was when its word was loaded.
#[derive(Clone, Copy)]
pub(crate) struct Node<'g> {
    pub id: NodeId,
    pub head: RecordRef<'g>,
}

impl<C: Configuration> BwTree<C> {
    /// An empty tree. Reserves 2 GiB of address space for its mapping table, and takes memory for
    /// as many nodes as it has.
    ///
    /// # Panics
    ///
    /// If the process is limited to less address space; [`try_new`](Self::try_new) says so.
    pub fn new() -> Self {
        Self::try_new().unwrap_or_else(|error| {
            panic!("no address space for a Bw-tree ({error}); raise its limit (ulimit -v)")
        })
    }

    /// As [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// What the kernel says when it does not give so much address space.
    pub fn try_new() -> io::Result<Self> {
        Self::with_placement(Placement::Merged)
    }

    /// As [`try_new`](Self::try_new), with the nodes from there: leaves, inner nodes, and the
    /// records that have blocks of their own. Segregated ones have pools by kind and size class.
    /// Long values are no nodes and come from size classes; nodes without a mapping table
    /// ([`WithoutMappingTable`](crate::WithoutMappingTable)) from their region.
    ///
    /// # Errors
    ///
    /// As [`try_new`](Self::try_new).
    pub fn with_placement(placement: Placement) -> io::Result<Self> {
        let table = MappingTable::new()?;
        let root = Draft {
            level: 0,
            low: &[],
            high: None,
            right: 0,
            items: &[],
        };
        let root = root.build::<WordOf<C>>(placement, C::LEAF_DELTA_BYTES);
        let id = table.allocate();
        debug_assert_eq!(id, ROOT);
        table.install(id, root.as_ptr().expose_provenance() as u64);
        Ok(Self {
            table: Arc::new(table),
            counters: Counters::new(),
            epochs: C::Epochs::default(),
            placement,
            configuration: PhantomData,
            sharing: PhantomData,
        })
    }

    /// The node of an id that was read under the guard.
    #[inline(always)]
    pub(crate) fn node<'g>(&self, id: NodeId, _guard: &'g Guard<C>) -> Node<'g> {
        let (id, word) = self.table.resolve(id);
        // SAFETY: the id was reachable under this guard, so it is in use; what its word names is
        // retired, not freed, while the guard lives.
        let head = unsafe { RecordRef::of_word(word) };
        Node { id, head }
    }
}

impl<C: Configuration> Default for BwTree<C> {
    fn default() -> Self {
        Self::new()
    }
}
