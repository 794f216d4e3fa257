//! Which versions are kept, and for whom: lists of the versions of which one moment is the newest
//! that can see them. Writers append to them, and a snapshot that closes hands its list on: each
//! version goes to the next older moment that can see it, or is freed. So no version is looked at
//! that the snapshot has nothing to do with, and none stays that no snapshot needs.
//!
//! There is a list for each log shard. A writer that keeps a version has its shard locked, and so
//! finds its list uncontended; who opens a snapshot has all shards locked, and so meets no writer
//! in any list.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_log::Timestamp;
use hedgerow_sync::{CachePadded, threads};

use crate::planted::{PlantedBug, planted};
use crate::versions::chain::{Version, begin_of};
use crate::versions::store::VersionStore;

/// What a version takes beside key and row, in bytes: of tree, chain and list, about.
const OVERHEAD_BYTES: usize = 96;

/// A version on a list, in bytes: where it begins and ends, its key's length and its row's, and the
/// key.
const ENTRY_BYTES: usize = 8 + 8 + 4 + 4;

/// A version on a list.
#[derive(Clone, Copy)]
struct Entry<'a> {
    begin: Timestamp,
    end: Timestamp,
    row_bytes: u32,
    key: &'a [u8],
}

impl<'a> Entry<'a> {
    fn push(&self, entries: &mut Vec<u8>) {
        entries.extend_from_slice(&self.begin.raw().to_le_bytes());
        entries.extend_from_slice(&self.end.raw().to_le_bytes());
        entries.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        entries.extend_from_slice(&self.row_bytes.to_le_bytes());
        entries.extend_from_slice(self.key);
    }

    /// The entry at a place, and the place behind it.
    fn at(entries: &'a [u8], place: usize) -> Option<(Entry<'a>, usize)> {
        let bytes = entries.get(place..)?;
        let (header, rest) = bytes.split_at_checked(ENTRY_BYTES)?;
        let long = |at: usize| Some(u64::from_le_bytes(header[at..at + 8].try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(header[at..at + 4].try_into().ok()?));
        let key = rest.get(..short(16)? as usize)?;
        let entry = Entry {
            begin: Timestamp::from_raw(long(0)?),
            end: Timestamp::from_raw(long(8)?),
            row_bytes: short(20)?,
            key,
        };
        Some((entry, place + ENTRY_BYTES + key.len()))
    }

    /// Whether there was no row: only transactions want to know when one came.
    fn is_absence(&self) -> bool {
        self.row_bytes == 0
    }

    /// What the version takes.
    fn memory_bytes(&self) -> usize {
        2 * self.key.len() + self.row_bytes as usize + OVERHEAD_BYTES
    }
}

/// Entries of the versions in one store.
struct OfStore {
    store: Arc<VersionStore>,
    entries: Vec<u8>,
    /// What lies before was handed on.
    from: usize,
}

/// A list of versions.
#[derive(Default)]
pub(crate) struct RetainedVersions {
    stores: Vec<OfStore>,
}

impl RetainedVersions {
    fn push(&mut self, store: &Arc<VersionStore>, entry: &Entry<'_>) {
        let known = self
            .stores
            .iter()
            .position(|of| Arc::ptr_eq(&of.store, store));
        let at = known.unwrap_or_else(|| {
            self.stores.push(OfStore {
                store: Arc::clone(store),
                entries: Vec::new(),
                from: 0,
            });
            self.stores.len() - 1
        });
        entry.push(&mut self.stores[at].entries);
    }

    fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// Takes entries off the list, so many at most.
    fn take(
        &mut self,
        most: usize,
        mut visit: impl FnMut(&Arc<VersionStore>, &Entry<'_>),
    ) -> usize {
        let mut taken = 0;
        while let Some(of) = self.stores.last_mut() {
            while taken < most
                && let Some((entry, behind)) = Entry::at(&of.entries, of.from)
            {
                visit(&of.store, &entry);
                of.from = behind;
                taken += 1;
            }
            if taken == most {
                break;
            }
            self.stores.pop();
        }
        taken
    }
}

/// A moment that somebody reads at.
struct LiveMoment {
    moment: Timestamp,
    /// Snapshots, transactions among them, and how many these are.
    users: u32,
    transactions: u32,
    kept: RetainedVersions,
}

/// The live moments, oldest first, with the versions that one shard's writers kept.
#[derive(Default)]
struct List {
    moments: Vec<LiveMoment>,
    /// For chains.
    buffer: Vec<u8>,
}

impl List {
    /// The newest moment before place `behind` that can see the version.
    fn newest_for(
        &self,
        behind: usize,
        entry: &Entry<'_>,
        own: Option<Timestamp>,
    ) -> Option<usize> {
        let older = self.moments[..behind].iter().enumerate().rev();
        older
            .take_while(|(_, live)| live.moment >= entry.begin)
            .find(|(_, live)| {
                let own = u32::from(own == Some(live.moment));
                match entry.is_absence() {
                    true => live.transactions > own,
                    false => live.users > own,
                }
            })
            .map(|(at, _)| at)
    }
}

/// All lists, and what they take.
pub(crate) struct VersionLists {
    /// How many snapshots are open, transactions among them. It grows while all log shards are
    /// locked, so a writer that holds one reads it precisely.
    live: AtomicUsize,
    lists: Box<[CachePadded<Mutex<List>>]>,
    versions: AtomicUsize,
    bytes: AtomicUsize,
    /// Of snapshots that were ended: freed in small steps.
    garbage: Mutex<RetainedVersions>,
    garbage_bytes: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole before they are on a list.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VersionLists {
    /// Lists for so many log shards.
    pub(crate) fn new(shards: usize) -> VersionLists {
        VersionLists {
            live: AtomicUsize::new(0),
            lists: (0..shards.max(1)).map(|_| CachePadded::default()).collect(),
            versions: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            garbage: Mutex::default(),
            garbage_bytes: AtomicUsize::new(0),
        }
    }

    /// Whether any snapshot is open: one load.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// Whether anyone but the caller, whose own is one of them, has a snapshot or transaction open:
    /// precise where the caller has a log shard locked.
    pub(crate) fn has_others(&self) -> bool {
        self.live.load(Ordering::Relaxed) > 1
    }

    /// How a commit keeps what it replaces; `None` if nobody reads it. The caller has its log shard
    /// locked, or the removal of a range registered. `own` is the moment of the transaction that
    /// commits, which reads no more.
    #[inline]
    pub(crate) fn keeping(&self, end: Timestamp, own: Option<Timestamp>) -> Option<Keeping<'_>> {
        let others = self.live.load(Ordering::Relaxed) > usize::from(own.is_some());
        others.then_some(Keeping {
            lists: self,
            end,
            own,
        })
    }

