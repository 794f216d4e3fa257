//! Which versions are kept, and for whom: lists of the versions of which one moment is the newest
//! that can see them. Writers append to them, and a snapshot that closes hands its list on: each
//! version goes to the next older moment that can see it, or is freed. So no version is looked at
//! that the snapshot has nothing to do with, and none stays that no snapshot needs.
//!
//! There is a list for each log shard. A writer that keeps a version has its shard locked, and so
//! finds its list uncontended; who opens a snapshot has all shards locked, and so meets no writer
//! in any list.

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_log::Timestamp;
use hedgerow_sync::{CachePadded, epoch, threads};

use crate::planted::{PlantedBug, planted};
use crate::versions::chain::{Version, begin_of};
use crate::versions::store::{InUse, VersionStore};

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
    store: InUse,
    entries: Vec<u8>,
    /// What lies before was handed on.
    from: usize,
}

/// A list of versions.
#[derive(Default)]
pub(crate) struct RetainedVersions {
    stores: Vec<OfStore>,
    /// What the versions on it take.
    bytes: usize,
    /// When the oldest row began of those that were put on it; `None` without any.
    rows_since: Option<Timestamp>,
    /// Whether any version that was put on it is an absence.
    has_absences: bool,
}

impl RetainedVersions {
    /// The entries of a store, which is in use from then on.
    fn of(&mut self, store: &Arc<VersionStore>) -> &mut OfStore {
        let mut stores = self.stores.iter();
        let known = stores.position(|of| Arc::ptr_eq(of.store.store(), store));
        let at = known.unwrap_or_else(|| {
            self.stores.push(OfStore {
                store: InUse::new(store),
                entries: Vec::new(),
                from: 0,
            });
            self.stores.len() - 1
        });
        &mut self.stores[at]
    }

    fn push(&mut self, store: &Arc<VersionStore>, entry: &Entry<'_>) {
        entry.push(&mut self.of(store).entries);
        self.count(entry);
    }

