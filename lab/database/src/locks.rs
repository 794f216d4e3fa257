//! What the database's locks are made of. Row locks and locked lists are generic over [`Locks`]: a
//! test implements it for shuttle's, and so explores interleavings of the code that ships.

use std::ops::DerefMut;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A step that twins in tests leave out, and whose absence tests must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A visit of a list looks whether what it found in the map is the list's head still.
    HeadChecked,
    /// An insert into a list searches the map with the list locked.
    SearchedLocked,
    /// A row lock goes to older transactions that wait before younger ones that ask.
    OlderWaitersFirst,
}

/// Mutexes, and conditions that threads wait for: the standard library's, or in tests shuttle's.
pub trait Locks: 'static {
    /// The step that a twin leaves out.
    const WITHOUT: Option<Step> = None;

    /// A mutex.
    type Mutex<T: Default + Send>: Default + Send + Sync;
    /// A locked mutex.
    type Guard<'m, T: Default + Send + 'm>: DerefMut<Target = T>;
    /// A condition.
    type Condvar: Default + Send + Sync;

    /// Waits for the mutex, also one that was locked by a thread that panicked.
    fn lock<T: Default + Send>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    fn wait<'m, T: Default + Send + 'm>(
        condvar: &Self::Condvar,
        guard: Self::Guard<'m, T>,
    ) -> Self::Guard<'m, T>;

    /// Wakes all threads that wait.
    fn notify_all(condvar: &Self::Condvar);
}

/// Whether what is made of such locks leaves a step out.
pub(crate) fn leaves_out<L: Locks>(step: Step) -> bool {
    L::WITHOUT == Some(step)
}

/// The standard library's.
#[derive(Debug)]
pub enum StdLocks {}

impl Locks for StdLocks {
    type Mutex<T: Default + Send> = Mutex<T>;
    type Guard<'m, T: Default + Send + 'm> = MutexGuard<'m, T>;
    type Condvar = Condvar;

    #[inline]
    fn lock<T: Default + Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'m, T: Default + Send + 'm>(
        condvar: &Condvar,
        guard: MutexGuard<'m, T>,
    ) -> MutexGuard<'m, T> {
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }
}
