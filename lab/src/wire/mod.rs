//! A lean load client for RESP and the memcached protocol.
//!
//! The client must cost less than the servers it measures, so requests and the exact bytes of
//! their replies are built before the clock starts; while it runs, a batch is one write, one
//! read and one comparison of memory. Every reply is compared in full: a wrong or misplaced
//! answer ends the run.

mod load;
mod operations;
mod script;

pub use load::{Latency, latency, play_once, scheduled_latency, throughput};
pub use operations::Records;
pub use script::{Exchange, Protocol, ScanForm, Script};
