//! Where rows are: a directory, or what a URL names.

use std::path::{Path, PathBuf};

use hedgerow::backend::Backend;
use hedgerow::{Db, MOST_VALUE_BYTES};

use crate::data::{discard, missing_dirs};
use crate::error::{Error, Result};

/// What a place is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A directory, or a URL.
pub(super) enum Place {
    Directory(PathBuf),
    Url(String),
}

/// What is done with a place that is open, whatever backend it is.
pub(super) trait Use {
    fn with<B: Backend>(self, db: &B) -> Result<()>;
}

impl Place {
    /// What contains `://` is a URL.
    pub(super) fn of(text: &str) -> Place {
        match text.contains("://") {
            true => Place::Url(text.to_owned()),
            false => Place::Directory(text.into()),
        }
    }

    /// Opens it, uses it, and closes it.
    pub(super) fn open(self, access: Access, user: impl Use) -> Result<()> {
        match self {
            Place::Directory(dir) => {
                // The source may have been served with any limit.
                let mut builder = Db::builder().max_value_bytes(MOST_VALUE_BYTES);
                if access == Access::Read {
                    builder = builder.read_only(true).create(false);
                }
                let missing = missing_dirs(&dir);
                let db = builder.open(&dir).map_err(|error| match error {
                    // The engine's words name a flag that `copy` does not have.
                    hedgerow::Error::Missing { dir } => Error::Failed(format!(
                        "there is no database in {}; name the directory of one",
                        dir.display()
                    )),
                    error => error.into(),
                })?;
                match user.with(&db) {
                    Ok(()) => Ok(db.close()?),
                    // The copy is made.
                    Err(error) if error.is_broken_pipe() => Err(error),
                    Err(error) => {
                        discard(&db, &missing);
                        Err(error)
                    }
                }
            }
            Place::Url(url) => open_url(&url, access, user),
        }
    }
}

#[cfg(feature = "hbase")]
fn open_url(url: &str, access: Access, user: impl Use) -> Result<()> {
    let parsed = url.parse::<hedgerow_hbase::ClusterUrl>();
    let parsed = parsed.map_err(|error| Error::Usage(error.to_string()))?;
    let options = hedgerow_hbase::HbaseOptions {
        create: access == Access::Write,
        ..hedgerow_hbase::HbaseOptions::default()
    };
    user.with(&hedgerow_hbase::Hbase::open(&parsed, options)?)
}

#[cfg(not(feature = "hbase"))]
fn open_url(url: &str, _: Access, _: impl Use) -> Result<()> {
    Err(Error::Usage(format!(
        "{url}: this program was built without other backends; build it with \
         `cargo build --release -p hedgerow-cli --features hbase`"
    )))
}
