//! Bugs on purpose: each must turn a crash campaign red. They exist only under the feature
//! `planted-bugs`, which no build that ships enables; without it [`planted`] is a constant
//! `false` and the branches are gone.

/// A bug to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedBug {
    /// A commit of several keys becomes two log records.
    BatchSplit = 1,
    /// A checkpoint is published before the epochs that it saw are durable.
    CheckpointTooEarly,
    /// Recovery forgets when rows expire.
    ExpiryIgnored,
}

impl PlantedBug {
    /// All of them.
    #[cfg(feature = "planted-bugs")]
    pub const ALL: [PlantedBug; 3] = [
        PlantedBug::BatchSplit,
        PlantedBug::CheckpointTooEarly,
        PlantedBug::ExpiryIgnored,
    ];
}

#[cfg(feature = "planted-bugs")]
static SELECTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Selects the bug that all databases of this process have from now on, or none.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<PlantedBug>) {
    SELECTED.store(
        bug.map_or(0, |bug| bug as u8),
        std::sync::atomic::Ordering::SeqCst,
    );
}

/// Whether this bug is selected.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted(bug: PlantedBug) -> bool {
    SELECTED.load(std::sync::atomic::Ordering::SeqCst) == bug as u8
}

/// Never, in builds without planted bugs.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn planted(_: PlantedBug) -> bool {
    false
}
