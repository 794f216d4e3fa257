//! A lean load client for RESP and the memcached protocol.
//!
//! The client must cost less than the servers it measures, so requests and the exact bytes of
//! their replies are built before the clock starts; while it runs, a batch is one write, one
//! read and one comparison of memory. Every reply is compared in full: a wrong or misplaced
//! answer ends the run. Servers that speak SQL are asked through the client that their
//! users have, from one thread per connection.

mod columns;
mod handler_socket;
mod info;
mod load;
mod operations;
mod place;
mod rows;
mod script;
mod steps;
mod transfers;

pub use columns::Rows;
pub use handler_socket::wait_for_table;
pub use info::index_counter;
pub use load::{
    latency, load_records, load_scripts, play_each, play_once, scheduled_latency, throughput,
    watched,
};
pub use operations::{Records, ScanForm};
pub use place::Place;
pub use rows::{load_rows, play_rows};
pub use script::{Protocol, Script};
pub use steps::{Step, script, steps, transactions};
pub use transfers::{Account, Attempt, TransferForm, Transfers, compare_accounts, open_accounts};
