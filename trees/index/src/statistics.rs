//! Self-description of an index: a flat list of named numbers.
//!
//! Trees differ in their mechanisms, so a fixed struct would fit none of them; a list keeps
//! the order in which the tree wants to be read and turns into metrics and JSON without
//! knowing the tree.

/// One named number, with the unit last in its name (`border_node_bytes`).
#[derive(Debug, Clone, PartialEq)]
pub struct Statistic {
    /// Snake-case name, unit last.
    pub name: &'static str,
    /// The value at the time of the walk.
    pub value: f64,
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// All numbers of one index, in reading order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statistics {
    entries: Vec<Statistic>,
}

impl Statistics {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one number.
    pub fn push(&mut self, name: &'static str, value: f64, help: &'static str) {
        self.entries.push(Statistic { name, value, help });
    }

    /// The value called `name`, or `None`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| entry.value)
    }

    /// All numbers, in reading order.
    pub fn iter(&self) -> impl Iterator<Item = &Statistic> {
        self.entries.iter()
    }
}
