//! What a scan beside concurrent writers must satisfy.
//!
//! By itself: keys strictly ascend (or descend), so none comes twice, and all lie inside the
//! bound. Together with the point operations: a scan answers, for every key in the range that
//! it covered, "this value" or "absent", and each such answer must have been true at some
//! moment between its call and its return. So an untouched key may not be left out, and a
//! value that was overwritten before the scan began may not appear.

use std::collections::BTreeMap;
use std::ops::Bound;

use hedgerow_index::Direction;

use super::operation::Violation;

/// Where a scan starts and which way it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanBound {
    /// Lower bound going forward, upper bound in reverse.
    pub from: Bound<Vec<u8>>,
    /// The way.
    pub direction: Direction,
}

impl ScanBound {
    /// The bound with its key borrowed, as `Index::scan` takes it.
    pub fn from_ref(&self) -> Bound<&[u8]> {
        match &self.from {
            Bound::Included(key) => Bound::Included(key),
            Bound::Excluded(key) => Bound::Excluded(key),
            Bound::Unbounded => Bound::Unbounded,
        }
    }

    fn admits(&self, key: &[u8]) -> bool {
        match (&self.from, self.direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), Direction::Forward) => key >= from.as_slice(),
            (Bound::Excluded(from), Direction::Forward) => key > from.as_slice(),
            (Bound::Included(from), Direction::Reverse) => key <= from.as_slice(),
            (Bound::Excluded(from), Direction::Reverse) => key < from.as_slice(),
        }
    }

    fn precedes(&self, a: &[u8], b: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        }
    }
}

/// One recorded scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The thread that ran it, for messages.
    pub thread: usize,
    /// When it was called.
    pub called_ns: u64,
    /// When it returned.
    pub returned_ns: u64,
    /// Start and direction.
    pub bound: ScanBound,
    /// The pairs, in the order in which they were visited.
    pub visited: Vec<(Vec<u8>, u64)>,
    /// Whether it ran out of keys; otherwise it covered only up to its last visited key.
    pub reached_end: bool,
}

/// Order, no duplicates, bounds.
pub fn check_shape(scan: &Scan) -> Result<(), Violation> {
    for (key, _) in &scan.visited {
        if !scan.bound.admits(key) {
            return Err(Violation(format!(
                "a scan of thread {} from {:?} visited {key:?}, outside its bound",
                scan.thread, scan.bound
            )));
        }
    }
    for pair in scan.visited.windows(2) {
        let (a, b) = (&pair[0].0, &pair[1].0);
        if !scan.bound.precedes(a, b) {
            let what = if a == b {
                "visited twice"
            } else {
                "out of order"
            };
            return Err(Violation(format!(
                "a scan of thread {} going {:?}: {b:?} after {a:?} ({what})",
                scan.thread, scan.bound.direction
            )));
        }
    }
    Ok(())
}

/// The scan as one read for every key of `keys` in the range it covered.
pub fn as_reads(scan: &Scan, keys: &[Vec<u8>]) -> Result<Vec<(usize, Option<u64>)>, Violation> {
    let mut visited: BTreeMap<&[u8], u64> = scan
        .visited
        .iter()
        .map(|(key, value)| (key.as_slice(), *value))
        .collect();
    let last = scan.visited.last().map(|(key, _)| key.as_slice());
    let mut reads = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let covered = scan.bound.admits(key)
            && (scan.reached_end || last.is_some_and(|last| !scan.bound.precedes(last, key)));
        if covered {
            reads.push((number, visited.remove(key.as_slice())));
        }
    }
    match visited.first_key_value() {
        None => Ok(reads),
        Some((key, value)) => Err(Violation(format!(
            "a scan of thread {} visited {key:?} = {value}, a key that nobody ever wrote",
            scan.thread
        ))),
    }
}
