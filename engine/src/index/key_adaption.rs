//! Key adaption in the background (B-Trees Are Back, §5.1): leaves of B-trees whose keys were
//! replaced, without any split that would have looked at them, get the form that suits the new
//! keys. The background thread walks over a tree once a quarter of its keys were removed, or a 64th
//! and then no more for a while; some leaves between two sweeps of expired rows, of the trees that
//! are due by turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::engine::Engine;
use crate::index::catalog::Catalog;

/// Leaves that are looked at between two sweeps, at most: a few microseconds each.
const LEAVES: usize = 256;

/// A tree is walked once the keys that were removed since the last walk began are one in so many,
/// while more are removed,
const WHILE_REMOVED: u64 = 4;

/// or one in so many, when none was for so many sweeps.
const WHILE_QUIET: u64 = 64;
const QUIET_SWEEPS: u32 = 10;

/// Fewer removals are not worth a walk.
const FEWEST: u64 = 256;

/// What was removed from a tree since the database was opened.
#[derive(Default)]
struct Removals {
    /// Up to when its last walk was due.
    walked: u64,
    /// Up to the last step.
    seen: u64,
    /// For how many steps it has been as many.
    quiet: u32,
}

/// A walk over the tree of a keyspace.
struct Walk {
    keyspace: u32,
    /// The key at which it goes on.
    next: Vec<u8>,
}

/// The walks over the B-trees of a database.
#[derive(Default)]
pub(crate) struct KeyAdaption {
    /// By keyspace.
    removals: HashMap<u32, Removals>,
    /// The walks that are due or under way, one of a keyspace.
    walks: VecDeque<Walk>,
}

impl KeyAdaption {
    /// Goes on with one of the walks: looks at up to 256 leaves. Costs, beside that, a look at a
    /// counter of each tree.
    pub(crate) fn step(&mut self, engine: &Engine) {
        let catalog = Arc::clone(&engine.catalog());
        self.find_due(&catalog);
        let Some(mut walk) = self.walks.pop_front() else {
            return;
        };
        let space = catalog.by_id.get(&walk.keyspace).cloned();
        // Keyspaces that are dropped meanwhile go without waiting for the walk.
        drop(catalog);
        let tree = space.as_ref().and_then(|space| space.index.tree());
        // Who reads a page that cannot be read gets the error.
        let goes_on = tree.and_then(|tree| tree.adapt_to_keys(&walk.next, LEAVES).ok()?);
        if let Some(next) = goes_on {
            walk.next = next;
            self.walks.push_back(walk);
        }
    }

    /// Finds the trees that have lost enough keys, and forgets those that are gone.
    fn find_due(&mut self, catalog: &Catalog) {
        self.removals.retain(|id, _| catalog.by_id.contains_key(id));
        for (&keyspace, space) in &catalog.by_id {
            let Some(tree) = space.index.tree() else {
                continue;
            };
            let before = self.removals.entry(keyspace).or_default();
            let now = tree.removals();
            before.quiet = if before.seen == now {
                before.quiet + 1
            } else {
                0
            };
            before.seen = now;
            let removed = now.saturating_sub(before.walked);
            if removed < FEWEST {
                continue;
            }
            let is_quiet = before.quiet >= QUIET_SWEEPS;
            let part = if is_quiet { WHILE_QUIET } else { WHILE_REMOVED };
            let is_walked = self.walks.iter().any(|walk| walk.keyspace == keyspace);
            if removed >= tree.len() / part && !is_walked {
                before.walked = now;
                let next = Vec::new();
                self.walks.push_back(Walk { keyspace, next });
            }
        }
    }
}
