//! Rows in Apache HBase, through HBase's own Thrift2 gateways.
//!
//! [`Hbase`] is a namespace of a cluster as a [backend](hedgerow::backend): what the server needs
//! of a database. Each keyspace is a table of it.
//!
//! ```text
//! server ──► Hbase ──► HbaseKeyspace ──► stored rows, ranges ──► Calls ──► gateways
//!              │         updates: read, decide, checkAndMutate
//!              └ transactions of one row
//! ```
//!
//! | what | where |
//! |---|---|
//! | the namespace, and what it cannot do | `database`, `capabilities` |
//! | a keyspace: reads, puts, updates, scans | `keyspace`, `row_reads`, `range` |
//! | reads of rows whose region may be away | `reads_alone`, `away_regions` |
//! | what became of a write whose answer is lost | `checked_writes` |
//! | how a row lies in cells, and why no write hides an earlier one | `stored_row`, `clock` |
//! | dead rows, and when they go | `sweep` |
//! | a transaction, which has one row | `transaction` |
//!
//! # The client
//!
//! HBase keeps tables of rows on many machines. Its native protocol is for Java; for all other
//! languages it has *gateways*, which speak Thrift and are HBase clients themselves. Any gateway
//! serves any row, and all are equal. This crate is a client of several gateways:
//!
//! ```text
//! Calls ──► retry ──► pool ──► connection ──► wire          TCP
//!  one        │       slots,     frames,        bytes of ──────────► gateway ──► region
//!  method     │       health     deadlines      a call               (Java)      servers
//!  each       └ again, elsewhere, if that is safe
//! ```
//!
//! - [`ClusterUrl`] says where gateways are, and which namespace holds the tables.
//! - [`Gateways`] is the client: connections, checks of gateways that failed, counters.
//! - [`Calls`] has a method for each of the gateways' that is used, and one deadline.
//! - [`cells`] makes the structures of calls; [`thrift2`] has them all.
//!
//! Two promises matter to callers that write. A call ends by its deadline. And a write that fails
//! with any error but [`Error::Unknown`] was not applied; what this takes is told in `retry`.
//!
//! Gateways must use framed transport and the binary protocol (`hbase thrift2 start --framed`).
//! There is no TLS and no Kerberos between them and this crate, so they belong into the same
//! trusted network.

#![forbid(unsafe_code)]

mod at_once;
mod away_regions;
mod backoff;
mod calls;
mod capabilities;
pub mod cells;
mod checked_writes;
mod clock;
mod cluster;
mod connection;
mod database;
mod error;
mod failure;
mod gateways;
mod health;
mod joined_reads;
mod keyspace;
mod keyspace_table;
mod load;
mod many_reads;
mod options;
mod planted;
mod pool;
mod range;
mod reads_alone;
mod removed;
mod retry;
mod row_reads;
mod rows;
mod semaphore;
mod statistics;
mod stored_row;
mod sweep;
mod table_name;
mod tables;
/// The structures of HBase's Thrift2 interface, written by Apache Thrift's compiler.
///
/// `idl/hbase.thrift` says what they mean, and which licence they have: HBase's, Apache 2.0.
#[rustfmt::skip]
#[allow(missing_docs, dead_code, clippy::all)]
pub mod thrift2;
mod transaction;
mod url;
mod wire;

pub use calls::Calls;
pub use cluster::HbaseOptions;
pub use database::Hbase;
pub use error::{Error, Origin, Refusal, Result};
pub use gateways::Gateways;
pub use keyspace::HbaseKeyspace;
pub use options::Options;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use retry::Repeat;
pub use rows::{Check, Scanner};
pub use statistics::{GatewayStatistics, Statistics};
pub use stored_row::MAX_ROW_KEY_BYTES;
pub use table_name::TableName;
pub use transaction::RowTransaction;
pub use url::{ClusterUrl, GatewayAddress};
