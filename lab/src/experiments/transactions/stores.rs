//! The transactional stores of the registry, as these experiments take them.

use hedgerow_lab_contender::TransactionalEntry;

use crate::experiment::Participant;
use crate::registry::Registry;
use crate::{LabError, Result};

/// All of them, those that cannot be had here as well.
pub fn participants(registry: &Registry) -> Vec<Participant> {
    let stores = registry.transactional.iter();
    let participants = stores.map(|store| Participant {
        entry: store.entry.clone(),
        available: store.open.as_ref().map(drop).map_err(Clone::clone),
        environment: Vec::new(),
    });
    participants.collect()
}

/// The names of those that threads may share and that keep what they store.
pub fn durable(registry: &Registry) -> Vec<&'static str> {
    let stores = registry.transactional.iter();
    let shared = stores.filter(|store| {
        let promises = &store.entry.promises;
        promises.concurrent && promises.durable
    });
    shared.map(|store| store.entry.name).collect()
}

/// How much memory a store has for its rows, by its own settings. No control group limits the
/// process, and nothing limits the system's page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Enough for all of them.
    Enough,
    /// As much as a third of them, and 32 MiB in any case.
    Third,
}

impl Memory {
    /// The name of the place on an axis.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enough => "in memory",
            Self::Third => "beyond",
        }
    }

    /// What a store of so many records may take, if that is limited.
    pub fn store_bytes(self, records: u64) -> Option<u64> {
        (self == Self::Third).then(|| (records * 120 / 3).max(32 << 20))
    }

    /// What a store may cache.
    pub fn cache_bytes(store_bytes: Option<u64>, records: u64) -> u64 {
        match store_bytes {
            Some(bytes) => bytes / 2,
            None => (records * 500).max(64 << 20).next_power_of_two(),
        }
    }

    /// [Durable](durable) stores that can be there: an index that has all rows in memory cannot
    /// have them elsewhere.
    pub fn durable(self, registry: &Registry) -> Vec<&'static str> {
        let mut names = durable(registry);
        let is_in_memory = |name: &str| name.starts_with("hedgerow") && !name.contains("btree");
        names.retain(|name| self == Self::Enough || !is_in_memory(name));
        names
    }
}

/// The one of this name.
///
/// # Errors
///
/// There is none.
pub fn named<'r>(registry: &'r Registry, name: &str) -> Result<&'r TransactionalEntry> {
    let mut stores = registry.transactional.iter();
    let found = stores.find(|store| store.entry.name == name);
    found.ok_or_else(|| LabError::Usage(format!("{name} is no store here")))
}
