//! The lock of a row, for two-phase locking.
//!
//! A transaction that meets a lock in its way aborts ([`Concurrency::NoWait`]), or waits if it is
//! the oldest of those concerned and aborts otherwise ([`Concurrency::WaitDie`]). With wait-die a
//! transaction waits for younger ones only, so no circle of them waits. The lock remembers the age
//! of its oldest owner, also after that one released it while others go on: then some abort that
//! could have waited.

use std::fmt;

use crate::locks::{Locks, StdLocks};

use hedgerow_memory::{PlacedBox, Placement};

/// What a transaction does about a lock in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// It aborts.
    NoWait,
    /// It waits if it is older than all owners, and aborts otherwise.
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
    /// When the transaction began; no two have the same.
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
    /// At most the timestamp of the oldest owner; of an exclusive owner it is the timestamp.
    oldest: u64,
    shared: u32,
    waiting: u32,
    exclusive: bool,
}

impl<L: Locks> RowLock<L> {
    /// Takes the lock; `shared` counts the shared locks that the transaction has of it.
    pub(crate) fn acquire(
        &self,
        request: Request,
        shared: impl Fn() -> u32,
    ) -> Result<Granted, Refused> {
        let mut state = L::lock(&self.state);
        loop {
            if let Some(granted) = state.grant(request, &shared) {
                if state.waiting > 0 {
                    // They may wait for younger owners only, and this one may be older.
                    L::notify_all(&self.changed);
                }
                return Ok(granted);
            }
            if request.concurrency == Concurrency::NoWait || request.timestamp > state.oldest {
                return Err(Refused);
            }
            state.waiting += 1;
            state = L::wait(&self.changed, state);
            state.waiting -= 1;
        }
    }

    /// Gives the lock back once.
    pub(crate) fn release(&self, mode: Mode) {
        let mut state = L::lock(&self.state);
        match mode {
            Mode::Shared => state.shared -= 1,
            Mode::Exclusive => state.exclusive = false,
        }
        if state.waiting > 0 {
            L::notify_all(&self.changed);
        }
    }

    #[cfg(test)]
    fn waiting(&self) -> u32 {
        L::lock(&self.state).waiting
    }
}

impl State {
    fn grant(&mut self, request: Request, shared: impl Fn() -> u32) -> Option<Granted> {
        let is_owner = self.exclusive && self.oldest == request.timestamp;
        let is_free = !self.exclusive && self.shared == 0;
        if is_owner {
            return Some(Granted::Already);
        }
        match request.mode {
            Mode::Shared if !self.exclusive => {
                self.oldest = match is_free {
                    true => request.timestamp,
                    false => self.oldest.min(request.timestamp),
                };
                self.shared += 1;
                Some(Granted::Anew)
            }
            Mode::Exclusive if is_free => {
                self.own(request.timestamp);
                Some(Granted::Anew)
            }
            Mode::Exclusive if !self.exclusive && self.shared == shared() => {
                self.shared = 0;
                self.own(request.timestamp);
                Some(Granted::Upgraded)
            }
            _ => None,
        }
    }

    fn own(&mut self, timestamp: u64) {
        self.exclusive = true;
        self.oldest = timestamp;
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
        lock.release(Mode::Shared);
        let upgraded = ask(&lock, Mode::Exclusive, 3, no_wait, 1);
        assert_eq!(upgraded, Ok(Granted::Upgraded));
        assert_eq!(
            ask(&lock, Mode::Shared, 3, no_wait, 0),
            Ok(Granted::Already)
        );
        assert_eq!(ask(&lock, Mode::Shared, 4, no_wait, 0), Err(Refused));
        lock.release(Mode::Exclusive);
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
        lock.release(Mode::Exclusive);
        // Two owners: who is younger than one of them dies.
        assert_eq!(ask(&lock, Mode::Shared, 5, wait_die, 0), Ok(Granted::Anew));
        assert_eq!(ask(&lock, Mode::Shared, 9, wait_die, 0), Ok(Granted::Anew));
        assert_eq!(ask(&lock, Mode::Exclusive, 7, wait_die, 0), Err(Refused));
        assert_eq!(ask(&lock, Mode::Exclusive, 9, wait_die, 1), Err(Refused));
    }

    /// Starts an older transaction that waits for an exclusive lock; returns its answer.
    fn waiter(lock: &'static RowLock, timestamp: u64) -> mpsc::Receiver<Result<Granted, Refused>> {
        let (answer, answered) = mpsc::channel();
        thread::spawn(move || {
            let granted = ask(lock, Mode::Exclusive, timestamp, Concurrency::WaitDie, 0);
            answer.send(granted).expect("somebody listens");
        });
        while lock.waiting() == 0 {
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
        let answered = waiter(lock, 3);
        lock.release(Mode::Shared);
        assert_eq!(answered.recv_timeout(LONG), Ok(Ok(Granted::Anew)));
    }

    /// Else the two could wait for each other.
    #[test]
    fn who_waits_dies_when_an_older_one_becomes_an_owner() {
        let lock = Box::leak(Box::<RowLock>::default());
        ask(lock, Mode::Shared, 5, Concurrency::WaitDie, 0).expect("it is free");
        let answered = waiter(lock, 3);
        ask(lock, Mode::Shared, 2, Concurrency::WaitDie, 0).expect("shared by both");
        assert_eq!(answered.recv_timeout(LONG), Ok(Err(Refused)));
    }
}
