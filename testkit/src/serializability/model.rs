//! The isolation levels that a history can be checked against.

/// What a database promises. Each level forbids some cycles of dependencies; the names of cycles
/// are those of [`Phenomenon`](super::Phenomenon).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// PL-2 (Adya 1999, section 3.2): no G0, G1a, G1b, G1c.
    ReadCommitted,
    /// PL-SI: a transaction reads from the commits before its snapshot, and of two concurrent
    /// writers of a key one commits. Every cycle must have two adjacent anti-dependencies (Fekete
    /// and others, "Making Snapshot Isolation Serializable", TODS 2005, theorem 2.1), so write
    /// skew is allowed, and G0, G1, G-single and G-nonadjacent are not.
    SnapshotIsolation,
    /// Snapshot isolation whose snapshots see every commit acknowledged before they were taken
    /// (Daudjee and Salem, VLDB 2006).
    StrongSnapshotIsolation,
    /// PL-3: no cycle at all.
    Serializable,
    /// PL-3, where each process sees its own transactions in order.
    StrongSessionSerializable,
    /// PL-3, where a transaction that ended before another began also precedes it.
    StrictSerializable,
}

impl Model {
    /// Whether the order of each process's transactions counts.
    pub(super) fn has_process_order(self) -> bool {
        self.has_real_time() || self == Model::StrongSessionSerializable
    }

    /// Whether real time counts.
    pub(super) fn has_real_time(self) -> bool {
        matches!(
            self,
            Model::StrictSerializable | Model::StrongSnapshotIsolation
        )
    }

    /// Whether snapshots may differ from the moment of commit.
    pub(super) fn is_snapshot(self) -> bool {
        matches!(
            self,
            Model::SnapshotIsolation | Model::StrongSnapshotIsolation
        )
    }

    /// Whether anti-dependencies count.
    pub(super) fn has_anti_dependencies(self) -> bool {
        self != Model::ReadCommitted
    }
}
