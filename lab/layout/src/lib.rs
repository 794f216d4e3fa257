//! How the nodes of our trees lie in memory: trees to inspect, what is allocated beside them, and
//! pictures of pages.
//!
//! [`entries`] lists the trees. A [`Load`] fills one with random keys, with what an application
//! allocates between the insertions ([`Between`]); the result reports its nodes, and the rows, to
//! [`Inspector`](hedgerow_memory::layout::Inspector). [`picture`] draws which pages hold them.

#![forbid(unsafe_code)]

mod entries;
mod load;
mod picture;

pub use entries::{LayoutEntry, LayoutSubject, entries};
pub use load::{Between, Load, Loaded};
pub use picture::{page, picture};
