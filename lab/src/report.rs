//! Results: a table for people, JSON lines for machines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use hedgerow_lab_report::Rounds;
use serde_json::{Map, Value, json};

use crate::Result;
use crate::machine;

/// Where the results of one invocation go.
pub struct Output {
    json: Option<BufWriter<File>>,
}

impl Output {
    /// Results to the terminal and, if a path is given, to a file of JSON lines.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub fn create(json: Option<&Path>) -> Result<Self> {
        let json = json.map(File::create).transpose()?.map(BufWriter::new);
        let mut output = Self { json };
        let machine = machine::describe();
        println!(
            "{} · {} cores · {} · {} GiB · L3 {} · Linux {} · superpages {} · commit {}",
            machine.cpu,
            machine.cores,
            machine.simd.join(" "),
            machine.memory_gib,
            machine.last_cache,
            machine.kernel,
            machine.superpages,
            machine.commit
        );
        output.line(&json!({ "machine": machine, "command": command_line() }))?;
        Ok(output)
    }

    /// Writes one JSON line (if a file was asked for).
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn line(&mut self, value: &Value) -> Result<()> {
        if let Some(file) = &mut self.json {
            writeln!(file, "{value}")?;
            file.flush()?;
        }
        Ok(())
    }

    /// Prints a table and writes each of its figures as a JSON line.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        print!("{}", table.render());
        for row in &table.rows {
            for (column, rounds) in table.columns.iter().zip(&row.figures) {
                if !rounds.is_empty() {
                    let line = table.json_line(row, column, rounds);
                    self.line(&line)?;
                }
            }
        }
        Ok(())
    }
}

/// This invocation without the path of the binary.
fn command_line() -> String {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    format!("hedgerow-lab {}", arguments.join(" "))
}

/// One contender's figures, a [`Rounds`] per column.
#[derive(Debug, Clone)]
pub struct Row {
    /// The contender's name.
    pub contender: String,
    /// Its figures by column; empty where it does not take part.
    pub figures: Vec<Rounds>,
}

/// A table of contenders and columns.
#[derive(Debug, Clone)]
pub struct Table {
    /// The experiment, for the JSON lines.
    pub experiment: String,
    /// What distinguishes this table: key set, threads and so on.
    pub parameters: Map<String, Value>,
    /// Column titles, each with its unit.
    pub columns: Vec<String>,
    /// The contender that ratios are taken to.
    pub baseline: String,
    /// One row per contender.
    pub rows: Vec<Row>,
}

impl Table {
    /// An empty table with a row for each contender.
    #[must_use]
    pub fn new(experiment: &str, columns: &[&str], baseline: &str, contenders: &[&str]) -> Self {
        let row = |name: &&str| Row {
            contender: (*name).to_owned(),
            figures: vec![Rounds::default(); columns.len()],
        };
        Self {
            experiment: experiment.to_owned(),
            parameters: Map::new(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            baseline: baseline.to_owned(),
            rows: contenders.iter().map(row).collect(),
        }
    }

    /// Names a parameter of this table.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a round's figure for a contender.
    pub fn push(&mut self, contender: &str, column: &str, figure: f64) {
        let column = self.columns.iter().position(|title| title == column);
        let row = self.rows.iter_mut().find(|row| row.contender == contender);
        if let (Some(column), Some(row)) = (column, row) {
            row.figures[column].push(figure);
        }
    }

    /// The median of a contender in the column `title`, if measured.
    #[must_use]
    pub fn median(&self, contender: &str, title: &str) -> Option<f64> {
        let column = self.columns.iter().position(|column| column == title)?;
        let row = self.rows.iter().find(|row| row.contender == contender)?;
        (!row.figures[column].is_empty()).then(|| row.figures[column].median())
    }

    fn json_line(&self, row: &Row, column: &str, rounds: &Rounds) -> Value {
        let mut line = Map::new();
        line.insert("experiment".into(), self.experiment.clone().into());
        line.extend(self.parameters.clone());
        line.insert("contender".into(), row.contender.clone().into());
        line.insert("column".into(), column.into());
        line.insert("median".into(), round_off(rounds.median()));
        line.insert("min".into(), round_off(rounds.min()));
        line.insert("max".into(), round_off(rounds.max()));
        let figures: Vec<_> = rounds.figures().iter().copied().map(round_off).collect();
        line.insert("rounds".into(), figures.into());
        if let Some(baseline) = self.median(&self.baseline, column) {
            line.insert("baseline".into(), self.baseline.clone().into());
            line.insert("ratio".into(), round_off(rounds.median() / baseline));
        }
        line.into()
    }

    /// The table as aligned text: `median (min–max) ×ratio`.
    #[must_use]
    pub fn render(&self) -> String {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let title = format!("\n{} · {}\n", self.experiment, parameters.join(" · "));
        let mut lines = vec![vec!["contender".to_owned()]];
        lines[0].extend(self.columns.iter().cloned());
        for row in &self.rows {
            let mut line = vec![row.contender.clone()];
            for (column, rounds) in self.columns.iter().zip(&row.figures) {
                line.push(self.cell(column, rounds));
            }
            lines.push(line);
        }
        let widths: Vec<usize> = (0..=self.columns.len())
            .map(|column| {
                lines
                    .iter()
                    .map(|line| line[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = title;
        for line in lines {
            for (cell, &width) in line.iter().zip(&widths) {
                text.push_str(&format!("{cell:<width$}  "));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    fn cell(&self, column: &str, rounds: &Rounds) -> String {
        if rounds.is_empty() {
            return "-".to_owned();
        }
        let mut cell = short(rounds.median());
        if rounds.figures().len() > 1 {
            cell += &format!(" ({}–{})", short(rounds.min()), short(rounds.max()));
        }
        if let Some(baseline) = self.median(&self.baseline, column) {
            cell += &format!(" ×{:.2}", rounds.median() / baseline);
        }
        cell
    }
}

fn round_off(figure: f64) -> Value {
    json!((figure * 10_000.0).round() / 10_000.0)
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1000.0 => format!("{f:.0}"),
        f if f >= 100.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_medians_and_ratios() {
        let mut table = Table::new("demo", &["get Mops", "put Mops"], "peer", &["ours", "peer"])
            .with("keys", 10);
        for (ours, peer) in [(3.0, 1.0), (4.0, 2.0), (8.0, 4.0)] {
            table.push("ours", "get Mops", ours);
            table.push("peer", "get Mops", peer);
        }
        assert_eq!(table.median("ours", "get Mops"), Some(4.0));
        assert_eq!(table.median("ours", "put Mops"), None);
        let text = table.render();
        assert!(text.contains("4.00 (3.00–8.00) ×2.00"), "{text}");
        let line = table.json_line(&table.rows[0], "get Mops", &table.rows[0].figures[0]);
        assert_eq!(line["ratio"], json!(2.0));
        assert_eq!(line["keys"], json!(10));
        assert_eq!(line["rounds"], json!([3.0, 4.0, 8.0]));
    }
}
