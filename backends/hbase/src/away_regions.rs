//! Regions that lately gave no answer, so that their readers are told from others: those ask by
//! few at a time, and in no call with rows of other regions.
//!
//! What is remembered ends by itself. So now and then a reader asks for a row of such a region as
//! for any other, and finds out whether it is back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Regions that are remembered at most.
const MOST_REGIONS: usize = 256;

/// The keys of a region: from `start` on, up to but without `stop`. An empty one is the beginning
/// of the table, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionKeys {
    pub(crate) start: Vec<u8>,
    pub(crate) stop: Vec<u8>,
}

impl RegionKeys {
    /// Those of a region of one row.
    pub(crate) fn of_row(key: &[u8]) -> RegionKeys {
        let mut stop = Vec::with_capacity(key.len() + 1);
        stop.extend_from_slice(key);
        stop.push(0);
        RegionKeys {
            start: key.to_vec(),
            stop,
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && (self.stop.is_empty() || key < self.stop.as_slice())
    }
}

struct Away {
    keys: RegionKeys,
    until: Instant,
}

/// The regions of a table that lately gave no answer.
#[derive(Default)]
pub(crate) struct AwayRegions(Mutex<Vec<Away>>);

impl AwayRegions {
    fn lock(&self) -> MutexGuard<'_, Vec<Away>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a row counts as one of a region that is away, if it does.
    pub(crate) fn until(&self, key: &[u8]) -> Option<Instant> {
        let regions = self.lock();
        if regions.is_empty() {
            return None;
        }
        let now = Instant::now();
        let its = regions.iter().filter(|away| away.keys.contains(key));
        its.map(|away| away.until)
            .filter(|until| *until > now)
            .max()
    }

    /// Remembers a region, instead of the one that ends first where there are too many.
    pub(crate) fn add(&self, keys: RegionKeys, until: Instant) {
        let mut regions = self.lock();
        let now = Instant::now();
        regions.retain(|away| away.until > now && away.keys != keys);
        if regions.len() == MOST_REGIONS {
            let ends = regions.iter().enumerate();
            let first = ends.min_by_key(|(_, away)| away.until).map(|(nth, _)| nth);
            if let Some(nth) = first {
                regions.swap_remove(nth);
            }
        }
        regions.push(Away { keys, until });
    }

    /// Remembers for longer what is known of a row's region. Whether something is.
    pub(crate) fn renew(&self, key: &[u8], until: Instant) -> bool {
        let now = Instant::now();
        let mut is_known = false;
        for away in self.lock().iter_mut() {
            if away.until > now && away.keys.contains(key) {
                away.until = away.until.max(until);
                is_known = true;
            }
        }
        is_known
    }

    /// A row has been read: its region is back.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.lock().retain(|away| !away.keys.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn keys(start: &[u8], stop: &[u8]) -> RegionKeys {
        RegionKeys {
            start: start.to_vec(),
            stop: stop.to_vec(),
        }
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn rows_of_a_region_are_away_until_one_is_read_or_the_time_is_over() {
        let away = AwayRegions::default();
        away.add(keys(b"b", b"d"), late());
        away.add(keys(b"x", b""), late());
        let known = |key: &[u8]| away.until(key).is_some();
        for (key, expected) in [("a", false), ("b", true), ("cz", true), ("d", false)] {
            assert_eq!(known(key.as_bytes()), expected, "{key}");
        }
        assert!(known(b"x") && known(b"\xff"));
        away.remove(b"c");
        assert!(!known(b"b") && known(b"z"));
        away.add(keys(b"b", b"d"), Instant::now());
        assert!(!known(b"c") && !away.renew(b"c", late()));
    }

    #[test]
    fn what_is_known_is_renewed_and_not_remembered_twice() {
        let away = AwayRegions::default();
        let (first, second) = (late(), late() + Duration::from_secs(1));
        away.add(keys(b"", b""), first);
        assert!(away.renew(b"k", second));
        assert_eq!(away.until(b"k"), Some(second));
        away.add(keys(b"", b""), first);
        assert_eq!(away.until(b"k"), Some(first));
        assert_eq!(away.lock().len(), 1);
    }

    #[test]
    fn no_more_regions_are_remembered_than_there_may_be() {
        let away = AwayRegions::default();
        let all = 0..2 * MOST_REGIONS as u32;
        let until = late();
        for nth in all.clone() {
            let row = RegionKeys::of_row(&nth.to_be_bytes());
            away.add(row, until + Duration::from_secs(u64::from(nth)));
        }
        let known = all.filter(|nth| away.until(&nth.to_be_bytes()).is_some());
        assert!(known.eq(MOST_REGIONS as u32..2 * MOST_REGIONS as u32));
    }
}
