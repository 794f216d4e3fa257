//! How far a copy has come, in a file, so that it can go on. A copy that is complete removes the
//! file: the same command begins anew then, as the source may have changed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hedgerow::FilesState;
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
pub(super) struct State {
    from: String,
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_since: Option<String>,
    /// Of directories.
    #[serde(default)]
    states: States,
    keyspaces: BTreeMap<String, Reached>,
}

/// The states of the files that are read, and which database is written to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct States {
    from: Option<String>,
    changed_since: Option<String>,
    to: Option<String>,
}

impl States {
    pub(super) fn new(
        from: Option<FilesState>,
        changed_since: Option<FilesState>,
        to: Option<FilesState>,
    ) -> States {
        States {
            from: from.map(|state| state.to_string()),
            changed_since: changed_since.map(|state| state.to_string()),
            to: to.map(|state| format!("{:032x}", state.database_id)),
        }
    }

    /// Why a copy that found these states does not go on over those, in words.
    fn check(&self, now: &States, copy: &Copy) -> std::result::Result<(), String> {
        let written = |place: &str| {
            Err(format!(
                "{place} has been written to since: rows that the copy has passed may have changed"
            ))
        };
        if self.from != now.from {
            return written(&copy.from);
        }
        if self.changed_since != now.changed_since {
            return written(copy.changed_since.as_deref().unwrap_or_default());
        }
        match self.to == now.to {
            true => Ok(()),
            false => Err(format!("{} is not the database that it went to", copy.to)),
        }
    }
}

/// How far a copy has come.
pub(super) struct Progress {
    file: Option<PathBuf>,
    state: State,
}

impl State {
    /// Reads the file that `--resume` names, if there is one: before a target is opened or made.
    pub(super) fn read(copy: &Copy) -> Result<Option<State>> {
        let Some(file) = &copy.resume else {
            return Ok(None);
        };
        let failed = |operation, source| Error::File {
            operation,
            file: file.clone(),
            source,
        };
        let bytes = match std::fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                check_folder(file).map_err(|source| failed("write", source))?;
                return Ok(None);
            }
            read => read.map_err(|source| failed("read", source))?,
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
        // Of one that has copied nothing, nothing counts.
        Ok(Some(state).filter(|state| !state.keyspaces.is_empty()))
    }
}

/// Fails if a file could not be made, for lack of a folder.
fn check_folder(file: &Path) -> std::io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::metadata(folder).map(drop),
        _ => Ok(()),
    }
}

impl Progress {
    /// Goes on where an earlier copy ended, if there was one.
    pub(super) fn new(copy: &Copy, earlier: Option<State>, states: States) -> Result<Progress> {
        if let Some(earlier) = &earlier {
            earlier.states.check(&states, copy).map_err(|why| {
                let file = copy.resume.as_deref().unwrap_or(Path::new(""));
                Error::Usage(format!(
                    "{} says how far a copy has come, and {why}; remove the file to begin anew",
                    file.display()
                ))
            })?;
        }
        Ok(Progress {
            file: copy.resume.clone(),
            state: earlier.unwrap_or_else(|| State {
                from: copy.from.clone(),
                to: copy.to.clone(),
                changed_since: copy.changed_since.clone(),
                states,
                keyspaces: BTreeMap::new(),
            }),
        })
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
