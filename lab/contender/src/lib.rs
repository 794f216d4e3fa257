//! What the lab asks of a system that it measures.
//!
//! A contender is one small adaptor: it answers single operations, so that its answers can be
//! compared with a model, and works through *runs* of keys, which is what is timed. Inside a
//! run the contender's own code is called directly; the lab makes one dynamic call per run, so
//! that hundreds of thousands of operations share its cost. An adaptor writes a run by hand
//! where its users would do better than one call after the other, such as holding a guard.
//!
//! * [`Map`]: an ordered map in memory from byte keys to 8-byte values.
//! * [`Steps`]: a run in which each key has an operation of its own.
//! * [`Store`]: a durable engine in a directory.
//! * [`TransactionalStore`]: an engine with transactions.
//! * [`Entry`]: the registry's line about a contender: name, version, promises, origin.

#![forbid(unsafe_code)]

mod entry;
mod map;
mod steps;
mod store;
mod transactional;

pub use entry::{Entry, Promises, Unavailable};
pub use map::{Map, MapEntry, NewMap, Tally, take_steps, value_of};
pub use steps::{STEP_ADD, Step, Steps};
pub use store::{OpenStore, Store, StoreEntry, StoreError, StoreSettings, Sync};
pub use transactional::{
    OpenTransactional, ReadTransaction, RunReads, RunWrites, SharedTransactionalStore,
    TransactionError, TransactionalEntry, TransactionalStore, WriteTransaction, committed_at_once,
    until_committed,
};