    /// Enters a moment, at least as new as all others. The caller has all log shards locked.
    pub(crate) fn enter(&self, moment: Timestamp, is_transaction: bool) {
        self.live.fetch_add(1, Ordering::Relaxed);
        for list in &self.lists {
            let mut list = lock(list);
            let is_known = list
                .moments
                .last()
                .is_some_and(|live| live.moment == moment);
            if !is_known {
                list.moments.push(LiveMoment {
                    moment,
                    users: 0,
                    transactions: 0,
                    kept: RetainedVersions::default(),
                });
            }
            if let Some(live) = list.moments.last_mut() {
                live.users += 1;
                live.transactions += u32::from(is_transaction);
            }
        }
    }

    /// Leaves a moment, and hands on or frees what was kept for it: at once, or as garbage.
    pub(crate) fn leave(&self, moment: Timestamp, is_transaction: bool, at_once: bool) {
        let mut unneeded = RetainedVersions::default();
        let mut unneeded_bytes = 0;
        for list in &self.lists {
            let mut list = lock(list);
            let place = list
                .moments
                .binary_search_by_key(&moment, |live| live.moment);
            let Ok(at) = place else { continue };
            let live = &mut list.moments[at];
            live.users -= 1;
            live.transactions -= u32::from(is_transaction);
            let (is_unused, wants_absences) = (live.users == 0, live.transactions > 0);
            if !is_unused && (wants_absences || !is_transaction) {
                continue;
            }
            let mut kept = std::mem::take(&mut live.kept);
            // Snapshots that stay at the moment see its rows, and need no absence.
            let behind = at + usize::from(!is_unused);
            if is_unused {
                list.moments.remove(at);
            }
            kept.take(usize::MAX, |store, entry| {
                let older = list.newest_for(behind, entry, None);
                match older.filter(|_| !planted(PlantedBug::VersionFreedTooEarly)) {
                    Some(older) => list.moments[older].kept.push(store, entry),
                    None => {
                        unneeded_bytes += entry.memory_bytes();
                        unneeded.push(store, entry);
                    }
                }
            });
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        if at_once {
            self.free(&mut unneeded, usize::MAX);
        } else if !unneeded.is_empty() {
            self.garbage_bytes
                .fetch_add(unneeded_bytes, Ordering::Relaxed);
            lock(&self.garbage).stores.append(&mut unneeded.stores);
        }
    }

    fn free(&self, kept: &mut RetainedVersions, most: usize) -> usize {
        let mut buffer = Vec::new();
        let mut bytes = 0;
        let freed = kept.take(most, |store, entry| {
            store.free(entry.key, entry.end, &mut buffer);
            bytes += entry.memory_bytes();
        });
        self.versions.fetch_sub(freed, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Frees garbage: so many versions at most, and none if another thread is at it.
    pub(crate) fn free_garbage(&self, most: usize) {
        if self.garbage_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Ok(mut garbage) = self.garbage.try_lock() {
            let bytes = self.free(&mut garbage, most);
            self.garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// How many versions are kept.
    pub(crate) fn versions(&self) -> usize {
        self.versions.load(Ordering::Relaxed)
    }

    /// What they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What those take that snapshots need.
    pub(crate) fn needed_bytes(&self) -> usize {
        let garbage = self.garbage_bytes.load(Ordering::Relaxed);
        self.bytes().saturating_sub(garbage)
    }
}

/// How one commit keeps what it replaces.
#[derive(Clone, Copy)]
pub(crate) struct Keeping<'a> {
    lists: &'a VersionLists,
    /// The commit.
    end: Timestamp,
    own: Option<Timestamp>,
}

impl Keeping<'_> {
    /// Keeps what a key has (`None`: no row), if a snapshot can see it: before the index changes.
    pub(crate) fn keep(&self, store: &Arc<VersionStore>, key: &[u8], old: Option<&[u8]>) {
        let lists = self.lists;
        let mut list = lock(&lists.lists[threads::number() % lists.lists.len()]);
        let list = &mut *list;
        let entry = Entry {
            begin: begin_of(old),
            end: self.end,
            row_bytes: old.map_or(0, |row| row.len() as u32),
            key,
        };
        if entry.is_absence() && planted(PlantedBug::AbsenceNotKept) {
            return;
        }
        let Some(at) = list.newest_for(list.moments.len(), &entry, self.own) else {
            return;
        };
        let version = Version {
            end: self.end,
            row: old,
        };
        if store.keep(key, version, &mut list.buffer) {
            list.moments[at].kept.push(store, &entry);
            lists.versions.fetch_add(1, Ordering::Relaxed);
            lists
                .bytes
                .fetch_add(entry.memory_bytes(), Ordering::Relaxed);
        }
    }
}
