//! Tables for a terminal.

use std::fmt;

use crate::inspected::{Inspected, LayoutTable};

impl fmt::Display for Inspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, table) in self.tables.iter().enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write!(f, "{table}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LayoutTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let headings = self.columns.iter().map(|column| column.title.clone());
        let mut lines: Vec<Vec<String>> =
            vec![self.heads.iter().cloned().chain(headings).collect()];
        for (nth, row) in self.rows.iter().enumerate() {
            let cells = (0..row.figures.len()).map(|column| self.cell(nth, column));
            lines.push(row.names.iter().cloned().chain(cells).collect());
        }
        let across = lines[0].len();
        let width = |at: usize| {
            let cells = lines.iter().filter_map(|line| line.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..across).map(width).collect();
        for line in &lines {
            let mut text = String::new();
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match at < self.heads.len() {
                    true => text += &format!("  {cell:<width$}"),
                    false => text += &format!("  {cell:>width$}"),
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        match &self.note {
            Some(note) => writeln!(f, "  {note}"),
            None => Ok(()),
        }
    }
}
