//! Starts of a server with a manifest of an earlier start put back: what a copy by hand, or a
//! partial restore, may leave. Such a start must be refused, and must change nothing.

use std::path::PathBuf;

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
        let found = std::fs::read(path(campaign)).ok();
        self.older = std::mem::replace(&mut self.last, found);
    }

    /// Starts a server with the older manifest; whether it was refused. The newest one is put back
    /// after that. A start that is not refused goes on with whatever the logs have.
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
        let failed = |e: std::io::Error| format!("an old MANIFEST could not be put back: {e}");
        std::fs::write(path(campaign), older).map_err(failed)?;
        let mut server = start.spawn(campaign)?;
        match server.connect() {
            // Nothing was written since: it is as good as the new one.
            Ok(_) => {
                server.kill().map_err(|e| e.to_string())?;
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
                std::fs::write(path(campaign), last).map_err(failed)?;
                Ok(true)
            }
        }
    }
}
