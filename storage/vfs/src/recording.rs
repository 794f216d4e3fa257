//! Power cuts, modelled: a file system that records every change and can show what a disk may
//! hold after a cut between any two of them.
//!
//! What was synced is there. Of the rest, each piece survives or not by itself:
//!
//! - every 512-byte sector that unsynced writes touched, in any of its versions since the sync;
//! - the length of each file, in any of its versions since the sync (bytes of a grown file that
//!   were not written down read as zeros);
//! - every creation, rename and removal of a name, until its directory is synced. A rename is
//!   atomic, as on every file system in use; syncing a file does not make its name durable, and
//!   syncing a directory does not make the directory's own name durable.
//!
//! Real disks and file systems show a part of these outcomes; code that survives all of them
//! does not depend on which part.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::normal;
use crate::{FileLock, MemoryVfs, OpenMode, Vfs, VfsFile};

/// Bytes that a disk writes down whole or not at all.
const SECTOR_BYTES: usize = 512;

type Inode = usize;

/// One recorded change.
enum Operation {
    Write {
        inode: Inode,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: Inode,
        length: usize,
    },
    Sync {
        inode: Inode,
    },
    /// A sync that failed: what it was to make durable never will be.
    Lose {
        inode: Inode,
    },
    Name(NameChange),
    SyncDir {
        dir: PathBuf,
    },
}

/// A change of one directory entry (two for a rename).
#[derive(Clone)]
enum NameChange {
    Create {
        path: PathBuf,
        inode: Inode,
    },
    CreateDir {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        inode: Inode,
    },
    Remove {
        path: PathBuf,
    },
    RemoveDir {
        path: PathBuf,
    },
}

/// A file system in memory that records, for power-cut tests; clones share it.
#[derive(Clone)]
pub struct RecordingVfs {
    live: MemoryVfs,
    shared: Arc<Shared>,
}

struct Shared {
    record: Mutex<Record>,
    /// Replays the record up to the cut asked for last; cuts mostly come in ascending order.
    cursor: Mutex<Disk>,
}

#[derive(Default)]
struct Record {
    base: Disk,
    operations: Vec<Operation>,
    /// Present names.
    names: BTreeMap<PathBuf, Inode>,
    inodes: usize,
    /// Syncs of files that still succeed before one loses its data.
    losing: Option<usize>,
}

impl RecordingVfs {
    /// Starts with a copy of `disk`, all of it durable.
    pub fn new(disk: &MemoryVfs) -> RecordingVfs {
        let live = disk.deep_clone();
        let mut record = Record::default();
        record.base.dirs = live.directories();
        for (path, bytes) in live.files() {
            record.base.files.push(FileState {
                durable: bytes,
                pending: Vec::new(),
            });
            record.base.names.insert(path.clone(), record.inodes);
            record.names.insert(path, record.inodes);
            record.inodes += 1;
        }
        let cursor = Mutex::new(record.base.clone());
        RecordingVfs {
            live,
            shared: Arc::new(Shared {
                record: Mutex::new(record),
                cursor,
            }),
        }
    }

    /// Lets the next `after` syncs of files pass and the one behind them fail, once, as kernels do:
    /// what was written since the file's last sync never reaches the disk, not with a later sync
    /// either, but reads return it until the power is cut.
    pub fn lose_sync(&self, after: usize) {
        self.record().losing = Some(after);
    }

    /// From now on no sync fails, though the one that [`lose_sync`](Self::lose_sync) chose has not
    /// come yet.
    pub fn heal(&self) {
        self.record().losing = None;
    }

    /// How many changes were made so far. A cut behind fewer than all of them is what a crash
    /// while the next one was under way leaves.
    pub fn operations(&self) -> usize {
        self.record().operations.len()
    }

