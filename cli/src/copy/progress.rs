//! How far a copy has come, in a file, so that it can go on. A copy that is complete removes the
//! file: the same command begins anew then, as the source may have changed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::arguments::Copy;
use crate::error::{Error, Result};
use crate::text;

/// How far a keyspace is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reached {
    /// Up to this key, as `dump` writes keys.
    Key(String),
    /// All of it.
    End,
}

/// The file's content.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    from: String,
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_since: Option<String>,
    keyspaces: BTreeMap<String, Reached>,
}

/// How far a copy has come.
pub(super) struct Progress {
    file: Option<PathBuf>,
    state: State,
}

impl Progress {
    /// Reads the file that `--resume` names, if there is one.
    pub(super) fn open(copy: &Copy) -> Result<Progress> {
        let mut progress = Progress {
            file: copy.resume.clone(),
            state: State {
                from: copy.from.clone(),
                to: copy.to.clone(),
                changed_since: copy.changed_since.clone(),
                keyspaces: BTreeMap::new(),
            },
        };
        let Some(file) = &copy.resume else {
            return Ok(progress);
        };
        let bytes = match std::fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(progress),
            read => read.map_err(|source| Error::File {
                operation: "read",
                file: file.clone(),
                source,
            })?,
        };
        let state: State = serde_json::from_slice(&bytes).map_err(|error| {
            Error::Usage(format!(
                "{} does not say how far a copy has come ({error}); name another file with \
                 --resume, or remove this one to begin anew",
                file.display()
            ))
        })?;
        let places = (&state.from, &state.to, &state.changed_since);
        if places != (&copy.from, &copy.to, &copy.changed_since) {
            let since = state.changed_since.as_ref();
            return Err(Error::Usage(format!(
                "{} is about a copy from {} to {}{}; name another file with --resume",
                file.display(),
                state.from,
                state.to,
                since.map_or(String::new(), |place| format!(
                    " of what changed since {place}"
                ))
            )));
        }
        let has_begun = !state.keyspaces.is_empty();
        if has_begun && !copy.to.contains("://") && !Path::new(&copy.to).exists() {
            return Err(Error::Usage(format!(
                "{} says how far a copy has come, and {} is not there; remove the file to begin \
                 anew",
                file.display(),
                copy.to
            )));
        }
        progress.state = state;
        Ok(progress)
    }

    /// The key behind which a keyspace goes on, or `Some(None)` for its beginning; `None` if it is
    /// copied.
    pub(super) fn begin(&self, keyspace: &str) -> Option<Option<Vec<u8>>> {
        match self.state.keyspaces.get(keyspace) {
            None => Some(None),
            Some(Reached::End) => None,
            Some(Reached::Key(key)) => Some(text::unescape(key.as_bytes()).ok()),
        }
    }

    /// All rows up to a key are written.
    pub(super) fn arrived(&mut self, keyspace: &str, key: &[u8]) -> Result<()> {
        let mut escaped = Vec::new();
        text::escape(key, &mut escaped);
        let key = String::from_utf8_lossy(&escaped).into_owned();
        self.reached(keyspace, Reached::Key(key))
    }

    /// A keyspace is copied.
    pub(super) fn end(&mut self, keyspace: &str) -> Result<()> {
        self.reached(keyspace, Reached::End)
    }

    /// All is copied.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        match std::fs::remove_file(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| Error::File {
                operation: "remove",
                file: file.clone(),
                source,
            }),
        }
    }

    /// A keyspace is to be copied anew.
    pub(super) fn forget(&mut self, keyspace: &str) -> Result<()> {
        self.state.keyspaces.remove(keyspace);
        self.write()
    }

    fn reached(&mut self, keyspace: &str, reached: Reached) -> Result<()> {
        self.state.keyspaces.insert(keyspace.to_owned(), reached);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        // Whole, or as it was.
        let mut beside = file.clone().into_os_string();
        beside.push(".new");
        let text = serde_json::to_vec(&self.state).unwrap_or_default();
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file));
        written.map_err(|source| Error::File {
            operation: "write",
            file: file.clone(),
            source,
        })
    }
}
