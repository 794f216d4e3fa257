//! The backend of this program's tests: HBase, with a namespace for each test.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow_hbase::{ClusterUrl, Gateways, Hbase, HbaseOptions, MAX_ROW_KEY_BYTES};
use hedgerow_server::ServerOptions;

/// What is tested.
pub type Database = Hbase;

/// Where its rows are, which goes with the test.
pub type Place = Namespace;

/// How many bytes a key may have.
pub const KEY_BYTES: RangeInclusive<usize> = 1..=MAX_ROW_KEY_BYTES;

/// How long a call for tables may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// A namespace, which goes with its tables when this is dropped.
pub struct Namespace(ClusterUrl);

impl Namespace {
    fn remove(&self) -> hedgerow_hbase::Result<()> {
        let options = HbaseOptions::default();
        let gateways = Gateways::new(&self.0, options.gateways)?;
        let calls = gateways.within(DEADLINE);
        for table in calls.tables_of_namespace(self.0.namespace())? {
            calls.disable_table(&table)?;
            calls.delete_table(&table)?;
        }
        calls.delete_namespace(self.0.namespace())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test that failed may still have threads that make tables.
        let removed = self.remove();
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// A namespace of its own. Ends the program where there is no cluster.
pub fn open(_: &ServerOptions) -> (Database, Place) {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let Ok(url) = std::env::var("HEDGEROW_HBASE_URL") else {
        // Not by a macro, whose text the harness keeps to itself.
        let why = "skipped: HEDGEROW_HBASE_URL names no cluster; `.ci/hbase up` starts one\n";
        let _ = std::io::stderr().write_all(why.as_bytes());
        std::process::exit(0);
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (time, nth) = (since.as_secs(), OPENED.fetch_add(1, Ordering::Relaxed));
    let url = format!("{url}_test_{time}_{}_{nth}", std::process::id());
    let url: ClusterUrl = url.parse().unwrap();
    let db = Hbase::open(&url, HbaseOptions::default()).unwrap();
    (db, Namespace(url))
}