    /// What the disk may hold after a power cut behind the first `operations` changes.
    ///
    /// `decide(n)` picks a number below `n`; with a random one, each call returns another
    /// possible disk. Some calls keep everything or nothing of a kind (data, lengths, names).
    pub fn crash_image(
        &self,
        operations: usize,
        decide: &mut dyn FnMut(usize) -> usize,
    ) -> MemoryVfs {
        let record = self.record();
        let mut cursor = self
            .shared
            .cursor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if cursor.replayed > operations {
            *cursor = record.base.clone();
        }
        while cursor.replayed < operations.min(record.operations.len()) {
            let next = cursor.replayed;
            cursor.replay(&record.operations[next]);
        }
        cursor.image(decide)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.shared
            .record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn name(&mut self, change: NameChange) {
        self.operations.push(Operation::Name(change));
    }

    fn create(&mut self, path: PathBuf) -> Inode {
        let inode = self.inodes;
        self.inodes += 1;
        self.names.insert(path.clone(), inode);
        self.name(NameChange::Create { path, inode });
        inode
    }

    fn remove(&mut self, path: PathBuf) {
        self.names.remove(&path);
        self.name(NameChange::Remove { path });
    }
}

impl Vfs for RecordingVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        let mut record = self.record();
        let file = self.live.open(path, mode)?;
        let path = normal(path);
        let inode = match mode {
            OpenMode::CreateNew => record.create(path),
            OpenMode::Read | OpenMode::ReadWrite => record.names[&path],
        };
        Ok(Box::new(RecordingFile {
            file,
            inode,
            vfs: self.clone(),
        }))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut record = self.record();
        let dir = normal(dir);
        let mut missing = Vec::new();
        for ancestor in dir.ancestors() {
            if !self.live.exists(ancestor)? {
                missing.push(ancestor.to_path_buf());
            }
        }
        self.live.create_dir_all(&dir)?;
        for path in missing.into_iter().rev() {
            record.name(NameChange::CreateDir { path });
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.live.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.live.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut record = self.record();
        self.live.rename(from, to)?;
        let (from, to) = (normal(from), normal(to));
        let inode = record
            .names
            .remove(&from)
            .expect("a renamed file has a name");
        record.names.insert(to.clone(), inode);
        record.name(NameChange::Rename { from, to, inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut record = self.record();
        self.live.remove(path)?;
        record.remove(normal(path));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut record = self.record();
        let dir = normal(dir);
        let dirs = self.live.directories();
        self.live.remove_dir_all(&dir)?;
        let below = |path: &&PathBuf| path.starts_with(&dir);
        let files: Vec<PathBuf> = record.names.keys().filter(below).cloned().collect();
        for path in files {
            record.remove(path);
        }
        for path in dirs.into_iter().filter(|path| below(&path)).rev() {
            record.name(NameChange::RemoveDir { path });
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut record = self.record();
        self.live.sync_dir(dir)?;
        record
            .operations
            .push(Operation::SyncDir { dir: normal(dir) });
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut record = self.record();
        let lock = self.live.lock(path)?;
        let path = normal(path);
        if !record.names.contains_key(&path) {
            record.create(path);
        }
        Ok(lock)
    }
}

struct RecordingFile {
    file: Box<dyn VfsFile>,
    inode: Inode,
    vfs: RecordingVfs,
}

impl RecordingFile {
    fn offset(&self, at: u64) -> io::Result<usize> {
        let length = self.file.len()?;
        Ok(usize::try_from(at.min(length)).map_err(|_| io::ErrorKind::FileTooLarge)?)
    }
}

impl VfsFile for RecordingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut record = self.vfs.record();
        self.file.write_at(offset, bytes)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let bytes = bytes.to_vec();
        record.operations.push(Operation::Write {
            inode: self.inode,
            offset,
            bytes,
        });
        Ok(())
    }

    /// To a power cut, a hole is zeros that were written.
    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let mut record = self.vfs.record();
        self.file.punch(offset, length)?;
        let end = self.offset(offset.saturating_add(length))?;
        let offset = self.offset(offset)?;
        record.operations.push(Operation::Write {
            inode: self.inode,
            offset,
            bytes: vec![0; end - offset],
        });
        Ok(())
    }

