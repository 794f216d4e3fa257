//! The lock of a row, for two-phase locking.
//!
//! A transaction that meets a lock in its way aborts ([`Concurrency::NoWait`]), or waits if it is
//! older than all owners and aborts otherwise ([`Concurrency::WaitDie`]). With wait-die a
//! transaction waits for younger owners only, so no circle of them waits.
//!
//! **Nobody starves under wait-die.** A transaction keeps its timestamp when it begins again, and
//! only finitely many are ever older. So look at the oldest one that has not ended. The lock knows
//! the ages of the owners that are left, and all are younger: it waits and does not die. While it
//! waits nobody that it cannot share the lock with becomes an owner: a lock goes to the oldest of
//! those who wait, and before younger ones who ask, also where these could share it with its
//! owners. Those owners end: each waits for owners that are younger still, or dies.
//!
//! DBx1000 has the youngest go first, so that nobody else who waits must die then; but its readers
//! pass a writer that waits for other readers, and may do so for ever.

use std::fmt;

use crate::locks::{Locks, StdLocks, Step, leaves_out};

use hedgerow_memory::{PlacedBox, Placement};

/// What a transaction does about a lock in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// It aborts.
    NoWait,
    /// It waits if it is older than all owners, and aborts otherwise. The oldest goes first.
    WaitDie,
}

/// How a row is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// Who wants a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) mode: Mode,
    /// When the transaction began for the first time; no two have the same.
    pub(crate) timestamp: u64,
    pub(crate) concurrency: Concurrency,
}

/// How a lock was had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granted {
    /// It must be released once more.
    Anew,
    /// The transaction has it exclusively already.
    Already,
    /// In place of all shared ones that the transaction had of this row.
    Upgraded,
}

/// A lock in the way, for which the transaction does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// The lock: 40 bytes, as many as a POSIX mutex.
pub(crate) struct RowLock<L: Locks = StdLocks> {
    state: L::Mutex<State>,
    changed: L::Condvar,
}

const _: () = assert!(size_of::<RowLock>() == 40);

impl<L: Locks> Default for RowLock<L> {
    fn default() -> Self {
        Self {
            state: L::Mutex::default(),
            changed: L::Condvar::default(),
        }
    }
}

impl<L: Locks> fmt::Debug for RowLock<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowLock")
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The timestamp of the exclusive owner or, under wait-die, of the oldest of those who share.
    oldest: u64,
    /// Under wait-die, while there are any.
    others: Option<Box<Others>>,
    shared: u32,
    exclusive: bool,
}

/// Timestamps of those who share the lock with the oldest owner, and of those who wait.
#[derive(Debug, Default)]
struct Others {
    /// Of each shared lock but one of the oldest owner's.
    sharing: Vec<u64>,
    waiting: Vec<(u64, Mode)>,
}

impl<L: Locks> RowLock<L> {
    /// Takes the lock; `shared` counts the shared locks that the transaction has of it.
    pub(crate) fn acquire(
        &self,
        request: Request,
        shared: impl Fn() -> u32,
    ) -> Result<Granted, Refused> {
        let mut state = L::lock(&self.state);
        let mut is_waiting = false;
        let answer = loop {
            if let Some(granted) = state.grant::<L>(request, &shared) {
                break Ok(granted);
            }
            if request.concurrency == Concurrency::NoWait || state.has_older_owner(request) {
                break Err(Refused);
            }
            if !is_waiting {
                is_waiting = true;
                state
                    .others_mut()
                    .waiting
                    .push((request.timestamp, request.mode));
            }
            state = L::wait(&self.changed, state);
        };
        if is_waiting {
            state.wait_no_longer(request);
        }
        // They may wait for younger owners only, and this one may be older. Who dies wakes nobody:
        // an older one has become an owner, which has woken all, and is older than all that could
        // have waited for the one that dies.
        if answer.is_ok() && state.waiting() > 0 {
            L::notify_all(&self.changed);
        }
        answer
    }

