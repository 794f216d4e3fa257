//! Plants one bug after the other and shows that a campaign finds it: power cuts for what logs and
//! recovery promise, duels for the concurrency of the trees and of commits.

use std::fmt::Debug;
use std::panic::{UnwindSafe, catch_unwind};

use crate::db_duels;
use crate::matryoshka_duels;
use crate::powercut::{self, DbSubject, LogSubject, PowerCutCampaign};
use crate::tree_duels::{self, Duel};

/// Images after which a bug counts as unnoticed.
const PATIENCE: usize = 60_000;

/// The campaign that must turn red, and what it said.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The bug.
    pub bug: String,
    /// The campaign.
    pub campaign: &'static str,
    /// Its first complaint; `None` if the bug went unnoticed.
    pub complaint: Option<String>,
}

/// Runs each campaign without a bug (it must be green) and then with each of its bugs.
pub fn run(seed: u64) -> Result<Vec<Finding>, String> {
    hedgerow_log::plant(None);
    hedgerow::plant(None);
    hedgerow_masstree::plant(None);
    hedgerow_matryoshka::plant(None);
    let mut findings = Vec::new();
    let log = "power cuts, log";
    power_cuts_of_log(seed, 500)?;
    for &bug in hedgerow_log::PlantedBug::ALL {
        hedgerow_log::plant(Some(bug));
        findings.push(finding(&bug, log, || power_cuts_of_log(seed, PATIENCE)));
    }
    hedgerow_log::plant(None);
    power_cuts_of_engine(seed, 500)?;
    duels_of_db(20)?;
    for &bug in hedgerow::PlantedBug::ALL {
        use hedgerow::PlantedBug::{BatchesNotAwaited, CommitsNotAwaited};
        hedgerow::plant(Some(bug));
        findings.push(match bug {
            BatchesNotAwaited | CommitsNotAwaited => {
                finding(&bug, "duels, engine", || duels_of_db(500))
            }
            _ => finding(&bug, "power cuts, engine", || {
                power_cuts_of_engine(seed, PATIENCE)
            }),
        });
    }
    hedgerow::plant(None);
    duels(&tree_duels::DUELS, &[100])?;
    for &bug in hedgerow_masstree::PlantedBug::ALL {
        hedgerow_masstree::plant(Some(bug));
        findings.push(finding(&bug, "duels, tree", || {
            duels(&tree_duels::DUELS, &[100, 10, 1])
        }));
    }
    hedgerow_masstree::plant(None);
    duels(&matryoshka_duels::DUELS, &[100])?;
    for &bug in hedgerow_matryoshka::PlantedBug::ALL {
        hedgerow_matryoshka::plant(Some(bug));
        findings.push(finding(&bug, "duels, matryoshka", || {
            duels(&matryoshka_duels::DUELS, &[100, 10, 1])
        }));
    }
    hedgerow_matryoshka::plant(None);
    Ok(findings)
}

fn campaign(seed: u64, images: usize) -> PowerCutCampaign {
    PowerCutCampaign {
        images,
        threads: 2,
        cuts_per_life: None,
        seed,
        failures: None,
    }
}

fn power_cuts_of_log(seed: u64, images: usize) -> Result<(), String> {
    powercut::run(&campaign(seed, images), LogSubject::default).map(drop)
}

fn power_cuts_of_engine(seed: u64, images: usize) -> Result<(), String> {
    powercut::run(&campaign(seed, images), DbSubject::default).map(drop)
}

fn duels_of_db(rounds: usize) -> Result<(), String> {
    db_duels::commit_during_a_batch(rounds)?;
    db_duels::batch_during_a_commit(rounds)
}

/// Every duel, with its rounds divided by each of `parts` in turn.
fn duels(duels: &[Duel], parts: &[usize]) -> Result<(), String> {
    for part in parts {
        for duel in duels {
            let outcome = (duel.run)(duel.rounds.div_ceil(*part));
            outcome.map_err(|complaint| format!("{}: {complaint}", duel.name))?;
        }
    }
    Ok(())
}

fn finding(
    bug: &dyn Debug,
    campaign: &'static str,
    run: impl FnOnce() -> Result<(), String> + UnwindSafe,
) -> Finding {
    let complaint = match catch_unwind(run) {
        Ok(outcome) => outcome.err(),
        Err(_) => Some("a panic (its message is above)".to_owned()),
    };
    Finding {
        bug: format!("{bug:?}"),
        campaign,
        complaint,
    }
}
