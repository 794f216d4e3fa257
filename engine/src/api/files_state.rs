//! Which state of its files a database is in: for those who read a closed database in several
//! steps, and must know whether somebody wrote to it between two of them.

use std::fmt;

use crate::api::db::Db;

/// The state of a database's files. It is another one as soon as somebody opens the database for
/// writing, whether or not rows change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilesState {
    /// The database: a random number that its backups, and what is restored from them, have, too.
    pub database_id: u128,
    /// How often it was opened for writing.
    incarnation: u32,
    /// How often its manifest was stored.
    sequence: u64,
}

impl fmt::Display for FilesState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilesState {
            database_id,
            incarnation,
            sequence,
        } = self;
        write!(f, "{database_id:032x}-{incarnation}-{sequence}")
    }
}

impl Db {
    /// The state of the files, as this opening of them has stored it last or, if they were opened
    /// for reading only, found it. `None` in memory.
    pub fn files_state(&self) -> Option<FilesState> {
        if self.is_in_memory() {
            return None;
        }
        let manifest = self.engine().manifest();
        Some(FilesState {
            database_id: manifest.database_id,
            incarnation: manifest.incarnation,
            sequence: manifest.sequence,
        })
    }
}
