//! What connections cost a server that has nothing to do: memory of each server, empty, with
//! many idle connections.

use std::net::TcpStream;
use std::time::Duration;

use hedgerow_lab_peers::ServerSettings;
use hedgerow_lab_report::Better;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::open_files_limit;
use crate::registry::Registry;
use crate::servers::{OURS, named, participant, start};
use crate::{LabError, Result};

const CONTENDERS: [&str; 4] = [OURS, "redis", "valkey", "memcached"];

/// Files that a server and this program have open beside connections.
const OTHER_FILES: u64 = 200;

/// The experiment.
pub struct Idle;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    connections: usize,
}

impl Experiment for Idle {
    fn about(&self) -> About {
        About {
            name: "masstree/server-idle",
            title: "Servers: memory with idle connections",
            source: "Masstree, §6.1 (clients that keep connections open)",
            claim: "Not measured: the source's clients are few and busy.",
            x_label: None,
            x_log: false,
            baseline: "redis",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        named(&CONTENDERS).iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let wanted = settings.scale.pick(100, 10_000, 10_000);
        // Both ends count against a limit of the same size.
        let most = open_files_limit().map_or(wanted, |limit| limit.saturating_sub(OTHER_FILES));
        let connections = wanted.min(most) as usize;
        Ok(vec![Point {
            parameters: [("connections".to_owned(), connections.into())].into(),
            x: None,
            contenders: CONTENDERS.to_vec(),
            need: Need {
                memory_bytes: (connections as u64 * 64) << 10,
                disk_bytes: 64 << 20,
                shared_seconds: 1.4 + connections as f64 * 30e-6,
                own_seconds: 0.0,
                verify_seconds: 0.5,
            },
            verified_by: Value::Null,
            workload: serde_json::to_value(Workload { connections })
                .map_err(LabError::from_display)?,
        }])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let Workload { connections } = job.workload()?;
        if job.stage == Stage::Verify {
            return measure(&job.contender, connections.min(100), Duration::ZERO);
        }
        measure(&job.contender, connections, Duration::from_secs(1))
    }
}

fn measure(contender: &str, count: usize, idle_for: Duration) -> Result<Answer> {
    let settings = ServerSettings {
        memory_bytes: 1 << 30,
        threads: 1,
        connections: count + 100,
        readers_port: 0,
    };
    let (_, server) = start(contender, &settings)?;
    let connections = (0..count).map(|_| TcpStream::connect(server.address()));
    let connections = connections.collect::<std::io::Result<Vec<_>>>();
    let connections = connections.map_err(|error| {
        LabError::Unavailable(format!("it did not take {count} connections: {error}"))
    })?;
    std::thread::sleep(idle_for);
    let mut answer = Answer::default();
    let resident = server.resident_bytes() as f64 / f64::from(1 << 20);
    answer.push("resident", "MiB", Better::Lower, resident);
    let each = server.grown_bytes() as f64 / connections.len().max(1) as f64 / 1024.0;
    answer.push("memory", "KiB/connection", Better::Lower, each);
    Ok(answer)
}
