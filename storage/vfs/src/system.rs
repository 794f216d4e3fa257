//! The operating system's files.
//!
//! Every call maps to one system call (`pread`, `pwrite`, `fdatasync`, …). `fdatasync` is enough
//! for [`VfsFile::sync`]: POSIX has it write the length when that is needed to read the data
//! back, and Hedgerow never relies on file times.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::planted::{PlantedBug, planted};
use crate::{FileLock, OpenMode, Vfs, VfsFile};
#[cfg(target_os = "linux")]
use crate::{ReadAt, WriteAt};

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemVfs;

struct SystemFile {
    file: File,
    /// Past the system's cache, so that what is read or written must wait for the disk.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    direct: bool,
}

struct SystemLock {
    // Closing the files releases the locks.
    _file: File,
    _directory: Option<File>,
}

impl FileLock for SystemLock {}

/// An empty path means the working directory: the parent of a relative file name.
fn named(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}

fn options(mode: OpenMode) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        OpenMode::Read => {}
        OpenMode::ReadWrite => {
            options.write(true);
        }
        OpenMode::CreateNew => {
            options.write(true).create_new(true);
        }
    }
    options
}

impl Vfs for SystemVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let file = options(mode).open(path)?;
        let direct = false;
        Ok(Box::new(SystemFile { file, direct }))
    }

    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let mut options = options(mode);
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
        }
        match options.open(path) {
            Ok(file) => Ok(Box::new(SystemFile { file, direct: true })),
            // Some file systems have no such mode and say so after having created the file.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let created = mode == OpenMode::CreateNew && self.exists(path)?;
                self.open(path, if created { OpenMode::ReadWrite } else { mode })
            }
            Err(error) => Err(error),
        }
    }

    /// In the system's directory for such files (`TMPDIR`).
    fn scratch(&self) -> io::Result<Box<dyn VfsFile>> {
        use std::os::unix::fs::OpenOptionsExt;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("hedgerow-{}-{number}.scratch", std::process::id());
            let path = std::env::temp_dir().join(name);
            // For nobody else's eyes: it has rows.
            match options(OpenMode::CreateNew).mode(0o600).open(&path) {
                Ok(file) => {
                    std::fs::remove_file(&path)?;
                    let direct = false;
                    return Ok(Box::new(SystemFile { file, direct }));
                }
                // Of a process that was killed between the two.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // One that is no UTF-8 is none of ours, but it is there.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(named(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::remove_dir(dir)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(named(dir))?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(SystemLock {
                _file: file,
                _directory: lock_directory_of(path)?,
            })),
            Err(TryLockError::WouldBlock) => Err(locked(path)),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn locked(path: &Path) -> io::Error {
    let message = format!("{} is locked by another process", path.display());
    io::Error::new(io::ErrorKind::WouldBlock, message)
}

/// Locks the directory of a file: unlike the file, it cannot be removed apart from what is in it.
/// Some network file systems lock no directories.
fn lock_directory_of(path: &Path) -> io::Result<Option<File>> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = File::open(directory)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(locked(directory)),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

#[cfg(target_os = "linux")]
impl SystemFile {
    fn read_one(&self, read: &mut ReadAt<'_>) {
        read.result = crate::fill(|offset, buffer| self.read_at(offset, buffer), read);
    }

    fn write_one(&self, write: &mut WriteAt<'_>) {
        write.result = self.write_at(write.offset, write.bytes);
    }
}

impl VfsFile for SystemFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, offset, length)?)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        Ok(fallocate(
            &self.file,
            FallocateFlags::KEEP_SIZE,
            offset,
            length,
        )?)
    }

    fn sync(&self) -> io::Result<()> {
        if planted(PlantedBug::SyncOfFilesLeftOut) {
            return Ok(());
        }
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        if !self.direct || reads.len() < 2 {
            reads.iter_mut().for_each(|read| self.read_one(read));
            return;
        }
        for index in crate::uring::read(&self.file, reads) {
            self.read_one(&mut reads[index]);
        }
    }

    #[cfg(target_os = "linux")]
    fn write_many(&self, writes: &mut [WriteAt<'_>]) {
        if !self.direct || writes.len() < 2 {
            writes.iter_mut().for_each(|write| self.write_one(write));
            return;
        }
        for index in crate::uring::write(&self.file, writes) {
            self.write_one(&mut writes[index]);
        }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
