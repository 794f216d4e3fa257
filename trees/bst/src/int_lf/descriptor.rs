//! What helpers need to know of an operation.
//!
//! ```text
//! one cache line
//!  0        8          16         24        32          40       48       56
//! ┌────────┬──────────┬──────────┬─────────┬───────────┬────────┬────────┬────────┐
//! │ state  │ expected │ new      │ target  │ target op │ moved  │ value  │ –      │
//! └────────┴──────────┴──────────┴─────────┴───────────┴────────┴────────┴────────┘
//! change of a link: old and new link
//! relocation: old and new key,  the node that gets the pair, its op and moved word, the value
//! ```
//!
//! A relocation's state also counts the words that name its descriptor (the `op` of the node that
//! gives its pair away, `op` and `moved` of the node that gets it), since whoever replaces the last
//! of them retires the descriptor. All other descriptors are named by one word.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use hedgerow_memory::WrittenFields;
use hedgerow_sync::epoch::Guard;

use crate::atomic_word::compare_and_swap;
use crate::twin::TreeWord;

/// A change of the left link.
pub(super) const LEFT: u64 = 0;
/// A change of the right link.
pub(super) const RIGHT: u64 = 1;
/// A relocation of which nobody knows yet whether it takes place.
pub(super) const ONGOING: u64 = 2;
/// A relocation that does not take place, since its target changed before.
pub(super) const FAILED: u64 = 3;
/// A relocation that takes place; this plus the number of words that name it.
pub(super) const SUCCESSFUL: u64 = 4;
/// The words that name a relocation which takes place.
const NAMES: u64 = 3;

/// Describes a change of a link, or a relocation.
#[repr(C, align(64))]
pub(super) struct Descriptor<W> {
    state: W,
    /// The link, or key, to be replaced.
    pub(super) expected: u64,
    /// The link, or key, to replace it.
    pub(super) new: u64,
    /// The node that gets the pair.
    pub(super) target: u64,
    /// Its `op` word when it was chosen.
    pub(super) target_op: u64,
    /// Its `moved` word then.
    pub(super) moved: u64,
    /// The value that the target gets.
    pub(super) value: u64,
}

const _: () = assert!(size_of::<Descriptor<std::sync::atomic::AtomicU64>>() == 64);

impl<W: TreeWord> Descriptor<W> {
    /// What helpers write: the state, of relocations.
    pub(super) const WRITTEN: WrittenFields =
        WrittenFields::NONE.and_field::<W>(offset_of!(Self, state));

    /// A change of the link on `side`.
    pub(super) fn of_link(side: u64, expected: u64, new: u64) -> Self {
        Self {
            state: W::new(side),
            expected,
            new,
            target: 0,
            target_op: 0,
            moved: 0,
            value: 0,
        }
    }

    /// A relocation of the pair `new` and `value` to a node with the key `expected`.
    pub(super) fn of_relocation(
        (target, target_op, moved): (u64, u64, u64),
        expected: u64,
        (new, value): (u64, u64),
    ) -> Self {
        Self {
            state: W::new(ONGOING),
            expected,
            new,
            target,
            target_op,
            moved,
            value,
        }
    }

    /// The descriptor at an address.
    ///
    /// # Safety
    ///
    /// The address is not 0 and was read, under the guard, from a word that names its descriptor.
    #[inline(always)]
    pub(super) unsafe fn at(address: u64, _: &Guard) -> &Self {
        // SAFETY: a named descriptor was not retired when the caller read the word, so it is not
        // freed before the guard ends.
        unsafe { &*(address as usize as *const Self) }
    }

    /// The address, as `op` words hold it.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        std::ptr::from_ref(self) as usize as u64
    }

    #[inline(always)]
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// The words that name a relocation which takes place.
    pub(super) fn names(&self) -> Option<u64> {
        self.state().checked_sub(SUCCESSFUL)
    }

    /// Says whether an ongoing relocation takes place, unless somebody said so before; returns
    /// what holds.
    pub(super) fn decide(&self, takes_place: bool) -> bool {
        let state = if takes_place {
            SUCCESSFUL + NAMES
        } else {
            FAILED
        };
        match compare_and_swap(&self.state, ONGOING, state) {
            Ok(()) => takes_place,
            Err(seen) => seen >= SUCCESSFUL,
        }
    }

    /// One word less names this descriptor; returns whether none does any more.
    pub(super) fn drop_name(&self) -> bool {
        loop {
            let state = self.state();
            if state < SUCCESSFUL {
                debug_assert!(state != ONGOING, "an undecided relocation loses no name");
                return true;
            }
            debug_assert!(state > SUCCESSFUL, "no word has this name to drop");
            if compare_and_swap(&self.state, state, state - 1).is_ok() {
                return state - 1 == SUCCESSFUL;
            }
        }
    }
}