    /// Counts an entry that was put on the list.
    fn count(&mut self, entry: &Entry<'_>) {
        self.bytes += entry.memory_bytes();
        match entry.is_absence() {
            true => self.has_absences = true,
            false => {
                let since = self
                    .rows_since
                    .map_or(entry.begin, |at| at.min(entry.begin));
                self.rows_since = Some(since);
            }
        }
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
                visit(of.store.store(), &entry);
                self.bytes -= entry.memory_bytes();
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

/// What is kept for a moment, the newest that can see it. Entries stay on a moment's list until it
/// is left, so this is exact.
pub(crate) struct RetainedFor {
    moment: Timestamp,
    rows_since: Option<Timestamp>,
    has_absences: bool,
}

impl RetainedFor {
    /// Whether somebody who reads at a moment can see any of it.
    pub(crate) fn is_seen_at(&self, moment: Timestamp, is_transaction: bool) -> bool {
        let has_row = self.rows_since.is_some_and(|since| since <= moment);
        moment <= self.moment && (has_row || (is_transaction && self.has_absences))
    }
}

/// What a list keeps of its buffer: a chain of versions may be as long as memory.
const MOST_BUFFER_BYTES: usize = 1 << 20;

/// The live moments, oldest first, with the versions that one shard's writers kept.
#[derive(Default)]
struct List {
    moments: Vec<LiveMoment>,
    /// For chains.
    buffer: Vec<u8>,
    /// Versions that the sums of all lists do not count yet, and what they take.
    uncounted: isize,
    uncounted_bytes: usize,
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
    live: CachePadded<AtomicUsize>,
    /// How many of them are transactions: as precise.
    transactions: AtomicUsize,
    lists: Box<[CachePadded<Mutex<List>>]>,
    sums: CachePadded<Sums>,
    /// The most that versions may take.
    limit_bytes: usize,
    /// A list adds its own to the sums when they take so many bytes.
    count_at_bytes: usize,
    /// Of snapshots that were ended: freed in small steps.
    garbage: Mutex<RetainedVersions>,
    /// What was freed and a thread that is pinned may still read, in bytes.
    pinned_bytes: Arc<AtomicUsize>,
}

/// What was kept for a moment that is being left, in bytes.
#[must_use = "it is counted until the moment is left"]
pub(crate) struct Leaving {
    bytes: usize,
}

/// Over all lists. Less than nothing while a list has not counted what is freed already.
#[derive(Default)]
struct Sums {
    versions: AtomicIsize,
    bytes: AtomicIsize,
    garbage_bytes: AtomicUsize,
}

/// What is freed at once counts as pinned from so many bytes on: less makes no room.
const LEAST_PINNED_BYTES: usize = 4 << 10;

/// The most bytes that a list does not count at once, so that writers of several shards do not
/// change the same sum with every write.
const UNCOUNTED_BYTES: usize = 16 << 10;

fn positive(sum: &AtomicIsize) -> usize {
    sum.load(Ordering::Relaxed).max(0).unsigned_abs()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Entries are whole before they are on a list.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VersionLists {
    /// Lists for so many log shards, whose versions may take so many bytes.
    pub(crate) fn new(shards: usize, limit_bytes: usize) -> VersionLists {
        let shards = shards.max(1);
        VersionLists {
            live: CachePadded::new(AtomicUsize::new(0)),
            transactions: AtomicUsize::new(0),
            lists: (0..shards).map(|_| CachePadded::default()).collect(),
            sums: CachePadded::new(Sums::default()),
            limit_bytes,
            count_at_bytes: UNCOUNTED_BYTES.min(limit_bytes / (8 * shards)),
            garbage: Mutex::default(),
            pinned_bytes: Arc::default(),
        }
    }

    /// Whether any snapshot is open: one load.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// Whether anyone but the caller, whose own is one of them, has a transaction open: precise
    /// where the caller has a log shard locked.
    pub(crate) fn has_other_transactions(&self) -> bool {
        self.transactions.load(Ordering::Relaxed) > 1
    }

    /// How a commit keeps what it replaces; `None` if nobody reads it. The caller has its log shard
    /// locked, or the removal of a range registered. `own` is the moment of the transaction that
    /// commits, which reads no more.
    #[inline]
    pub(crate) fn retention(
        &self,
        end: Timestamp,
        own: Option<Timestamp>,
    ) -> Option<Retention<'_>> {
        let others = self.live.load(Ordering::Relaxed) > usize::from(own.is_some());
        others.then_some(Retention {
            lists: self,
            end,
            own,
        })
    }

    /// Enters a moment, at least as new as all others. The caller has all log shards locked.
    pub(crate) fn enter(&self, moment: Timestamp, is_transaction: bool) {
        self.live.fetch_add(1, Ordering::Relaxed);
        let transactions = &self.transactions;
        transactions.fetch_add(is_transaction.into(), Ordering::Relaxed);
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

    /// What is kept for a moment that is about to be left counts as needed no more, until
    /// [`leave`](Self::leave) has found out what of it is. Else whoever looks at the limit
    /// meanwhile would end others for it. Returns what it comes to.
    pub(crate) fn begin_leave(&self, moment: Timestamp) -> Leaving {
        let mut bytes = 0;
        // Only near the limit does it matter.
        if self.needed_bytes() > self.limit_bytes / 2 {
            for list in &self.lists {
                let list = lock(list);
                let mut moments = list.moments.iter();
                let live = moments.find(|live| live.moment == moment);
                bytes += live.map_or(0, |live| live.kept.bytes);
            }
        }
        let garbage_bytes = &self.sums.garbage_bytes;
        garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
        Leaving { bytes }
    }

    /// Counts it no more: the moment stays, somebody else left it, or what is free is known now.
    pub(crate) fn uncount_leaving(&self, Leaving { bytes }: Leaving) {
        let garbage_bytes = &self.sums.garbage_bytes;
        garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Leaves a moment, and hands on or frees what was kept for it: at once, or as garbage.
    pub(crate) fn leave(
        &self,
        leaving: Leaving,
        moment: Timestamp,
        is_transaction: bool,
        at_once: bool,
    ) {
        let mut unneeded = RetainedVersions::default();
        for list in &self.lists {
            self.hand_on(&mut lock(list), moment, is_transaction, &mut unneeded);
        }
        self.live.fetch_sub(1, Ordering::Relaxed);
        let transactions = &self.transactions;
        transactions.fetch_sub(is_transaction.into(), Ordering::Relaxed);
        // Garbage from here on, and no longer what was only expected to be.
        let garbage_bytes = &self.sums.garbage_bytes;
        let bytes = unneeded.bytes;
        garbage_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.uncount_leaving(leaving);
        if at_once {
            self.free(&mut unneeded, usize::MAX);
            garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
        } else if !unneeded.is_empty() {
            let mut garbage = lock(&self.garbage);
            garbage.stores.append(&mut unneeded.stores);
            garbage.bytes += bytes;
        }
    }

    /// Has a moment of a list lose a user, and hands on what nobody there needs any more.
    fn hand_on(
        &self,
        list: &mut List,
        moment: Timestamp,
        is_transaction: bool,
        unneeded: &mut RetainedVersions,
    ) {
        let place = list
            .moments
            .binary_search_by_key(&moment, |live| live.moment);
        let Ok(at) = place else { return };
        let live = &mut list.moments[at];
        live.users -= 1;
        live.transactions -= u32::from(is_transaction);
        let (is_unused, wants_absences) = (live.users == 0, live.transactions > 0);
        if !is_unused && (wants_absences || !is_transaction) {
            return;
        }
        let mut kept = std::mem::take(&mut list.moments[at].kept);
        // Snapshots that stay at the moment see its rows, and need no absence.
        let behind = at + usize::from(!is_unused);
        if is_unused {
            list.moments.remove(at);
        }
        kept.take(usize::MAX, |store, entry| {
            let older = list.newest_for(behind, entry, None);
            match older.filter(|_| !planted(PlantedBug::VersionFreedTooEarly)) {
                Some(older) => list.moments[older].kept.push(store, entry),
                None => unneeded.push(store, entry),
            }
        });
    }

    fn free(&self, kept: &mut RetainedVersions, most: usize) -> usize {
        let mut buffer = Vec::new();
        let mut bytes = 0;
        let freed = kept.take(most, |store, entry| {
            store.free(entry.key, entry.end, &mut buffer);
            bytes += entry.memory_bytes();
        });
        let sums = &self.sums;
        sums.versions.fetch_sub(freed as isize, Ordering::Relaxed);
        sums.bytes.fetch_sub(bytes as isize, Ordering::Relaxed);
        if bytes >= LEAST_PINNED_BYTES {
            self.count_pinned(bytes);
        }
        bytes
    }

    /// Counts what this thread has freed until nobody who is pinned now can read it: until what it
    /// retires here is due, which comes behind what it retired for them.
    fn count_pinned(&self, bytes: usize) {
        let pinned_bytes = Arc::clone(&self.pinned_bytes);
        pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
        let guard = epoch::pin();
        guard.defer(move || {
            pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
        // Else it stays with this thread until that retires more, which may be never.
        guard.flush();
    }

    /// Frees garbage: so many versions at most, and none if another thread is at it.
    pub(crate) fn free_garbage(&self, most: usize) {
        let garbage_bytes = &self.sums.garbage_bytes;
        if garbage_bytes.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Ok(mut garbage) = self.garbage.try_lock() {
            let bytes = self.free(&mut garbage, most);
            garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Frees all garbage, for who needs its memory. Waits for another thread that is at it.
    pub(crate) fn free_all_garbage(&self) {
        let mut garbage = lock(&self.garbage);
        let bytes = self.free(&mut garbage, usize::MAX);
        let garbage_bytes = &self.sums.garbage_bytes;
        garbage_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory of versions that nobody needs and that is on its way back, in bytes, but no more than
    /// versions may take: what other threads are about to free, and what was freed and a reader
    /// still has pinned.
    pub(crate) fn returning_bytes(&self) -> usize {
        let garbage_bytes = self.sums.garbage_bytes.load(Ordering::Relaxed);
        let pinned_bytes = self.pinned_bytes.load(Ordering::Relaxed);
        garbage_bytes
            .saturating_add(pinned_bytes)
            .min(self.limit_bytes)
    }

    /// What is kept, by the newest moment that can see it. Locks each list.
    pub(crate) fn retained(&self) -> Vec<RetainedFor> {
        let mut all = Vec::new();
        for list in &self.lists {
            let list = lock(list);
            let with_any = list.moments.iter().filter(|live| !live.kept.is_empty());
            all.extend(with_any.map(|live| RetainedFor {
                moment: live.moment,
                rows_since: live.kept.rows_since,
                has_absences: live.kept.has_absences,
            }));
        }
        all
    }

    /// How many versions are kept. Locks each list.
    pub(crate) fn versions(&self) -> usize {
        self.count_all();
        positive(&self.sums.versions)
    }

    /// What they take, in bytes. Locks each list.
    pub(crate) fn bytes(&self) -> usize {
        self.count_all();
        positive(&self.sums.bytes)
    }

    /// The most that those may take that snapshots need: what is counted, and what lists may not
    /// have counted yet. One load of each sum.
    pub(crate) fn needed_bytes(&self) -> usize {
        let garbage = self.sums.garbage_bytes.load(Ordering::Relaxed);
        let uncounted = self.count_at_bytes * self.lists.len();
        (positive(&self.sums.bytes) + uncounted).saturating_sub(garbage)
    }

    fn count_all(&self) {
        self.lists
            .iter()
            .for_each(|list| self.count(&mut lock(list)));
    }

    /// Adds to the sums what a list has not counted.
    fn count(&self, list: &mut List) {
        let versions = std::mem::take(&mut list.uncounted);
        let bytes = std::mem::take(&mut list.uncounted_bytes) as isize;
        self.sums.versions.fetch_add(versions, Ordering::Relaxed);
        self.sums.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// How one commit keeps what it replaces.
#[derive(Clone, Copy)]
pub(crate) struct Retention<'a> {
    lists: &'a VersionLists,
    /// The commit.
    end: Timestamp,
    own: Option<Timestamp>,
}

impl Retention<'_> {
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
            apart: None,
        };
        let LiveMoment { moment, kept, .. } = &mut list.moments[at];
        let retained = kept.of(store);
        let is_new = retained.store.keep(key, version, *moment, &mut list.buffer);
        if list.buffer.capacity() > MOST_BUFFER_BYTES {
            list.buffer = Vec::new();
        }
        if is_new {
            entry.push(&mut retained.entries);
            kept.count(&entry);
            list.uncounted += 1;
            list.uncounted_bytes += entry.memory_bytes();
            if list.uncounted_bytes >= lists.count_at_bytes {
                lists.count(list);
            }
        }
    }
}
