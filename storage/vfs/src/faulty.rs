//! A file system that fails on purpose: any call, once or from then on, in the ways disks do.
//!
//! Tests count the calls of a workload, then run it again for each call with that one failing.
//! Faults can be confined to some files, or to a part of them. Space can be limited in bytes and
//! freed again; calls can be slowed down to widen races, or [paused](FaultyVfs::pause_once) until a
//! test lets them continue.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::pause::{Gate, Pause};
use crate::{FileLock, OpenMode, Vfs, VfsFile};

/// The calls that can fail, in classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// Opening or creating a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Changing a file's length, or punching a hole.
    Truncate,
    /// Reserving space for a file.
    Allocate,
    /// Renaming a file.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Creating directories.
    CreateDir,
    /// Syncing a directory.
    SyncDir,
    /// Listing a directory.
    List,
}

impl CallKind {
    /// All classes.
    pub const ALL: [CallKind; 11] = [
        CallKind::Open,
        CallKind::Read,
        CallKind::Write,
        CallKind::Sync,
        CallKind::Truncate,
        CallKind::Allocate,
        CallKind::Rename,
        CallKind::Remove,
        CallKind::CreateDir,
        CallKind::SyncDir,
        CallKind::List,
    ];
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing happens but this error.
    Error(io::ErrorKind),
    /// A write stops half way, then the error. Other calls fail as with `Error`.
    ShortWrite(io::ErrorKind),
    /// A write reaches every second 512-byte sector only, then the error. Other calls fail as
    /// with `Error`.
    TornWrite(io::ErrorKind),
    /// Nothing happens but the error of this number of the operating system.
    Os(i32),
}

impl Fault {
    fn error(self, kind: CallKind) -> io::Error {
        match self {
            Fault::Error(error) | Fault::ShortWrite(error) | Fault::TornWrite(error) => {
                io::Error::new(error, format!("injected fault in {kind:?}"))
            }
            Fault::Os(number) => io::Error::from_raw_os_error(number),
        }
    }
}

/// Which calls a plan concerns, by their file and their offset in it (0 for calls that have none).
type Place = Arc<dyn Fn(&Path, u64) -> bool + Send + Sync>;

/// What becomes of a call.
#[derive(Clone)]
enum Action {
    Fail(Fault),
    Wait(Arc<Gate>),
}

struct Plan {
    kind: CallKind,
    /// `None`: everywhere.
    place: Option<Place>,
    /// Calls of this kind that still succeed.
    after: usize,
    action: Action,
    again: bool,
}

#[derive(Default)]
struct State {
    plans: Vec<Plan>,
    calls: BTreeMap<CallKind, usize>,
    delays: BTreeMap<CallKind, Duration>,
    /// Disks of limited space: where each begins, and the bytes that its files may still grow by.
    /// The empty path is that of all files on no other one.
    space_bytes: BTreeMap<PathBuf, u64>,
    /// Up to where files have space reserved, where that is more than their length.
    reserved: BTreeMap<PathBuf, u64>,
    /// Sectors of files that were punched out, and not written since: they take no space.
    holes: BTreeMap<PathBuf, BTreeSet<u64>>,
    /// What a disk without space says, if not `StorageFull`.
    full: Option<io::ErrorKind>,
}

impl State {
    /// The space that is left on the disk of a file, if it is limited.
    fn space_for(&mut self, path: &Path) -> Option<&mut u64> {
        let disks = self.space_bytes.iter_mut();
        // Of directories within each other the inner one sorts behind the outer.
        let mut disks = disks.filter(|(dir, _)| path.starts_with(dir));
        disks.next_back().map(|(_, space)| space)
    }
}

/// Wraps a file system and makes calls fail as planned; clones share the plans.
#[derive(Clone)]
pub struct FaultyVfs {
    inner: Arc<dyn Vfs>,
    state: Arc<Mutex<State>>,
}

impl FaultyVfs {
    /// Wraps `inner`; nothing fails until planned.
    pub fn new(inner: Arc<dyn Vfs>) -> FaultyVfs {
        FaultyVfs {
            inner,
            state: Arc::default(),
        }
    }

