//! Pools of one kind of block: chunks of its own, slots of exactly its size.
//!
//! A kind is a name and a size. There is one pool for it in the process, made when the first user
//! asks, and it stays: trees that come and go take their nodes from the same chunks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::central::Central;
use crate::magazine::{self, Depot};

/// The pool of a kind. What is written lies apart from what each allocation reads.
pub(crate) struct Kind {
    name: &'static str,
    slot_bytes: usize,
    /// Its place among all kinds.
    number: usize,
    /// Of a magazine.
    capacity: u8,
    central: Apart,
}

/// On lines of its own, and on pairs of lines that are prefetched together.
#[repr(align(128))]
struct Apart(Mutex<Central>);

static KINDS: Mutex<Vec<&'static Kind>> = Mutex::new(Vec::new());

fn kinds() -> MutexGuard<'static, Vec<&'static Kind>> {
    KINDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of a kind of blocks; `None` if they are too large to be pooled.
pub(crate) fn kind(name: &'static str, block_bytes: usize) -> Option<&'static Kind> {
    let slot_bytes = block_bytes.max(1).checked_next_multiple_of(8)?;
    if slot_bytes > crate::LARGEST_POOLED_BYTES {
        return None;
    }
    let mut kinds = kinds();
    let same = |kind: &&&Kind| kind.name == name && kind.slot_bytes == slot_bytes;
    if let Some(kind) = kinds.iter().find(same) {
        return Some(kind);
    }
    let kind: &'static Kind = Box::leak(Box::new(Kind {
        name,
        slot_bytes,
        number: kinds.len(),
        capacity: magazine::capacity(slot_bytes),
        central: Apart(Mutex::new(Central::EMPTY)),
    }));
    kinds.push(kind);
    Some(kind)
}

/// All kinds, by their numbers.
pub(crate) fn all() -> Vec<&'static Kind> {
    kinds().clone()
}

impl Kind {
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u8 {
        self.capacity
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    pub(crate) fn depot(&'static self) -> Depot {
        Depot {
            central: &self.central.0,
            slot_bytes: self.slot_bytes,
            capacity: self.capacity,
        }
    }
}