    /// Gives the lock back once, for the transaction with this timestamp.
    pub(crate) fn release(&self, mode: Mode, timestamp: u64) {
        let mut state = L::lock(&self.state);
        match mode {
            Mode::Shared => state.share_no_longer(timestamp),
            Mode::Exclusive => state.exclusive = false,
        }
        if state.waiting() > 0 {
            L::notify_all(&self.changed);
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        L::lock(&self.state).waiting()
    }
}

impl State {
    fn grant<L: Locks>(&mut self, request: Request, shared: impl Fn() -> u32) -> Option<Granted> {
        if self.exclusive {
            let is_owner = self.oldest == request.timestamp;
            return is_owner.then_some(Granted::Already);
        }
        // An owner goes first: those who wait wait for it.
        if self.has_older_waiter::<L>(request) && shared() == 0 {
            return None;
        }
        match request.mode {
            Mode::Shared => {
                self.share(request);
                Some(Granted::Anew)
            }
            Mode::Exclusive if self.shared == 0 => {
                self.own(request.timestamp);
                Some(Granted::Anew)
            }
            Mode::Exclusive if self.shared == shared() => {
                self.own(request.timestamp);
                Some(Granted::Upgraded)
            }
            Mode::Exclusive => None,
        }
    }

    fn has_older_owner(&self, request: Request) -> bool {
        let is_free = !self.exclusive && self.shared == 0;
        !is_free && self.oldest < request.timestamp
    }

    /// Whether an older one waits that the lock cannot be shared with.
    fn has_older_waiter<L: Locks>(&self, request: Request) -> bool {
        if leaves_out::<L>(Step::OlderWaitersFirst) {
            return false;
        }
        let is_ahead = |&(timestamp, mode): &(u64, Mode)| {
            let can_share = (mode, request.mode) == (Mode::Shared, Mode::Shared);
            timestamp < request.timestamp && !can_share
        };
        let others = self.others.as_deref();
        others.is_some_and(|others| others.waiting.iter().any(is_ahead))
    }

    fn waiting(&self) -> usize {
        let others = self.others.as_deref();
        others.map_or(0, |others| others.waiting.len())
    }

    fn own(&mut self, timestamp: u64) {
        if let Some(others) = &mut self.others {
            others.sharing.clear();
        }
        (self.oldest, self.shared, self.exclusive) = (timestamp, 0, true);
        self.drop_if_empty();
    }

    fn share(&mut self, request: Request) {
        let timestamp = request.timestamp;
        if self.shared == 0 {
            self.oldest = timestamp;
        } else if request.concurrency == Concurrency::WaitDie {
            let younger = self.oldest.max(timestamp);
            self.oldest = self.oldest.min(timestamp);
            self.others_mut().sharing.push(younger);
        }
        self.shared += 1;
    }

    fn share_no_longer(&mut self, timestamp: u64) {
        self.shared -= 1;
        let Some(others) = &mut self.others else {
            return;
        };
        let sharing = &mut others.sharing;
        if timestamp == self.oldest {
            let next = (0..sharing.len()).min_by_key(|at| sharing[*at]);
            if let Some(at) = next {
                self.oldest = sharing.swap_remove(at);
            }
        } else {
            remove(sharing, timestamp);
        }
        self.drop_if_empty();
    }

    fn wait_no_longer(&mut self, request: Request) {
        let waiting = &mut self.others_mut().waiting;
        remove(waiting, (request.timestamp, request.mode));
        self.drop_if_empty();
    }

    fn others_mut(&mut self) -> &mut Others {
        self.others.get_or_insert_default()
    }

    /// Gives the memory for others back if there are none.
    fn drop_if_empty(&mut self) {
        let is_empty = |others: &Others| others.sharing.is_empty() && others.waiting.is_empty();
        if self.others.as_deref().is_some_and(is_empty) {
            self.others = None;
        }
    }
}

/// Removes an element once.
fn remove<T: PartialEq>(elements: &mut Vec<T>, element: T) {
    if let Some(at) = elements.iter().position(|other| *other == element) {
        elements.swap_remove(at);
    }
}

/// A row's lock in memory of its own.
#[derive(Debug)]
pub(crate) enum LockBox {
    /// Beside other locks, maybe on one cache line with them.
    Plain(PlacedBox<RowLock>),
    /// On cache lines of its own, and without a lock on the adjacent ones (§4.3.2).
    Padded(PlacedBox<PaddedLock>),
}

/// A lock in 192 bytes.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct PaddedLock {
    lock: RowLock,
    _rest: [[u64; 8]; 2],
}

const _: () = assert!(size_of::<PaddedLock>() == 192);

