//! The snapshots that are open, in the order of their moments: opening, closing and ending them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow_log::{Log, Timestamp};

use crate::index::catalog::Catalog;
use crate::index::space::Space;
use crate::planted::{PlantedBug, planted};
use crate::versions::lists::VersionLists;
use crate::versions::live::{Cut, LiveSnapshot, Opening};

/// Versions of ended snapshots that a write frees on its way.
const GARBAGE_PER_WRITE: usize = 64;

/// The open snapshots, oldest first.
#[derive(Default)]
struct Registry {
    open: Vec<Arc<LiveSnapshot>>,
    /// How many there have been.
    opened: u64,
    /// Keyspaces that were cleared or dropped and that a snapshot sees, or that are about to be
    /// given back.
    retired: Vec<Arc<Space>>,
    /// The ids of those among them that somebody is at who cleared or dropped them.
    retiring: Vec<u32>,
}

/// What a snapshot is ended for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Versions take more than they may.
    VersionLimit,
    /// A writer finds no memory: keyspaces that were cleared or dropped give some, too.
    Memory,
}

/// See the module.
pub(crate) struct Snapshots {
    pub(crate) lists: VersionLists,
    registry: Mutex<Registry>,
    /// Is locked by who ends snapshots for memory, until it is known what that gives.
    ending: Mutex<()>,
    /// How many retired keyspaces wait.
    waiting: AtomicUsize,
    /// The most that versions may take.
    limit_bytes: usize,
    /// How many snapshots were ended because versions took more.
    ended: AtomicU64,
}

/// The snapshot or transaction that has been open for longest; see
/// [`Db::oldest_snapshot`](crate::Db::oldest_snapshot).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestSnapshot {
    /// Its name: given by the user, or made up.
    pub name: String,
    /// How long it has been open.
    pub age: Duration,
}

