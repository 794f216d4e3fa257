//! Interactive transactions of clients and servers: two accounts are read, and an amount moved from
//! one to the other.
//!
//! A transaction takes two round trips: `BEGIN SERIALIZABLE` and two `GET`s, then two `SET`s and
//! `COMMIT`; or `WATCH` and two `GET`s, then `MULTI`, two `SET`s and `EXEC`. Each connection has
//! one under way, and begins it again at once, with the same accounts, when it was refused.
//!
//! A round starts a server on one core, opens the accounts, and plays at each exponent of Zipf from
//! another core. Then one order of all transactions must explain what each of them read
//! ([`history`](super::history)), and the server must have every account as they left it; so the
//! sum of all is what it was. That costs no time of what is measured.
//!
//! Beside the clock's figures stand those of the server's own processor time, all its threads
//! together, by committed transaction: what was spent on refused ones counts.

use std::time::Duration;

use hedgerow_lab_data::random::{Random, mix64};
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_peers::ServerSettings;
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::explained;
use super::skew::{EXPONENTS, draw};
use crate::experiment::{
    About, Answer, Experiment, Job, MOST_CONNECTIONS, Need, Participant, Point, Settings, Stage,
};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::registry::Registry;
use crate::servers::{CLIENT_CORE, OURS, participants_as, start};
use crate::wire::{
    Account, Attempt, TransferForm, Transfers, compare_accounts, open_accounts, watched,
};
use crate::{LabError, Result};

/// Transactions that are prepared; they are played over and over.
const DRAWN: usize = 1 << 15;

/// Connections of a verifying run: some that are in each other's way.
const VERIFYING_CONNECTIONS: usize = 8;

const BASELINE: &str = "redis aof";

/// Who takes part: by this name, the server of that, asked in this form.
const CONTENDERS: [(&str, &str, TransferForm); 4] = [
    ("hedgerow server, BEGIN", OURS, TransferForm::Begin),
    ("hedgerow server, WATCH", OURS, TransferForm::Watch),
    (BASELINE, BASELINE, TransferForm::Watch),
    ("redis", "redis", TransferForm::Watch),
];

/// The experiment.
pub(super) struct Interactive;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    records: usize,
    connections: usize,
    /// Seconds per exponent.
    seconds: f64,
}

/// An open account under every key of a server, and all that was attempted with them.
struct Opened<'a> {
    workload: &'a Workload,
    server: &'a Server,
    keys: &'a Keys,
    form: TransferForm,
    attempts: Vec<Attempt>,
}

impl Opened<'_> {
    /// Plays at one exponent, untimed for a while, then timed.
    fn play(&mut self, exponent: f64, answer: &mut Answer) -> Result<()> {
        let Workload {
            records,
            connections,
            seconds,
        } = *self.workload;
        let mut random = Random::new(mix64(exponent.to_bits()));
        let drawn = draw(exponent, records as u64, 2, DRAWN, &mut random);
        let pairs = drawn.chunks_exact(2);
        let pairs: Vec<_> = pairs.map(|of| [of[0] as usize, of[1] as usize]).collect();
        let transfers = Transfers::new(self.form, self.keys, &pairs);
        let play = |seconds| {
            let time = Duration::from_secs_f64(seconds);
            transfers.play(self.server.address(), connections, time)
        };
        self.attempts.extend(play(seconds / 4.0)?.attempts);
        let before = self.server.cpu_seconds();
        let (played, busy) = watched(|| play(seconds))?;
        let used = self.server.cpu_seconds() - before;

        let begun = played.attempts.len() as f64;
        let committed = played.attempts.iter().filter(|each| each.is_committed);
        let committed = committed.count() as f64;
        let column = format!("zipf {exponent}");
        let rate = committed / played.seconds / 1e3;
        answer.push(&column, "thousand/s", Better::Higher, rate);
        if connections > 1 {
            let share = (begun - committed) * 100.0 / begun;
            let column = format!("{column}: aborted");
            answer.push(&column, "%", Better::Lower, share);
        }
        let each = used * 1e6 / committed;
        let of_server = format!("{column}: server time");
        answer.push(&of_server, "µs/transaction", Better::Lower, each);
        let of_client = format!("{column}: client busy");
        answer.push(&of_client, "% of a core", Better::Lower, busy * 100.0);
        self.attempts.extend(played.attempts);
        Ok(())
    }

    /// Whether everything that was read and is stored makes sense together.
    fn check(&self) -> Result<()> {
        let are_snapshots = self.form == TransferForm::Begin;
        let accounts = explained(&self.attempts, self.keys.len(), are_snapshots)?;
        compare_accounts(self.server.address(), self.keys, &accounts)?;
        let sum: u64 = accounts.iter().map(|account| account.balance).sum();
        let opened = accounts.len() as u64 * Account::OPENED.balance;
        match sum == opened {
            true => Ok(()),
            false => Err(LabError::WrongAnswer(format!(
                "{opened} were in all accounts, now {sum} are"
            ))),
        }
    }
}

