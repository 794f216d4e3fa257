//! Whether a server was killed in the middle of a checkpoint, by the files that it left: a
//! checkpoint begins new log files, and at its end it stores a MANIFEST.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What shows that a checkpoint has begun or ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files {
    manifest: Option<Vec<u8>>,
    logs: BTreeSet<PathBuf>,
}

impl Files {
    /// The files of a database as they are. Its log directories stand beside it, and begin as it is
    /// named.
    pub(super) fn of(data: &Path) -> Files {
        // The manifest comes first: what is begun after it was read is not in it.
        let manifest = fs::read(data.join("MANIFEST")).ok();
        let name = data.file_name().unwrap_or_default().as_encoded_bytes();
        let beside = data.parent().map(paths_in).unwrap_or_default();
        let places = beside.into_iter().filter(|path| {
            let other = path.file_name().unwrap_or_default();
            other.as_encoded_bytes().starts_with(name)
        });
        let logs = places.flat_map(|place| paths_in(&place.join("log")));
        Files {
            manifest,
            logs: logs.collect(),
        }
    }

    /// Whether a checkpoint that began since then was not finished.
    pub(super) fn show_checkpoint_since(&self, before: &Files) -> bool {
        self.manifest == before.manifest && !self.logs.is_subset(&before.logs)
    }
}

/// What a directory has in it; nothing, if it cannot be read.
fn paths_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_under_way_from_its_logs_to_its_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        for place in ["data/log", "data-log1/log", "other/log"] {
            fs::create_dir_all(dir.path().join(place)).unwrap();
        }
        fs::write(data.join("MANIFEST"), "1").unwrap();
        fs::write(data.join("log/1-1.log"), "").unwrap();
        let before = Files::of(&data);
        assert!(!Files::of(&data).show_checkpoint_since(&before));
        fs::write(dir.path().join("other/log/1-2.log"), "").unwrap();
        assert!(!Files::of(&data).show_checkpoint_since(&before));
        fs::write(dir.path().join("data-log1/log/1-2.log"), "").unwrap();
        assert!(Files::of(&data).show_checkpoint_since(&before));
        fs::write(data.join("MANIFEST"), "2").unwrap();
        assert!(!Files::of(&data).show_checkpoint_since(&before));
    }
}
