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
