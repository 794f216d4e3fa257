//! Concurrent binary search trees: the ten that "Getting to the Root of Concurrent Binary Search
//! Tree Performance" (Arbel-Raviv, Brown, Morrison; USENIX ATC 2018) compares, each as it was
//! published and as the paper improves it.
//!
//! All of them map integers to words ([`ConcurrentIntMap`](hedgerow_index::ConcurrentIntMap)), give
//! all memory back through epochs, and take their nodes from where they are told
//! ([`Placement`]). A tree's [`Form`] says which flaws of Table 3 it has; [`Improved`] has none.
//! `docs/bst.md` explains trees, flaws and layout to newcomers.

mod atomic_word;
mod citrus;
mod edge_ext_lf;
mod edge_int_lf;
mod ext_lf;
#[cfg(test)]
mod external_interleavings;
#[cfg(test)]
mod few_keys_tests;
mod form;
mod grace_period;
mod int_lf;
mod interleave;
#[cfg(test)]
mod internal_interleavings;
mod internal_walk;
mod lock;
#[cfg(test)]
mod lock_interleavings;
mod log_int;
#[cfg(test)]
mod modelled_form;
mod node_pool;
mod occ_avl;
mod planted;
mod served;
mod tagged_link;
mod ticket;
mod tree;
mod twin;

pub use citrus::{BaselineCitrus, Citrus};
pub use edge_ext_lf::{BaselineEdgeExtLf, BaselineEdgeExtLf2, EdgeExtLf, EdgeExtLf2};
pub use edge_int_lf::{BaselineEdgeIntLf, EdgeIntLf};
pub use ext_lf::{BaselineExtLf, ExtLf};
pub use form::{
    BloatedLocks, CacheLine, FieldOrder, Fields, Form, HeavyLookups, Improved, Padded,
    ScatteredFields, SearchFieldsFirst, SearchFieldsLast, Unpadded,
};
pub use hedgerow_memory::Placement;
pub use int_lf::{BaselineIntLf, IntLf, PaddedIntLf};
pub use lock::{MutexSizedLock, NodeLock, SpinLock};
pub use log_int::{BaselineLogInt, LogInt};
pub use occ_avl::{FromRoot, FrozenOccAvl, OccAvl, OccAvl2, OccAvl2Ret, Recursive, Validation};
pub use planted::PlantedBug;
#[cfg(feature = "planted-bugs")]
pub use planted::plant;
pub use served::BstIndex;
pub use ticket::{BaselineTicket, Ticket};
pub use tree::SearchTree;
pub use twin::{Step, TreeWord};