    /// Says nothing about what survives a power cut.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.allocate(offset, length)
    }

    fn sync(&self) -> io::Result<()> {
        let mut record = self.vfs.record();
        self.file.sync()?;
        if let Some(after) = record.losing {
            record.losing = after.checked_sub(1);
            if after == 0 {
                let inode = self.inode;
                record.operations.push(Operation::Lose { inode });
                return Err(io::Error::other("the sync failed and its data is lost"));
            }
        }
        record
            .operations
            .push(Operation::Sync { inode: self.inode });
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut record = self.vfs.record();
        self.file.truncate(length)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        record.operations.push(Operation::Truncate {
            inode: self.inode,
            length,
        });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// What is on the disk for sure, and what may be on its way.
#[derive(Clone, Default)]
struct Disk {
    replayed: usize,
    files: Vec<FileState>,
    names: BTreeMap<PathBuf, Inode>,
    dirs: BTreeSet<PathBuf>,
    pending_names: Vec<NameChange>,
}

#[derive(Clone, Default)]
struct FileState {
    durable: Vec<u8>,
    pending: Vec<DataChange>,
}

#[derive(Clone)]
enum DataChange {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

impl Disk {
    fn replay(&mut self, operation: &Operation) {
        self.replayed += 1;
        match operation {
            Operation::Write {
                inode,
                offset,
                bytes,
            } => self.files[*inode].pending.push(DataChange::Write {
                offset: *offset,
                bytes: bytes.clone(),
            }),
            Operation::Truncate { inode, length } => {
                self.files[*inode]
                    .pending
                    .push(DataChange::Truncate { length: *length });
            }
            Operation::Sync { inode } => self.files[*inode].sync(),
            Operation::Lose { inode } => self.files[*inode].lose(),
            Operation::Name(change) => {
                if let NameChange::Create { inode, .. } = change {
                    self.files.resize_with(*inode + 1, FileState::default);
                }
                self.pending_names.push(change.clone());
            }
            Operation::SyncDir { dir } => {
                let pending = std::mem::take(&mut self.pending_names);
                let (done, left): (Vec<_>, Vec<_>) = pending
                    .into_iter()
                    .partition(|change| change.target().parent() == Some(dir));
                done.iter()
                    .for_each(|change| change.apply(&mut self.names, &mut self.dirs));
                self.pending_names = left;
            }
        }
    }

    fn image(&self, decide: &mut dyn FnMut(usize) -> usize) -> MemoryVfs {
        let image = MemoryVfs::new();
        let (mut names, mut dirs) = (self.names.clone(), self.dirs.clone());
        let bias = Bias::draw(decide);
        for change in &self.pending_names {
            if bias.keeps(decide) {
                change.apply(&mut names, &mut dirs);
            }
        }
        let reachable = |path: &Path| {
            let above = path.ancestors().skip(1);
            above
                .filter(|dir| dir.parent().is_some())
                .all(|dir| dirs.contains(dir))
        };
        for dir in dirs.iter().filter(|dir| reachable(dir)) {
            image.create_dir_all(dir).expect("memory does not fail");
        }
        let (data, lengths) = (Bias::draw(decide), Bias::draw(decide));
        for (path, inode) in names.iter().filter(|(path, _)| reachable(path)) {
            image.insert_file(path, self.files[*inode].survivor(data, lengths, decide));
        }
        image
    }
}

/// How much of one kind of change survives in an image.
#[derive(Clone, Copy)]
struct Bias {
    /// Out of eight.
    kept: usize,
}

impl Bias {
    fn draw(decide: &mut dyn FnMut(usize) -> usize) -> Bias {
        Bias {
            kept: [0, 1, 4, 4, 7, 8][decide(6)],
        }
    }

    fn keeps(self, decide: &mut dyn FnMut(usize) -> usize) -> bool {
        decide(8) < self.kept
    }

    /// How many of `versions` changes, in order, happened: mostly all or none as biased, and
    /// sometimes any number between.
    fn version(self, versions: usize, decide: &mut dyn FnMut(usize) -> usize) -> usize {
        let between = !matches!(self.kept, 0 | 8) && decide(4) == 0;
        match (between, self.keeps(decide)) {
            (true, _) => decide(versions + 1),
            (false, true) => versions,
            (false, false) => 0,
        }
    }
}

impl NameChange {
    /// The path whose directory, once synced, makes the change durable.
    fn target(&self) -> &Path {
        match self {
            NameChange::Create { path, .. }
            | NameChange::CreateDir { path }
            | NameChange::Remove { path }
            | NameChange::RemoveDir { path } => path,
            NameChange::Rename { to, .. } => to,
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Inode>, dirs: &mut BTreeSet<PathBuf>) {
        match self {
            NameChange::Create { path, inode } => drop(names.insert(path.clone(), *inode)),
            NameChange::CreateDir { path } => drop(dirs.insert(path.clone())),
            NameChange::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            NameChange::Remove { path } => drop(names.remove(path)),
            NameChange::RemoveDir { path } => drop(dirs.remove(path)),
        }
    }
}

impl FileState {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.durable);
        }
    }

    /// The data is lost; what was cut off stays so, as file systems keep a journal of that.
    fn lose(&mut self) {
        let is_cut = |change: &DataChange| matches!(change, DataChange::Truncate { .. });
        self.pending.retain(is_cut);
    }

    /// The contents after a cut: each touched sector and the length in a version of their own.
    fn survivor(
        &self,
        data: Bias,
        lengths: Bias,
        decide: &mut dyn FnMut(usize) -> usize,
    ) -> Vec<u8> {
        if self.pending.is_empty() {
            return self.durable.clone();
        }
        // How long each change left the file, and which changes touched each sector.
        let mut lengths_after = vec![self.durable.len()];
        let mut touched: BTreeMap<usize, Vec<&DataChange>> = BTreeMap::new();
        for (i, change) in self.pending.iter().enumerate() {
            for sector in change.sectors(lengths_after[i]) {
                touched.entry(sector).or_default().push(change);
            }
            lengths_after.push(change.length_after(lengths_after[i]));
        }
        let length = lengths_after[lengths.version(self.pending.len(), decide)];
        let mut bytes = self.durable.clone();
        bytes.resize(length, 0);
        for (sector, changes) in touched {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(length);
            let happened = data.version(changes.len(), decide);
            if happened == 0 || start >= end {
                continue;
            }
            // The sector alone, not the file: a page file has thousands of unsynced changes.
            let mut content = [0; SECTOR_BYTES];
            let durable = self.durable.get(start..).unwrap_or_default();
            let kept = durable.len().min(SECTOR_BYTES);
            content[..kept].copy_from_slice(&durable[..kept]);
            for change in &changes[..happened] {
                change.apply_to_sector(start, &mut content);
            }
            bytes[start..end].copy_from_slice(&content[..end - start]);
        }
        bytes
    }
}

