//! A server over any index, with keys that all of them can have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use hedgerow::{Db, IndexKind};
use hedgerow_server::ServerOptions;
use hedgerow_testkit::databases::builder_of;

use crate::support::{Client, Started, Value, start};

/// Rows of another database, several times what the pool of pages has.
const OTHER_ROWS: usize = 10_000;

/// A server over one index. A test names its keys in 8 bytes, as binary trees demand, with `@` in
/// front: other indexes get longer keys. B-trees do not fit into memory: while the test runs, rows
/// of another database are read, so that pages of the test's rows leave the pool.
pub struct OverIndex {
    // Ends before the folder of its database goes, which is the next field's.
    _other_reads: Option<OtherReads>,
    pub started: Started,
    key_prefix: &'static str,
}

impl OverIndex {
    pub fn new(index: IndexKind, options: ServerOptions) -> OverIndex {
        let dir = tempfile::tempdir().unwrap();
        let builder = builder_of(Some(index)).version_memory(Some(256 << 20));
        let db = builder.durability(options.durability).open(dir.path());
        let db = Arc::new(db.unwrap());
        let server = start(Arc::clone(&db), options).unwrap();
        let other_reads = (index == IndexKind::BTree).then(|| OtherReads::new(Arc::clone(&db)));
        OverIndex {
            started: Started { server, db, dir },
            key_prefix: match index.key_bytes() {
                Some(_) => "",
                None => "hedge:row:of:long:keys:",
            },
            _other_reads: other_reads,
        }
    }

    /// A client whose `@` begin a key.
    pub fn client(&self) -> Client {
        self.started.client().with_key_prefix(self.key_prefix)
    }

    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.key_prefix)
    }

    /// A key as a reply has it.
    pub fn bulk_key(&self, name: &str) -> Value {
        Value::Bulk(self.key(name).into_bytes())
    }
}

/// A thread that reads rows of another database until this is dropped.
struct OtherReads {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OtherReads {
    fn new(db: Arc<Db>) -> OtherReads {
        let done = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&done);
        let thread = std::thread::spawn(move || {
            let rows = db.keyspace("db15").unwrap();
            let key = |n: usize| format!("{n:08}").into_bytes();
            for n in 0..OTHER_ROWS {
                rows.put(&key(n), &[b'v'; 400]).unwrap();
            }
            // In no order, so that pages come and go.
            for n in (0..OTHER_ROWS).cycle() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                assert!(rows.contains(&key(n * 7919 % OTHER_ROWS)).unwrap());
            }
        });
        OtherReads {
            done,
            thread: Some(thread),
        }
    }
}

impl Drop for OtherReads {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}
