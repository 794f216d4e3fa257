//! Files, behind one fallible trait.
//!
//! Nothing in Hedgerow touches a file other than through [`Vfs`]. So the same log, checkpoint
//! and recovery code runs on a disk ([`SystemVfs`]), in memory ([`MemoryVfs`]), under modelled
//! power cuts ([`RecordingVfs`]) and under injected faults ([`FaultyVfs`]); what the crash
//! campaigns test is the code that ships.
//!
//! The trait promises no more than a disk does:
//!
//! - written bytes, a file's length and a truncation are durable after [`VfsFile::sync`];
//! - a created, renamed or removed *name* is durable after [`Vfs::sync_dir`] of its directory;
//! - before that, any subset of them may survive a power cut, in 512-byte sectors.

#![deny(unsafe_code)]

mod faulty;
mod memory;
mod pause;
mod planted;
mod recording;
mod system;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::path::{Path, PathBuf};

pub use faulty::{CallKind, Fault, FaultyVfs};
pub use memory::MemoryVfs;
pub use pause::Pause;
#[cfg(feature = "planted-bugs")]
pub use planted::{PlantedBug, plant};
pub use recording::RecordingVfs;
pub use system::SystemVfs;

/// How [`Vfs::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
}

/// One read of a batch: see [`VfsFile::read_many`].
#[derive(Debug)]
pub struct ReadAt<'a> {
    /// Where to read.
    pub offset: u64,
    /// What to fill.
    pub buffer: &'a mut [u8],
    /// What became of it, once the batch is done: bytes read, fewer than asked only at the end of
    /// the file.
    pub result: io::Result<usize>,
}

impl<'a> ReadAt<'a> {
    /// A read that is still to be done.
    pub fn new(offset: u64, buffer: &'a mut [u8]) -> Self {
        let result = Ok(0);
        Self {
            offset,
            buffer,
            result,
        }
    }
}

/// One write of a batch: see [`VfsFile::write_many`].
#[derive(Debug)]
pub struct WriteAt<'a> {
    /// Where to write.
    pub offset: u64,
    /// What to write.
    pub bytes: &'a [u8],
    /// What became of it, once the batch is done.
    pub result: io::Result<()>,
}

impl<'a> WriteAt<'a> {
    /// A write that is still to be done.
    pub fn new(offset: u64, bytes: &'a [u8]) -> Self {
        let result = Ok(());
        Self {
            offset,
            bytes,
            result,
        }
    }
}

/// Whether a disk has no space left, or the user's share of it is used up.
#[must_use]
pub fn is_disk_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// A file system, or a model of one. Shared as `Arc<dyn Vfs>`.
///
/// Errors carry the kinds of [`std::io`]: `NotFound`, `AlreadyExists`, `StorageFull` and so on.
pub trait Vfs: Send + Sync + 'static {
    /// Opens a file. Creating one makes its name durable only after [`Vfs::sync_dir`].
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>>;

    /// Opens a file whose reads and writes should go past the system's cache, where that is
    /// possible: for callers that cache by themselves. Offsets, lengths and the addresses of
    /// buffers must then all be multiples of 4096 bytes.
    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        self.open(path, mode)
    }

    /// Makes a file without a name, for reading and writing: nobody else sees it, and it is gone
    /// when it is closed. In memory, unless the file system says otherwise.
    fn scratch(&self) -> io::Result<Box<dyn VfsFile>> {
        MemoryVfs::new().open(Path::new("/scratch"), OpenMode::CreateNew)
    }

    /// Creates a directory and its missing parents; no error if it is there already.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// The names in a directory (files and directories), sorted. One that is not UTF-8, which
    /// Hedgerow never makes, has marks in place of what is not: it is there, and opens nothing.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// The one path of what exists under this name, without `.`, `..` and symbolic links: two names
    /// of one directory have the same. The empty path is the working directory, where there is one.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        match self.exists(path)? {
            true => Ok(memory::normal(path)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Renames a file, replacing the target atomically. Durable after `sync_dir` of the
    /// directories concerned.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles keep working, as on Unix.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything below it.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Removes a directory that is empty. Where it matters, a name that [`Vfs::list`] leaves out
    /// keeps it from being so.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        match self.list(dir)?.is_empty() {
            true => self.remove_dir_all(dir),
            false => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }

    /// Makes the names created, renamed and removed in this directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes an exclusive lock on the file at `path`, creating it if needed, and on its directory,
    /// so that removing the file lets nobody else in. Fails with [`io::ErrorKind::WouldBlock`]
    /// while somebody else holds either; released on drop. A file system that cannot lock
    /// directories locks the file alone.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
}

/// An open file. All methods take `&self` and may be called from several threads; writes to
/// overlapping ranges from several threads have no defined order.
pub trait VfsFile: Send + Sync {
    /// Reads up to `buffer.len()` bytes at `offset` and returns how many; 0 only at or past the
    /// end of the file (or for an empty buffer). May read less than asked: see [`read_exact_at`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file with zeros if it is shorter. After an
    /// error, any part of the range may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Does several reads at once, in any order, and waits for all of them. Each has a result of
    /// its own.
    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        for read in reads {
            read.result = fill(|offset, buffer| self.read_at(offset, buffer), read);
        }
    }

    /// Does several writes, which do not overlap, at once, in any order, and waits for all of
    /// them. Each has a result of its own.
    fn write_many(&self, writes: &mut [WriteAt<'_>]) {
        for write in writes {
            write.result = self.write_at(write.offset, write.bytes);
        }
    }

    /// Gives the space of a range within the file back to the disk; it then reads as zeros. The
    /// length stays. Fails with `Unsupported` where the file system cannot.
    fn punch(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reserves disk space for a range of the file, so that writing there does not fail for want of
    /// it; neither contents nor length change. [`VfsFile::truncate`] gives back what is behind the
    /// new length. Fails with `StorageFull`, or with `Unsupported` where the file system cannot.
    fn allocate(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the file's bytes and length durable. After an error nothing is known about writes
    /// since the last successful sync, and a retry that succeeds proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Sets the length of the file, cutting it or growing it with zeros.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Proof that a lock taken by [`Vfs::lock`] is held; releases it on drop.
pub trait FileLock: Send + Sync {}

fn fill(
    mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    read: &mut ReadAt<'_>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < read.buffer.len() {
        match read_at(read.offset + filled as u64, &mut read.buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills `buffer` from `offset`, or fails with `UnexpectedEof` if the file ends before.
pub fn read_exact_at(file: &dyn VfsFile, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    if read_up_to_at(file, offset, buffer)? < buffer.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file ends inside the {} bytes wanted at {offset}",
                buffer.len()
            ),
        ));
    }
    Ok(())
}

/// Fills as much of `buffer` from `offset` as the file has, and returns how much that is.
pub fn read_up_to_at(file: &dyn VfsFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = ReadAt::new(offset, buffer);
    fill(|offset, buffer| file.read_at(offset, buffer), &mut read)
}

/// Reads a whole file into memory.
pub fn read_file(vfs: &dyn Vfs, path: &Path) -> io::Result<Vec<u8>> {
    let file = vfs.open(path, OpenMode::Read)?;
    let length = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    let filled = read_up_to_at(&*file, 0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}
