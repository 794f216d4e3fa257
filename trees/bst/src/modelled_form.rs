//! What tests of the trees' protocols under shuttle have in common: locks on shuttle's atomics,
//! forms with them, and words that leave a step of a protocol out.

use std::sync::atomic::Ordering;

use hedgerow_modelled::Modelled;
use hedgerow_sync::word::Word;

use crate::form::{Form, SearchFieldsFirst, Unpadded};
use crate::lock::NodeLock;

/// A spin lock of shuttle's.
pub(crate) struct ModelledLock(Modelled);

// SAFETY: who exchanges 0 for 1 has it, until it stores 0.
unsafe impl NodeLock for ModelledLock {
    const WRITTEN_BYTES: usize = size_of::<Self>();

    fn new() -> Self {
        Self(Modelled::new(0))
    }

    fn lock(&self) {
        let mut rounds = 0;
        while !self.try_lock() {
            Modelled::pause(&mut rounds);
        }
    }

    fn try_lock(&self) -> bool {
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        self.0.compare_exchange_weak(0, 1, success, failure).is_ok()
    }

    fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A lock that everyone gets.
pub(crate) struct NoLock;

// SAFETY: a twin, which excludes nobody. Its tests only insert, or forget a guard, so that nothing
// is freed that was retired twice.
unsafe impl NodeLock for NoLock {
    const WRITTEN_BYTES: usize = size_of::<Self>();

    fn new() -> Self {
        Self
    }

    fn lock(&self) {}

    fn try_lock(&self) -> bool {
        true
    }

    fn unlock(&self) {}
}

/// Declares a form with a lock.
macro_rules! form {
    ($name:ident, $lock:ty) => {
        pub(crate) struct $name;

        impl Form for $name {
            type Lock = $lock;
            type Line = Unpadded;
            type Order = SearchFieldsFirst;
            const LIGHT_LOOKUPS: bool = true;
        }
    };
}

form!(Locked, ModelledLock);
form!(Unlocked, NoLock);

/// A word that leaves a step out, since it stores something else: in exchanges, `$exchanged` of
/// what it expects and of what it should store; in stores, `$stored` of that.
macro_rules! twin {
    ($(#[$about:meta])* $name:ident, $exchanged:expr) => {
        $crate::modelled_form::twin!($(#[$about])* $name, $exchanged, |value| value);
    };
    ($(#[$about:meta])* $name:ident, $exchanged:expr, $stored:expr) => {
        $(#[$about])*
        struct $name(::hedgerow_modelled::Modelled);

        // SAFETY: a twin, which stores something else at one step. Its tests forget a guard and
        // the tree, or the tree gives no memory back (`TreeWord::WITHOUT`).
        unsafe impl ::hedgerow_sync::word::Word for $name {
            fn new(value: u64) -> Self {
                Self(::hedgerow_sync::word::Word::new(value))
            }

            fn load(&self, ordering: ::std::sync::atomic::Ordering) -> u64 {
                self.0.load(ordering)
            }

            fn store(&self, value: u64, ordering: ::std::sync::atomic::Ordering) {
                let stored: fn(u64) -> u64 = $stored;
                self.0.store(stored(value), ordering);
            }

            fn compare_exchange_weak(
                &self,
                current: u64,
                new: u64,
                success: ::std::sync::atomic::Ordering,
                failure: ::std::sync::atomic::Ordering,
            ) -> Result<u64, u64> {
                let exchanged: fn(u64, u64) -> u64 = $exchanged;
                let new = exchanged(current, new);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            fn fence(ordering: ::std::sync::atomic::Ordering) {
                <::hedgerow_modelled::Modelled as ::hedgerow_sync::word::Word>::fence(ordering);
            }

            fn pause(rounds: &mut u32) {
                <::hedgerow_modelled::Modelled as ::hedgerow_sync::word::Word>::pause(rounds);
            }
        }
    };
}

pub(crate) use twin;
