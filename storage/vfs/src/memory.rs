//! A file system in memory: the base of tests, of crash images and of throw-away databases.
//!
//! Names and contents are separate, as on Unix: removing or replacing a name leaves open handles
//! working. A name's directory must exist, as on a disk, so that code which forgets to create it
//! fails here too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::{FileLock, OpenMode, Vfs, VfsFile};

/// Files in memory; clones share them. Everything is durable at once and nothing fails.
#[derive(Clone, Default)]
pub struct MemoryVfs {
    tree: Arc<Mutex<Tree>>,
}

#[derive(Default)]
struct Tree {
    dirs: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Arc<Node>>,
    /// Directories of files that are locked.
    locked: BTreeSet<PathBuf>,
}

/// What an inode is on a disk.
#[derive(Default)]
struct Node {
    bytes: RwLock<Vec<u8>>,
    locked: AtomicBool,
}

struct MemoryFile {
    node: Arc<Node>,
    writable: bool,
}

struct MemoryLock {
    node: Arc<Node>,
    directory: PathBuf,
    vfs: MemoryVfs,
}

impl FileLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.node.locked.store(false, Ordering::Release);
        self.vfs.tree().locked.remove(&self.directory);
    }
}

/// `path` without `.` components, so that `a/./b` and `a/b` are one name.
pub(crate) fn normal(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("{} does not exist", path.display()),
    )
}

impl Tree {
    fn has_dir(&self, dir: &Path) -> bool {
        dir.as_os_str().is_empty() || dir == Path::new("/") || self.dirs.contains(dir)
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if !self.has_dir(parent) => Err(not_found(parent)),
            _ => Ok(()),
        }
    }

    fn add_dir(&mut self, dir: &Path) {
        for ancestor in dir.ancestors() {
            if !ancestor.as_os_str().is_empty() {
                self.dirs.insert(ancestor.to_path_buf());
            }
        }
    }

    fn create(&mut self, path: &Path) -> io::Result<Arc<Node>> {
        self.check_parent(path)?;
        if self.files.contains_key(path) || self.has_dir(path) {
            let message = format!("{} exists already", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        let node = Arc::new(Node::default());
        self.files.insert(path.to_path_buf(), Arc::clone(&node));
        Ok(node)
    }
}

impl MemoryVfs {
    /// An empty file system.
    pub fn new() -> MemoryVfs {
        MemoryVfs::default()
    }

    /// Puts a file with these contents in place, with its directories: for building states in
    /// tests and crash images. Replaces a file of this name.
    pub fn insert_file(&self, path: &Path, bytes: Vec<u8>) {
        let path = normal(path);
        let mut tree = self.tree();
        if let Some(parent) = path.parent() {
            tree.add_dir(parent);
        }
        let node = Node {
            bytes: RwLock::new(bytes),
            locked: AtomicBool::new(false),
        };
        tree.files.insert(path, Arc::new(node));
    }

    /// All files with their contents, sorted by path.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let tree = self.tree();
        tree.files
            .iter()
            .map(|(path, node)| (path.clone(), node.read().clone()))
            .collect()
    }

    /// All directories.
    pub(crate) fn directories(&self) -> BTreeSet<PathBuf> {
        self.tree().dirs.clone()
    }

    /// A copy that shares nothing with this one (a snapshot of the disk).
    pub fn deep_clone(&self) -> MemoryVfs {
        let copy = MemoryVfs::new();
        copy.tree().dirs = self.tree().dirs.clone();
        for (path, bytes) in self.files() {
            copy.insert_file(&path, bytes);
        }
        copy
    }

    // A panic while the lock is held leaves the maps whole: each change is one insert or remove.
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let path = normal(path);
        let mut tree = self.tree();
        let node = match mode {
            OpenMode::CreateNew => tree.create(&path)?,
            OpenMode::Read | OpenMode::ReadWrite => {
                Arc::clone(tree.files.get(&path).ok_or_else(|| not_found(&path))?)
            }
        };
        Ok(Box::new(MemoryFile {
            node,
            writable: mode != OpenMode::Read,
        }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.tree().add_dir(&normal(dir));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = normal(dir);
        let tree = self.tree();
        if !tree.has_dir(&dir) {
            return Err(not_found(&dir));
        }
        let inside = tree.files.keys().chain(tree.dirs.iter());
        let mut names: Vec<String> = inside
            .filter(|path| path.parent() == Some(&dir))
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let path = normal(path);
        let tree = self.tree();
        Ok(tree.files.contains_key(&path) || tree.has_dir(&path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (normal(from), normal(to));
        let mut tree = self.tree();
        tree.check_parent(&to)?;
        let node = tree.files.remove(&from).ok_or_else(|| not_found(&from))?;
        tree.files.insert(to, node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = normal(path);
        self.tree()
            .files
            .remove(&path)
            .map(drop)
            .ok_or_else(|| not_found(&path))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let dir = normal(dir);
        let mut tree = self.tree();
        if !tree.has_dir(&dir) {
            return Err(not_found(&dir));
        }
        tree.files.retain(|path, _| !path.starts_with(&dir));
        tree.dirs.retain(|path| !path.starts_with(&dir));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = normal(dir);
        if self.tree().has_dir(&dir) {
            Ok(())
        } else {
            Err(not_found(&dir))
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let path = normal(path);
        let mut tree = self.tree();
        let node = match tree.files.get(&path) {
            Some(node) => Arc::clone(node),
            None => tree.create(&path)?,
        };
        let directory = path.parent().unwrap_or(&path).to_path_buf();
        let is_locked = node.locked.load(Ordering::Acquire) || tree.locked.contains(&directory);
        if is_locked {
            let message = format!("{} is locked by another user of this file", path.display());
            return Err(io::Error::new(io::ErrorKind::WouldBlock, message));
        }
        node.locked.store(true, Ordering::Release);
        tree.locked.insert(directory.clone());
        Ok(Box::new(MemoryLock {
            node,
            directory,
            vfs: self.clone(),
        }))
    }
}

impl VfsFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.node.read();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let length = buffer.len().min(bytes.len() - start);
        buffer[..length].copy_from_slice(&bytes[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> io::Result<()> {
        self.check_writable()?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = self.node.write();
        if bytes.len() < start + new.len() {
            bytes.resize(start + new.len(), 0);
        }
        bytes[start..start + new.len()].copy_from_slice(new);
        Ok(())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut bytes = self.node.write();
        let end = bytes.len();
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(end);
        bytes[clamp(offset)..clamp(offset.saturating_add(length))].fill(0);
        Ok(())
    }

    /// Memory is not counted.
    fn allocate(&self, _offset: u64, _length: u64) -> io::Result<()> {
        self.check_writable()
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.node.write().resize(length, 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.node.read().len() as u64)
    }
}

impl MemoryFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file was opened for reading only",
        ))
    }
}
