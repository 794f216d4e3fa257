//! TPC-C over Hedgerow's own engine: its transactions and its log, on every index.
//!
//! A round loads a fresh database, runs all five transactions, checks the consistency conditions,
//! closes the database, opens it, and checks them again.

use std::path::PathBuf;

use hedgerow::{Db, Durability, IndexKind};
use hedgerow_lab_contender::Promises;
use hedgerow_lab_database::Error;
use hedgerow_lab_database::tpcc::{EngineDatabase, Mix, Size, Tpcc};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::harness::HARNESS;
use crate::machine::timed;
use crate::registry::Registry;
use crate::{LabError, Result};

/// The indexes; one that the engine of this build does not know takes no part.
const INDEXES: [&str; 5] = ["masstree", "btree", "matryoshka", "bwtree", "bst"];

/// The standard index.
const BASELINE: &str = "masstree";

/// All experiments of this module.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(OverEngine)]
}

/// The experiment.
struct OverEngine;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Log {
    NotSynced,
    Periodic,
    Synced,
}

impl Log {
    fn name(self) -> &'static str {
        match self {
            Self::NotSynced => "not synced",
            Self::Periodic => "synced by the clock",
            Self::Synced => "each commit synced",
        }
    }

    fn durability(self) -> Durability {
        match self {
            Self::NotSynced => Durability::None,
            Self::Periodic => Durability::Periodic,
            Self::Synced => Durability::Sync,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    log: Log,
    /// None is a database far smaller than one warehouse.
    warehouses: Option<u64>,
    threads: usize,
    transactions: u64,
    directory: Option<PathBuf>,
}

impl Workload {
    fn size(&self) -> Size {
        self.warehouses.map_or(Size::reduced(1), Size::new)
    }

    fn folder(&self) -> Result<tempfile::TempDir> {
        let made = match &self.directory {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        };
        Ok(made?)
    }

    /// A small one of the same kind.
    fn few(self) -> Self {
        Self {
            warehouses: None,
            transactions: self.transactions.min(50),
            ..self
        }
    }

    fn run(&self, index: IndexKind) -> std::result::Result<Answer, Failure> {
        let folder = self.folder().map_err(Failure::Lab)?;
        let builder = || Db::builder().index(index);
        let db = builder().open(folder.path())?;
        let tpcc = Tpcc {
            size: self.size(),
            mix: Mix::Full,
            threads: self.threads,
            transactions: self.transactions,
            seed: 1,
        };
        let (load_seconds, database) =
            timed(|| EngineDatabase::load(db, index, tpcc.size, tpcc.seed));
        let database = database?;
        let (outcome, done) = database.run(&tpcc, self.log.durability(), HARNESS)?;
        database.check(done)?;
        database.db().close()?;
        drop(database);
        let database = EngineDatabase::open(builder().open(folder.path())?, tpcc.size)?;
        database.check(done)?;
        let mut answer = Answer::default();
        answer.push("transactions", "/s", Better::Higher, outcome.throughput());
        let committed = outcome.committed as usize;
        answer.push_counts("transactions", "per transaction", committed);
        let again = outcome.aborts as f64 * 1e3 / outcome.committed.max(1) as f64;
        answer.push("begun again", "in a thousand", Better::Lower, again);
        let rows = tpcc.size.rows() as f64 / 1e3 / load_seconds.max(1e-9);
        answer.push("load", "thousand rows/s", Better::Higher, rows);
        Ok(answer)
    }
}

/// Why a run has no answer.
enum Failure {
    Database(Error),
    Lab(LabError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<hedgerow::Error> for Failure {
    fn from(error: hedgerow::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<Failure> for LabError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Database(error @ Error::Inconsistent(_)) => {
                Self::WrongAnswer(error.to_string())
            }
            Failure::Database(error) => Self::from_display(error),
            Failure::Lab(error) => error,
        }
    }
}

impl Experiment for OverEngine {
    fn about(&self) -> About {
        About {
            name: "tpcc/engine",
            title: "TPC-C over the engine, on every index",
            source: "TPC-C revision 5.11; ours",
            claim: "All five transactions commit by the engine's own transactions and log, and \
                    the twelve consistency conditions of clause 3.3.2 hold after each run and \
                    after the database was opened again.",
            x_label: Some("log"),
            x_log: false,
            baseline: BASELINE,
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let promises = Promises {
            ordered: true,
            concurrent: true,
            durable: true,
            ..Promises::default()
        };
        let known = INDEXES.into_iter().filter_map(IndexKind::from_name);
        let participants = known.map(|index| Participant {
            entry: own(index.name(), promises),
            available: Ok(()),
            environment: Vec::new(),
        });
        participants.collect()
    }

    fn points(&self, registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let logs: &[Log] = settings.scale.pick(
            &[Log::NotSynced],
            &[Log::NotSynced, Log::Synced],
            &[Log::NotSynced, Log::Periodic, Log::Synced],
        );
        let threads = settings.cores.clamp(1, 64);
        let contenders = self
            .participants(registry)
            .iter()
            .map(|who| who.entry.name)
            .collect();
        let contenders: Vec<&'static str> = contenders;
        let points = logs.iter().map(|&log| {
            let workload = Workload {
                log,
                warehouses: settings.scale.pick(None, Some(threads as u64), Some(48)),
                threads,
                transactions: settings.scale.pick(40, 5000, 50_000),
                directory: settings.directory.clone(),
            };
            let (rows, played) = (
                workload.size().rows(),
                workload.transactions * threads as u64,
            );
            Ok(Point {
                parameters: [
                    ("warehouses".to_owned(), workload.size().warehouses.into()),
                    ("threads".to_owned(), threads.into()),
                ]
                .into(),
                x: Some(X::Category(log.name().to_owned())),
                contenders: contenders.clone(),
                need: Need {
                    memory_bytes: rows * 700 + (128 << 20),
                    disk_bytes: rows * 1000 + played * 20_000 + (256 << 20),
                    shared_seconds: 0.1,
                    own_seconds: rows as f64 * 20e-6 + played as f64 * 300e-6,
                    verify_seconds: 1.0,
                },
                verified_by: serde_json::json!([log]),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let index = IndexKind::from_name(&job.contender)
            .ok_or_else(|| LabError::Usage(format!("{} is no index here", job.contender)))?;
        match job.stage {
            Stage::Verify => {
                workload.few().run(index)?;
                Ok(Answer::default())
            }
            Stage::Measure => Ok(workload.run(index)?),
            Stage::Count { .. } => Ok(Answer::default()),
        }
    }
}
