//! Starts of a server with a manifest of an earlier start put back: what a copy by hand, or a
//! partial restore, may leave. Such a start must be refused, and must change nothing.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::campaign::KillCampaign;
use super::start::Start;

/// The manifest after the last kill, and the one after the kill before, if what was acknowledged
/// between them shows that it is older.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    older: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

/// So many acknowledged commits have something in the log: a few may be removals that found
/// nothing.
const TELLING_COMMITS: usize = 20;

fn path(campaign: &KillCampaign) -> PathBuf {
    campaign.data.join("MANIFEST")
}

impl Manifests {
    /// Remembers the manifest of a server that was killed after it had acknowledged so many
    /// commits.
    pub(super) fn remember(&mut self, campaign: &KillCampaign, acknowledged: usize) {
        let found = fs::read(path(campaign)).ok();
        let older = std::mem::replace(&mut self.last, found);
        self.older = older.filter(|_| acknowledged >= TELLING_COMMITS);
    }

    /// Starts a server with the older manifest, which must be refused; whether there was one. The
    /// newest one is put back after that.
    pub(super) fn start_with_older(
        &self,
        campaign: &KillCampaign,
        start: &Start,
    ) -> Result<bool, String> {
        let Some(older) = &self.older else {
            return Ok(false);
        };
        let failed = |e: io::Error| format!("an old MANIFEST could not be put back: {e}");
        let newest = fs::read(path(campaign)).map_err(failed)?;
        fs::write(path(campaign), older).map_err(failed)?;
        let mut server = start.spawn(campaign)?;
        match server.connect() {
            Ok(_) => Err("a server starts with an old MANIFEST, and serves".to_owned()),
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
                fs::write(path(campaign), newest).map_err(failed)?;
                Ok(true)
            }
        }
    }
}