    /// Lets the next `after` calls of a kind pass and the one behind them fail, once.
    pub fn fail_once(&self, kind: CallKind, after: usize, fault: Fault) {
        self.plan(kind, None, after, Action::Fail(fault), false);
    }

    /// Lets the next `after` calls of a kind pass and all behind them fail.
    pub fn fail_from(&self, kind: CallKind, after: usize, fault: Fault) {
        self.plan(kind, None, after, Action::Fail(fault), true);
    }

    /// [`fail_from`](Self::fail_from) of the calls alone that `place` picks by their file and their
    /// offset in it (0 for calls that have none).
    pub fn fail_from_at(
        &self,
        place: impl Fn(&Path, u64) -> bool + Send + Sync + 'static,
        kind: CallKind,
        after: usize,
        fault: Fault,
    ) {
        let place: Place = Arc::new(place);
        self.plan(kind, Some(place), after, Action::Fail(fault), true);
    }

    /// Lets the next `after` calls of a kind pass and the one behind them wait until the [`Pause`]
    /// lets it go; then it is done as if nothing had been.
    pub fn pause_once(&self, kind: CallKind, after: usize) -> Pause {
        let (pause, gate) = Pause::new();
        self.plan(kind, None, after, Action::Wait(gate), false);
        pause
    }

    fn plan(
        &self,
        kind: CallKind,
        place: Option<Place>,
        after: usize,
        action: Action,
        again: bool,
    ) {
        self.state().plans.push(Plan {
            kind,
            place,
            after,
            action,
            again,
        });
    }

    /// Forgets all planned faults and pauses.
    pub fn heal(&self) {
        self.state().plans.clear();
    }

