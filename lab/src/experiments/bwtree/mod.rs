//! Experiments of "InnoDB and the Bw-tree" (NTNU, 2019): one kind of operation after the other,
//! from client to server, over 1 to 96 connections.
//!
//! The thesis compares a Bw-tree behind a thin server with MySQL's InnoDB behind its memcached
//! plugin, on 96 cores with the client on another machine, and asks how each scales. Here the
//! server has one core and the client another, over loopback: what more connections bring is
//! work at hand whenever the server looks, and what they cost is switching between them. InnoDB
//! is MariaDB's, asked in SQL by prepared statements, each a commit of its own.
//!
//! It is a closed loop: every connection has one request under way and sends the next when the
//! answer is in. No contender gets several requests at once from one connection, as text
//! protocols allow (`masstree/fig13` measures that), because SQL clients do not. Text protocols
//! are played by one thread that visits all connections, with requests built beforehand; the
//! client of MariaDB has a thread per connection and builds its packets meanwhile, so look at
//! `client busy`, the share of the client's core that was used.
//!
//! As in the thesis, the keys are dealt out to the connections in the order of insertion: with
//! ascending keys, each works in a range of its own. Keys are sent as 16 hexadecimal digits,
//! which every protocol carries and which sort as the numbers do. Updates change the value, and
//! every answer is compared.

use std::ops::Range;

use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::Workload as Mix;
use hedgerow_lab_peers::{Protocol as Language, ServerSettings, mysql_client};
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::pin_this_thread;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, OURS, named, participant, start};
use crate::wire::{Protocol, Script, load_rows, play_each, play_rows, script, steps, watched};
use crate::{LabError, Result};

/// Who takes part. Those with a log hand it to the system at each commit and sync it every now and
/// then; the thesis kept InnoDB's in memory, and found no difference between the two.
const CONTENDERS: [&str; 5] = [OURS, "redis", "redis aof", "memcached", "mariadb periodic"];

/// As many connections as the thesis's server had cores.
const MOST_CONNECTIONS: usize = 96;

const VALUE_BYTES: usize = 8;

/// Records of a verifying run.
const VERIFIED_RECORDS: usize = 2000;

/// One kind of operations, with random and with ascending keys.
struct Figure {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    claim: &'static str,
    /// The workloads' files: random keys, ascending keys.
    workloads: [&'static str; 2],
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "bwtree/fig11",
        title: "Client and server: inserts",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 11–14, 27–30",
        claim: "From 8 connections to the most, inserts of random keys take 86.7 % less time \
                with the Bw-tree and 5.4 % less with InnoDB; of ascending keys, 86.2 % and \
                53.4 % less.",
        workloads: ["bwtree/insert", "bwtree/insert-monotone"],
    },
    Figure {
        name: "bwtree/fig15",
        title: "Client and server: reads",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 15–18, 31–34",
        claim: "InnoDB reads random keys a little faster at 8 connections, as fast at 16, and \
                slower beyond; with the most connections reads take 79.9 % less time with \
                InnoDB and 86.8 % less with the Bw-tree (ascending keys: 77.9 % and 85.2 %).",
        workloads: ["bwtree/read", "bwtree/read-monotone"],
    },
    Figure {
        name: "bwtree/fig19",
        title: "Client and server: updates",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 19–22, 35–38",
        claim: "With the most connections updates of random keys take 87.6 % less time with the \
                Bw-tree and 28.6 % less with InnoDB; of ascending keys, 83.7 % and 45.8 % less.",
        workloads: ["bwtree/update", "bwtree/update-monotone"],
    },
    Figure {
        name: "bwtree/fig23",
        title: "Client and server: half reads, half updates",
        source: "InnoDB and the Bw-tree, §3.3, Figs. 23–26, 39–42",
        claim: "With the most connections the mix takes 84.8 % less time with the Bw-tree and \
                45.9 % less with InnoDB; on ascending keys, 85.1 % and 72.2 % less.",
        workloads: ["bwtree/read-update", "bwtree/read-update-monotone"],
    },
    Figure {
        name: "bwtree/table7",
        title: "Client and server: deletes of everything",
        source: "InnoDB and the Bw-tree, §3.2, Table 7",
        claim: "Planned and not measured: deletes failed after about 1.8 million, by a defect in \
                the memcached plugin or in InnoDB.",
        workloads: ["bwtree/delete", "bwtree/delete-monotone"],
    },
];

/// All of them, in the thesis's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    let boxed = |figure| Box::new(figure) as Box<dyn Experiment>;
    FIGURES.into_iter().map(boxed).collect()
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    mix: String,
    records: usize,
    connections: usize,
}

