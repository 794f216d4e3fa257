//! State that all threads of a server share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hedgerow::backend::Backend;
use hedgerow::{Commit, Durability, WriteOptions};

use crate::backups::Backups;
use crate::clients::list::{Client, Clients};
use crate::clients::memory::ClientMemory;
use crate::clients::pause::{Pause, Scope};
use crate::connection::output::AwaitedState;
use crate::monitoring::events::ClientEvents;
use crate::monitoring::index_statistics::IndexWalks;
use crate::monitoring::metrics::Metrics;
use crate::monitoring::totals::LastReset;
use crate::options::{EventLoop, ServerOptions};
use crate::resp::{Cursors, SharedSnapshots};
use crate::settings::Settings;
use crate::stop_request::StopRequest;

/// How many numbered databases RESP clients can `SELECT`.
pub(crate) const DATABASES: usize = 16;

/// So long after one that failed, a removal that is due is tried again.
const FLUSHED_AGAIN_AFTER_MS: u64 = 1000;

/// A reply may be so long, however little memory is left for clients.
const SHORT_REPLY_BYTES: usize = 4 << 10;

/// How other threads reach a worker.
pub(crate) struct WorkerHandle {
    pub(crate) waker: mio::Waker,
    /// The worker holds replies back until a sync.
    pub(crate) waits_for_sync: AtomicBool,
}

/// A thread that ended though nobody had stopped the server.
pub(crate) struct FailedThread {
    pub(crate) name: String,
    /// What the operating system said to its event loop; `None`: the thread panicked.
    pub(crate) error: Option<io::Error>,
}

/// What all threads of a server share.
pub(crate) struct Shared<B: Backend> {
    pub(crate) db: Arc<B>,
    /// As the server was started; what of it can change since is in `settings`.
    pub(crate) options: ServerOptions,
    pub(crate) settings: Settings,
    pub(crate) pause: Pause,
    pub(crate) metrics: Metrics,
    /// Since when `INFO` counts.
    pub(crate) info_reset: LastReset,
    /// Since when memcached's `stats` counts.
    pub(crate) stats_reset: LastReset,
    pub(crate) events: ClientEvents,
    pub(crate) index_walks: Arc<IndexWalks>,
    pub(crate) cursors: Cursors,
    /// Snapshots that every connection can read from.
    pub(crate) snapshots: SharedSnapshots<B>,
    pub(crate) started: Instant,
    pub(crate) run_id: String,
    pub(crate) connections: AtomicUsize,
    pub(crate) next_connection_id: AtomicU64,
    pub(crate) clients: Arc<Clients>,
    pub(crate) client_memory: ClientMemory,
    pub(crate) last_save_s: AtomicU64,
    pub(crate) saving: AtomicBool,
    pub(crate) backups: Backups,
    /// Threads that make checkpoints and backups.
    background: Mutex<Vec<JoinHandle<()>>>,
    /// When memcached's `flush_all` with a delay is due, in Unix milliseconds; 0 without one.
    flush_at_ms: AtomicU64,
    /// Before when one that failed is not tried again.
    flush_again_ms: AtomicU64,
    /// Whoever removes what is due has this locked.
    flushing: Mutex<()>,
    /// This, for threads that it starts.
    own: Weak<Shared<B>>,
    keyspaces: [OnceLock<B::Keyspace>; DATABASES],
    workers: OnceLock<Vec<Arc<WorkerHandle>>>,
    stopping: AtomicBool,
    pub(crate) stop_request: Arc<StopRequest>,
    /// The first thread that failed.
    failed_thread: OnceLock<FailedThread>,
}