impl DataChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            DataChange::Write { offset, bytes: new } => {
                if bytes.len() < offset + new.len() {
                    bytes.resize(offset + new.len(), 0);
                }
                bytes[*offset..offset + new.len()].copy_from_slice(new);
            }
            DataChange::Truncate { length } => bytes.resize(*length, 0),
        }
    }

    /// Applies what concerns the sector that begins at `start`; beyond a file's end are zeros.
    fn apply_to_sector(&self, start: usize, content: &mut [u8; SECTOR_BYTES]) {
        match self {
            DataChange::Write { offset, bytes } => {
                let from = start.max(*offset);
                let to = (start + SECTOR_BYTES).min(offset + bytes.len());
                if from < to {
                    content[from - start..to - start]
                        .copy_from_slice(&bytes[from - offset..to - offset]);
                }
            }
            DataChange::Truncate { length } => {
                let kept = length.saturating_sub(start).min(SECTOR_BYTES);
                content[kept..].fill(0);
            }
        }
    }

    fn length_after(&self, length: usize) -> usize {
        match self {
            DataChange::Write { offset, bytes } => length.max(offset + bytes.len()),
            DataChange::Truncate { length } => *length,
        }
    }

    /// The sectors that this change touches in a file of `length` bytes.
    fn sectors(&self, length: usize) -> std::ops::Range<usize> {
        let (from, to) = match self {
            DataChange::Write { offset, bytes } => (*offset, offset + bytes.len()),
            DataChange::Truncate { length: new } => (length.min(*new), length.max(*new)),
        };
        from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES)
    }
}
