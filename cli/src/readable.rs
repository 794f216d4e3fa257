//! Scans that go on behind a page that cannot be read.
//!
//! A damaged page costs the rows in it, no others. The engine's scans end there, with an error that
//! names the keys; these begin again behind those keys, and say in the end what is missing.

use std::ops::{Bound, ControlFlow};

use hedgerow::{Direction, Error, Keyspace, MAX_KEY_BYTES, Row};

use crate::output::print_error;

/// A range of keys, as the command line gives it.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A run of keys that could not be read.
pub(crate) struct Missing {
    keyspace: String,
    /// No missing key is below this one.
    pub(crate) from: Vec<u8>,
    /// The first key beyond; `None` if there is none.
    pub(crate) to: Option<Vec<u8>>,
    why: Error,
}

impl Missing {
    /// Says on standard error what is missing and why.
    pub(crate) fn report(&self) {
        let from = self.from.escape_ascii();
        let keys = match &self.to {
            Some(to) => format!("keys from \"{from}\" to before \"{}\"", to.escape_ascii()),
            None => format!("keys from \"{from}\" on"),
        };
        print_error(format_args!(
            "keyspace {:?}: {keys} are missing: {}",
            self.keyspace, self.why
        ));
    }
}

/// Visits the rows of a range in order until `visit` breaks, those behind unreadable pages, too.
/// Returns which keys could not be read.
///
/// # Errors
/// The keyspace cannot be scanned at all. A failure behind which the engine knows no way is no
/// error, but the rest of the range is missing then.
pub(crate) fn scan(
    keyspace: &Keyspace,
    bounds: Bounds,
    direction: Direction,
    mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
) -> hedgerow::Result<Vec<Missing>> {
    let (mut start, mut end) = bounds;
    let mut missing = Vec::new();
    // The last key that was visited, and where the last scan began that went on behind others.
    let mut last: Option<Vec<u8>> = None;
    let mut reached: Option<Vec<u8>> = None;
    loop {
        let range = (as_slice(&start), as_slice(&end));
        let scanned = keyspace.scan(range, direction, |key, row| {
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            visit(key, row)
        });
        let error = match scanned {
            Ok(()) => return Ok(missing),
            Err(error @ Error::Index(_)) => error,
            Err(error) => return Err(error),
        };
        let keys = match &error {
            Error::Index(error) => error.keys().cloned(),
            _ => None,
        };
        let found = |from, to| Missing {
            keyspace: keyspace.name().to_owned(),
            from,
            to,
            why: error,
        };
        let Some(keys) = keys else {
            missing.push(rest(&start, &end, last, direction, found));
            return Ok(missing);
        };
        let next = match direction {
            Direction::Forward => keys.to.clone(),
            Direction::Reverse => last_before(&keys.from),
        };
        missing.push(found(keys.from, keys.to));
        // Otherwise the range ends here, or the way behind these keys is not known.
        let Some(next) = next.filter(|next| {
            let is_behind = reached.as_ref().is_none_or(|reached| match direction {
                Direction::Forward => next > reached,
                Direction::Reverse => next < reached,
            });
            let left = match direction {
                Direction::Forward => (Bound::Unbounded, as_slice(&end)),
                Direction::Reverse => (as_slice(&start), Bound::Unbounded),
            };
            is_behind && contains(left, next)
        }) else {
            return Ok(missing);
        };
        reached = Some(next.clone());
        match direction {
            Direction::Forward => start = Bound::Included(next),
            Direction::Reverse => end = Bound::Included(next),
        }
    }
}

/// The last key that can be before another one; `None` if there is none.
fn last_before(key: &[u8]) -> Option<Vec<u8>> {
    let (&last, rest) = key.split_last()?;
    let mut before = rest.to_vec();
    if last > 0 {
        before.push(last - 1);
        before.resize(MAX_KEY_BYTES, u8::MAX);
    }
    Some(before)
}

/// What is left of a range behind the last key that was visited.
fn rest(
    start: &Bound<Vec<u8>>,
    end: &Bound<Vec<u8>>,
    last: Option<Vec<u8>>,
    direction: Direction,
    found: impl FnOnce(Vec<u8>, Option<Vec<u8>>) -> Missing,
) -> Missing {
    let key = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.clone()),
        Bound::Unbounded => None,
    };
    match direction {
        Direction::Forward => found(last.or_else(|| key(start)).unwrap_or_default(), key(end)),
        Direction::Reverse => found(key(start).unwrap_or_default(), last.or_else(|| key(end))),
    }
}

fn contains(range: (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]) -> bool {
    std::ops::RangeBounds::<[u8]>::contains(&range, key)
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fits_between_a_key_and_the_last_before_it() {
        assert_eq!(last_before(b""), None);
        assert_eq!(last_before(b"a\0").as_deref(), Some(&b"a"[..]));
        let before = last_before(b"ab").unwrap();
        assert_eq!(before.len(), MAX_KEY_BYTES);
        assert!(before.starts_with(b"aa\xff") && before < b"ab".to_vec());
    }
}