impl<B: Backend> Shared<B> {
    /// `command_names` are those of the RESP commands, by their numbers.
    pub(crate) fn new(
        db: Arc<B>,
        options: ServerOptions,
        command_names: Vec<&'static str>,
    ) -> hedgerow::Result<Arc<Shared<B>>> {
        let client_memory = ClientMemory::new(options.client_memory_bytes, options.workers);
        let shared = Arc::new_cyclic(|own| Shared {
            own: own.clone(),
            db,
            metrics: Metrics::new(options.workers, command_names),
            info_reset: LastReset::default(),
            stats_reset: LastReset::default(),
            events: ClientEvents::new(),
            index_walks: Arc::default(),
            settings: Settings::new(&options),
            pause: Pause::new(),
            options,
            cursors: Cursors::new(),
            snapshots: SharedSnapshots::default(),
            started: Instant::now(),
            run_id: (0..40)
                .map(|_| char::from(b"0123456789abcdef"[rand::random_range(0..16)]))
                .collect(),
            connections: AtomicUsize::new(0),
            next_connection_id: AtomicU64::new(1),
            clients: Arc::default(),
            client_memory,
            last_save_s: AtomicU64::new(now_ms() / 1000),
            saving: AtomicBool::new(false),
            backups: Backups::default(),
            background: Mutex::default(),
            flush_at_ms: AtomicU64::new(0),
            flush_again_ms: AtomicU64::new(0),
            flushing: Mutex::default(),
            keyspaces: [const { OnceLock::new() }; DATABASES],
            workers: OnceLock::new(),
            stopping: AtomicBool::new(false),
            stop_request: Arc::default(),
            failed_thread: OnceLock::new(),
        });
        shared.keyspace(0)?;
        let weak: Weak<Shared<B>> = Arc::downgrade(&shared);
        shared.db.subscribe_durable(Box::new(move |_| {
            if let Some(shared) = weak.upgrade() {
                shared.wake_waiting();
            }
        }));
        Ok(shared)
    }

    /// The event loop that the workers run: epoll once the rings of all workers have failed, as a
    /// worker without one makes the calls that it would make on epoll.
    pub(crate) fn event_loop(&self) -> EventLoop {
        let failed = self.metrics.sum(|worker| &worker.failed_rings);
        if failed >= self.options.workers as u64 {
            return EventLoop::Epoll;
        }
        self.options.event_loop
    }

    /// The keyspace of a numbered database, created on first use.
    #[inline]
    pub(crate) fn keyspace(&self, number: usize) -> hedgerow::Result<&B::Keyspace> {
        match self.keyspaces[number].get() {
            Some(keyspace) => Ok(keyspace),
            None => self.open_keyspace(number),
        }
    }

    #[cold]
    fn open_keyspace(&self, number: usize) -> hedgerow::Result<&B::Keyspace> {
        let keyspace = self.db.keyspace(&keyspace_name(number))?;
        Ok(self.keyspaces[number].get_or_init(|| keyspace))
    }

    /// The numbered databases that have been used since the server's start, or exist.
    ///
    /// # Errors
    /// Nobody can say which exist, or one cannot be opened.
    pub(crate) fn databases(&self) -> hedgerow::Result<Vec<(usize, &B::Keyspace)>> {
        let existing = self.db.keyspaces()?;
        (0..DATABASES)
            .filter(|n| self.is_used_or_among(&existing, *n))
            .map(|n| Ok((n, self.keyspace(n)?)))
            .collect()
    }

    /// The numbered databases that have been used since the server's start, or that the backend
    /// knows: never waits for one elsewhere.
    pub(crate) fn known_databases(&self) -> Vec<(usize, &B::Keyspace)> {
        let known = self.db.known_keyspaces();
        (0..DATABASES)
            .filter(|n| self.is_used_or_among(&known, *n))
            .filter_map(|n| Some((n, self.keyspace(n).ok()?)))
            .collect()
    }

    /// Whether a numbered database has been used since the server's start, or is one of these
    /// keyspaces.
    fn is_used_or_among(&self, keyspaces: &[String], number: usize) -> bool {
        self.keyspaces[number].get().is_some() || keyspaces.contains(&keyspace_name(number))
    }

    /// Whether acknowledged writes are promised to be durable.
    #[inline]
    pub(crate) fn is_sync(&self) -> bool {
        self.settings.durability() == Durability::Sync
    }

    /// What the reply to a commit waits for, if anything.
    #[inline]
    pub(crate) fn reply_waits(&self, commit: &Commit) -> Option<AwaitedState> {
        match self.settings.durability() {
            Durability::Sync => Some(AwaitedState::Durable(*commit)),
            _ => self.waits_for_write_out(),
        }
    }

    /// Whether replies to writes wait for the write-out at the end of their tick, so that a kill
    /// loses nothing that was acknowledged.
    #[inline]
    pub(crate) fn waits_for_write_out(&self) -> Option<AwaitedState> {
        let promises = self.settings.durability() != Durability::None;
        (promises && self.db.keeps_writes_back()).then_some(AwaitedState::WrittenOut)
    }

