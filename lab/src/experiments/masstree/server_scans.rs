//! Ordered scans over the network: our `RANGE`, with values and of keys alone, beside Redis's
//! `ZRANGEBYLEX` of a sorted set, which has keys only.

use std::time::Duration;

use hedgerow_lab_data::KeySet;
use hedgerow_lab_data::random::Permutation;
use hedgerow_lab_report::Better;
use serde_json::Value;

use super::server::Workload;
use crate::asking::{CONNECTIONS, DEPTH, MANY_CONNECTIONS, SETTINGS, VALUE_BYTES, ask_for, need};
use crate::experiment::{About, Answer, Experiment, Job, Participant, Point, Settings};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, OURS, participants_as, start};
use crate::wire::{Protocol, Records, ScanForm, load_records, play_once};
use crate::{LabError, Result};

/// Pairs, or keys, of a scan.
const PAIRS: usize = 50;

/// Scans that are prepared; they are played over and over.
const PREPARED: usize = 20_000;

/// Scans in flight on each pipelined connection.
const SCANS_IN_FLIGHT: usize = 16;

/// Ours asked for keys alone.
const OURS_KEYS: &str = "hedgerow server, keys alone";

/// Who takes part: by this name, the server of that, asked in this form.
const CONTENDERS: [(&str, &str, ScanForm); 4] = [
    (OURS, OURS, ScanForm::Pairs),
    (OURS_KEYS, OURS, ScanForm::Keys),
    ("redis", "redis", ScanForm::SortedSet),
    ("valkey", "valkey", ScanForm::SortedSet),
];

/// The experiment.
pub struct Scans;

impl Experiment for Scans {
    fn about(&self) -> About {
        About {
            name: "masstree/server-scans",
            title: "Servers: ordered scans, ours beside Redis and Valkey",
            source: "Masstree, §3 and §7 (range queries, which its peers lack)",
            claim: "Redis and memcached cannot run MYCSB-E, which needs range queries; of those \
                    that can, others do 0.1 % of Masstree's 0.91 million operations a second.",
            x_label: None,
            x_log: false,
            baseline: "redis",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        participants_as(&CONTENDERS.map(|(name, server, _)| (name, server)))
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(2000, 500_000, 10_000_000);
        let seconds = settings.scale.pick(0.05, 0.4, 2.0);
        let workload = Workload { records, seconds };
        Ok(vec![Point {
            parameters: [
                ("records".to_owned(), records.into()),
                ("pairs".to_owned(), PAIRS.into()),
                ("server cores".to_owned(), 1.into()),
            ]
            .into(),
            x: None,
            contenders: CONTENDERS.iter().map(|(name, ..)| *name).collect(),
            need: need(records, 0.5 + 2.0 * seconds),
            verified_by: Value::Null,
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        }])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload = Workload::of(job)?;
        let mut contenders = CONTENDERS.iter();
        let contender = contenders.find(|(name, ..)| *name == job.contender);
        let (_, server, form) = contender
            .ok_or_else(|| LabError::Usage(format!("{} takes no part here", job.contender)))?;
        let (peer, server) = start(server, &SETTINGS)?;
        pin_this_thread(CLIENT_CORE);
        let keys = KeySet::Decimal.keys(workload.records)?;
        let records = Records {
            keys: &keys,
            sorted: keys.sorted(),
            value_bytes: VALUE_BYTES,
            update_bytes: VALUE_BYTES,
            protocol: Protocol::of(&peer)?,
        };
        load(&server, &records, *form)?;
        measure(&server, &records, *form, workload.seconds)
    }
}

/// Loads pairs, or the keys into a sorted set.
fn load(server: &Server, records: &Records<'_>, form: ScanForm) -> Result<()> {
    let count = records.keys.len();
    if form == ScanForm::SortedSet {
        let script = records.sorted_set(0..count, DEPTH);
        return play_once(server.address(), &script, CONNECTIONS).map(drop);
    }
    load_records(server.address(), records, count, DEPTH, CONNECTIONS).map(drop)
}

fn measure(server: &Server, records: &Records<'_>, form: ScanForm, seconds: f64) -> Result<Answer> {
    let order = Permutation::new(records.keys.len() as u64, 17);
    let scans = records.keys.len().min(PREPARED) as u64;
    let starts: Vec<usize> = (0..scans).map(|nth| order.at(nth) as usize).collect();
    let time = Duration::from_secs_f64(seconds);
    let mut answer = Answer::default();
    let single = records.scans(form, &starts, PAIRS, 1);
    let column = format!("scan {PAIRS} x{MANY_CONNECTIONS}");
    ask_for(
        &mut answer,
        server,
        &column,
        &single,
        MANY_CONNECTIONS,
        time,
    )?;
    let pipelined = records.scans(form, &starts, PAIRS, SCANS_IN_FLIGHT);
    let column = format!("scan {PAIRS} pipelined");
    let busy = ask_for(&mut answer, server, &column, &pipelined, CONNECTIONS, time)?;
    answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
    Ok(answer)
}
