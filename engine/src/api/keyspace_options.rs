//! What a keyspace is made with.

use crate::error::{Error, Result};
use crate::index::kind::IndexKind;
use crate::index::space::Space;

/// How a keyspace is made, and what one that exists must be like. The default asks for nothing:
/// a new keyspace gets the database's [default index](crate::Db::default_index).
///
/// ```
/// use hedgerow::{Db, IndexKind, KeyspaceOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::open(dir.path())?;
/// let options = KeyspaceOptions { index: Some(IndexKind::Matryoshka) };
/// let counters = db.keyspace_with("counters", options)?;
/// assert_eq!(counters.index_kind()?, IndexKind::Matryoshka);
/// assert_eq!(db.keyspace("others")?.index_kind()?, IndexKind::Masstree);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// The index; `None` for the one that the keyspace has, or the default of the database.
    pub index: Option<IndexKind>,
}

impl KeyspaceOptions {
    /// Refuses a keyspace that has another index than these options ask for.
    pub(crate) fn check(self, space: &Space) -> Result<()> {
        match self.index {
            Some(asked) if asked != space.kind => Err(Error::KeyspaceIndex {
                keyspace: space.name.clone(),
                asked: asked.name(),
                found: space.kind.name(),
            }),
            _ => Ok(()),
        }
    }
}
