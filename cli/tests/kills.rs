//! `kill -9` of the real server while clients write; `campaign kill` does it hundreds of times.

use std::path::PathBuf;

use hedgerow::IndexKind;
use hedgerow_testkit::kill::trouble::{SMALL_DISK_BYTES, SmallDisk};
use hedgerow_testkit::kill::{KillCampaign, KillReport, run};
use hedgerow_testkit::seed::seed;

const KILLS: usize = 24;

fn campaign(dir: &tempfile::TempDir, index: Option<IndexKind>) -> KillCampaign {
    KillCampaign {
        program: PathBuf::from(env!("CARGO_BIN_EXE_hedgerow")),
        data: dir.path().join("data"),
        kills: KILLS,
        index,
        mixed: false,
        log_dirs: false,
        under_pressure: false,
        writers: 3,
        seed: seed(),
        small_disk: None,
        limits_files: false,
    }
}

fn kill(campaign: &KillCampaign) -> KillReport {
    let report = run(campaign).unwrap_or_else(|error| panic!("{error}"));
    println!("{report:?}");
    assert!(report.kills >= campaign.kills && report.acknowledged > 0);
    assert!(report.acknowledged_by_memcached > 0, "{report:?}");
    // The campaign goes on until it has met both.
    assert!(
        report.kills_in_recovery > 0 && report.kills_in_checkpoint > 0,
        "{report:?}"
    );
    report
}

/// Kills servers whose disks fill up, where a small one can be mounted, or whose writes fail; with
/// keyspaces of all kinds where no index is named.
fn kill_on_failing_disks(index: Option<IndexKind>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut campaign = campaign(&dir, index);
    campaign.mixed = index.is_none();
    let disk = SmallDisk::mount(dir.path(), SMALL_DISK_BYTES);
    match &disk {
        Ok(_) => campaign.small_disk = Some(dir.path().to_path_buf()),
        Err(reason) => println!("skipped: full disks, since no small one can be mounted: {reason}"),
    }
    campaign.limits_files = true;
    campaign.kills = KILLS / 2;
    let report = kill(&campaign);
    assert!(report.kills_in_trouble > 0, "{report:?}");
    // One round at least limits the length of files, and lives until a commit has met that.
    assert!(
        report.kills_after_errors > 0 && report.failed > 0,
        "{report:?}"
    );
    drop(disk);
}

#[test]
fn killed_servers_keep_what_they_acknowledged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    kill(&campaign(&dir, None));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_in_several_directories() {
    for mixed in [false, true] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        kill(&KillCampaign {
            mixed,
            log_dirs: true,
            ..campaign(&dir, None)
        });
    }
}

#[test]
fn killed_servers_keep_what_they_acknowledged_over_binary_trees() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    kill(&campaign(&dir, Some(IndexKind::Bst)));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_with_keyspaces_of_all_kinds() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    kill(&KillCampaign {
        mixed: true,
        ..campaign(&dir, None)
    });
}

#[test]
fn killed_servers_keep_what_they_acknowledged_with_ten_times_as_much_data_as_memory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    kill(&KillCampaign {
        // The campaign itself asks for evictions, writes of pages, growth and shrinking.
        under_pressure: true,
        ..campaign(&dir, Some(IndexKind::BTree))
    });
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks() {
    kill_on_failing_disks(Some(IndexKind::Masstree));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks_over_matryoshka() {
    kill_on_failing_disks(Some(IndexKind::Matryoshka));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks_over_binary_trees() {
    kill_on_failing_disks(Some(IndexKind::Bst));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks_over_bwtrees() {
    kill_on_failing_disks(Some(IndexKind::BwTree));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks_over_btrees() {
    kill_on_failing_disks(Some(IndexKind::BTree));
}

#[test]
fn killed_servers_keep_what_they_acknowledged_on_failing_disks_with_keyspaces_of_all_kinds() {
    kill_on_failing_disks(None);
}