    /// The most memory that one connection may queue commands in.
    pub(crate) fn queue_limit_bytes(&self) -> usize {
        let most = self.transaction_limit_bytes();
        self.options.max_frame_bytes.min(most)
    }

    /// The most memory that the transaction of one connection may take between `BEGIN` and
    /// `COMMIT`.
    pub(crate) fn transaction_limit_bytes(&self) -> usize {
        self.client_memory.limit_bytes() / 2
    }

    /// The memory that one reply may take: what is left for clients, as a buffer may grow by an
    /// eighth more than it needs. A short reply is always made, so that a client learns what became
    /// of its write.
    pub(crate) fn reply_limit_bytes(&self) -> usize {
        (self.client_memory.left_bytes() / 9 * 8).max(SHORT_REPLY_BYTES)
    }

    /// How the server writes: never waiting in the event loop.
    #[inline]
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions::default()
            .durability(self.settings.durability())
            .no_wait()
    }

    pub(crate) fn set_workers(&self, workers: Vec<Arc<WorkerHandle>>) {
        let first = self.workers.set(workers).is_ok();
        debug_assert!(first, "workers are made once");
    }

    fn workers(&self) -> &[Arc<WorkerHandle>] {
        self.workers.get().map_or(&[], Vec::as_slice)
    }

    /// Wakes the workers that hold replies back.
    fn wake_waiting(&self) {
        for worker in self.workers() {
            if worker.waits_for_sync.load(Ordering::SeqCst) {
                // Fails only when the poll is gone, and the worker with it.
                let _ = worker.waker.wake();
            }
        }
    }

    /// Wakes all workers.
    pub(crate) fn wake_workers(&self) {
        // No worker has this index.
        self.wake_other_workers(usize::MAX);
    }

    /// Wakes all workers but the one of this index, which asks and is awake.
    pub(crate) fn wake_other_workers(&self, index: usize) {
        let workers = self.workers().iter().enumerate();
        for (_, worker) in workers.filter(|(other, _)| *other != index) {
            // Fails only when the poll is gone, and the worker with it.
            let _ = worker.waker.wake();
        }
    }

    /// Removes everything from the database of memcached clients; what was to be removed later is
    /// not any more.
    pub(crate) fn flush_now(&self) -> hedgerow::Result<()> {
        self.flush_at_ms.store(0, Ordering::Relaxed);
        let options = self.write_options();
        self.db.clear_keyspace(&keyspace_name(0), &options)
    }

    /// Removes everything from that database that was stored until a Unix time. Calls `emptied`
    /// once it is gone.
    fn flush_until(&self, at_ms: u64, emptied: impl FnOnce()) -> hedgerow::Result<()> {
        let (name, options) = (keyspace_name(0), self.write_options());
        self.db
            .clear_keyspace_until(&name, at_ms, &options, emptied)
    }

    /// Removes everything from the database of memcached clients at a Unix time, instead of at an
    /// earlier one that was asked for.
    pub(crate) fn flush_later(&self, at_ms: u64) {
        self.flush_again_ms.store(0, Ordering::Relaxed);
        self.flush_at_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Removes what is due. Workers call this every second, and before the requests of each tick:
    /// so nothing goes that is stored later. One that fails is tried again after a second, when
    /// what was stored meanwhile stays where the backend removes row after row; one that falls
    /// into a pause waits for its end.
    #[inline]
    pub(crate) fn flush_if_due(&self) {
        if self.flush_at_ms.load(Ordering::Relaxed) != 0 {
            self.flush_at_its_time();
        }
    }

    #[cold]
    fn flush_at_its_time(&self) {
        let due = || {
            let at_ms = self.flush_at_ms.load(Ordering::Acquire);
            let from_ms = at_ms.max(self.flush_again_ms.load(Ordering::Relaxed));
            let is_due = at_ms != 0 && from_ms <= now_ms() && self.pause.scope().is_none();
            is_due.then_some(at_ms)
        };
        if due().is_none() {
            return;
        }
        // Of several workers one removes, and the others store nothing before all is gone. A
        // backend elsewhere may take long: there they do not wait.
        let mut alone = match B::IS_REMOTE {
            true => self.flushing.try_lock().ok(),
            false => Some(self.flushing.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let Some(at_ms) = due().filter(|_| alone.is_some()) else {
            return;
        };
        let emptied = || {
            // Unless somebody has asked for another moment.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self
                .flush_at_ms
                .compare_exchange(at_ms, 0, order.0, order.1);
            // The others go on while this worker cleans up.
            drop(alone.take());
        };
        if self.flush_until(at_ms, emptied).is_err() {
            let again_ms = now_ms() + FLUSHED_AGAIN_AFTER_MS;
            self.flush_again_ms.store(again_ms, Ordering::Relaxed);
        }
    }

    /// Ends connections, at once where their workers wait.
    pub(crate) fn end_clients<'c>(&self, clients: impl Iterator<Item = &'c Arc<Client>>) {
        let mut is_any = false;
        for client in clients {
            self.clients.kill(client);
            is_any = true;
        }
        if is_any {
            self.wake_workers();
        }
    }

    /// Makes the requests of clients wait for a time, from each worker's next tick on.
    pub(crate) fn pause_clients(&self, timeout: Duration, scope: Scope) {
        self.pause.begin(timeout, scope);
    }

    /// Ends a pause before its time.
    pub(crate) fn resume_clients(&self) {
        self.pause.end();
        self.wake_workers();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells all workers to finish.
    pub(crate) fn stop_workers(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_workers();
    }

    /// Asks the server's owner to shut it down (`SHUTDOWN`, signals).
    pub(crate) fn ask_to_stop(&self) {
        self.stop_request.ask();
    }

    /// Asks the same because a thread failed.
    pub(crate) fn fail(&self, thread: FailedThread) {
        let _ = self.failed_thread.set(thread);
        self.ask_to_stop();
    }

    /// The first thread that failed, if one did.
    pub(crate) fn failed_thread(&self) -> Option<&FailedThread> {
        self.failed_thread.get()
    }

    /// Why writes are refused, if they are: until there is space on the disk, until the backend is
    /// back, or for good.
    pub(crate) fn failure(&self) -> Option<String> {
        let health = self.db.check_health();
        health.err().map(|error| error.to_string())
    }

    /// Takes a checkpoint in a thread of its own.
    pub(crate) fn save_in_background(&self) {
        // Without a thread there is no checkpoint: LASTSAVE and the statistics tell.
        let _ = self.in_background("hedgerow-save", |shared| drop(shared.save()));
    }

    /// Runs `work` in a thread of its own.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn in_background(
        &self,
        name: &str,
        work: impl FnOnce(&Shared<B>) + Send + 'static,
    ) -> io::Result<()> {
        let Some(shared) = self.own.upgrade() else {
            return Ok(());
        };
        let thread = std::thread::Builder::new().name(name.into());
        let begun = thread.spawn(move || work(&shared))?;
        let mut running = self.background();
        running.retain(|thread| !thread.is_finished());
        running.push(begun);
        Ok(())
    }

    /// Returns once the threads of [`in_background`](Shared::in_background) have ended.
    pub(crate) fn await_background(&self) {
        let running = std::mem::take(&mut *self.background());
        for thread in running {
            // A thread that panicked has already said why.
            let _ = thread.join();
        }
    }

    fn background(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a checkpoint now; `false` if one is under way.
    pub(crate) fn save(&self) -> hedgerow::Result<bool> {
        if self.saving.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        // Also if it panics.
        let saving = Saving(&self.saving);
        let outcome = self.db.checkpoint();
        drop(saving);
        outcome?;
        self.last_save_s.store(now_ms() / 1000, Ordering::Relaxed);
        Ok(true)
    }
}

/// A checkpoint under way, until this is dropped.
struct Saving<'s>(&'s AtomicBool);

impl Drop for Saving<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The keyspace behind a numbered database.
fn keyspace_name(number: usize) -> String {
    if number == 0 {
        "default".to_owned()
    } else {
        format!("db{number}")
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// Microseconds since the Unix epoch.
pub(crate) fn now_us() -> u64 {
    since_epoch().as_micros() as u64
}

/// The time since the Unix epoch; none if the clock is before it.
fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
