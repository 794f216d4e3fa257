//! A disk that loses its cache: a real file system in a file, mounted for a test, which at a cut
//! forgets what was not synced.
//!
//! The file system lies in a file behind a loop device. A cut is the kernel's shutdown request
//! (`FS_IOC_SHUTDOWN` without flushing the journal): from that moment nothing reaches the device
//! any more, neither pages of files nor the journal, and every call fails. What is there after
//! unmounting and mounting again is what the journal and the blocks had at the cut, so what a
//! program had not synced is gone, but for what the kernel had written back by itself.
//!
//! This needs root, a loop device and `mkfs` of the file system. Where one of them is missing,
//! [`LossyDisk::create`] says which, and tests print "skipped: why".

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::ioctl::{Setter, ioctl, opcode};

/// `FS_IOC_SHUTDOWN`, `_IOR('X', 125, __u32)`, the same for ext4 and XFS.
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
/// Flush neither data nor the journal first.
const WITHOUT_LOG_FLUSH: u32 = 2;

/// How long a mount point may stay busy after the last program that used it has ended.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A file system that can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, with its journal of metadata and data written before it.
    Ext4,
    /// XFS.
    Xfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 2] = [FileSystem::Ext4, FileSystem::Xfs];

    /// Its name for `mount -t`.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// The file system of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Bytes of the image, which has holes where nothing was written. XFS is not made in less.
    fn image_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 256 << 20,
            FileSystem::Xfs => 320 << 20,
        }
    }

    /// The program that makes one, and its flags.
    fn mkfs(self) -> &'static [&'static str] {
        match self {
            FileSystem::Ext4 => &["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0"],
            FileSystem::Xfs => &["mkfs.xfs", "-q", "-f"],
        }
    }
}

/// Why there is no disk, or an operation on it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This machine does not allow it: a test is skipped.
    #[error("{0}")]
    Unavailable(String),
    /// A disk that was there could not be cut, mounted again or unmounted.
    #[error("{what}: {source}")]
    Failed {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A mounted file system in a temporary file; unmounted when dropped.
#[derive(Debug)]
pub struct LossyDisk {
    system: FileSystem,
    folder: tempfile::TempDir,
    is_mounted: bool,
}

impl LossyDisk {
    /// Makes a file system and mounts it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where this machine does not allow that.
    pub fn create(system: FileSystem) -> Result<Self, Error> {
        let unavailable = |what: &str, error: &dyn std::fmt::Display| {
            Error::Unavailable(format!("{what}: {error}"))
        };
        let folder =
            tempfile::tempdir().map_err(|error| unavailable("a temporary directory", &error))?;
        let mut disk = LossyDisk {
            system,
            folder,
            is_mounted: false,
        };
        let made = File::create(disk.image())
            .and_then(|file| file.set_len(system.image_bytes()))
            .and_then(|()| std::fs::create_dir(disk.path()));
        made.map_err(|error| unavailable("an image of a disk", &error))?;
        let [program, flags @ ..] = system.mkfs() else {
            unreachable!("each file system has a program that makes it");
        };
        let image = disk.image();
        run(Command::new(program).args(flags).arg(&image))
            .map_err(|error| unavailable("making a file system", &error))?;
        disk.mount()
            .map_err(|error| unavailable("mounting a file as a disk", &error))?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Cuts the disk off: nothing reaches it from now on, and calls fail.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses; the disk works on then.
    pub fn cut(&self) -> Result<(), Error> {
        let failed = |source: io::Error| Error::Failed {
            what: format!("shutting {} down", self.path().display()),
            source,
        };
        let root = File::open(self.path()).map_err(failed)?;
        // SAFETY: the opcode is that of FS_IOC_SHUTDOWN, which reads one u32 through the pointer
        // that it is given and writes nothing to this process.
        let done = unsafe {
            let request: Setter<SHUTDOWN, u32> = Setter::new(WITHOUT_LOG_FLUSH);
            ioctl(&root, request)
        };
        done.map_err(|error| failed(error.into()))
    }

    /// Unmounts the disk and mounts it again: as it is when the machine comes back. Whoever had
    /// files open in it must have ended.
    ///
    /// # Errors
    ///
    /// Where it stays in use, or what is on the disk cannot be mounted.
    pub fn mount_again(&mut self) -> Result<(), Error> {
        self.unmount()?;
        self.mount().map_err(|source| Error::Failed {
            what: format!("mounting {} again", self.image().display()),
            source,
        })
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mount(&mut self) -> io::Result<()> {
        let mut command = Command::new("mount");
        command.args(["-t", self.system.name(), "-o", "loop"]);
        run(command.arg(self.image()).arg(self.path()))?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        let path = self.path();
        loop {
            match run(Command::new("umount").arg(&path)) {
                Ok(()) => break,
                // A process that was killed may have its files a little longer.
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
                Err(source) => {
                    let what = format!("unmounting {}", path.display());
                    return Err(Error::Failed { what, source });
                }
            }
        }
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for LossyDisk {
    fn drop(&mut self) {
        if self.is_mounted {
            // Lazily: a failed test may have a server that still uses it. There is nobody to tell.
            let _ = run(Command::new("umount").arg("-l").arg(self.path()));
        }
    }
}

/// Runs a program of the system; its error has what it wrote.
fn run(command: &mut Command) -> io::Result<()> {
    let program = Path::new(command.get_program()).display().to_string();
    // Debian has these where users that are not root do not look.
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .output()
        .map_err(|error| io::Error::other(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}", said.trim())))
}
