//! The Hedgerow server: Redis and memcached clients on the same data, over one event loop per
//! core.
//!
//! ```text
//!            accept ──deals connections out──► worker 0 … n        http
//!                                              │                   /metrics /healthz
//!   sockets ⇄ connection (two buffers)         │
//!             session  (RESP or memcached) ────┤
//!             turn     (everything that one    │
//!                       poll found, batched) ──► hedgerow::Db
//! ```
//!
//! | what | where |
//! |---|---|
//! | what a connection received; its replies, and those that wait for a sync | `connection`, `output`, `acknowledge` |
//! | one turn: `get_many` over all connections, prefetched puts, the rest | `turn`, `reorder` |
//! | the event loop | `worker`, `accept` |
//! | the memory of all connections, and who has to go | `client_memory`, `relief` |
//! | what a protocol must provide | `protocol` |
//! | Redis' protocol and commands | `resp` |
//! | memcached's protocol | `memcached` |
//! | counters, `/metrics`, `/healthz` | `metrics`, `http` |
//! | what is logged about clients | `events` |
//! | the password of all ports | `password` |
//! | HTTP requests that end up at another port | `web` |
//! | how many connections there can be | `descriptors` |
//!
//! ```no_run
//! use std::sync::Arc;
//! use hedgerow_server::{Server, ServerOptions};
//!
//! let db = Arc::new(hedgerow::Db::open("data")?);
//! let server = Server::start(Arc::clone(&db), ServerOptions::default())?;
//! println!("listening on {:?}", server.addresses().resp);
//! server.wait(); // until SHUTDOWN or `server.stopper()`
//! server.shutdown();
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod accept;
mod acknowledge;
mod client_memory;
mod clients;
mod connection;
mod descriptors;
mod error;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod glob;
mod http;
mod memcached;
mod metrics;
mod options;
mod output;
mod password;
mod pause;
mod process;
mod protocol;
mod relief;
mod reorder;
mod reply_buffer;
mod resp;
mod server;
mod settings;
mod shared;
mod survey;
mod totals;
mod turn;
mod web;
mod worker;

pub use descriptors::raise_open_file_limit;
pub use error::{Error, Result};
pub use options::ServerOptions;
pub use server::{Addresses, Server, Stopper};
