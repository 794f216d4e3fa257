//! Bugs on purpose: each is one that logs have really had, and each must turn a crash campaign
//! red. They exist only under the feature `planted-bugs`, which no build that ships enables;
//! without it [`planted`] is a constant `false` and the branches are gone.
//!
//! `campaign plant` and the test `planted_bugs` of the testkit select them one after the other.

/// A bug to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedBug {
    /// Group commit does not sync the log files.
    SyncLeftOut = 1,
    /// Waiters hear of an epoch's durability before its blocks are written.
    AcknowledgeBeforeSync,
    /// Recovery does not compare the checksums of blocks.
    ChecksumIgnored,
    /// Recovery takes every shard's log as far as it goes, whatever the others have.
    CutoffIgnored,
    /// The directory of new log files is not synced.
    DirectorySyncMissing,
    /// The manifest is renamed into place before it is synced.
    ManifestNotSynced,
    /// Old logs and checkpoints are removed before the new manifest's name is durable.
    ManifestNameNotSynced,
    /// Recovery applies one shard's commits after the other's instead of by timestamp.
    TimestampOrderIgnored,
}

impl PlantedBug {
    /// All of them.
    #[cfg(feature = "planted-bugs")]
    pub const ALL: [PlantedBug; 8] = [
        PlantedBug::SyncLeftOut,
        PlantedBug::AcknowledgeBeforeSync,
        PlantedBug::ChecksumIgnored,
        PlantedBug::CutoffIgnored,
        PlantedBug::DirectorySyncMissing,
        PlantedBug::ManifestNotSynced,
        PlantedBug::ManifestNameNotSynced,
        PlantedBug::TimestampOrderIgnored,
    ];
}

#[cfg(feature = "planted-bugs")]
static SELECTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Selects the bug that all logs of this process have from now on, or none.
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
