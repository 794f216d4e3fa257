//! File faults and full disks under a scripted workload.
//!
//! The script opens, writes in every way, checkpoints, backs up, closes and reopens. It is run
//! once to count its file calls, and then once for every call and every way in which that call
//! can fail. Whatever happened, reads must go on, nothing may be accepted after a failed sync,
//! the database must reopen once the fault is gone, and every acknowledged write must be there:
//! after a restart of the process and after power cuts.

mod campaign;
mod facts;
mod full_disks;
mod pressed;
mod session;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::pressure::Pressure;
use campaign::open;
use facts::Facts;
use session::Session;

pub use campaign::FaultCampaign;

/// What a campaign did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// Cases run: one failing call each.
    pub cases: usize,
    /// Cases by kind of call.
    pub by_kind: BTreeMap<CallKind, usize>,
    /// Cases in which the database stopped accepting writes.
    pub poisoned: usize,
    /// Cases with a sync that failed and lost its data.
    pub lost_syncs: usize,
    /// Cases with a full disk.
    pub full_disks: usize,
    /// Of those, cases in which writes failed clearly and went on when there was space again.
    pub resumed: usize,
    /// Of those, cases in which a value that was refused for its size waited for space in memory.
    pub waited: usize,
    /// Openings while the disk was full.
    pub full_openings: usize,
    /// Power cuts recovered.
    pub images: usize,
    /// What happened to page files, if that counts.
    pub pressure: Option<Pressure>,
}

/// Runs the campaign; the error names the case and what went wrong.
pub fn run(campaign: &FaultCampaign) -> Result<FaultReport, String> {
    let base = Base::new(campaign)?;
    let mut report = FaultReport::default();
    let calls = base.count_calls()?;
    let mut number = 0;
    for (&kind, &count) in &calls {
        for after in 0..count {
            for fault in ways_to_fail(kind) {
                number += 1;
                if number % campaign.stride == campaign.first {
                    base.one_fault(kind, after, fault, &mut report)
                        .map_err(|error| {
                            format!(
                                "call {after} of {count} of {kind:?} fails with {fault:?} (seed \
                            {}): {error}",
                                campaign.seed
                            )
                        })?;
                }
            }
        }
    }
    let syncs = calls.get(&CallKind::Sync).copied().unwrap_or(0);
    for after in (campaign.first % campaign.stride..syncs).step_by(campaign.stride.min(4)) {
        base.lost_sync(after, &mut report).map_err(|error| {
            let seed = campaign.seed;
            format!("sync {after} of {syncs} fails and loses its data (seed {seed}): {error}")
        })?;
    }
    base.full_disks(&mut report)?;
    if let Some(pressure) = &report.pressure {
        pressure.judge()?;
    }
    Ok(report)
}

fn ways_to_fail(kind: CallKind) -> Vec<Fault> {
    let error = Fault::Error(ErrorKind::Other);
    match kind {
        CallKind::Write => vec![
            error,
            Fault::ShortWrite(ErrorKind::StorageFull),
            Fault::ShortWrite(ErrorKind::Other),
            Fault::TornWrite(ErrorKind::Other),
        ],
        _ => vec![error],
    }
}

/// A disk whose every layer the campaign can reach: faults above, power cuts below.
struct Disk {
    faulty: FaultyVfs,
    recording: Arc<RecordingVfs>,
}

impl Disk {
    fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.faulty.clone())
    }
}

/// What every case begins with.
struct Base<'a> {
    campaign: &'a FaultCampaign,
    disk: MemoryVfs,
    /// What is on it.
    facts: Facts,
}

