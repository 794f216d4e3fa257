//! Groups of processes with a limit to their memory, the page cache of their files included.
//!
//! Most engines read through the system's page cache. A limit to an engine's own cache then says
//! little: what it evicts is still in memory, only elsewhere. Linux's control groups count both
//! together. A group is made in the first version's memory controller or the second's, whichever
//! this system has and lets us write to; where neither, there is none, and results say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::Result;

/// Where control groups are by convention.
const ROOT: &str = "/sys/fs/cgroup";

/// How often something is tried again, after 20 milliseconds each time.
const MAX_RETRIES: u32 = 100;

/// The names of a version's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    /// Where its memory controller is below [`ROOT`].
    folder: &'static str,
    limit: &'static str,
    /// The file that counts processes killed for memory.
    kills: &'static str,
    /// What the line of this process's own group begins with in `/proc/self/cgroup`.
    line: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        folder: "memory",
        limit: "memory.limit_in_bytes",
        kills: "memory.oom_control",
        line: "memory:",
    },
    Version {
        folder: "",
        limit: "memory.max",
        kills: "memory.events",
        line: "0::",
    },
];

/// A control group; removed when dropped, its processes being gone by then.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    version: Version,
}

impl MemoryGroup {
    /// Whether groups with a limit can be made here. Makes one, the first time that it is asked.
    #[must_use]
    pub fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| Self::make().is_some())
    }

    /// A new group without processes and without a limit; `None` where no group with one can be
    /// made.
    #[must_use]
    pub fn make() -> Option<Self> {
        VERSIONS.iter().find_map(|&version| {
            let root = Path::new(ROOT).join(version.folder);
            let own = own_group(version.line).map(|own| root.join(own));
            let parents = own.into_iter().chain([root]);
            parents.into_iter().find_map(|parent| {
                let group = Self::below(&parent, version)?;
                // Where the limit has no file the memory controller is not at work.
                let limit = group.folder.join(version.limit);
                let processes = group.folder.join("cgroup.procs");
                let is_open = |file| fs::OpenOptions::new().write(true).open(file).is_ok();
                (is_open(limit) && is_open(processes)).then_some(group)
            })
        })
    }

    fn below(parent: &Path, version: Version) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("hedgerow-lab-{}-{made}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, version })
    }

    /// What names it, for [`join`](Self::join) in another process.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts this process into a group: what it takes from now on counts there.
    ///
    /// # Errors
    ///
    /// When there is no such group.
    pub fn join(folder: &Path) -> Result<()> {
        Ok(fs::write(folder.join("cgroup.procs"), "0")?)
    }

    /// Limits the memory of all processes of a group together from now on. What they have beyond
    /// that must be page cache, or the next thing that they take kills one.
    ///
    /// # Errors
    ///
    /// What the system says when it cannot take back what is beyond the limit.
    pub fn limit(folder: &Path, limit_bytes: u64) -> Result<()> {
        let mut files = VERSIONS.iter().map(|version| folder.join(version.limit));
        let file = files.find(|file| file.exists());
        let file = file.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?;
        // Pages that are being written go a moment later.
        let mut retries_left = MAX_RETRIES;
        loop {
            match fs::write(&file, limit_bytes.to_string()) {
                Err(_) if retries_left > 0 => retries_left -= 1,
                outcome => return Ok(outcome?),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the system has killed a process of the group because all memory was in use.
    #[must_use]
    pub fn has_killed(&self) -> bool {
        let text = fs::read_to_string(self.folder.join(self.version.kills)).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|kills| kills.trim() != "0")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that was killed takes a moment to be gone.
        for _ in 0..MAX_RETRIES {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// This process's own group below the controller's root.
fn own_group(line: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    // "4:memory:/a/b" in the first version, "0::/a/b" in the second.
    let path = text.lines().find_map(|entry| {
        let entry = match line {
            "0::" => entry,
            _ => entry.split_once(':')?.1,
        };
        entry.strip_prefix(line)
    })?;
    let path = path.trim_start_matches('/');
    (!path.is_empty()).then(|| PathBuf::from(path))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_group_limits_what_a_process_takes_and_says_that_it_was_killed() {
        let Some(group) = MemoryGroup::make() else {
            println!("skipped: no control group can be made here");
            return;
        };
        MemoryGroup::limit(group.folder(), 16 << 20).expect("an empty group");
        let procs = group.folder().join("cgroup.procs");
        let run = |bytes: u32| {
            // The shell joins the group, then becomes a program that takes memory.
            let script = format!(
                "echo 0 > '{}' && exec dd if=/dev/zero of=/dev/null bs={bytes} count=1",
                procs.display()
            );
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            output.expect("a shell").status.success()
        };
        assert!(run(4 << 20), "four of sixteen MiB");
        assert!(!group.has_killed());
        assert!(!run(64 << 20), "64 of sixteen MiB");
        assert!(group.has_killed());
        let folder = group.folder().to_owned();
        drop(group);
        assert!(!folder.exists());
        assert!(MemoryGroup::join(&folder).is_err());
        assert!(MemoryGroup::limit(&folder, 16 << 20).is_err());
    }
}
