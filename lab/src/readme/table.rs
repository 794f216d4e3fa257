//! What a table of the README is made of.

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name in the document's comments.
    pub name: &'static str,
    /// The head of the column of peers.
    pub peers: &'static str,
    /// The unit of its figures; one of another unit says which.
    pub unit: &'static str,
    /// Whether a row stays in which every peer failed: where memory is limited, the system kills
    /// who takes more.
    pub alone: bool,
    /// Its rows in order.
    pub rows: &'static [Row],
}

/// A row: one figure of ours beside the best one of others.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What the row says that it shows.
    pub workload: &'static str,
    /// Where it was measured.
    pub place: Place,
    /// The column of the results.
    pub column: &'static str,
    /// Ours, each with what the row calls it (nothing where that goes without saying). All must
    /// be in the results; the best is shown.
    pub ours: &'static [Shown],
    /// Who else counts.
    pub peers: Peers,
}

/// A contender's name in results and in a table.
pub type Shown = (&'static str, &'static str);

/// One point of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The experiment.
    pub experiment: &'static str,
    /// Parameters that tell the point from others.
    pub at: &'static [(&'static str, At)],
    /// The category of the horizontal axis, if there is one.
    pub x: Option<&'static str>,
}

/// A parameter's value.
#[derive(Debug, Clone, Copy)]
pub enum At {
    /// A number.
    Number(f64),
    /// A word.
    Word(&'static str),
}

/// Whom a row compares ours with.
#[derive(Debug, Clone, Copy)]
pub enum Peers {
    /// The best of all that are neither ours nor the lab's.
    Best,
    /// This one.
    Only(Shown),
}

impl Row {
    /// The same row beside this one alone.
    pub const fn beside(mut self, name: &'static str, shown: &'static str) -> Self {
        self.peers = Peers::Only((name, shown));
        self
    }
}
