//! What Hedgerow's tests have in common: oracles, recorded histories and their checkers, key
//! generators, and the drivers that crash, kill and corrupt a database; the `campaign` binary of
//! `testkit/campaigns` runs those at length.
//!
//! A *checker* looks at what a system under test answered and says whether a correct system
//! could have answered so. Checkers are themselves tested against broken histories and planted
//! bugs: one that cannot turn red proves nothing.
//!
//! * [`hedgerow_index::LockedMap`]: a locked `BTreeMap` behind the index interface, the oracle of
//!   every tree and of the engine.
//! * [`keys`]: key shapes that make trees take their rare paths.
//! * [`index_workload`]: random work on any index, beside the model or with recorded threads.
//! * [`index_properties`]: what holds of every index, on keys of all shapes.
//! * [`int_workload`]: random work on any index of integers, beside the model.
//! * [`concurrent_ints`]: random work on any concurrent map from integers.
//! * [`int_churn`]: millions of operations on such an index, against an array.
//! * [`int_report`]: the workloads of the Matryoshka report, then everything deleted.
//! * [`history`]: record what concurrent threads saw, then check each key for linearizability
//!   and each scan for order and completeness.
//! * [`serializability`]: record transactions, then check whether an isolation level allows what
//!   they read.
//! * [`databases`]: options for databases of each index.
//! * [`damage`]: a damaged checkpoint, with an older one behind it.
//! * [`pressure`]: more data than memory, and the proof that pages came and went.
//! * [`seed`](mod@seed): a test's random choices, and how to repeat them.
//! * [`side_by_side`]: threads of two kinds, neither of which ends before the other began.
//! * [`tree_races`], [`bwtree_races`], [`bst_races`], [`matryoshka_races`], [`db_races`]: threads
//!   led into the situations that the protocols of the trees and of commits are made for.

#![forbid(unsafe_code)]

pub mod bst_races;
pub mod bwtree_races;
pub mod concurrent_ints;
pub mod damage;
pub mod databases;
pub mod db_races;
pub mod disk_cuts;
pub mod faults;
pub mod fuzz;
pub mod history;
pub mod index_properties;
pub mod index_workload;
pub mod int_churn;
pub mod int_report;
pub mod int_workload;
pub mod keys;
pub mod kill;
pub mod matryoshka_races;
#[cfg(feature = "planted-bugs")]
pub mod plants;
pub mod powercut;
pub mod pressure;
pub mod rot;
pub mod seed;
pub mod serializability;
pub mod side_by_side;
pub mod transaction_histories;
pub mod tree_races;
