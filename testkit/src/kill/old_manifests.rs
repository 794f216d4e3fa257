//! Starts of a server with a manifest of an earlier start put back: what a copy by hand, or a
//! partial restore, may leave. Such a start must be refused, and must change nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{KillCampaign, Start};

/// The manifest after the last kill, and one of a start before that.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    older: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

fn path(campaign: &KillCampaign) -> PathBuf {
    campaign.data.join("MANIFEST")
}

impl Manifests {
    /// Remembers the manifest of a server that was killed after commits were acknowledged.
    pub(super) fn remember(&mut self, campaign: &KillCampaign) {
        let found = fs::read(path(campaign)).ok();
        self.older = std::mem::replace(&mut self.last, found);
    }

    /// Starts a server with the older manifest; whether it was refused. The newest one is put back
    /// after that. A start that is not refused is undone whole: where nothing but the catalog changed
    /// since, nothing in the logs tells of the manifest's age, and a keyspace that was cleared has its
    /// rows again (docs/durability.md).
    pub(super) fn start_with_older(
        &self,
        campaign: &KillCampaign,
        start: &Start,
    ) -> Result<bool, String> {
        let (Some(older), Some(last)) = (&self.older, &self.last) else {
            return Ok(false);
        };
        if older == last {
            return Ok(false);
        }
        let failed = |e: io::Error| format!("an old MANIFEST could not be put back: {e}");
        let before = tempfile::tempdir().map_err(failed)?;
        copy_directory(&campaign.data, before.path()).map_err(failed)?;
        fs::write(path(campaign), older).map_err(failed)?;
        let mut server = start.spawn(campaign)?;
        match server.connect() {
            Ok(_) => {
                server.kill().map_err(|e| e.to_string())?;
                fs::remove_dir_all(&campaign.data).map_err(failed)?;
                fs::create_dir(&campaign.data).map_err(failed)?;
                copy_directory(before.path(), &campaign.data).map_err(failed)?;
                Ok(false)
            }
            Err(error) => {
                let words = error.to_string();
                // An older one may also name files that are gone; those are named then.
                if !["MANIFEST", ".log", ".ckpt", "pages.hdg"]
                    .iter()
                    .any(|name| words.contains(name))
                {
                    return Err(format!(
                        "an old MANIFEST is refused without a name: {words}"
                    ));
                }
                fs::write(path(campaign), last).map_err(failed)?;
                Ok(true)
            }
        }
    }
}

/// Copies what is in a directory, and in those below it, into another one.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy_directory(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
