//! Comparing both sides of a copy, row by row, in the order of their keys.

use std::ops::Bound;

use hedgerow::backend::BackendKeyspace;
use indicatif::ProgressBar;

use super::differences::{Difference, Differences};
use crate::error::Result;

/// Keys that differ and are shown.
const SHOWN: usize = 5;

/// What a comparison found.
pub(super) struct Compared {
    /// Of the source.
    pub(super) rows: u64,
    /// What differs, and what to do, in words.
    pub(super) difference: Option<String>,
}

/// Compares all rows of a keyspace, each side read once. A side without the keyspace has none.
///
/// # Errors
/// They cannot be read.
pub(super) fn compare<K: BackendKeyspace, L: BackendKeyspace>(
    name: &str,
    from: Option<&K>,
    to: Option<&L>,
    bar: &ProgressBar,
) -> Result<Compared> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut differences = Differences::new(from, to, all);
    let (mut shown, mut count) = (Vec::new(), 0_u64);
    while let Some(found) = differences.next(bar)? {
        let what = match &found {
            Difference::First(_) => "is missing in the target",
            Difference::Both(_) => "differs",
            Difference::Second(_) => "is in the target alone",
        };
        count += 1;
        if shown.len() < SHOWN {
            shown.push(format!("\"{}\" {what}", found.key().escape_ascii()));
        }
    }
    let difference = (count > 0).then(|| {
        format!(
            "keyspace {name:?} is not the same on both sides: {count} keys, as {}; stop who \
             writes, copy it again, and remove what the target alone has",
            shown.join(", ")
        )
    });
    let rows = differences.rows();
    Ok(Compared { rows, difference })
}
