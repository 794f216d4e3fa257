//! Plants one bug after the other and shows that a campaign finds it.

use crate::powercut::{self, DbSubject, LogSubject, PowerCutCampaign};

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
    let mut findings = Vec::new();
    hedgerow_log::plant(None);
    hedgerow::plant(None);
    power_cuts_of_log(seed, 500)?;
    power_cuts_of_engine(seed, 500)?;
    for bug in hedgerow_log::PlantedBug::ALL {
        hedgerow_log::plant(Some(bug));
        let complaint = complaint(|| power_cuts_of_log(seed, PATIENCE));
        findings.push(Finding {
            bug: format!("{bug:?}"),
            campaign: "power cuts, log",
            complaint,
        });
    }
    hedgerow_log::plant(None);
    for bug in hedgerow::PlantedBug::ALL {
        hedgerow::plant(Some(bug));
        let complaint = complaint(|| power_cuts_of_engine(seed, PATIENCE));
        findings.push(Finding {
            bug: format!("{bug:?}"),
            campaign: "power cuts, engine",
            complaint,
        });
    }
    hedgerow::plant(None);
    Ok(findings)
}

fn campaign(seed: u64, images: usize) -> PowerCutCampaign {
    PowerCutCampaign {
        images,
        threads: 2,
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

fn complaint(run: impl FnOnce() -> Result<(), String> + std::panic::UnwindSafe) -> Option<String> {
    match std::panic::catch_unwind(run) {
        Ok(outcome) => outcome.err(),
        Err(_) => Some("a panic (its message is above)".to_owned()),
    }
}
