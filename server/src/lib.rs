//! The Hedgerow server: Redis and memcached clients on the same data, over one event loop per core.
//!
//! ```text
//!            accept ──deals connections out──► worker 0 … n        http
//!                                              │                   /metrics /healthz
//!   sockets ⇄ connection (two buffers)         │
//!             session  (RESP or memcached) ────┤
//!             tick     (everything that one    │
//!                       poll found, batched) ──► hedgerow::Db
//! ```
//!
//! | what | where |
//! |---|---|
//! | listening sockets and connected ones, TCP and Unix domain | `sockets` |
//! | accepting; the event loop; one tick of it: `get_many` over all connections, prefetched puts, the rest | `event_loop` |
//! | what a connection received; its replies, and those that wait for a sync | `connection` |
//! | the list of clients, the memory of all of them, a pause of their requests | `clients` |
//! | what a protocol must provide | `session` |
//! | what the protocols share: requests, ports, passwords, HTTP requests at other ports | `protocol` |
//! | Redis' protocol and commands | `resp` |
//! | memcached's protocol | `memcached` |
//! | `/metrics`, `/healthz` | `http` |
//! | counters, statistics, what is logged about clients | `monitoring` |
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

mod backups;
mod clients;
mod connection;
mod error;
mod event_loop;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod memcached;
mod monitoring;
mod options;
mod protocol;
mod resp;
mod server;
mod session;
mod settings;
mod shared;
mod sockets;
mod stop_request;

pub use error::{Error, Result};
pub use event_loop::descriptors::raise_open_file_limit;
pub use options::{EventLoop, ServerOptions, UnixSockets};
pub use server::{Addresses, Server, Stopper};
