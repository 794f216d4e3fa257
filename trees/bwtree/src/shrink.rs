//! The root loses a level: its only child's items move into it.
//!
//! 1. A remove record freezes the child, whose keys then belong to the root. It is only put on a
//!    child without a right neighbour: then the child is the only node of its level, and as it is
//!    frozen it stays so.
//! 2. One compare-and-swap replaces the root's chain by a copy of the child's items.
//!
//! Who meets the frozen child does step 2. A late thread finds that the root's first child is
//! another node, or none, and has nothing to do.

use crate::configuration::Configuration;
use crate::events::Event;
use crate::mapping_table::{NONE, ROOT};
use crate::node::view::View;
use crate::node::{Draft, Kind, RecordRef};
use crate::release::{allocate_remove, release_remove};
use crate::tree::{BwTree, Guard, Node, WordOf};

impl<C: Configuration> BwTree<C> {
    /// Moves the only child of the root into it, if it is the only node of its level.
    pub(crate) fn shrink(&self, root: Node<'_>, guard: &Guard<C>) {
        if root.head.header().level == 0 || root.head.header().size != 1 {
            return;
        }
        let view = View::of(root.head, None);
        let child = self.node(view.items[0].value.child(), guard);
        let header = child.head.header();
        match header.kind {
            Kind::Remove => self.finish_shrink(child, guard),
            Kind::Abort => self.complete_merge(child, guard),
            Kind::Merge => {
                self.rebuild(child, None, guard);
            }
            _ if child.head.right() != NONE => {
                if let Some(separator) = child.head.high() {
                    self.counters.count(Event::HelpedSeparators as usize);
                    let right = child.head.right();
                    self.post_separator(header.level, separator, right, guard);
                }
            }
            _ => {
                let head = allocate_remove(child.head, ROOT, self.placement);
                if self.table.replace(child.id, child.head.word(), head.word()) {
                    self.finish_shrink(Node { id: child.id, head }, guard);
                } else {
                    // SAFETY: it was not published.
                    unsafe { release_remove(head.word(), self.placement) };
                }
            }
        }
    }

    /// Step 2, for a frozen child of the root.
    pub(crate) fn finish_shrink(&self, child: Node<'_>, guard: &Guard<C>) {
        loop {
            let root = self.node(ROOT, guard);
            let level = root.head.header().level;
            if level != child.head.header().level + 1 {
                return;
            }
            if root.head.kind() == Kind::Abort {
                self.complete_merge(root, guard);
                continue;
            }
            let above = View::of(root.head, None);
            if above.items[0].value.child() != child.id {
                return;
            }
            debug_assert_eq!(
                above.items.len(),
                1,
                "a frozen child of the root is the only one"
            );
            // SAFETY: the root led to the child after the guard began, so its chain was not
            // replaced before that, and is retired no earlier.
            let frozen = unsafe { RecordRef::of_word(child.head.chain_word()) };
            let view = View::of(frozen, None);
            let draft = Draft {
                level: frozen.header().level,
                low: &[],
                high: None,
                right: NONE,
                items: &view.items,
            };
            let base = draft.build::<WordOf<C>>(self.placement, Self::delta_bytes(draft.level));
            // SAFETY: just written, and this thread's alone.
            let base = unsafe { RecordRef::new(base) };
            if self.publish(root, base, &view, guard) {
                self.counters.count(Event::RootShrinks as usize);
                // SAFETY: the root was the only way to the child; only the thread that replaced
                // the root's chain comes here.
                unsafe {
                    self.retire_chain(frozen, guard);
                    self.retire_id(child.id, child.head, guard);
                }
                return;
            }
            // SAFETY: it was not published.
            unsafe { self.release_unpublished(base) };
        }
    }
}
