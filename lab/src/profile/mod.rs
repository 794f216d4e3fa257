//! Which functions take the time and the cache misses, by simulation.
//!
//! The Matryoshka report samples its processor (`perf record`) to attribute cycles and cache misses
//! to functions. Rented machines have no such counters; callgrind simulates instructions, caches
//! and a branch predictor, attributes them to single instructions, and gives the same counts every
//! time. Only the timed steps are counted. The simulated last-level cache is given in bytes: a tree
//! that can be simulated in a minute is small, and one cache smaller shows what a larger one would.

mod callgrind;
mod functions;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use hedgerow_lab_contender::Unavailable;
use hedgerow_lab_report::{Better, Measured};
use tempfile::NamedTempFile;

use crate::experiment::{Job, Row};
use crate::process::{SUBCOMMAND, find_program, performed_by};
use crate::{LabError, Result};
use callgrind::Counts;

/// The row of all functions together.
pub const ALL: &str = "(all)";

/// The row of those that are not worth one.
const OTHERS: &str = "(others)";

/// A function has a row if it has so many percent of anything.
const LEAST_PERCENT: f64 = 1.0;

/// The functions that are counted while they run, as callgrind's pattern:
/// [`profiled_steps`](crate::mixed_workload::profiled_steps).
const COUNTED: &str = "*profiled_steps*";

/// The programs that a profile needs.
#[derive(Debug)]
pub struct Tools {
    valgrind: PathBuf,
    addr2line: PathBuf,
}

impl Tools {
    /// Those of this machine.
    ///
    /// # Errors
    ///
    /// What is missing, with the command that installs it.
    pub fn find() -> std::result::Result<Self, Unavailable> {
        let find = |name: &str, package: &str| {
            find_program(name).ok_or_else(|| Unavailable {
                why: format!("{name} is not on PATH"),
                remedy: format!("apt-get install {package}"),
            })
        };
        Ok(Self {
            valgrind: find("valgrind", "valgrind")?,
            addr2line: find("addr2line", "binutils")?,
        })
    }
}

/// Performs a job under callgrind; a row of figures for each function, those with most cycles
/// first, and one for all. The job takes so many operations.
///
/// # Errors
///
/// When the job fails, or its process counts nothing.
pub fn rows(tools: &Tools, job: &Job, operations: u64, last_bytes: u64) -> Result<Vec<Row>> {
    let file = NamedTempFile::with_prefix("hedgerow-lab-")?;
    let mut command = Command::new(&tools.valgrind);
    command
        // Valgrind 3.19 compiles some AVX2 wrongly when it optimises: trees lose keys.
        .args(["--tool=callgrind", "--vex-iropt-level=0", "--cache-sim=yes"])
        .args(["--branch-sim=yes", "--dump-instr=yes"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .args(["--I1=32768,8,64", "--D1=32768,8,64"])
        .arg(format!("--LL={last_bytes},16,64"))
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", file.path().display()))
        .arg(std::env::current_exe()?)
        .arg(SUBCOMMAND);
    performed_by(&mut command, job)?;
    let counts = by_function(tools, &std::fs::read_to_string(file.path())?)?;
    Ok(rows_of(counts, operations))
}

/// The counts of each function.
fn by_function(tools: &Tools, text: &str) -> Result<Vec<(String, Counts)>> {
    let counts = callgrind::parse(text)
        .ok_or_else(|| LabError::Process("callgrind counted nothing".to_owned()))?;
    let mut objects: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for place in counts.keys() {
        objects
            .entry(&place.object)
            .or_default()
            .push(place.address);
    }
    let mut names = BTreeMap::new();
    for (object, addresses) in objects {
        let found = functions::names(&tools.addr2line, object, &addresses);
        // A library that was stripped, or is none in a file: the symbol table has to do.
        names.insert(object, found.unwrap_or_default());
    }
    let mut of_functions: BTreeMap<String, Counts> = BTreeMap::new();
    for (place, counts) in &counts {
        let name = names.get(place.object.as_str());
        let name = name.and_then(|names| names.get(&place.address));
        let symbol = || functions::own_name(&place.symbol).to_owned();
        let name = name.cloned().unwrap_or_else(symbol);
        of_functions.entry(name).or_default().add(counts);
    }
    Ok(of_functions.into_iter().collect())
}

/// A figure's column and unit, how it comes from a function's counts, and whether as a share.
type Column = (&'static str, &'static str, fn(&Counts) -> u64);

const EACH: &str = "per operation";
const SHARE: &str = "% of all";

const COLUMNS: [Column; 7] = [
    ("share of cycles", SHARE, Counts::cycles),
    ("share of L1 misses", SHARE, |counts| counts.l1_misses),
    ("share of last-level misses", SHARE, |counts| {
        counts.last_misses
    }),
    ("cycles", EACH, Counts::cycles),
    ("instructions", EACH, |counts| counts.instructions),
    ("L1 misses", EACH, |counts| counts.l1_misses),
    ("last-level misses", EACH, |counts| counts.last_misses),
];

fn rows_of(mut counts: Vec<(String, Counts)>, operations: u64) -> Vec<Row> {
    let mut all = Counts::default();
    counts.iter().for_each(|(_, counts)| all.add(counts));
    let percent = |counts: &Counts, of: fn(&Counts) -> u64| {
        100.0 * of(counts) as f64 / of(&all).max(1) as f64
    };
    let matters = |counts: &Counts| {
        let mut shares = COLUMNS.iter().map(|(_, _, of)| percent(counts, *of));
        shares.any(|share| share >= LEAST_PERCENT)
    };
    counts.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.cycles()));
    let mut others = Counts::default();
    counts.retain(|(_, counts)| {
        let stays = matters(counts);
        if !stays {
            others.add(counts);
        }
        stays
    });
    counts.push((OTHERS.to_owned(), others));
    counts.push((ALL.to_owned(), all));
    let row = |(name, counts): (String, Counts)| Row {
        place: name,
        figures: COLUMNS
            .iter()
            .map(|&(column, unit, of)| Measured {
                column: column.to_owned(),
                unit: unit.to_owned(),
                better: Better::Lower,
                figure: match unit {
                    SHARE => percent(&counts, of),
                    _ => of(&counts) as f64 / operations.max(1) as f64,
                },
            })
            .collect(),
    };
    counts.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_matter_have_rows_and_all_add_up() {
        let counts = |instructions, last_misses| Counts {
            instructions,
            last_misses,
            ..Counts::default()
        };
        let functions = vec![
            ("small".to_owned(), counts(5, 0)),
            ("misses".to_owned(), counts(5, 30)),
            ("works".to_owned(), counts(990, 0)),
        ];
        let rows = rows_of(functions, 10);
        let places: Vec<_> = rows.iter().map(|row| row.place.as_str()).collect();
        assert_eq!(places, ["misses", "works", OTHERS, ALL]);
        let figure = |row: &Row, column: &str, unit: &str| {
            let mut figures = row.figures.iter();
            let found = figures.find(|one| (&*one.column, &*one.unit) == (column, unit));
            found.map(|one| one.figure)
        };
        assert_eq!(figure(&rows[1], "instructions", EACH), Some(99.0));
        assert_eq!(
            figure(&rows[0], "share of last-level misses", SHARE),
            Some(100.0)
        );
        assert_eq!(figure(&rows[2], "instructions", EACH), Some(0.5));
        assert_eq!(figure(&rows[3], "cycles", EACH), Some(400.0));
    }
}
