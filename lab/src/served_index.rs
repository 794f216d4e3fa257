//! A server asked over one of its indexes: inserts, gets, overwrites and ranges, by the clock and
//! by the server's own processor time.
//!
//! Each round starts a server with one worker on one core and asks it from another core, 64
//! requests in flight on each of 8 connections. It inserts all records in random order, gets and
//! overwrites each in another order, and reads ranges of 50 records. The figures that compare
//! indexes are those by the server's own processor time, all its threads together: the page
//! cleaner and the log's flusher are in them.

use std::time::Duration;

use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_data::workload::Kind;
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asking::{
    CONNECTIONS, DEPTH, PREPARED, SETTINGS, VALUE_BYTES, ask_for, need, operations,
};
use crate::experiment::{Answer, Job, Point, Stage};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::servers::{CLIENT_CORE, start};
use crate::wire::{Protocol, Records, ScanForm, Script, load_records, throughput};
use crate::{LabError, Result};

/// Records of a range.
const RANGE_RECORDS: usize = 50;

/// Ranges that are prepared, and how many are in flight on each connection.
const PREPARED_RANGES: usize = 20_000;
const RANGES_IN_FLIGHT: usize = 16;

/// What a server is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServedIndex {
    /// The key set's name.
    pub set: String,
    /// How many records it is asked for.
    pub records: usize,
    /// Seconds per figure.
    pub seconds: f64,
    /// Whether it is asked for ranges.
    pub ranges: bool,
}

impl ServedIndex {
    /// A point of these contenders at a place of the horizontal axis.
    ///
    /// # Errors
    ///
    /// A workload that cannot be written down.
    pub fn point(&self, label: &str, contenders: &[&'static str]) -> Result<Point> {
        Ok(Point {
            parameters: [
                (format!("records, {label}"), self.records.into()),
                ("in flight on a connection".to_owned(), DEPTH.into()),
                ("connections".to_owned(), CONNECTIONS.into()),
                ("server cores".to_owned(), 1.into()),
            ]
            .into(),
            x: Some(X::Category(label.to_owned())),
            contenders: contenders.to_vec(),
            need: need(self.records, 4.0 * self.seconds),
            verified_by: Value::Null,
            workload: serde_json::to_value(self).map_err(LabError::from_display)?,
        })
    }

    /// Does a job: starts its contender, loads it and asks it. Every reply is compared, byte for
    /// byte, so a short run is all that verifying needs.
    ///
    /// # Errors
    ///
    /// A server that does not start, or the first reply that differs.
    pub fn perform(job: &Job) -> Result<Answer> {
        let mut asked: Self = job.workload()?;
        if job.stage == Stage::Verify {
            asked.records = asked.records.min(20_000);
            asked.seconds = 0.05;
        }
        asked.measure(&job.contender)
    }

    fn measure(&self, contender: &str) -> Result<Answer> {
        let (peer, server) = start(contender, &SETTINGS)?;
        pin_this_thread(CLIENT_CORE);
        let set: KeySet = self.set.parse().map_err(LabError::from_display)?;
        let keys = set.keys(self.records)?;
        let records = Records {
            keys: &keys,
            sorted: keys.sorted(),
            value_bytes: VALUE_BYTES,
            update_bytes: VALUE_BYTES,
            protocol: Protocol::of(&peer)?,
        };
        let mut answer = Answer::default();
        insert(&mut answer, &server, &records)?;
        // What a server does after a burst (growing, moving its table) shall not meet a column.
        std::thread::sleep(Duration::from_secs_f64(self.seconds.min(0.5)));
        let each = server.grown_bytes() as f64 / keys.len() as f64;
        let time = Duration::from_secs_f64(self.seconds);
        for (kind, name) in [(Kind::Read, "GET"), (Kind::Update, "SET, overwriting")] {
            let script = records.script(&operations(&keys, kind, PREPARED), DEPTH);
            throughput(server.address(), &script, CONNECTIONS, time / 4)?;
            let busy = ask_for(&mut answer, &server, name, &script, CONNECTIONS, time)?;
            if kind == Kind::Read {
                answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
            }
        }
        // Redis has no range over its keys.
        if self.ranges && !contender.starts_with("redis") {
            let script = ranges(&records, &keys);
            let name = format!("RANGE of {RANGE_RECORDS}");
            ask_for(&mut answer, &server, &name, &script, CONNECTIONS, time)?;
        }
        answer.push("memory", "bytes/record", Better::Lower, each);
        Ok(answer)
    }
}

/// Inserts all records, once.
fn insert(answer: &mut Answer, server: &Server, records: &Records<'_>) -> Result<()> {
    let before = server.cpu_seconds();
    let count = records.keys.len();
    let rate = load_records(server.address(), records, count, DEPTH, CONNECTIONS)?;
    let used = (server.cpu_seconds() - before).max(1e-3);
    answer.push("SET, inserting", "kops/s", Better::Higher, rate / 1000.0);
    let by_server = count as f64 / used / 1000.0;
    let column = "SET, inserting, by server time";
    answer.push(column, "kops/s", Better::Higher, by_server);
    Ok(())
}

/// Ranges from records in an order unlike that of the load.
fn ranges(records: &Records<'_>, keys: &Keys) -> Script {
    let order = Permutation::new(keys.len() as u64, 17);
    let count = keys.len().min(PREPARED_RANGES) as u64;
    let starts: Vec<usize> = (0..count).map(|nth| order.at(nth) as usize).collect();
    records.scans(ScanForm::Pairs, &starts, RANGE_RECORDS, RANGES_IN_FLIGHT)
}