impl LockBox {
    pub(crate) fn new(padded: bool, placement: Placement) -> Self {
        match padded {
            true => Self::Padded(PlacedBox::new(PaddedLock::default(), placement)),
            false => Self::Plain(PlacedBox::new(RowLock::default(), placement)),
        }
    }

    pub(crate) fn lock(&self) -> &RowLock {
        match self {
            Self::Plain(lock) => lock,
            Self::Padded(padded) => &padded.lock,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn ask(
        lock: &RowLock,
        mode: Mode,
        timestamp: u64,
        concurrency: Concurrency,
        shared: u32,
    ) -> Result<Granted, Refused> {
        let request = Request {
            mode,
            timestamp,
            concurrency,
        };
        lock.acquire(request, || shared)
    }

    #[test]
    fn without_waiting_a_lock_in_the_way_is_refused() {
        let (lock, no_wait) = (<RowLock>::default(), Concurrency::NoWait);
        assert_eq!(ask(&lock, Mode::Shared, 5, no_wait, 0), Ok(Granted::Anew));
        assert_eq!(ask(&lock, Mode::Shared, 3, no_wait, 0), Ok(Granted::Anew));
        // The third would have both locks; the owner of one has not all.
        assert_eq!(ask(&lock, Mode::Exclusive, 1, no_wait, 0), Err(Refused));
        assert_eq!(ask(&lock, Mode::Exclusive, 3, no_wait, 1), Err(Refused));
        lock.release(Mode::Shared, 5);
        let upgraded = ask(&lock, Mode::Exclusive, 3, no_wait, 1);
        assert_eq!(upgraded, Ok(Granted::Upgraded));
        assert_eq!(
            ask(&lock, Mode::Shared, 3, no_wait, 0),
            Ok(Granted::Already)
        );
        assert_eq!(ask(&lock, Mode::Shared, 4, no_wait, 0), Err(Refused));
        lock.release(Mode::Exclusive, 3);
        let exclusive = ask(&lock, Mode::Exclusive, 9, no_wait, 0);
        assert_eq!(exclusive, Ok(Granted::Anew));
    }

    #[test]
    fn the_younger_dies_at_once() {
        let (lock, wait_die) = (<RowLock>::default(), Concurrency::WaitDie);
        assert_eq!(
            ask(&lock, Mode::Exclusive, 5, wait_die, 0),
            Ok(Granted::Anew)
        );
        assert_eq!(ask(&lock, Mode::Shared, 6, wait_die, 0), Err(Refused));
        assert_eq!(ask(&lock, Mode::Exclusive, 6, wait_die, 0), Err(Refused));
        lock.release(Mode::Exclusive, 5);
        // Two owners: who is younger than one of them dies.
        assert_eq!(ask(&lock, Mode::Shared, 5, wait_die, 0), Ok(Granted::Anew));
        assert_eq!(ask(&lock, Mode::Shared, 9, wait_die, 0), Ok(Granted::Anew));
        assert_eq!(ask(&lock, Mode::Exclusive, 7, wait_die, 0), Err(Refused));
        assert_eq!(ask(&lock, Mode::Exclusive, 9, wait_die, 1), Err(Refused));
    }

    /// Starts an older transaction that waits for a lock; returns its answer.
    fn waiter(
        lock: &'static RowLock,
        mode: Mode,
        timestamp: u64,
    ) -> mpsc::Receiver<Result<Granted, Refused>> {
        let (answer, answered) = mpsc::channel();
        let already = lock.waiting();
        let waiter = thread::spawn(move || {
            let granted = ask(lock, mode, timestamp, Concurrency::WaitDie, 0);
            answer.send(granted).expect("somebody listens");
        });
        while lock.waiting() == already && !waiter.is_finished() {
            thread::yield_now();
        }
        answered
    }

    /// Far more than a thread needs to wake up on a busy machine.
    const LONG: Duration = Duration::from_secs(300);

    #[test]
    fn the_older_waits_for_the_release() {
        let lock = Box::leak(Box::<RowLock>::default());
        ask(lock, Mode::Shared, 5, Concurrency::WaitDie, 0).expect("it is free");
        let answered = waiter(lock, Mode::Exclusive, 3);
        lock.release(Mode::Shared, 5);
        assert_eq!(answered.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
    }

    /// Else the two could wait for each other.
    #[test]
    fn who_waits_dies_when_an_older_one_becomes_an_owner() {
        let lock = Box::leak(Box::<RowLock>::default());
        ask(lock, Mode::Shared, 5, Concurrency::WaitDie, 0).expect("it is free");
        let answered = waiter(lock, Mode::Exclusive, 3);
        ask(lock, Mode::Shared, 2, Concurrency::WaitDie, 0).expect("shared by both");
        assert_eq!(answered.recv_timeout(LONG), Ok(Err(Refused)));
    }

    /// Readers that follow one another could keep a writer away for ever.
    #[test]
    fn younger_readers_do_not_pass_a_writer_that_waits() {
        let (lock, wait_die) = (Box::leak(Box::<RowLock>::default()), Concurrency::WaitDie);
        ask(lock, Mode::Shared, 5, wait_die, 0).expect("it is free");
        let answered = waiter(lock, Mode::Exclusive, 3);
        assert_eq!(ask(lock, Mode::Shared, 6, wait_die, 0), Err(Refused));
        // An owner waits for nobody who waits for it, nor does an older one.
        assert_eq!(ask(lock, Mode::Shared, 5, wait_die, 1), Ok(Granted::Anew));
        lock.release(Mode::Shared, 5);
        lock.release(Mode::Shared, 5);
        assert_eq!(answered.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
        assert_eq!(ask(lock, Mode::Shared, 6, wait_die, 0), Err(Refused));
        lock.release(Mode::Exclusive, 3);
        assert_eq!(ask(lock, Mode::Shared, 6, wait_die, 0), Ok(Granted::Anew));
    }

    #[test]
    fn an_owner_is_upgraded_before_an_older_one_that_waits() {
        let (lock, wait_die) = (Box::leak(Box::<RowLock>::default()), Concurrency::WaitDie);
        ask(lock, Mode::Shared, 5, wait_die, 0).expect("it is free");
        let answered = waiter(lock, Mode::Exclusive, 3);
        let upgraded = ask(lock, Mode::Exclusive, 5, wait_die, 1);
        assert_eq!(upgraded, Ok(Granted::Upgraded));
        lock.release(Mode::Exclusive, 5);
        assert_eq!(answered.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
    }

    /// While the lock goes from reader to reader and is never free.
    #[test]
    fn the_age_of_an_owner_that_left_counts_no_longer() {
        let (lock, wait_die) = (Box::leak(Box::<RowLock>::default()), Concurrency::WaitDie);
        for timestamp in [4, 2, 9, 2] {
            ask(lock, Mode::Shared, timestamp, wait_die, 0).expect("shared by all");
        }
        lock.release(Mode::Shared, 2);
        assert_eq!(ask(lock, Mode::Exclusive, 3, wait_die, 0), Err(Refused));
        lock.release(Mode::Shared, 2);
        assert_eq!(ask(lock, Mode::Exclusive, 5, wait_die, 0), Err(Refused));
        lock.release(Mode::Shared, 4);
        let answered = waiter(lock, Mode::Exclusive, 5);
        lock.release(Mode::Shared, 9);
        assert_eq!(answered.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
    }

    #[test]
    fn of_those_who_wait_the_oldest_is_the_next() {
        for _ in 0..100 {
            let lock = Box::leak(Box::<RowLock>::default());
            ask(lock, Mode::Exclusive, 9, Concurrency::WaitDie, 0).expect("it is free");
            let younger = waiter(lock, Mode::Exclusive, 7);
            let older = waiter(lock, Mode::Exclusive, 3);
            lock.release(Mode::Exclusive, 9);
            assert_eq!(older.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
            assert_eq!(younger.recv_timeout(LONG), Ok(Err(Refused)));
        }
    }

    #[test]
    fn those_who_can_share_are_all_served() {
        let lock = Box::leak(Box::<RowLock>::default());
        ask(lock, Mode::Exclusive, 9, Concurrency::WaitDie, 0).expect("it is free");
        let readers = [3, 7, 5].map(|timestamp| waiter(lock, Mode::Shared, timestamp));
        lock.release(Mode::Exclusive, 9);
        for reader in readers {
            assert_eq!(reader.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
        }
        for timestamp in [5, 3, 7] {
            lock.release(Mode::Shared, timestamp);
        }
        assert!(lock.state.lock().expect("no panic").others.is_none());
    }
}
