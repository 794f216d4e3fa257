//! Durable engines put through workloads: what an experiment on them is made of.
//!
//! A round has a fresh directory and two processes. The first opens the engine, loads records,
//! runs a list of workloads ([`Leg`]s) on them, forces everything to storage and is then killed
//! with `kill -9`; the second opens what it left and checks it. Operations are drawn before the
//! clock starts, each is timed, and each value that comes back is compared with the one that
//! must be there.
//!
//! Time is by the clock, and threads are not pinned: engines have threads of their own, and
//! wait for a disk.

mod experiment;
mod leg;
mod round;
mod schedule;
mod values;
mod verify;

use std::path::PathBuf;

use hedgerow_lab_contender::{StoreSettings, Sync};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control_group::MemoryGroup;
use crate::experiment::Need;
use crate::{LabError, Result};

pub use experiment::{StoreExperiment, StorePoint, unlimited};
pub use leg::Leg;

/// When commits reach storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// Before each is acknowledged.
    Sync,
    /// In the background.
    Periodic,
    /// When the system likes.
    Never,
}

impl Commits {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Periodic => "periodic",
            Self::Never => "never",
        }
    }
}

/// One process's part of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Load, run all legs, and wait to be killed.
    Work,
    /// Open what was left, and check it.
    Reopen,
}

/// What the process of an engine may take besides its cache, where its memory is limited: recent
/// writes, indexes, code. For this much it may use the system's page cache.
pub const BESIDE_CACHE_BYTES: u64 = 24 << 20;

/// Records and operations of the small round that is part of verifying.
const VERIFY_RECORDS: usize = 300;
const VERIFY_OPERATIONS: u64 = 60;

/// What an engine is put through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreWorkload {
    /// The key set's name.
    pub set: String,
    /// Records that are loaded.
    pub records: usize,
    /// The size of a value; 16 at least.
    pub value_bytes: usize,
    /// What follows the load, in this order.
    pub legs: Vec<Leg>,
    /// Operations of each leg, of all threads together.
    pub operations: u64,
    /// Threads that share each leg; one thread loads.
    pub threads: usize,
    /// When commits reach storage.
    pub commits: Commits,
    /// Memory for the engine's cache.
    pub cache_bytes: u64,
    /// Whether the legs begin with the files out of the system's page cache, and what they read
    /// from storage is reported.
    pub cold: bool,
    /// Seconds after which a leg that only reads ends, whatever is left of its operations: so a
    /// slow disk makes figures from fewer operations, not a round without end.
    pub longest_reading_seconds: Option<f64>,
    /// The memory that an engine's process may take once its data is loaded, from opening the
    /// engine on and with the page cache of its files, where a control group can see to that.
    pub memory_bytes: Option<u64>,
    /// The control group that a process of a round joins.
    group: Option<PathBuf>,
    /// What a process of a round does and where; the whole round if not given.
    part: Option<(Part, PathBuf)>,
}

impl StoreWorkload {
    /// A whole round, of one thread, with a cache that holds everything.
    #[must_use]
    pub fn new(set: &str, records: usize, value_bytes: usize, commits: Commits) -> Self {
        let mut workload = Self {
            set: set.to_owned(),
            records,
            value_bytes: value_bytes.max(values::LEAST_BYTES),
            legs: Vec::new(),
            operations: records as u64,
            threads: 1,
            commits,
            cache_bytes: 0,
            cold: false,
            longest_reading_seconds: None,
            memory_bytes: None,
            group: None,
            part: None,
        };
        // A power of two, as one engine takes nothing else.
        let twice = (workload.data_bytes() * 2).max(64 << 20);
        workload.cache_bytes = twice.next_power_of_two();
        workload
    }

    /// Lets the data be `ratio` times the cache, begins with cold files, and limits the process to
    /// its cache and [`BESIDE_CACHE_BYTES`] where that is possible.
    #[must_use]
    pub fn beyond_cache(mut self, data_bytes: u64, ratio: u64) -> Self {
        self.cache_bytes = (data_bytes / ratio.max(1)).next_power_of_two();
        self.cold = true;
        let limit = self.cache_bytes + BESIDE_CACHE_BYTES;
        self.memory_bytes = MemoryGroup::available().then_some(limit);
        self
    }

    /// What a table says of the memory of a process, if it is limited.
    #[must_use]
    pub fn memory_parameter(&self) -> Option<(&'static str, Value)> {
        self.memory_bytes?;
        let memory = format!("cache + {} MiB", BESIDE_CACHE_BYTES >> 20);
        Some(("memory", memory.into()))
    }

    /// Bytes of keys and values, roughly.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        (self.records * (self.value_bytes + 24)) as u64
    }

    /// The small round that is part of verifying.
    fn few(&self) -> Self {
        Self {
            records: self.records.min(VERIFY_RECORDS),
            operations: self.operations.min(VERIFY_OPERATIONS),
            ..self.clone()
        }
    }

    /// What verification depends on: not on the size of the cache.
    fn verified_by(&self) -> Result<Value> {
        let few = Self {
            cache_bytes: 0,
            memory_bytes: None,
            ..self.few()
        };
        serde_json::to_value(few).map_err(LabError::from_display)
    }

    /// How engines are opened.
    fn settings(&self) -> StoreSettings {
        StoreSettings {
            process_bytes: self.memory_bytes,
            cache_bytes: self.cache_bytes,
            sync: match self.commits {
                Commits::Sync => Sync::EveryCommit,
                Commits::Periodic => Sync::Periodic,
                Commits::Never => Sync::Never,
            },
        }
    }

    /// What a round needs: the data in memory as well as in the cache, and on disk with what
    /// logs and merges leave lying about.
    #[must_use]
    pub fn need(&self) -> Need {
        let (records, data) = (self.records as u64, self.data_bytes());
        let operations = self.operations * self.legs.len() as u64;
        // Whoever waits for the disk waits alike; several threads wait together.
        let waiting = match self.commits {
            Commits::Sync => operations as f64 * 3e-3 / (self.threads as f64).clamp(1.0, 4.0),
            Commits::Periodic | Commits::Never => 0.0,
        };
        let bytes = self.value_bytes as f64;
        let working =
            records as f64 * (1.0 + 0.003 * bytes) + operations as f64 * (1.0 + 0.002 * bytes);
        Need {
            memory_bytes: data * 2 + records * 250 + self.cache_bytes.min(data * 3) + (128 << 20),
            disk_bytes: data * 8 + operations * self.value_bytes as u64 + (256 << 20),
            shared_seconds: 0.3 + waiting,
            own_seconds: 0.05 + working * 1e-6,
            verify_seconds: match self.commits {
                Commits::Sync => 0.4,
                Commits::Periodic | Commits::Never => 0.1,
            },
        }
    }
}