    /// Limits how many more bytes files may grow by, all together. Shrinking and removing files
    /// gives space back. A write that does not fit writes what fits and fails with
    /// `StorageFull`. `None` lifts the limit.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.set_space_in(Path::new(""), bytes);
    }

    /// What a disk without space says from now on: `StorageFull` at first, `QuotaExceeded` where
    /// the user's share of it is used up.
    pub fn set_full_error(&self, kind: io::ErrorKind) {
        self.state().full = Some(kind);
    }

    /// [`set_space`](Self::set_space) of the files below a directory alone, as if another disk were
    /// mounted there: they do not count for other limits.
    pub fn set_space_in(&self, dir: &Path, bytes: Option<u64>) {
        let mut state = self.state();
        match bytes {
            Some(bytes) => state.space_bytes.insert(dir.to_path_buf(), bytes),
            None => state.space_bytes.remove(dir),
        };
    }

    /// Makes every call of a kind wait first.
    pub fn delay(&self, kind: CallKind, delay: Duration) {
        self.state().delays.insert(kind, delay);
    }

    /// How many calls of a kind were made, failed ones included.
    pub fn calls(&self, kind: CallKind) -> usize {
        self.state().calls.get(&kind).copied().unwrap_or(0)
    }

    // The maps stay whole whatever panics while the lock is held.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the call, waits, and says how it must fail, if it must.
    fn take_fault(&self, kind: CallKind, path: &Path, offset: u64) -> Option<Fault> {
        let mut state = self.state();
        *state.calls.entry(kind).or_default() += 1;
        let delay = state.delays.get(&kind).copied();
        let mut due = None;
        for (i, plan) in state.plans.iter_mut().enumerate() {
            let is_there = |place: &Place| place(path, offset);
            if plan.kind != kind || !plan.place.as_ref().is_none_or(is_there) {
                continue;
            }
            if plan.after > 0 {
                plan.after -= 1;
            } else if due.is_none() {
                due = Some((i, plan.action.clone(), plan.again));
            }
        }
        if let Some((i, _, false)) = due {
            state.plans.remove(i);
        }
        drop(state);
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        match due?.1 {
            Action::Fail(fault) => Some(fault),
            Action::Wait(gate) => {
                gate.pass();
                None
            }
        }
    }

    fn pass(&self, kind: CallKind, path: &Path, offset: u64) -> io::Result<()> {
        self.take_fault(kind, path, offset)
            .map_or(Ok(()), |fault| Err(fault.error(kind)))
    }

    /// Takes up to `bytes` of the space for a file and says how many there were.
    fn take_space(&self, path: &Path, bytes: u64) -> u64 {
        let mut state = self.state();
        let Some(space) = state.space_for(path) else {
            return bytes;
        };
        let taken = bytes.min(*space);
        *space -= taken;
        taken
    }

    fn give_space(&self, path: &Path, bytes: u64) {
        if let Some(space) = self.state().space_for(path) {
            *space += bytes;
        }
    }

    /// The space that a file takes.
    fn size_of(&self, path: &Path) -> u64 {
        let file = self.inner.open(path, OpenMode::Read);
        let length = file.and_then(|file| file.len()).unwrap_or(0);
        let holes = self.hole_bytes(path, 0..u64::MAX);
        length.max(self.reserved(path)) - holes
    }

    fn full(&self) -> io::Error {
        let kind = self.state().full.unwrap_or(io::ErrorKind::StorageFull);
        io::Error::new(kind, "the limited disk is full")
    }

    /// The bytes of a file from a place on that were punched out, up to another.
    fn hole_bytes(&self, path: &Path, sectors: Range<u64>) -> u64 {
        let state = self.state();
        let holes = state.holes.get(path);
        let holes = holes.map_or(0, |holes| holes.range(sectors).count());
        (holes * SECTOR_BYTES) as u64
    }

    fn end_holes(&self, path: &Path, sectors: Range<u64>) {
        if let Some(holes) = self.state().holes.get_mut(path) {
            holes.retain(|sector| !sectors.contains(sector));
        }
    }

    fn reserved(&self, path: &Path) -> u64 {
        self.state().reserved.get(path).copied().unwrap_or(0)
    }

    fn open_file(&self, path: &Path, file: Box<dyn VfsFile>) -> Box<dyn VfsFile> {
        Box::new(FaultyFile {
            file,
            path: path.to_path_buf(),
            vfs: self.clone(),
        })
    }

    fn size_below(&self, dir: &Path) -> u64 {
        let names = self.inner.list(dir).unwrap_or_default();
        let paths = names.iter().map(|name| dir.join(name));
        paths
            .map(|path| self.size_of(&path) + self.size_below(&path))
            .sum()
    }
}

