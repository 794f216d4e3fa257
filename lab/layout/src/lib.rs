//! How the nodes of our trees lie in memory: trees to inspect, what is allocated beside them, and
//! tables of what the inspector finds.
//!
//! [`entries`] lists the trees. A [`Load`] fills one with random keys, with what an application
//! allocates between the insertions ([`Between`]); the result reports its nodes, and the rows, to
//! [`Inspector`](hedgerow_memory::layout::Inspector). [`inspected`] makes of what
//! it finds the tables and maps of pages that results keep.

#![forbid(unsafe_code)]

mod entries;
mod inspected;
mod load;

pub use entries::{LayoutEntry, LayoutSubject, entries};
pub use inspected::inspected;
pub use load::{Between, DrawnKeys, Load, Loaded};