impl Snapshots {
    /// For a database that writes this log, if it writes any.
    pub(crate) fn new(log: Option<&Log>, limit_bytes: usize) -> Snapshots {
        let shards = log.map_or(1, Log::shards);
        Snapshots {
            lists: VersionLists::new(shards, limit_bytes),
            registry: Mutex::default(),
            ending: Mutex::default(),
            waiting: AtomicUsize::new(0),
            limit_bytes,
            ended: AtomicU64::new(0),
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Each change is one step.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a snapshot. The caller excludes removals of ranges, and holds no stripe and no log
    /// shard. Without a log nobody writes.
    pub(crate) fn open(
        &self,
        log: Option<&Log>,
        opening: &Opening<'_>,
        catalog: impl Fn() -> Arc<Catalog>,
    ) -> Arc<LiveSnapshot> {
        let mut registry = self.registry();
        registry.opened += 1;
        let enter = |newest: Timestamp| {
            let moment = match newest.raw() {
                raw if planted(PlantedBug::SnapshotMissesCommits) => raw.saturating_sub(1),
                raw if planted(PlantedBug::SnapshotSeesLaterCommits) => raw.saturating_add(8),
                raw => raw,
            };
            let moment = Timestamp::from_raw(moment);
            self.lists.enter(moment, opening.is_transaction);
            Cut {
                moment,
                catalog: catalog(),
                now_ms: (opening.now)(),
            }
        };
        let cut = match log {
            Some(log) => log.cut(enter),
            None => enter(Timestamp::from_raw(u64::MAX)),
        };
        let live = LiveSnapshot::new(opening, registry.opened, cut, self.limit_bytes);
        let live = Arc::new(live);
        registry.open.push(Arc::clone(&live));
        live
    }

    /// Closes a snapshot, and frees what only it could see, or, if it was ended, what is left of
    /// that.
    pub(crate) fn close(&self, live: &Arc<LiveSnapshot>) {
        let leaving = self.lists.begin_leave(live.moment);
        let mut registry = self.registry();
        let place = registry
            .open
            .iter()
            .position(|open| Arc::ptr_eq(open, live));
        let Some(at) = place else {
            drop(registry);
            self.lists.uncount_leaving(leaving);
            return self.lists.free_garbage(usize::MAX);
        };
        registry.open.remove(at);
        drop(registry);
        let is_transaction = live.is_transaction;
        self.lists.leave(leaving, live.moment, is_transaction, true);
    }

    /// Ends the oldest snapshots that see any, while versions take more than they may; whether it
    /// ended one. Waits for nobody, so it may be called under stripes and latches; if the registry
    /// is in use, or another thread ends one, the next call does it.
    pub(crate) fn keep_limit(&self) -> bool {
        self.lists.free_garbage(GARBAGE_PER_WRITE);
        let is_beyond = || self.lists.needed_bytes() > self.limit_bytes;
        if !is_beyond() {
            return false;
        }
        // What the oldest gives is known once it has left: until then nobody else is ended for it.
        let Ok(_ending) = self.ending.try_lock() else {
            return false;
        };
        let mut has_ended = false;
        while is_beyond() && self.try_to_end() {
            has_ended = true;
        }
        has_ended
    }

    fn try_to_end(&self) -> bool {
        let registry = self.registry.try_lock();
        registry.is_ok_and(|registry| self.end_oldest(registry, Purpose::VersionLimit))
    }

    /// Ends the oldest snapshot that keeps memory from being freed, for a writer that misses so
    /// many bytes; whether there was one, or another thread just did. Nobody is ended where the end
    /// of all would give too little. Waits for that thread, and for whoever opens or closes a
    /// snapshot: the caller holds no log shard.
    pub(crate) fn give_up_oldest(&self, missing_bytes: usize) -> bool {
        let (_ending, has_waited) = match self.ending.try_lock() {
            Ok(ending) => (ending, false),
            Err(_) => {
                let ending = self.ending.lock();
                (ending.unwrap_or_else(PoisonError::into_inner), true)
            }
        };
        if has_waited {
            return true;
        }
        // What versions take is an estimate.
        let most_bytes = self.lists.bytes().saturating_mul(2);
        let registry = self.registry();
        let is_enough = most_bytes >= missing_bytes || registry.releasable().next().is_some();
        is_enough && self.end_oldest(registry, Purpose::Memory)
    }

    /// Ends the oldest snapshot that sees anything which is kept for snapshots, and is not
    /// installing its writes; whether there is one. To end any other would free nothing. What only
    /// it could see is garbage then. The caller has `ending` locked.
    fn end_oldest(&self, mut registry: MutexGuard<'_, Registry>, purpose: Purpose) -> bool {
        let retained = self.lists.retained();
        let place = registry.open.iter().position(|live| {
            let mut retained = retained.iter();
            let sees_version = retained.any(|of| of.is_seen_at(live.moment, live.is_transaction));
            let sees_retired = || purpose == Purpose::Memory && registry.has_retired_for(live);
            (sees_version || sees_retired()) && live.end_for_memory()
        });
        let Some(at) = place else {
            return false;
        };
        let oldest = registry.open.remove(at);
        self.ended.fetch_add(1, Ordering::Relaxed);
        drop(registry);
        let (moment, is_transaction) = (oldest.moment, oldest.is_transaction);
        let leaving = self.lists.begin_leave(moment);
        self.lists.leave(leaving, moment, is_transaction, false);
        let (name, age_s) = (oldest.name(), oldest.age().as_secs());
        let limit_bytes = self.limit_bytes;
        tracing::warn!(
            name,
            age_s,
            limit_bytes,
            "ended a snapshot: out of memory for versions"
        );
        true
    }

    /// Ends all of them, as the database closes.
    pub(crate) fn end_all(&self) {
        let mut ended = Vec::new();
        self.registry().open.retain(|live| {
            let is_ended = live.end_with_database();
            ended.extend(is_ended.then(|| Arc::clone(live)));
            !is_ended
        });
        for live in ended {
            let leaving = self.lists.begin_leave(live.moment);
            let is_transaction = live.is_transaction;
            self.lists.leave(leaving, live.moment, is_transaction, true);
        }
    }

    /// Has a keyspace that was cleared or dropped wait, where checkpoints find it: for
    /// [`Snapshots::end_retire`], and for the snapshots that see it.
    pub(crate) fn begin_retire(&self, space: &Arc<Space>) {
        let mut registry = self.registry();
        registry.retired.push(Arc::clone(space));
        registry.retiring.push(space.id);
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Has it wait for snapshots alone.
    pub(crate) fn end_retire(&self, id: u32) {
        self.registry().retiring.retain(|retiring| *retiring != id);
    }

    /// The retired keyspaces that wait: a checkpoint of their pages must name them. The caller
    /// holds no log shard.
    pub(crate) fn retired(&self) -> Vec<Arc<Space>> {
        self.registry().retired.clone()
    }

    /// Calls `give_back` with the retired keyspaces that nobody needs any more: under the lock, so
    /// that a checkpoint finds each of them here or where it is given.
    pub(crate) fn give_back_retired(&self, mut give_back: impl FnMut(Arc<Space>)) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut registry = self.registry();
        let retired = std::mem::take(&mut registry.retired);
        let (needed, unneeded) = retired
            .into_iter()
            .partition::<Vec<_>, _>(|space| registry.needs(space));
        registry.retired = needed;
        self.waiting
            .store(registry.retired.len(), Ordering::Relaxed);
        unneeded.into_iter().for_each(&mut give_back);
    }

    /// How many are open: snapshots, and transactions.
    pub(crate) fn count(&self) -> (usize, usize) {
        let registry = self.registry();
        let is_transaction = |live: &&Arc<LiveSnapshot>| live.is_transaction;
        let transactions = registry.open.iter().filter(is_transaction).count();
        (registry.open.len() - transactions, transactions)
    }

    /// The oldest that is open, if any is.
    pub(crate) fn oldest(&self) -> Option<OldestSnapshot> {
        let registry = self.registry();
        let oldest = registry.open.first()?;
        Some(OldestSnapshot {
            name: oldest.name().to_owned(),
            age: oldest.age(),
        })
    }

    /// How many were ended because versions took too much memory.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// The most that versions may take, in bytes.
    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }
}

impl Registry {
    /// Whether a snapshot sees a retired keyspace, or who retires it is at it.
    fn needs(&self, space: &Space) -> bool {
        let mut open = self.open.iter();
        self.retiring.contains(&space.id)
            || open.any(|live| live.catalog.by_id.contains_key(&space.id))
    }

