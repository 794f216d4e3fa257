//! The tree's parts, and how memory leaves it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::Placement;
use hedgerow_sync::epoch::{self, Guard};

use super::descriptor::Descriptor;
use super::node::{Node, descriptor_of, is_null, null};
use crate::atomic_word::compare_and_swap;
use crate::form::Form;
use crate::node_pool::NodePool;
use crate::planted::{PlantedBug, planted};
use crate::twin::{TreeWord, leaks};

/// The tree without the type of its keys, which are encoded.
pub(super) struct Core<F: Form, W: TreeWord> {
    /// The address of a node above the whole tree, which is its right subtree. It has no key: no
    /// search compares it, and no relocation gets to it.
    root: u64,
    pub(super) nodes: NodePool<Node<F, W>>,
    pub(super) descriptors: NodePool<Descriptor<W>>,
    /// Operations of others that were helped.
    helps: AtomicU64,
    /// Descents that began again.
    retries: AtomicU64,
}

impl<F: Form, W: TreeWord> Core<F, W> {
    pub(super) fn new(placement: Placement) -> Self {
        let nodes = NodePool::new("int-lf node", placement);
        let root = nodes.place(Node::leaf(0, 0, null(0)));
        Self {
            root: root.as_ptr() as usize as u64,
            nodes,
            descriptors: NodePool::new("int-lf descriptor", placement),
            helps: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn root<'g>(&self, guard: &'g Guard) -> &'g Node<F, W> {
        // SAFETY: the root is freed when the tree is dropped; users of the tree's nodes borrow it.
        unsafe { Node::at(self.root, guard) }
    }

    #[cold]
    pub(super) fn count_help(&self) {
        self.helps.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Helped operations, and descents that began again.
    pub(super) fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.helps), count(&self.retries))
    }

    /// Replaces the `op` word of a node, and with it the descriptor that it names. Returns what it
    /// holds instead if it is not `current`.
    pub(super) fn replace_op(
        &self,
        node: &Node<F, W>,
        current: u64,
        new: u64,
        guard: &Guard,
    ) -> Result<(), u64> {
        compare_and_swap(&node.search().op, current, new)?;
        self.drop_name(current, guard);
        Ok(())
    }

    /// Retires the descriptor that a word named, which does not any more, if no word does.
    pub(super) fn drop_name(&self, word: u64, guard: &Guard) {
        let Some(address) = NonNull::new(descriptor_of(word) as usize as *mut Descriptor<W>) else {
            return;
        };
        // SAFETY: the word named the descriptor until now, under the guard.
        let descriptor = unsafe { Descriptor::<W>::at(descriptor_of(word), guard) };
        if descriptor.drop_name() && !leaks::<W>() {
            if planted(PlantedBug::IntLfDescriptorReusedAtOnce) {
                // SAFETY: none; this is the bug.
                unsafe { self.descriptors.free(address) };
                return;
            }
            // SAFETY: no word names it, so who pins from now on does not find it; operations that
            // name its address in their own descriptors were found by then. The last name is
            // dropped once.
            unsafe {
                self.descriptors
                    .retire_after_two_grace_periods(guard, address)
            };
        }
    }

    /// Retires a node that was unlinked, and its names.
    pub(super) fn retire(&self, link: u64, guard: &Guard) {
        // SAFETY: the caller unlinked the node under the guard.
        let node = unsafe { Node::<F, W>::at(link, guard) };
        self.drop_name(node.op(), guard);
        self.drop_name(node.rest().moved.load(Ordering::Acquire), guard);
        if leaks::<W>() {
            return;
        }
        // SAFETY: no link leads to the node any more, except of nodes that were unlinked before;
        // operations that name it were found by then. It is unlinked once.
        unsafe {
            self.nodes
                .retire_after_two_grace_periods(guard, NonNull::from(node));
        }
    }
}

impl<F: Form, W: TreeWord> Drop for Core<F, W> {
    fn drop(&mut self) {
        if leaks::<W>() {
            return;
        }
        let guard = epoch::pin();
        let free = |word: u64| {
            let address = descriptor_of(word) as usize as *mut Descriptor<W>;
            let Some(address) = NonNull::new(address) else {
                return;
            };
            // SAFETY: the word names the descriptor.
            let last = unsafe { Descriptor::<W>::at(descriptor_of(word), &guard) }.drop_name();
            if last {
                // SAFETY: nobody else uses the tree, and this was the last name.
                unsafe { self.descriptors.free(address) };
            }
        };
        let mut links = vec![self.root];
        while let Some(link) = links.pop() {
            if is_null(link) {
                continue;
            }
            // SAFETY: the node is linked, and each is linked once.
            let node = unsafe { Node::<F, W>::at(link, &guard) };
            links.extend([node.left(), node.right()]);
            free(node.op());
            free(node.rest().moved.load(Ordering::Acquire));
            // SAFETY: nobody else uses the tree, and its links were read.
            unsafe { self.nodes.free(NonNull::from(node)) };
        }
    }
}
