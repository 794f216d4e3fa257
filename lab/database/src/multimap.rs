//! What an index keeps its entries in: a map from keys to any number of values each.
//!
//! Lists that locks protect, over any map ([`LockedLists`](crate::LockedLists)), or a tree that
//! takes several values for a key itself ([`NewestFirst`](crate::NewestFirst)).

use std::ops::ControlFlow;

/// A map from keys to any number of values each, which many threads share. As an object it costs an
/// indirect call an operation, the same for every multimap, and the database is compiled once.
pub trait Multimap: Send + Sync {
    /// Adds a value of `key`, before its others. Of values that threads add at once, any may be the
    /// newest.
    fn insert(&self, key: u64, value: u64);

    /// Removes a value of `key`, the newest one that is equal; says whether there was one. Of
    /// threads that remove the same value, as many are told so as the key had it. A value that
    /// stays during the call is found.
    fn remove(&self, key: u64, value: u64) -> bool;

    /// Visits the values of `key`, the newest first, until `visit` breaks. Values that stay during
    /// the call are visited once each, others once or not at all. `visit` must not use the
    /// multimap.
    fn visit(&self, key: u64, visit: &mut dyn FnMut(u64) -> ControlFlow<()>);

    /// The value of `key` that was added last.
    fn newest(&self, key: u64) -> Option<u64> {
        let mut newest = None;
        self.visit(key, &mut |value| {
            newest = Some(value);
            ControlFlow::Break(())
        });
        newest
    }

    /// How many values all keys have. It may walk them all, and counts right in quiet moments.
    fn len(&self) -> usize;

    /// Whether no key has a value.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks the structure, for quiet moments.
    ///
    /// # Errors
    ///
    /// The first violation in words.
    fn verify(&self) -> Result<(), String>;
}