    /// The retired keyspaces whose rows take memory for snapshots alone.
    fn releasable(&self) -> impl Iterator<Item = &Arc<Space>> {
        let retired = self.retired.iter();
        retired.filter(|space| {
            let is_in_memory = !space.kind.is_in_pages() && space.len() > 0;
            is_in_memory && !self.retiring.contains(&space.id)
        })
    }

    /// Whether a snapshot keeps such a keyspace's memory from being given back.
    fn has_retired_for(&self, live: &LiveSnapshot) -> bool {
        let mut releasable = self.releasable();
        releasable.any(|space| live.catalog.by_id.contains_key(&space.id))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use hedgerow_sync::epoch;

    use super::*;
    use crate::versions::store::VersionStore;

    fn open(snapshots: &Snapshots, is_transaction: bool) -> Arc<LiveSnapshot> {
        let opening = Opening {
            name: None,
            is_transaction,
            now: &|| 0,
        };
        snapshots.open(None, &opening, Arc::default)
    }

    /// A transaction that installs its writes keeps rows for others, whatever memory is left: were
    /// it ended meanwhile, it would take itself for one more than there are.
    #[test]
    fn a_transaction_that_installs_is_not_ended() {
        let snapshots = Snapshots::new(None, 0);
        let transaction = open(&snapshots, true);
        let reader = open(&snapshots, false);
        transaction.begin_install().unwrap();
        let own = Some(transaction.moment);
        let retention = snapshots
            .lists
            .retention(Timestamp::from_raw(u64::MAX), own);
        let (store, row) = (Arc::new(VersionStore::default()), [0; 9]);
        retention.unwrap().keep(&store, b"key", Some(&row));
        assert_eq!(snapshots.lists.versions(), 1);
        // Beyond the limit: the reader goes, though the transaction is older.
        snapshots.keep_limit();
        assert!(reader.check().is_err() && transaction.check().is_ok());
        assert_eq!((snapshots.count(), snapshots.ended()), ((0, 1), 1));
        snapshots.close(&transaction);
        snapshots.lists.free_garbage(usize::MAX);
        assert_eq!((snapshots.lists.versions(), snapshots.count()), (0, (0, 0)));
        // One that was ended installs nothing.
        let late = open(&snapshots, true);
        let retention = snapshots
            .lists
            .retention(Timestamp::from_raw(u64::MAX), None);
        retention.unwrap().keep(&store, b"key", Some(&row));
        snapshots.keep_limit();
        assert!(late.begin_install().is_err());
    }

    #[test]
    fn nobody_is_ended_whose_end_gives_too_little() {
        let snapshots = Snapshots::new(None, 1 << 20);
        let oldest = open(&snapshots, false);
        let retention = snapshots
            .lists
            .retention(Timestamp::from_raw(u64::MAX), None);
        let (store, row) = (Arc::new(VersionStore::default()), [0; 9]);
        retention.unwrap().keep(&store, b"key", Some(&row));
        assert!(!snapshots.give_up_oldest(1 << 10) && oldest.check().is_ok());
        assert!(snapshots.give_up_oldest(1) && oldest.check().is_err());
        // What it saw is garbage, and only that is left.
        let late = open(&snapshots, false);
        assert_eq!(snapshots.lists.versions(), 1);
        assert!(!snapshots.give_up_oldest(1) && late.check().is_ok());
        snapshots.lists.free_all_garbage();
        assert_eq!((snapshots.lists.versions(), snapshots.ended()), (0, 1));
    }

    /// However little a thread does afterwards, what it freed counts as free for no longer than
    /// somebody has it pinned.
    #[test]
    fn what_an_idle_thread_freed_is_on_its_way_back_for_no_longer_than_it_is() {
        let snapshots = Snapshots::new(None, 1 << 20);
        let live = open(&snapshots, false);
        let retention = snapshots
            .lists
            .retention(Timestamp::from_raw(u64::MAX), None);
        let (store, row) = (Arc::new(VersionStore::default()), vec![0; 64 << 10]);
        retention.unwrap().keep(&store, b"key", Some(&row));
        let idle = Barrier::new(2);
        let is_back = thread::scope(|scope| {
            scope.spawn(|| {
                snapshots.close(&live);
                idle.wait();
                idle.wait();
            });
            idle.wait();
            // Other tests pin epochs, too, for a while.
            let is_back = (0..1_000_000).any(|_| {
                epoch::release_due();
                thread::yield_now();
                snapshots.lists.returning_bytes() == 0
            });
            idle.wait();
            is_back
        });
        assert!(is_back);
    }
}
