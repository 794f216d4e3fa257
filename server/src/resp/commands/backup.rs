//! `BACKUP`: a copy of the running database, in a directory with a name of the client's choice,
//! within the one that the operator chose. The copy itself is the backend's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use hedgerow::BackupReport;
use hedgerow::backend::{Backend, Capability};

use crate::backups::EndedBackup;
use crate::resp::command::Call;
use crate::resp::failure::{Failure, Outcome, needs};
use crate::shared::{Shared, now_ms};

/// The longest name of a backup.
const LONGEST_NAME: usize = 64;

/// `BACKUP name`: a copy of the database as it is at one moment, made in a thread of its own.
/// `INFO persistence` tells when and how it ended.
pub(crate) fn backup<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    needs(&*call.shared.db, Capability::Backups)?;
    if call.shared.db.is_volatile() {
        return Err(hedgerow::Error::InMemory.into());
    }
    let name = String::from_utf8_lossy(&call.arguments[0]);
    begin(call.shared, &name).map_err(|refused| {
        Failure::text(match refused {
            NotBegun::NoDirectory => {
                "ERR this server has no directory for backups; start it with --backups DIR".into()
            }
            NotBegun::Name => {
                "ERR a backup's name has 1 to 64 letters, digits and - _ . of ASCII, \
                               and begins with no ."
                    .to_owned()
            }
            NotBegun::Taken(dir) => format!(
                "ERR there is something in {:?} already; choose another name",
                dir.display().to_string()
            ),
            NotBegun::Busy => "ERR a checkpoint or another backup is under way; INFO persistence \
                               tells when it has ended"
                .into(),
            NotBegun::NoThread(error) => {
                format!("ERR the system gives no thread for the backup ({error}); try again later")
            }
        })
    })?;
    call.reply.simple("Background backup started");
    Ok(())
}

/// Why no backup begins.
enum NotBegun {
    /// The server has no directory for backups.
    NoDirectory,
    /// The name cannot be one of a directory within it.
    Name,
    /// Something is there already.
    Taken(PathBuf),
    /// A checkpoint or another backup is under way.
    Busy,
    /// The system gave no thread.
    NoThread(io::Error),
}

/// Names of letters, digits, `-`, `_` and `.`, the first of them no `.`: each is a directory of its
/// own, within the one for backups.
fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=LONGEST_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
}

/// Whether there is something under a path, and be it a file. An empty directory is what a backup
/// that failed may leave.
fn is_taken(dir: &Path) -> bool {
    let is_empty = || {
        dir.read_dir()
            .is_ok_and(|mut entries| entries.next().is_none())
    };
    dir.symlink_metadata().is_ok() && !is_empty()
}

/// A backup under way, until this is dropped.
struct UnderWay<'s, B: Backend> {
    shared: &'s Shared<B>,
    name: String,
    /// `None` if it did not come to an end.
    outcome: Option<hedgerow::Result<BackupReport>>,
}

impl<B: Backend> Drop for UnderWay<'_, B> {
    fn drop(&mut self) {
        let outcome = match self.outcome.take() {
            Some(outcome) => outcome.map_err(|error| error.to_string()),
            None => Err("its thread panicked".to_owned()),
        };
        let name = std::mem::take(&mut self.name);
        match &outcome {
            Ok(report) => tracing::info!(name, bytes = report.size_bytes, "a backup is complete"),
            Err(why) => tracing::warn!(name, why, "a backup failed"),
        }
        let ended_s = now_ms() / 1000;
        if outcome.is_ok() {
            // It begins with a checkpoint.
            self.shared.last_save_s.store(ended_s, Ordering::Relaxed);
        }
        let ended = EndedBackup {
            name,
            ended_s,
            outcome,
        };
        self.shared.backups.end(Some(ended), &self.shared.saving);
    }
}

/// Begins a backup, in a thread of its own. No checkpoint that a client asks for runs beside it:
/// it would wait for the backup's end.
fn begin<B: Backend>(shared: &Shared<B>, name: &str) -> Result<(), NotBegun> {
    let all = shared.options.backups.as_ref();
    let all = all.ok_or(NotBegun::NoDirectory)?;
    if !is_name(name) {
        return Err(NotBegun::Name);
    }
    let dir = all.join(name);
    if is_taken(&dir) {
        return Err(NotBegun::Taken(dir));
    }
    if shared.saving.swap(true, Ordering::AcqRel) {
        return Err(NotBegun::Busy);
    }
    // Another backup of this name may have come to its end meanwhile.
    if is_taken(&dir) {
        shared.saving.store(false, Ordering::Release);
        return Err(NotBegun::Taken(dir));
    }
    shared.backups.begin(name);
    let name = name.to_owned();
    let begun = shared.in_background("hedgerow-backup", move |shared| {
        tracing::info!(name, dir = %dir.display(), "a backup begins");
        let mut under_way = UnderWay {
            shared,
            name,
            outcome: None,
        };
        under_way.outcome = Some(shared.db.backup(&dir));
    });
    begun.map_err(|error| {
        shared.backups.end(None, &shared.saving);
        NotBegun::NoThread(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_directory() {
        for good in ["a", "2026-11-27", "x.1_y", &"n".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "/a",
            "a\\b",
            "ä",
            "a b",
            &"n".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
