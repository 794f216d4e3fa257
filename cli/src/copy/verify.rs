//! Comparing both sides of a copy: page by page, by a checksum of each side's rows, and row by row
//! where the checksums differ.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow::backend::BackendKeyspace;
use hedgerow::{Direction, Row};
use indicatif::ProgressBar;

use super::copied_row::{CopiedRow, chosen_version, page};
use crate::error::{Error, Result};
use crate::rows;

/// Keys that differ and are shown.
const SHOWN: usize = 5;

/// The checksum of rows, by the lines that `dump` would write of them.
#[derive(Default)]
struct Checksum {
    sum: u32,
    rows: u64,
    line: Vec<u8>,
}

impl Checksum {
    fn add(&mut self, key: &[u8], row: &Row<'_>) {
        self.line.clear();
        rows::write(key, row, &mut self.line);
        self.line.push(b'\n');
        if let Some(version) = chosen_version(row) {
            self.line.extend_from_slice(&version.to_le_bytes());
        }
        self.sum = crc32c::crc32c_append(self.sum, &self.line);
        self.rows += 1;
    }
}

type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

fn checksum<K: BackendKeyspace>(keyspace: &K, range: KeyBounds<'_>) -> Result<Checksum> {
    let mut sum = Checksum::default();
    keyspace.scan_up_to(range, Direction::Forward, usize::MAX, |key, row| {
        sum.add(key, &row);
        ControlFlow::Continue(())
    })?;
    Ok(sum)
}

fn all<K: BackendKeyspace>(
    keyspace: &K,
    range: KeyBounds<'_>,
) -> Result<BTreeMap<Vec<u8>, CopiedRow>> {
    let mut rows = BTreeMap::new();
    keyspace.scan_up_to(range, Direction::Forward, usize::MAX, |key, row| {
        rows.insert(key.to_vec(), CopiedRow::of(key, row));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// What differs in a range, in words.
fn difference<K: BackendKeyspace, L: BackendKeyspace>(
    name: &str,
    from: &K,
    to: &L,
    range: KeyBounds<'_>,
) -> Result<Option<Error>> {
    let (ours, theirs) = (all(from, range)?, all(to, range)?);
    let keys = ours
        .keys()
        .chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    let differing = keys.filter(|key| ours.get(*key) != theirs.get(*key));
    let differing: Vec<String> = differing
        .map(|key| {
            let what = match (ours.contains_key(key), theirs.contains_key(key)) {
                (true, true) => "differs",
                (true, false) => "is missing in the target",
                _ => "is in the target alone",
            };
            format!("\"{}\" {what}", key.escape_ascii())
        })
        .collect();
    let shown = differing
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    // Rows that expired between two looks are no difference.
    Ok((!differing.is_empty()).then(|| Error::Failed(format!(
        "keyspace {name:?} is not the same on both sides: {} keys of one range, as {shown}; copy \
         it again, and stop who writes",
        differing.len()
    ))))
}

/// Compares all rows of a keyspace; how many there are.
pub(super) fn compare<K: BackendKeyspace, L: BackendKeyspace>(
    name: &str,
    from: &K,
    to: &L,
    bar: &ProgressBar,
) -> Result<u64> {
    let mut after: Option<Vec<u8>> = None;
    let mut compared = 0;
    loop {
        let ours = page(from, after.as_deref())?;
        let lower = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let upper = ours
            .last()
            .map_or(Bound::Unbounded, |row| Bound::Included(&row.key[..]));
        let (mine, theirs) = (
            checksum(from, (lower, upper))?,
            checksum(to, (lower, upper))?,
        );
        if (mine.sum, mine.rows) != (theirs.sum, theirs.rows)
            && let Some(error) = difference(name, from, to, (lower, upper))?
        {
            return Err(error);
        }
        let Some(last) = ours.last() else {
            return Ok(compared);
        };
        compared += mine.rows;
        bar.inc(mine.rows);
        after = Some(last.key.clone());
    }
}
