//! What the inspector of layouts found of one structure, as results keep it.
//!
//! A process inspects while the structure lives; the report is made later, from results alone. So
//! what is worth showing is in the record: tables of figures, and for each kind of nodes the pages
//! that hold them. Terminal, Markdown and page show the same cells ([`LayoutTable::cell`]).

use serde::{Deserialize, Serialize};

use crate::number;

/// What the inspector found of one structure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inspected {
    /// The tables, in the order in which they are shown.
    pub tables: Vec<LayoutTable>,
    /// The pages of each kind of nodes.
    pub pages: Vec<PageMap>,
}

/// A table of figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutTable {
    /// What it shows.
    pub title: String,
    /// What there is to say about all of it.
    pub note: Option<String>,
    /// The headings of the names that each row begins with, such as `parent` and `child`.
    pub heads: Vec<String>,
    /// The columns behind them.
    pub columns: Vec<LayoutColumn>,
    /// The rows.
    pub rows: Vec<LayoutRow>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutColumn {
    /// Its heading.
    pub title: String,
    /// `%`, `×`, or nothing for counts.
    pub unit: String,
}

/// A row of figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayoutRow {
    /// What it is about, a name for each of the table's `heads`.
    pub names: Vec<String>,
    /// A figure for each column.
    pub figures: Vec<f64>,
}

/// Which pages of 4 KiB hold the nodes of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageMap {
    /// The kind.
    pub kind: String,
    /// All pages that hold some.
    pub pages: usize,
    /// All runs of consecutive pages.
    pub runs: usize,
    /// The share of the pages' bytes that are nodes, in percent.
    pub dense_percent: f64,
    /// The first runs, by address: as many as a picture has room for
    /// ([`MOST_PAGES`](crate::MOST_PAGES)).
    pub first_runs: Vec<PageRun>,
}

/// Consecutive pages that all hold nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRun {
    /// Its first page, counted from the first one of the kind.
    pub first: usize,
    /// How many there are.
    pub pages: usize,
}

impl LayoutTable {
    /// A figure as every rendering shows it: percentages and ratios to a tenth, counts whole.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> String {
        let figure = self.rows.get(row).and_then(|row| row.figures.get(column));
        match (figure, self.columns.get(column)) {
            (Some(figure), Some(column)) => match column.unit.as_str() {
                "" => number::plain(*figure),
                unit => format!("{figure:.1}{unit}"),
            },
            _ => String::new(),
        }
    }

    /// What is wrong with the table: a row that has too many or too few cells.
    pub(crate) fn problem(&self) -> Option<String> {
        let fits = |row: &&LayoutRow| {
            row.names.len() == self.heads.len() && row.figures.len() == self.columns.len()
        };
        let row = self.rows.iter().position(|row| !fits(&row))?;
        Some(format!(
            "row {} of the table `{}` has not as many cells as the table has columns",
            row + 1,
            self.title
        ))
    }
}
