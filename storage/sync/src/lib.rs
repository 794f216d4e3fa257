//! How threads share a tree: version words for optimistic readers, latches, and epochs.
//!
//! A reader of a Hedgerow tree writes no shared memory. It takes a snapshot of a node's version,
//! reads the node, and validates the snapshot: if the version is unchanged, what it read was
//! consistent. A writer latches the node through a bit of the same word. A writer *retires* the
//! nodes that it unlinks: [`epoch`] frees them when no thread can be reading them any more.
//!
//! * [`version`]: the 64-bit version word, with latch, dirty bits and counters.
//! * [`word`]: the atomic word below it, as a trait, so that a model checker's atomics can
//!   take the place of the processor's *in the code that ships* (see `tests/interleavings.rs`).
//! * [`backoff`]: how to wait for another thread.
//! * [`epoch`]: pins and retirement, over crossbeam-epoch.
//! * [`StripedCounter`], [`Counters`]: one striped counter and several, which do not bounce cache
//!   lines.
//! * [`threads`]: a small number for each thread, which chooses its stripe; work that is divided
//!   among threads.
//! * [`varint`]: integers of variable length, as logs, rows and overflow records write them.

pub mod backoff;
mod counters;
pub mod epoch;
pub mod threads;
pub mod varint;
pub mod version;
pub mod word;

pub use counters::{Counters, StripedCounter};
pub use crossbeam_utils::CachePadded;
pub use version::{Version, VersionWord};
