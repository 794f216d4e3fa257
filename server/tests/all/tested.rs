//! The backend of this program's tests: the engine, over a directory for each test.

use std::ops::RangeInclusive;

use hedgerow::Db;
use hedgerow_server::ServerOptions;

/// What is tested.
pub type Database = Db;

/// Where its rows are, which goes with the test.
pub type Place = tempfile::TempDir;

/// How many bytes a key may have.
pub const KEY_BYTES: RangeInclusive<usize> = 0..=hedgerow::MAX_KEY_BYTES;

/// A database of its own.
pub fn open(options: &ServerOptions) -> (Database, Place) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().durability(options.durability);
    (db.open(dir.path()).unwrap(), dir)
}