impl Experiment for Figure {
    fn about(&self) -> About {
        About {
            name: self.name,
            title: self.title,
            source: self.source,
            claim: self.claim,
            x_label: Some("connections"),
            x_log: true,
            baseline: OURS,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        named(&CONTENDERS).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(500, 8000, 10_000_000);
        let connections: &[usize] = settings.scale.pick(
            &[8],
            &[1, 8, MOST_CONNECTIONS],
            &[1, 8, 16, 32, 64, MOST_CONNECTIONS],
        );
        // Starting servers is most of the time of a smoke run: one order of keys is enough.
        let orders = settings.scale.pick(1, 2, 2);
        let mixes = self.workloads.iter().zip(["random", "ascending"]);
        let mut points = Vec::new();
        for (mix, order) in mixes.take(orders) {
            for &connections in connections {
                let workload = Workload {
                    mix: (*mix).to_owned(),
                    records,
                    connections,
                };
                points.push(Point {
                    parameters: [
                        ("keys".to_owned(), order.into()),
                        ("records".to_owned(), records.into()),
                        ("server cores".to_owned(), 1.into()),
                    ]
                    .into(),
                    x: Some(X::Number(connections as f64)),
                    contenders: CONTENDERS.to_vec(),
                    need: Need {
                        memory_bytes: records as u64 * 1000 + (512 << 20),
                        disk_bytes: records as u64 * 500 + (256 << 20),
                        shared_seconds: 0.3,
                        own_seconds: records as f64 * 120e-6,
                        verify_seconds: 0.4,
                    },
                    verified_by: order.into(),
                    workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
                });
            }
        }
        Ok(points)
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            // Every answer is compared: a short run is all that verifying needs.
            workload.records = workload.records.min(VERIFIED_RECORDS);
        }
        measure(&job.contender, &workload)
    }
}

/// Starts a server, loads it if the workload says so, and plays every connection's part once.
fn measure(contender: &str, workload: &Workload) -> Result<Answer> {
    let mix = Mix::named(&workload.mix).map_err(LabError::from_display)?;
    let keys: Keys = mix
        .keys
        .keys(workload.records)?
        .iter()
        .map(hexadecimal)
        .collect();
    let parts = slices(workload.records, workload.connections);
    let parts: Vec<_> = parts
        .enumerate()
        .map(|(connection, slice)| steps(&mix, slice, connection as u64))
        .collect();
    let settings = ServerSettings {
        memory_bytes: workload.records as u64 * 1000 + (128 << 20),
        threads: 1,
        connections: 2 * MOST_CONNECTIONS,
    };
    let (peer, server) = start(contender, &settings)?;
    // The threads of a client inherit this.
    pin_this_thread(CLIENT_CORE);
    let address = server.address();
    let loaded = mix.loaded > 0.0;
    let (rate, busy) = if peer.protocol == Language::MySql {
        let connect = mysql_client().map_err(|why| LabError::unavailable(&why))?;
        if loaded {
            load_rows(connect, address, &keys, VALUE_BYTES)?;
        }
        watched(|| play_rows(connect, address, &keys, &parts, VALUE_BYTES))?
    } else {
        let protocol = Protocol::of(&peer)?;
        if loaded {
            let insert = Mix::named("bwtree/insert-monotone").map_err(LabError::from_display)?;
            let load = steps(&insert, 0..keys.len(), 0);
            play_each(address, &[script(protocol, &keys, &load, VALUE_BYTES)])?;
        }
        let scripts: Vec<Script> = parts
            .iter()
            .map(|steps| script(protocol, &keys, steps, VALUE_BYTES))
            .collect();
        watched(|| play_each(address, &scripts))?
    };
    let mut answer = Answer::default();
    answer.push("throughput", "kops/s", Better::Higher, rate / 1000.0);
    answer.push("client busy", "% of a core", Better::Lower, busy * 100.0);
    Ok(answer)
}

/// The records of each connection.
fn slices(records: usize, connections: usize) -> impl Iterator<Item = Range<usize>> {
    let bound = move |connection| records * connection / connections;
    (0..connections).map(move |connection| bound(connection)..bound(connection + 1))
}

fn hexadecimal(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_lab_data::workload::Kind;

    #[test]
    fn connections_share_the_records_out() {
        let slices: Vec<_> = slices(10, 4).collect();
        assert_eq!(slices, [0..2, 2..5, 5..7, 7..10]);
    }

    #[test]
    fn every_workload_is_there_and_touches_each_record_as_it_says() {
        for name in FIGURES.iter().flat_map(|figure| figure.workloads) {
            let mix = Mix::named(name).expect("it is there");
            let mut steps = steps(&mix, 100..200, 3);
            assert_eq!(steps.len(), 100, "{name}");
            if matches!(steps[0].kind, Kind::Insert | Kind::Remove) {
                steps.sort_unstable_by_key(|step| step.record);
                assert!(
                    (100..200).eq(steps.iter().map(|step| step.record)),
                    "{name}"
                );
            }
        }
        let ascending = hexadecimal(&[0, 255, 16]);
        assert_eq!(ascending, "00ff10");
    }
}
