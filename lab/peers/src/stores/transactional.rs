//! The registry's lines about stores with transactions: what the stores say, and other names where
//! transactions come in several kinds.

use hedgerow_lab_contender::{Entry, OpenTransactional, TransactionalEntry, Unavailable};

/// How to open a store for transactions, in a build that has it.
macro_rules! opened {
    ($open:path) => {{
        #[cfg(feature = "stores")]
        let open = Ok($open as OpenTransactional);
        #[cfg(not(feature = "stores"))]
        let open = Err(crate::registry::not_built());
        open
    }};
}

/// The same for RocksDB.
macro_rules! opened_rocksdb {
    ($open:path) => {{
        #[cfg(peer = "rocksdb")]
        let open = Ok($open as OpenTransactional);
        #[cfg(not(peer = "rocksdb"))]
        let open = Err(crate::native::missing("g++ librocksdb-dev"));
        open
    }};
}

/// Every store with transactions, whether this build has it or not.
#[must_use]
pub fn transactional() -> Vec<TransactionalEntry> {
    type Open = Result<OpenTransactional, Unavailable>;
    let stores = super::stores();
    let line = |store: &str, name: &'static str, open: Open| {
        let mut listed = stores.iter().map(|peer| &peer.store.entry);
        let entry = listed.find(|entry| entry.name == store)?;
        let entry = Entry {
            name,
            ..entry.clone()
        };
        Some(TransactionalEntry { entry, open })
    };
    let lines = [
        line(
            "rocksdb",
            "rocksdb optimistic",
            opened_rocksdb!(super::rocksdb_transactions::open_optimistic),
        ),
        line(
            "rocksdb",
            "rocksdb locking",
            opened_rocksdb!(super::rocksdb_transactions::open_locking),
        ),
        line("redb", "redb", opened!(super::redb::open_transactional)),
        line("lmdb", "lmdb", opened!(super::lmdb::open_transactional)),
        line(
            "fjall",
            "fjall optimistic",
            opened!(super::fjall_transactions::open),
        ),
        line(
            "sqlite",
            "sqlite",
            opened!(super::sqlite::open_transactional),
        ),
    ];
    lines.into_iter().flatten().collect()
}
