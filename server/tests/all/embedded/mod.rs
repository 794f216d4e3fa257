//! Tests of the server that only the embedded engine can pass. All other files of this folder that
//! `backends/hbase/tests/protocol/main.rs` names are run over a cluster of HBase too.
//!
//! | tests | need |
//! |---|---|
//! | `backups` | `BACKUP` |
//! | `client_commands`, `serving`, `udp` | a faulty disk, a directory, memory alone; values beyond 1.5 MiB |
//! | `client_memory` | `BEGIN` … `COMMIT`; values beyond 1.5 MiB |
//! | `commands` | a clock that the test sets; `SAVE`, `RANDOMKEY`, transactions of several rows |
//! | `memcached`, `observing` | indexes of this engine |
//! | `plain_keys` | `RENAME`, `COPY`, `MOVE` |
//! | `remote_backend` | a backend of its own, in the manner of HBase |
//!
//! and whole files beside this folder:
//!
//! | file | needs |
//! |---|---|
//! | `backends` | a backend of its own, in the manner of HBase |
//! | `event_loops` | nothing of a backend: it is about sockets |
//! | `failing_disk`, `page_file` | a faulty disk, a file of pages |
//! | `hostile_transactions`, `idle_transactions`, `interactive` | `BEGIN` … `COMMIT` |
//! | `refused_parts` | `RENAME`, `COPY`, transactions of several rows |
//! | `snapshots` | `SNAPSHOT` |

mod backups;
mod client_commands;
mod client_memory;
mod commands;
mod memcached;
mod observing;
mod plain_keys;
mod remote_backend;
mod serving;
mod udp;

pub mod asked_again;
pub mod over_index;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow::Db;
use hedgerow_server::ServerOptions;

use crate::support::{Started, start};

impl Started {
    /// A server over a database whose time, in milliseconds since 1970, the test sets, and whose
    /// expired rows only the test sweeps. The time begins an hour from now: whatever else asks the
    /// machine's clock finds that no expiry of the test has come yet.
    pub fn with_clock(options: ServerOptions) -> (Started, Arc<AtomicU64>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = Arc::new(AtomicU64::new(now.as_millis() as u64 + 3_600_000));
        let asked = Arc::clone(&clock);
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder()
            .durability(options.durability)
            .sweep_interval(None)
            .now(Box::new(move || asked.load(Ordering::SeqCst)));
        let db = Arc::new(db.open(dir.path()).unwrap());
        let server = start(Arc::clone(&db), options).unwrap();
        (Started { server, db, dir }, clock)
    }

    /// A server over a database in memory alone.
    pub fn in_memory(options: ServerOptions) -> Started {
        let dir = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::builder().open_in_memory().unwrap());
        let server = start(Arc::clone(&db), options).unwrap();
        Started { server, db, dir }
    }
}
