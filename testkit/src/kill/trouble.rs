//! What can happen to a server's disk while it is written to.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;

use super::campaign::KillCampaign;

/// How long commits may take to meet the longest file. A machine on which it takes longer kills the
/// server all the same.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What happens to the disk in one process run of a server.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// It is filled, and perhaps freed again before the kill.
    FullDisk { disk: PathBuf, frees: bool },
    /// No file can grow beyond so many bytes.
    LongestFile(u64),
}

impl Trouble {
    /// What happens in this round of a campaign. One round in the middle limits the length of files
    /// for sure, where the campaign may do that.
    pub(super) fn random(
        rng: &mut StdRng,
        campaign: &KillCampaign,
        round: usize,
    ) -> Option<Trouble> {
        // Drawn in any case: a seed means the same with and without a small disk.
        let (any, frees, full) = (
            rng.random_bool(0.5),
            rng.random_bool(0.5),
            rng.random_bool(0.7),
        );
        // Longer than what is there, with room for the start of the next log: an opening writes the
        // end of the last log again, and one that may not do so is refused.
        let growth: u64 = 512 << rng.random_range(11..13);
        let longest_file = longest_file_bytes(&campaign.data).next_multiple_of(512) + growth;
        let is_sure = campaign.limits_files && round == campaign.kills / 2;
        let (any, full) = (any || is_sure, (full && !is_sure) || !campaign.limits_files);
        match &campaign.small_disk {
            Some(disk) if any && full => Some(Trouble::FullDisk {
                disk: disk.clone(),
                frees,
            }),
            _ if any && campaign.limits_files => Some(Trouble::LongestFile(longest_file)),
            _ => None,
        }
    }

    /// Where files cannot grow, waits until a commit got an error, which comes as soon as there is
    /// enough log; not for ever, and not when a writer has ended.
    pub(super) fn await_failure(&self, has_failed: &AtomicBool, alive: impl Fn() -> bool) {
        let Trouble::LongestFile(_) = self else {
            return;
        };
        let deadline = Instant::now() + LONGEST_WAIT;
        while !has_failed.load(Ordering::Relaxed) && alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The length of the longest file in a directory and those below it; 0 if there is none.
fn longest_file_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let lengths = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => longest_file_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    lengths.max().unwrap_or(0)
}

/// A file that takes all space of a disk; removed when dropped.
pub(super) struct Filler(PathBuf);

impl Filler {
    /// Fills a disk.
    pub(super) fn fill(disk: &Path) -> io::Result<Filler> {
        let filler = Filler(disk.join("filler"));
        let mut file = File::create(&filler.0)?;
        for chunk in [1 << 20, 4096, 512, 1] {
            let zeros = vec![0; chunk];
            while file.write_all(&zeros).is_ok() {}
        }
        Ok(filler)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        // If it stays, the next process run finds its disk full and says so.
        let _ = fs::remove_file(&self.0);
    }
}

/// Room for the logs and the checkpoints of a campaign's few rows, and soon filled.
pub const SMALL_DISK_BYTES: u64 = 192 << 20;

/// A small file system in memory, mounted for a test; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many bytes at an empty directory; the error says why that is not possible
    /// here (it takes root, as a rule).
    pub fn mount(at: &Path, bytes: u64) -> Result<SmallDisk, String> {
        let said = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(at)
            .output()
            .map_err(|e| format!("mount: {e}"))?;
        if !said.status.success() {
            return Err(String::from_utf8_lossy(&said.stderr).trim().to_owned());
        }
        Ok(SmallDisk(at.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that is not quite gone keeps it until then.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
