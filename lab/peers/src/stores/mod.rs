//! Durable engines.
//!
//! Each honours both settings or refuses with a reason. Where an engine leaves periodic syncs to
//! its user, a thread calls its sync every 200 ms.

use hedgerow_lab_contender::{Entry, OpenStore, Promises, StoreEntry, Unavailable};

use crate::registry::{Limits, StorePeer, version};

#[cfg(feature = "stores")]
mod bf_tree;
#[cfg(feature = "stores")]
mod fjall;
#[cfg(feature = "stores")]
mod fjall_transactions;
#[cfg(feature = "stores")]
mod lmdb;
#[cfg(any(feature = "stores", peer = "rocksdb"))]
mod recent_writes;
#[cfg(feature = "stores")]
mod redb;
#[cfg(peer = "rocksdb")]
mod rocksdb;
#[cfg(peer = "rocksdb")]
mod rocksdb_transactions;
#[cfg(feature = "stores")]
mod sled;
#[cfg(feature = "stores")]
mod sqlite;
#[cfg(any(feature = "stores", peer = "rocksdb"))]
mod ticker;
mod transactional;

pub use transactional::transactional;

/// How to open a store, in a build that has it.
macro_rules! opened {
    ($open:path) => {{
        #[cfg(feature = "stores")]
        let open = Ok($open as OpenStore);
        #[cfg(not(feature = "stores"))]
        let open = Err(crate::registry::not_built());
        open
    }};
}

/// What the registry says of an engine.
struct Engine {
    name: &'static str,
    version: String,
    licence: &'static str,
    usage: &'static str,
    limits: Limits,
    /// Durable, with atomic batches.
    complete: bool,
}

impl Engine {
    fn peer(self, open: Result<OpenStore, Unavailable>) -> StorePeer {
        self.from("crate", open)
    }

    fn from(self, origin: &'static str, open: Result<OpenStore, Unavailable>) -> StorePeer {
        let entry = Entry {
            name: self.name,
            version: self.version,
            origin,
            promises: Promises {
                ordered: true,
                concurrent: true,
                durable: self.complete,
                variable_keys: true,
                longest_key: self.limits.longest_key,
                keys_only: false,
            },
        };
        StorePeer {
            store: StoreEntry { entry, open },
            licence: self.licence,
            usage: self.usage,
            limits: self.limits,
            atomic_batches: self.complete,
        }
    }
}

/// Every engine, whether this build has it or not.
#[must_use]
pub fn stores() -> Vec<StorePeer> {
    let redb = Engine {
        name: "redb",
        version: version("redb"),
        licence: "MIT OR Apache-2.0",
        usage: "a transaction per operation; periodic: commits without durability and, every \
                200 ms, one with",
        limits: Limits::NONE,
        complete: true,
    };
    let fjall = Engine {
        name: "fjall",
        version: version("fjall"),
        licence: "MIT OR Apache-2.0",
        usage: "one keyspace with the default options; periodic: persist(SyncAll) every 200 ms",
        // It asserts both.
        limits: Limits {
            shortest_key: 1,
            longest_key: Some(65535),
            ..Limits::NONE
        },
        complete: true,
    };
    let sled = Engine {
        name: "sled",
        version: version("sled"),
        licence: "MIT OR Apache-2.0",
        usage: "every commit: flush after each; periodic: its default of 500 ms. Its flush is \
                sync_file_range on Linux, which promises less than the others' fsync",
        limits: Limits::NONE,
        complete: true,
    };
    vec![
        redb.peer(opened!(redb::open)),
        fjall.peer(opened!(fjall::open)),
        sled.peer(opened!(sled::open)),
        lmdb().peer(opened!(lmdb::open)),
        sqlite().peer(opened!(sqlite::open)),
        bf_tree().peer(opened!(bf_tree::open)),
        rocksdb(),
    ]
}

fn rocksdb() -> StorePeer {
    #[cfg(peer = "rocksdb")]
    let (version, open) = (rocksdb::version(), Ok(rocksdb::open as OpenStore));
    #[cfg(not(peer = "rocksdb"))]
    let (version, open) = (
        "not found".to_owned(),
        Err(crate::native::missing("g++ librocksdb-dev")),
    );
    let engine = Engine {
        name: "rocksdb",
        version,
        licence: "Apache-2.0 OR GPL-2.0",
        usage: "an LRU block cache, bloom filters of 10 bits, as many background threads as \
                cores; periodic: the log synced every 200 ms",
        limits: Limits::NONE,
        complete: true,
    };
    engine.from("Debian package librocksdb-dev", open)
}

fn lmdb() -> Engine {
    let heed = version("heed");
    #[cfg(feature = "stores")]
    let version = {
        let lmdb = heed::lmdb_version();
        format!("{}.{}.{} (heed {heed})", lmdb.major, lmdb.minor, lmdb.patch)
    };
    #[cfg(not(feature = "stores"))]
    let version = format!("that of heed {heed}");
    Engine {
        name: "lmdb",
        version,
        licence: "OpenLDAP-2.8; heed MIT",
        usage: "a transaction per operation; the system's page cache is its cache, whatever the \
                settings; periodic: NO_SYNC and a forced sync every 200 ms",
        limits: Limits {
            shortest_key: 1,
            longest_key: Some(511),
            ..Limits::NONE
        },
        complete: true,
    }
}

fn sqlite() -> Engine {
    let binding = version("rusqlite");
    #[cfg(feature = "stores")]
    let version = format!("{} (rusqlite {binding})", rusqlite::version());
    #[cfg(not(feature = "stores"))]
    let version = format!("that of rusqlite {binding}");
    Engine {
        name: "sqlite",
        version,
        licence: "public domain; rusqlite MIT",
        usage: "one table WITHOUT ROWID, journal_mode WAL, a connection and cache per thread; \
                every commit: synchronous FULL; periodic: NORMAL; never: OFF",
        limits: Limits::NONE,
        complete: true,
    }
}

fn bf_tree() -> Engine {
    Engine {
        name: "bf-tree on disk",
        version: version("bf-tree"),
        licence: "MIT",
        usage: "leaves in a file, an index larger than memory; not durable, as neither its log \
                nor its snapshots can be recovered from rightly, and no atomic batches; takes \
                sync never, and caches of a power of two",
        limits: Limits {
            shortest_key: 1,
            longest_key: Some(256),
            ..Limits::NONE
        },
        complete: false,
    }
}