impl Workload {
    fn run(&self, server: &str, form: TransferForm) -> Result<Answer> {
        let settings = ServerSettings {
            memory_bytes: self.records as u64 * 1000 + (256 << 20),
            threads: 1,
            connections: 2 * MOST_CONNECTIONS,
            readers_port: 0,
        };
        let (_, server) = start(server, &settings)?;
        pin_this_thread(CLIENT_CORE);
        let keys = KeySet::Decimal.keys(self.records)?;
        open_accounts(server.address(), &keys)?;
        let mut opened = Opened {
            workload: self,
            server: &server,
            keys: &keys,
            form,
            attempts: Vec::new(),
        };
        let mut answer = Answer::default();
        for exponent in EXPONENTS {
            opened.play(exponent, &mut answer)?;
        }
        opened.check()?;
        Ok(answer)
    }

    /// A small one of the same kind.
    fn few(self) -> Self {
        Self {
            records: self.records.min(500),
            connections: self.connections.max(VERIFYING_CONNECTIONS),
            seconds: 0.03,
        }
    }
}

impl Experiment for Interactive {
    fn about(&self) -> About {
        About {
            name: "transactions/interactive",
            title: "Servers: interactive transactions, ours beside Redis's WATCH",
            source: "FoundationDB, SIGMOD 2021, §2.4 (the shape: reads at a snapshot, conflicts \
                     found at the commit); Redis, WATCH",
            claim: "At every contention a transaction between `BEGIN` and `COMMIT` takes no more \
                    of the server's processor than Redis's after `WATCH`, and no more are aborted.",
            x_label: Some("connections"),
            x_log: true,
            baseline: BASELINE,
            here: Some(
                "One server core, and one client core that visits the connections in turn. Ours \
                 and `redis aof` write a commit to their log before they answer; ours is synced \
                 every 200 ms, Redis's every second. `redis` has no file and loses everything. \
                 `BEGIN` promises that aborted transactions, too, read at one moment; after \
                 `WATCH` only committed ones do.",
            ),
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        participants_as(&CONTENDERS.map(|(name, server, _)| (name, server)))
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let records = settings.keys(1000, 100_000, 1_000_000).max(100);
        let seconds = settings.scale.pick(0.02, 0.4, 2.0);
        let point = |connections: usize| -> Result<Point> {
            let workload = Workload {
                records,
                connections,
                seconds,
            };
            Ok(Point {
                parameters: [
                    ("records".to_owned(), records.into()),
                    ("server cores".to_owned(), 1.into()),
                ]
                .into(),
                x: Some(X::Number(connections as f64)),
                contenders: CONTENDERS.map(|(name, ..)| name).to_vec(),
                need: Need {
                    memory_bytes: records as u64 * 1000 + (512 << 20),
                    disk_bytes: records as u64 * 200 + (seconds * 1e8) as u64 + (128 << 20),
                    shared_seconds: 0.4 + seconds * 1.25 * EXPONENTS.len() as f64,
                    own_seconds: records as f64 * 4e-6,
                    verify_seconds: 0.5,
                },
                verified_by: Value::Null,
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        };
        let connections = settings.connections(&[8], &[1, 8, 32], &[1, 8, 32]);
        connections.into_iter().map(point).collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let mut workload: Workload = job.workload()?;
        if job.stage == Stage::Verify {
            workload = workload.few();
        }
        let mut contenders = CONTENDERS.iter();
        let contender = contenders.find(|(name, ..)| *name == job.contender);
        let (_, server, form) = contender
            .ok_or_else(|| LabError::Usage(format!("{} takes no part here", job.contender)))?;
        workload.run(server, *form)
    }
}
