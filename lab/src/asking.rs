//! Requests that servers are asked, and what asking them takes: by the clock, and by the server's
//! own processor time.

use std::time::{Duration, Instant};

use hedgerow_lab_data::Keys;
use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::workload::{Kind, Operation};
use hedgerow_lab_peers::ServerSettings;
use hedgerow_lab_report::Better;

use crate::Result;
use crate::experiment::{Answer, Need};
use crate::process::Server;
use crate::wire::{Place, Script, throughput, watched};

/// Requests in flight on each pipelined connection, and how many connections there are.
pub const DEPTH: usize = 64;
pub const CONNECTIONS: usize = 8;

/// Connections with one request under way each.
pub const MANY_CONNECTIONS: usize = 50;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 8;

/// The most requests that are prepared; they are played over and over.
pub const PREPARED: usize = 1 << 20;

/// How large servers may grow.
pub const SETTINGS: ServerSettings = ServerSettings {
    memory_bytes: 8 << 30,
    threads: 1,
    connections: 1000,
    readers_port: 0,
};

/// What a round needs that loads a server and asks it for so many seconds.
pub fn need(records: usize, asking_seconds: f64) -> Need {
    Need {
        memory_bytes: records as u64 * 300 + (256 << 20),
        disk_bytes: records as u64 * 200 + (64 << 20),
        shared_seconds: 0.3 + asking_seconds,
        own_seconds: records as f64 * 2e-6,
        verify_seconds: 1.0,
    }
}

/// Plays a script for a while over so many connections and adds two columns, thousand requests a
/// second by the clock and by the server's processor time. Returns the share of its core that the
/// client used.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn ask_for(
    answer: &mut Answer,
    server: &Server,
    column: &str,
    script: &Script,
    connections: usize,
    time: Duration,
) -> Result<f64> {
    let at = (server, &server.address().into());
    ask_at(answer, at, column, (script, connections), time)
}

/// [`ask_for`] at a place where the server listens.
///
/// # Errors
///
/// Those of [`ask_for`].
pub fn ask_at(
    answer: &mut Answer,
    (server, place): (&Server, &Place),
    column: &str,
    (script, connections): (&Script, usize),
    time: Duration,
) -> Result<f64> {
    let (start, before) = (Instant::now(), server.cpu_seconds());
    let (rate, busy) = watched(|| throughput(place.clone(), script, connections, time))?;
    let requests = rate * start.elapsed().as_secs_f64();
    let used = (server.cpu_seconds() - before).max(1e-3);
    answer.push(column, "kops/s", Better::Higher, rate / 1000.0);
    let by_server = requests / used / 1000.0;
    let column = format!("{column}, by server time");
    answer.push(&column, "kops/s", Better::Higher, by_server);
    Ok(busy)
}

/// At most so many operations, each on another record, in an order unlike that of the load.
pub fn operations(keys: &Keys, kind: Kind, most: usize) -> Vec<Operation> {
    let order = Permutation::new(keys.len() as u64, 13);
    let records = (0..keys.len().min(most) as u64).map(|nth| order.at(nth));
    records
        .map(|record| Operation {
            kind,
            record,
            scan_length: 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use hedgerow_lab_data::KeySet;

    use super::*;

    #[test]
    fn every_record_is_asked_for_once_and_not_in_the_order_of_the_load() {
        let keys = KeySet::Decimal.keys(1000).expect("keys");
        let mut asked: Vec<u64> = operations(&keys, Kind::Read, 5000)
            .iter()
            .map(|operation| operation.record)
            .collect();
        assert!(!asked.is_sorted());
        asked.sort_unstable();
        assert!((0..1000).eq(asked));
        assert_eq!(operations(&keys, Kind::Read, 10).len(), 10);
    }
}
