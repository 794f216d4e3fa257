//! The catalog: which keyspaces there are. It is replaced as a whole when it changes, so a snapshot
//! has it as it was.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::index::space::Space;

/// All keyspaces, by both of their names.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) by_name: BTreeMap<String, Arc<Space>>,
    pub(crate) by_id: HashMap<u32, Arc<Space>>,
}

impl Catalog {
    pub(crate) fn insert(&mut self, space: Arc<Space>) {
        self.by_id.insert(space.id, Arc::clone(&space));
        self.by_name.insert(space.name.clone(), space);
    }

    pub(crate) fn remove(&mut self, space: &Space) {
        self.by_id.remove(&space.id);
        self.by_name.remove(&space.name);
    }

    /// Whether the index of any keyspace lives in memory.
    pub(crate) fn has_rows_in_memory(&self) -> bool {
        self.by_id.values().any(|space| !space.kind.is_in_pages())
    }
}
