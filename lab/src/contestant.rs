//! A map as it takes part in an experiment.

use hedgerow_lab_contender::MapEntry;

use crate::registry::Registry;

/// The variable that has glibc's allocator (from 2.35 on) ask the kernel for superpages: for large
/// blocks, and for small ones of a process's first thread. What the arenas of other threads take
/// from the kernel at a time is too small for that. Other allocators do not know it.
pub const ALLOCATOR_SUPERPAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// A map with the environment that makes it what it is.
#[derive(Clone)]
pub struct Contestant {
    /// Who.
    pub map: MapEntry,
    /// Variables of its process.
    pub environment: Vec<(&'static str, String)>,
    /// Whether it stays away where another form of the same map suits the keys better (see
    /// [`forms`](crate::forms)).
    pub only_if_best: bool,
}

impl From<MapEntry> for Contestant {
    fn from(map: MapEntry) -> Self {
        Self {
            map,
            environment: Vec::new(),
            only_if_best: false,
        }
    }
}

/// All maps of the registry as they are.
#[must_use]
pub fn all_maps(registry: &Registry) -> Vec<Contestant> {
    registry
        .maps
        .iter()
        .cloned()
        .map(Contestant::from)
        .collect()
}
