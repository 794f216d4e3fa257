//! Reads of single rows by themselves: after a call for several rows that failed, or because the
//! row's region lately gave no answer.
//!
//! While a region is away, each of its readers may wait until its deadline. Half of the connections
//! are not for reads like these. Of the other half, one part is for first tries, which are short;
//! the other is for readers whose first try failed, and for all other readers of its region:
//!
//! ```text
//! call with others ──► first try, short ──► as long as there is time
//!      failed              failed  │            ▲ few at once
//!                                  ▼            │
//!                          its region is away ──┘ also of readers that come later
//! ```
//!
//! So readers of other regions wait for first tries at most, and share no call with a region that
//! is known to be away.

use std::time::Instant;

use crate::away_regions::RegionKeys;
use crate::calls::Calls;
use crate::error::{Error, Result};
use crate::keyspace::HbaseKeyspace;
use crate::thrift2::{TGet, THRegionLocation, TResult};

/// The part of a request's time for which a region counts as away since it gave no answer.
const AWAY_PART: u32 = 3;

/// A read that has time for fewer tries than so many is made once.
const LEAST_TRIES: u32 = 4;

/// What a read waits for in vain that asks by itself.
const NO_PERMIT: &str = "a free connection: reads that ask by themselves have half of them, and \
                         all of those were in use";

/// Whether a read failed as it does while its region is away.
fn may_be_away(error: &Error) -> bool {
    let refusal = error.refusal();
    error.is_unreachable() || refusal.is_some_and(|refusal| !refusal.is_permanent())
}

/// The keys of the region where a row is.
fn keys_of(location: THRegionLocation, row: &[u8]) -> RegionKeys {
    let region = location.region_info;
    let keys = RegionKeys {
        start: region.start_key.unwrap_or_default(),
        stop: region.end_key.unwrap_or_default(),
    };
    match keys.contains(row) {
        true => keys,
        false => RegionKeys::of_row(row),
    }
}

impl HbaseKeyspace {
    /// Reads cells of a row by itself.
    pub(crate) fn cells_alone(&self, wanted: &TGet, deadline: Instant) -> Result<TResult> {
        let (begun, deadline) = (Instant::now(), self.cluster.shortened(deadline));
        let key = wanted.row.as_slice();
        let call = |calls: &Calls<'_>| calls.get(&self.table, wanted);
        let mut failed = None;
        let _permit = loop {
            let away_until = match failed.is_some() {
                true => Some(deadline),
                false => self.away.until(key),
            };
            if let Some(until) = away_until {
                if let Some(permit) = self.cluster.away.acquire(until.min(deadline)) {
                    break permit;
                }
            } else {
                let permit = self.cluster.alone.acquire(deadline);
                // Others may have found out meanwhile.
                if permit.is_some() && self.away.until(key).is_none() {
                    match self.first_try(key, deadline, call) {
                        Err(error) if may_be_away(&error) => failed = Some(error),
                        outcome => return outcome,
                    }
                }
            }
            if Instant::now() >= deadline {
                let waited = || Error::waited("get", begun.elapsed(), NO_PERMIT);
                return Err(failed.unwrap_or_else(waited));
            }
        };
        let outcome = self.cluster.read_until(deadline, call);
        match &outcome {
            Ok(_) => self.away.remove(key),
            Err(error) if may_be_away(error) => {
                self.away.renew(key, self.away_from_now());
            }
            Err(_) => {}
        }
        outcome
    }

    /// The first try of a row by itself; `None` if its region may be away.
    pub(crate) fn try_alone(&self, wanted: &TGet, deadline: Instant) -> Option<Result<TResult>> {
        let key = wanted.row.as_slice();
        let _permit = self.cluster.alone.acquire(deadline)?;
        if self.away.until(key).is_some() {
            return None;
        }
        let call = |calls: &Calls<'_>| calls.get(&self.table, wanted);
        match self.first_try(key, deadline, call) {
            Err(error) if may_be_away(&error) => None,
            outcome => Some(outcome),
        }
    }

    /// The first try of a row; the only one where there is little time, as behind a request that
    /// found nobody: what becomes of it then counts as what became of the request.
    fn first_try(
        &self,
        key: &[u8],
        deadline: Instant,
        call: impl FnOnce(&Calls<'_>) -> Result<TResult>,
    ) -> Result<TResult> {
        let (now, try_for) = (Instant::now(), self.cluster.try_for());
        let until = now + try_for;
        if deadline < now + try_for * LEAST_TRIES {
            return self.cluster.read_until(deadline, call);
        }
        let outcome = self.cluster.try_until(until, call);
        match &outcome {
            Ok(_) => self.away.remove(key),
            Err(error) if may_be_away(error) => self.remember_region(key, deadline),
            Err(_) => {}
        }
        outcome
    }

    fn away_from_now(&self) -> Instant {
        Instant::now() + self.cluster.options.deadline / AWAY_PART
    }

    /// The region of this row gives no answer. Which keys it has a gateway knows, that has just
    /// looked for its server.
    fn remember_region(&self, key: &[u8], deadline: Instant) {
        if self.away.renew(key, self.away_from_now()) {
            return;
        }
        let until = deadline.min(Instant::now() + self.cluster.try_for());
        let call = |calls: &Calls<'_>| calls.region_location(&self.table, key, false);
        let keys = match self.cluster.try_until(until, call) {
            Ok(location) => keys_of(location, key),
            // Gateways are away, and not the region.
            Err(error) if error.is_unreachable() => return,
            Err(_) => RegionKeys::of_row(key),
        };
        self.away.add(keys, self.away_from_now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;
    use crate::thrift2::{THRegionInfo, TServerName};

    #[test]
    fn a_region_that_is_another_one_by_now_is_not_taken_for_the_rows() {
        let location = |start: &[u8], stop: &[u8]| THRegionLocation {
            server_name: TServerName {
                host_name: "host".to_owned(),
                port: None,
                start_code: None,
            },
            region_info: THRegionInfo {
                region_id: 1,
                table_name: b"test:rows".to_vec(),
                start_key: Some(start.to_vec()),
                end_key: Some(stop.to_vec()),
                offline: None,
                split: None,
                replica_id: None,
            },
        };
        let keys = keys_of(location(b"a", b"c"), b"b");
        assert!(keys.contains(b"a") && keys.contains(b"bz") && !keys.contains(b"c"));
        let keys = keys_of(location(b"c", b""), b"b");
        assert_eq!(keys, RegionKeys::of_row(b"b"));
    }

    #[test]
    fn what_hbase_refuses_for_good_is_no_region_that_is_away() {
        let refused = |can_retry| Error::Refused {
            call: "get",
            refusal: Refusal::of_hbase(Some("some reason"), Some(can_retry)),
        };
        assert!(may_be_away(&refused(true)) && !may_be_away(&refused(false)));
        let late = Error::waited("get", std::time::Duration::ZERO, "an answer");
        assert!(may_be_away(&late));
    }
}
