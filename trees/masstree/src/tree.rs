//! The tree itself: a root, the chosen search kernel, event counters, deferred work.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use hedgerow_memory::Placement;
use hedgerow_simd::Level;
use hedgerow_sync::{Counters, VersionWord};

use crate::collapse::CollapseQueue;
use crate::configuration::{Concurrent, Configuration};
use crate::node::{Border, Node, NodeBlocks};
use crate::statistics::EVENTS;
use crate::value::Value;

/// A Masstree from byte-string keys to values of policy `V`.
///
/// `Masstree<Bytes>` maps to byte strings and implements [`hedgerow_index::Index`];
/// `Masstree<u64>` keeps its values inline. See the crate's documentation for the design.
pub struct Masstree<V: Value, C: Configuration = Concurrent> {
    pub(crate) root: AtomicPtr<Node>,
    pub(crate) level: Level,
    /// Where its nodes come from.
    pub(crate) blocks: &'static NodeBlocks,
    pub(crate) counters: Counters<EVENTS>,
    pub(crate) deferred: CollapseQueue,
    pub(crate) entry: C::Entry,
    pub(crate) values: PhantomData<V>,
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// An empty tree that searches nodes with the best kernel of this processor.
    pub fn new() -> Self {
        Self::with_level(Level::detect())
    }

    /// An empty tree with the given search kernel.
    pub fn with_level(level: Level) -> Self {
        Self::with_placement(level, Placement::Merged)
    }

    /// An empty tree with the given search kernel, whose nodes come from there. Nodes of several
    /// sizes (those with inline suffixes, and suffix bags) are never segregated, and blocks of
    /// values come from the size classes always.
    pub fn with_placement(level: Level, placement: Placement) -> Self {
        let blocks = NodeBlocks::of(placement);
        let root = Border::allocate(blocks, VersionWord::new(true, true), 0, 0);
        Self {
            root: AtomicPtr::new(root.cast()),
            level,
            blocks,
            counters: Counters::new(),
            deferred: CollapseQueue::default(),
            entry: C::Entry::default(),
            values: PhantomData,
        }
    }

    /// The search kernel in use.
    pub fn level(&self) -> Level {
        self.level
    }

    #[inline(always)]
    pub(crate) fn root(&self) -> *mut Node {
        self.root.load(Ordering::Acquire)
    }
}

impl<V: Value, C: Configuration> Default for Masstree<V, C> {
    fn default() -> Self {
        Self::new()
    }
}

/// A layer root as a slot word.
pub(crate) fn layer_word(root: *mut Node) -> u64 {
    root.expose_provenance() as u64
}

/// A slot word as a layer root.
#[inline(always)]
pub(crate) fn layer_root(word: u64) -> *mut Node {
    std::ptr::with_exposed_provenance_mut(word as usize)
}
