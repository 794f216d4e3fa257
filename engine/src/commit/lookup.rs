//! Resolves a keyspace's handle, and locks a key in it. Clearing a keyspace replaces it by another
//! one of the same name, with a new id and so with other stripes for its keys. Handles stay valid,
//! so each use of one first resolves which keyspace it names. While a stripe is locked, no keyspace
//! is cleared or dropped.

use std::ops::Deref;
use std::sync::Arc;

use crate::commit::stripes::{StripeGuard, stripe_of};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::space::Space;

/// The contents that a handle means now.
pub(crate) enum SpaceRef<'a> {
    /// As the handle has it.
    Same(&'a Arc<Space>),
    /// It was cleared since.
    Successor(Arc<Space>),
}

impl Deref for SpaceRef<'_> {
    type Target = Arc<Space>;

    #[inline]
    fn deref(&self) -> &Arc<Space> {
        match self {
            SpaceRef::Same(space) => space,
            SpaceRef::Successor(space) => space,
        }
    }
}

impl Engine {
    /// What the keyspace of a handle is now.
    ///
    /// # Errors
    /// [`Error::KeyspaceMissing`] if it was dropped.
    #[inline]
    pub(crate) fn current<'a>(&self, handle: &'a Arc<Space>) -> Result<SpaceRef<'a>> {
        if handle.is_retired() {
            self.successor(handle)
        } else {
            Ok(SpaceRef::Same(handle))
        }
    }

    #[cold]
    fn successor<'a>(&self, handle: &Space) -> Result<SpaceRef<'a>> {
        let found = self.catalog().by_name.get(&handle.name).cloned();
        found
            .map(SpaceRef::Successor)
            .ok_or_else(|| Error::KeyspaceMissing(handle.name.clone()))
    }

    /// Locks a key's stripe for a write of that key alone; waits while the key is in a closed
    /// range.
    #[inline]
    pub(crate) fn lock_key<'a>(
        &'a self,
        handle: &'a Arc<Space>,
        key: &[u8],
    ) -> Result<(SpaceRef<'a>, StripeGuard<'a>)> {
        self.make_room_for_versions();
        loop {
            let space = self.current(handle)?;
            let guard = self.stripes.lock(stripe_of(space.id, key));
            // Keyspaces retire under all stripes: not any more while we hold one.
            if space.is_retired() {
                continue;
            }
            if !self.stripes.is_in_closed_range(space.id, key) {
                return Ok((space, guard));
            }
            drop(guard);
            self.await_closed_ranges(&space, &[key]);
        }
    }

    /// Waits while a range with one of the keys is closed.
    #[cold]
    pub(crate) fn await_closed_ranges(&self, space: &Space, keys: &[&[u8]]) {
        let is_in_closed_range = |key: &&[u8]| self.stripes.is_in_closed_range(space.id, key);
        self.stripes
            .await_closed_ranges(|| keys.iter().any(is_in_closed_range));
    }
}
