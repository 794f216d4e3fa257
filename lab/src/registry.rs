//! Everyone whom the lab can measure, by name.
//!
//! Ours and the standard library's are in every build, from the crate `hedgerow-lab-own`. Peers
//! come from the crate `hedgerow-lab-peers`, with the feature `peers`; one that a build is without,
//! or that is not installed, stays in the list, with the command that changes that.

use std::collections::BTreeMap;

use hedgerow_lab_contender::{MapEntry, Promises, StoreEntry, TransactionalEntry};
use hedgerow_lab_peers::Limits;

/// The contenders of this build.
#[derive(Clone)]
pub struct Registry {
    /// Ordered maps in memory, and the empty one.
    pub maps: Vec<MapEntry>,
    /// Ordered sets of integers in memory; only experiments that are about sets take them.
    pub sets: Vec<MapEntry>,
    /// Durable engines.
    pub stores: Vec<StoreEntry>,
    /// Engines with transactions.
    pub transactional: Vec<TransactionalEntry>,
    /// The keys that some contenders are confined to, by name.
    limits: BTreeMap<&'static str, Limits>,
}

impl Registry {
    /// All contenders of this build.
    #[must_use]
    pub fn new() -> Self {
        let mut maps = hedgerow_lab_own::maps();
        let mut limits: BTreeMap<_, _> = maps
            .iter()
            .map(|map| (map.entry.name, limits_of(&map.entry.promises)))
            .collect();
        let peers = hedgerow_lab_peers::maps();
        limits.extend(peers.iter().map(|peer| (peer.map.entry.name, peer.limits)));
        maps.extend(peers.into_iter().map(|peer| peer.map));
        let mut sets = hedgerow_lab_own::sets();
        limits.extend(
            sets.iter()
                .map(|set| (set.entry.name, limits_of(&set.entry.promises))),
        );
        let peers = hedgerow_lab_peers::sets();
        limits.extend(peers.iter().map(|peer| (peer.map.entry.name, peer.limits)));
        sets.extend(peers.into_iter().map(|peer| peer.map));
        let mut stores = hedgerow_lab_own::stores();
        let peers = hedgerow_lab_peers::stores();
        limits.extend(
            peers
                .iter()
                .map(|peer| (peer.store.entry.name, peer.limits)),
        );
        stores.extend(peers.into_iter().map(|peer| peer.store));
        let mut transactional = hedgerow_lab_own::transactional();
        transactional.extend(hedgerow_lab_peers::transactional());
        Self {
            maps,
            sets,
            stores,
            transactional,
            limits,
        }
    }

    /// The keys that a contender can be measured with, beyond what its promises say.
    #[must_use]
    pub fn limits(&self, name: &str) -> Limits {
        self.limits.get(name).copied().unwrap_or(Limits::NONE)
    }

    /// The ordered maps (all but the empty one).
    pub fn ordered_maps(&self) -> impl Iterator<Item = &MapEntry> {
        self.maps.iter().filter(|map| map.entry.promises.ordered)
    }

    /// The map of this name.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<&MapEntry> {
        self.maps.iter().find(|map| map.entry.name == name)
    }

    /// The maps of these names, in this order; names that this build lacks are left out.
    #[must_use]
    pub fn maps_named(&self, names: &[&str]) -> Vec<MapEntry> {
        names
            .iter()
            .filter_map(|name| self.map(name).cloned())
            .collect()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// The limits of a map that keeps its promises.
fn limits_of(promises: &Promises) -> Limits {
    if promises.variable_keys {
        return Limits {
            longest_key: promises.longest_key,
            ..Limits::NONE
        };
    }
    let only = promises.longest_key.unwrap_or(8);
    Limits {
        shortest_key: only,
        longest_key: Some(only),
        ..Limits::NONE
    }
}