impl<'a> Base<'a> {
    fn new(campaign: &'a FaultCampaign) -> Result<Base<'a>, String> {
        let mut base = Base {
            campaign,
            disk: MemoryVfs::new(),
            facts: Facts::default(),
        };
        if campaign.under_pressure {
            let vfs: Arc<dyn Vfs> = Arc::new(base.disk.clone());
            let mut session = Session::new(vfs, campaign, Facts::default());
            session.fill();
            session.finish()?;
            if session.failures > 0 {
                return Err("the rows cannot be written without any fault".to_owned());
            }
            base.facts = session.facts;
        }
        Ok(base)
    }

    fn disk(&self) -> Disk {
        let recording = Arc::new(RecordingVfs::new(&self.disk));
        let inner: Arc<dyn Vfs> = Arc::<RecordingVfs>::clone(&recording);
        Disk {
            faulty: FaultyVfs::new(inner),
            recording,
        }
    }

    fn session(&self, disk: &Disk) -> Session {
        Session::new(disk.vfs(), self.campaign, self.facts.clone())
    }

    fn count_calls(&self) -> Result<BTreeMap<CallKind, usize>, String> {
        let disk = self.disk();
        let mut session = self.session(&disk);
        session.script();
        session.finish()?;
        if session.failures > 0 {
            return Err("the script fails without any fault".to_owned());
        }
        Ok(CallKind::ALL
            .map(|kind| (kind, disk.faulty.calls(kind)))
            .into_iter()
            .collect())
    }

    fn one_fault(
        &self,
        kind: CallKind,
        after: usize,
        fault: Fault,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        let disk = self.disk();
        disk.faulty.fail_once(kind, after, fault);
        let mut session = self.session(&disk);
        session.script();
        report.cases += 1;
        *report.by_kind.entry(kind).or_default() += 1;
        report.poisoned += usize::from(session.poison.is_some());
        session.finish()?;
        disk.faulty.heal();
        self.judge(&disk, &session, report)
    }

    /// A sync fails, and what it was to write is only in the system's cache from then on, which
    /// later process runs of the database read. The power then goes.
    fn lost_sync(&self, after: usize, report: &mut FaultReport) -> Result<(), String> {
        let disk = self.disk();
        disk.recording.lose_sync(after);
        let mut session = self.session(&disk);
        session.script();
        report.cases += 1;
        report.lost_syncs += 1;
        session.finish()?;
        // How many syncs there are depends on which of them share one: this time it may not have
        // come.
        disk.recording.heal();
        self.judge(&disk, &session, report)
    }

    /// Restarts the process, and cuts the power.
    fn judge(
        &self,
        disk: &Disk,
        session: &Session,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        if let Some(pressure) = session.pressure {
            report.pressure.get_or_insert_default().add(&pressure);
        }
        let facts = &session.facts;
        let acknowledged = disk.recording.operations();
        facts
            .check(self.campaign, open(disk.vfs(), self.campaign))
            .map_err(|error| format!("after a restart: {error}"))?;
        self.cut_power(disk, acknowledged, facts, report)
    }

    /// Cuts the power behind the last operation, and at random moments from the last
    /// acknowledgement on: within the process run that recovers what the fault left.
    fn cut_power(
        &self,
        disk: &Disk,
        acknowledged: usize,
        facts: &Facts,
        report: &mut FaultReport,
    ) -> Result<(), String> {
        let seed = self.campaign.seed ^ report.cases as u64;
        let mut rng = StdRng::seed_from_u64(seed);
        let end = disk.recording.operations();
        let cuts = (0..self.campaign.cuts).map(|cut| match cut {
            0 => end,
            _ => rng.random_range(acknowledged..=end),
        });
        let mut moments: Vec<usize> = cuts.collect();
        // The recording replays its operations once where they come in order.
        moments.sort_unstable();
        for moment in moments {
            let image = disk
                .recording
                .crash_image(moment, &mut |n| rng.random_range(0..n));
            report.images += 1;
            facts
                .check(self.campaign, open(Arc::new(image), self.campaign))
                .map_err(|e| {
                    let (cut, all) = (moment - acknowledged, end - acknowledged);
                    format!("after a power cut behind {cut} of {all} operations of a restart: {e}")
                })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hedgerow::Durability;

    use super::*;

    #[test]
    fn what_one_process_run_lost_is_not_acknowledged_when_the_next_closes() {
        let campaign = FaultCampaign {
            seed: 0,
            stride: 1,
            first: 0,
            cuts: 0,
            index: None,
            under_pressure: false,
            mixed: false,
            log_dirs: false,
        };
        let base = Base::new(&campaign).unwrap();
        let disk = base.disk();
        let mut session = base.session(&disk);
        session.open();
        session.put("first", "durable", Durability::Sync);
        disk.faulty
            .fail_once(CallKind::Sync, 0, Fault::Error(ErrorKind::Other));
        session.put("key", "accepted", Durability::Periodic);
        session.close();
        assert!(session.failures > 0, "the fault met nothing");
        assert_eq!(session.broken, None);
        session.open();
        session.close();
        assert!(session.facts.keys[&b"key"[..]].allows(None));
        session.finish().unwrap();
    }
}
