//! Contenders that every build has: ours, the standard library's, and the empty one.
//!
//! Each is an adaptor to [`Map`](hedgerow_lab_contender::Map) or
//! [`Store`](hedgerow_lab_contender::Store). Peers from elsewhere live in a crate of their
//! own, so that the lab builds without them. [`servers`] knows the programs that the lab starts.

mod btree;
mod empty;
mod engine;
mod integers;
mod masstree;
mod matryoshka;
pub mod servers;
mod standard;

pub use btree::Paged;
pub use empty::Empty;
pub use engine::Engine;
pub use integers::{Integer, Integers};
pub use masstree::{Indexed, Inline};
pub use matryoshka::{Batched, Words};
pub use standard::BTreeMark;
