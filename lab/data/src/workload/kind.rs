//! One operation and its kind.

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Look a key up.
    Read,
    /// Replace the value of a key.
    Update,
    /// Insert a key.
    Insert,
    /// Remove a key.
    Remove,
    /// Return some pairs in order, from a key on.
    Scan,
    /// Look a key up, then replace its value.
    ReadModifyWrite,
    /// Look a key up, then insert it as it was not there.
    ReadInsert,
    /// Insert a key unless it is there, in one operation.
    InsertIfAbsent,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Update,
        Self::Insert,
        Self::Remove,
        Self::Scan,
        Self::ReadModifyWrite,
        Self::ReadInsert,
        Self::InsertIfAbsent,
    ];

    /// The name in workload files and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Remove => "remove",
            Self::Scan => "scan",
            Self::ReadModifyWrite => "read_modify_write",
            Self::ReadInsert => "read_insert",
            Self::InsertIfAbsent => "insert_if_absent",
        }
    }

    /// Whether it may add a record.
    #[must_use]
    pub fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::ReadInsert | Self::InsertIfAbsent)
    }
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// What to do.
    pub kind: Kind,
    /// With which key: its position in the key set.
    pub record: u64,
    /// How many pairs a scan returns; 0 for other kinds.
    pub scan_length: u32,
}