impl Vfs for FaultyVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        self.pass(CallKind::Open, path, 0)?;
        Ok(self.open_file(path, self.inner.open(path, mode)?))
    }

    fn open_direct(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn VfsFile>> {
        self.pass(CallKind::Open, path, 0)?;
        Ok(self.open_file(path, self.inner.open_direct(path, mode)?))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.pass(CallKind::CreateDir, dir, 0)?;
        self.inner.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.pass(CallKind::List, dir, 0)?;
        self.inner.list(dir)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.canonical(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(CallKind::Rename, from, 0)?;
        let replaced = self.size_of(to);
        self.inner.rename(from, to)?;
        self.give_space(to, replaced);
        let mut state = self.state();
        state.holes.remove(to);
        if let Some(holes) = state.holes.remove(from) {
            state.holes.insert(to.to_path_buf(), holes);
        }
        state.reserved.remove(to);
        if let Some(end) = state.reserved.remove(from) {
            state.reserved.insert(to.to_path_buf(), end);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.pass(CallKind::Remove, path, 0)?;
        let size = self.size_of(path);
        self.inner.remove(path)?;
        self.give_space(path, size);
        let mut state = self.state();
        state.reserved.remove(path);
        state.holes.remove(path);
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.pass(CallKind::Remove, dir, 0)?;
        let size = self.size_below(dir);
        self.inner.remove_dir_all(dir)?;
        self.give_space(dir, size);
        let mut state = self.state();
        state.reserved.retain(|path, _| !path.starts_with(dir));
        state.holes.retain(|path, _| !path.starts_with(dir));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.pass(CallKind::SyncDir, dir, 0)?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
}

struct FaultyFile {
    file: Box<dyn VfsFile>,
    path: PathBuf,
    vfs: FaultyVfs,
}

const SECTOR_BYTES: usize = 512;

impl FaultyFile {
    /// Writes what must reach the disk of a write that fails.
    fn write_partly(&self, fault: Fault, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match fault {
            Fault::Error(_) | Fault::Os(_) => Ok(()),
            Fault::ShortWrite(_) => self.file.write_at(offset, &bytes[..bytes.len() / 2]),
            Fault::TornWrite(_) => {
                for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate().step_by(2) {
                    self.file
                        .write_at(offset + (i * SECTOR_BYTES) as u64, sector)?;
                }
                Ok(())
            }
        }
    }
}

impl VfsFile for FaultyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.vfs.pass(CallKind::Read, &self.path, offset)?;
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(fault) = self.vfs.take_fault(CallKind::Write, &self.path, offset) {
            self.write_partly(fault, offset, bytes)?;
            return Err(fault.error(CallKind::Write));
        }
        let length = self.file.len()?;
        let allocated = length.max(self.vfs.reserved(&self.path));
        let end = offset + bytes.len() as u64;
        let growth = end.saturating_sub(allocated);
        let sectors = offset / SECTOR_BYTES as u64..end.div_ceil(SECTOR_BYTES as u64);
        let holes = self.vfs.hole_bytes(&self.path, sectors.clone());
        let taken = self.vfs.take_space(&self.path, holes + growth);
        if taken == holes + growth {
            self.vfs.end_holes(&self.path, sectors);
            return self.file.write_at(offset, bytes);
        }
        if holes > 0 {
            self.vfs.give_space(&self.path, taken);
            return Err(self.vfs.full());
        }
        let fitting = (allocated + taken).saturating_sub(offset);
        let fitting = usize::try_from(fitting)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        self.file.write_at(offset, &bytes[..fitting])?;
        Err(self.vfs.full())
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        self.vfs.pass(CallKind::Truncate, &self.path, offset)?;
        self.file.punch(offset, length)?;
        let end = (offset + length).min(self.file.len()?);
        let sectors = offset.div_ceil(SECTOR_BYTES as u64)..end / SECTOR_BYTES as u64;
        let before = self.vfs.hole_bytes(&self.path, sectors.clone());
        let punched = sectors.end.saturating_sub(sectors.start) * SECTOR_BYTES as u64;
        self.vfs.give_space(&self.path, punched - before);
        let mut state = self.vfs.state();
        let holes = state.holes.entry(self.path.clone()).or_default();
        holes.extend(sectors);
        Ok(())
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.vfs.pass(CallKind::Allocate, &self.path, offset)?;
        self.file.allocate(offset, length)?;
        let allocated = self.file.len()?.max(self.vfs.reserved(&self.path));
        let end = offset + length;
        let growth = end.saturating_sub(allocated);
        let taken = self.vfs.take_space(&self.path, growth);
        if taken < growth {
            self.vfs.give_space(&self.path, taken);
            return Err(self.vfs.full());
        }
        let mut state = self.vfs.state();
        state.reserved.insert(self.path.clone(), end.max(allocated));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.vfs.pass(CallKind::Sync, &self.path, 0)?;
        self.file.sync()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.vfs.pass(CallKind::Truncate, &self.path, length)?;
        let old = self.file.len()?.max(self.vfs.reserved(&self.path));
        let growth = length.saturating_sub(old);
        if self.vfs.take_space(&self.path, growth) < growth {
            return Err(self.vfs.full());
        }
        self.file.truncate(length)?;
        self.vfs.state().reserved.remove(&self.path);
        let behind = length.div_ceil(SECTOR_BYTES as u64)..u64::MAX;
        let holes = self.vfs.hole_bytes(&self.path, behind.clone());
        self.vfs.end_holes(&self.path, behind);
        self.vfs
            .give_space(&self.path, old.saturating_sub(length).saturating_sub(holes));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
