//! The layout inspector: what lies where, class by class.
//!
//! It proves the promise of the crate (one class, one chunk) and shows where memory went:
//! slots handed out, slots free, and how full the emptiest chunk of each class is. The pool of a
//! kind of blocks ([`BlockPool`](crate::BlockPool)) is a class with a name.

use std::fmt;

use crate::class_report::ClassReport;
use crate::{blocks, system};

/// All pools at one moment; exact while no thread allocates or releases.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Used size classes, smallest slots first, then the used pools of kinds.
    pub classes: Vec<ClassReport>,
    /// Blocks from the standard allocator that are handed out.
    pub large_blocks: usize,
    /// Their bytes.
    pub large_bytes: usize,
    /// Bytes of live slots and large blocks.
    pub live_bytes: usize,
    /// Bytes of chunks that classes own, and of large blocks.
    pub reserved_bytes: usize,
    /// Address space mapped for regions, whether touched or not.
    pub mapped_bytes: usize,
}

/// Looks at all pools. Takes each class's mutex in turn and visits its free slots; threads neither
/// begin to use pools nor end meanwhile. A thread that ends changes no count.
#[must_use]
pub fn inspect() -> Report {
    let (classes, mapped_bytes) = blocks::classes();
    let large_bytes = system::live_bytes();
    let live_slots: usize = classes
        .iter()
        .map(|class| class.live * class.slot_bytes)
        .sum();
    let chunks: usize = classes.iter().map(|class| class.reserved_bytes).sum();
    Report {
        large_blocks: system::live_blocks(),
        large_bytes,
        live_bytes: live_slots + large_bytes,
        reserved_bytes: chunks + large_bytes,
        mapped_bytes,
        classes,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>10} {:>12} {:>12} {:>12} {:>8} {:>10} {:>6}  kind",
            "slot bytes", "slots", "live", "free", "regions", "KiB", "least"
        )?;
        for class in &self.classes {
            writeln!(
                f,
                "{:>10} {:>12} {:>12} {:>12} {:>8} {:>10} {:>5.0}%  {}",
                class.slot_bytes,
                class.slots,
                class.live,
                class.free_central + class.free_cached,
                class.regions,
                class.reserved_bytes >> 10,
                class.least_fill * 100.0,
                class.kind.unwrap_or("any")
            )?;
        }
        write!(
            f,
            "large blocks: {} of {} KiB; live {} KiB of {} KiB reserved, {} KiB mapped",
            self.large_blocks,
            self.large_bytes >> 10,
            self.live_bytes >> 10,
            self.reserved_bytes >> 10,
            self.mapped_bytes >> 10
        )
    }
}
