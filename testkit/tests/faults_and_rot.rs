//! File faults, full disks and bit rot in the numbers that every run of the tests can afford;
//! `campaign fault` and `campaign rot` run all of them. The seed is printed.

use hedgerow::IndexKind;
use hedgerow_testkit::faults::{self, FaultCampaign, FaultReport};
use hedgerow_testkit::rot::{self, RotCampaign, RotReport};
use hedgerow_testkit::seed::seed;
use hedgerow_vfs::CallKind;

fn faults(
    index: Option<IndexKind>,
    stride: usize,
    under_pressure: bool,
    mixed: bool,
) -> FaultReport {
    run_faults(&FaultCampaign {
        seed: seed(),
        stride,
        first: 0,
        cuts: 2,
        index,
        under_pressure,
        mixed,
        log_dirs: false,
    })
}

fn run_faults(campaign: &FaultCampaign) -> FaultReport {
    let report = faults::run(campaign).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    report
}

fn small_faults(index: Option<IndexKind>, mixed: bool) -> FaultReport {
    let report = faults(index, 6, false, mixed);
    assert!(report.cases > 100 && report.poisoned > 10);
    assert!(report.full_disks > 10 && report.resumed > 10 && report.lost_syncs > 10);
    assert!(report.full_openings > 10);
    report
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged() {
    let report = small_faults(None, false);
    assert!(report.waited > 0, "no value waited for space");
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_in_several_directories() {
    for mixed in [false, true] {
        let report = run_faults(&FaultCampaign {
            seed: seed(),
            stride: 13,
            first: 0,
            cuts: 2,
            index: None,
            under_pressure: false,
            mixed,
            log_dirs: true,
        });
        assert!(report.cases > 50 && report.poisoned > 5 && report.full_disks > 5);
    }
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_in_a_page_file() {
    small_faults(Some(IndexKind::BTree), false);
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_in_a_binary_tree() {
    let report = faults(Some(IndexKind::Bst), 12, false, false);
    assert!(report.cases > 50 && report.poisoned > 5);
    assert!(report.full_disks > 10 && report.resumed > 10 && report.lost_syncs > 5);
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_in_memory_beside_a_page_file() {
    small_faults(None, true);
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_with_ten_times_as_much_data_as_memory() {
    // The campaign itself asks for evictions, writes of pages, growth and shrinking.
    let report = faults(Some(IndexKind::BTree), 97, true, false);
    assert!(report.cases > 20 && report.full_disks > 4 && report.pressure.is_some());
    // Pages go to the file in few writes of many.
    assert!(report.by_kind[&CallKind::Read] > 2 && report.by_kind[&CallKind::Write] > 5);
}

fn rot(flips: usize, index: Option<IndexKind>, under_pressure: bool, mixed: bool) -> RotReport {
    run_rot(&RotCampaign {
        flips,
        seed: seed(),
        index,
        under_pressure,
        mixed,
        log_dirs: false,
    })
}

fn run_rot(campaign: &RotCampaign) -> RotReport {
    let report = rot::run(campaign).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.flips >= campaign.flips);
    if !campaign.under_pressure {
        assert!(report.stale > 10 && report.stale_manifests_refused > 3);
    }
    assert_eq!(
        report.found_by_check,
        report.refused + report.passed_over + report.of_older
    );
    report
}

#[test]
fn rot_and_old_files_are_found_and_never_served() {
    let report = rot(1_500, None, false, false);
    let told = report.refused + report.passed_over + report.of_older;
    assert!(told + report.unused > 1_400 && report.torn < 100);
    assert!(told > 1_300 && report.harmless >= report.unused);
    assert!(report.passed_over > 50 && report.of_older > 100);
}

#[test]
fn rot_and_old_files_in_several_directories_are_found_and_never_served() {
    for mixed in [false, true] {
        let report = run_rot(&RotCampaign {
            flips: 800,
            seed: seed(),
            index: None,
            under_pressure: false,
            mixed,
            log_dirs: true,
        });
        let owners = report.files.iter();
        let owners = owners.filter(|(file, _)| file.ends_with("OWNER"));
        let counts: Vec<_> = owners.map(|(_, counts)| counts).collect();
        assert_eq!(counts.len(), 2);
        assert!(counts.iter().all(|(flips, refused)| flips == refused));
    }
}

#[test]
fn rot_and_old_files_of_a_binary_tree_are_found_and_never_served() {
    let report = rot(500, Some(IndexKind::Bst), false, false);
    assert!(report.refused + report.passed_over + report.of_older > 400);
    assert!(report.passed_over > 10 && report.harmless >= report.unused);
}

fn rot_in_pages(flips: usize, under_pressure: bool) {
    let report = rot(flips, Some(IndexKind::BTree), under_pressure, false);
    check_pages(&report);
}

fn check_pages(report: &RotReport) {
    let pages = report
        .files
        .iter()
        .find(|(file, _)| file.ends_with("pages.hdg"));
    // Blocks that are free, or of a checkpoint that was replaced, may rot.
    let (_, (flips, refused)) = pages.expect("a page file");
    assert!(*refused > 0 && refused < flips);
}

#[test]
fn rot_in_a_page_file_beside_rows_in_memory_is_found_and_never_served() {
    check_pages(&rot(1_000, None, false, true));
}

#[test]
fn rot_in_a_page_file_is_found_and_never_served() {
    rot_in_pages(1_000, false);
}

#[test]
fn rot_in_a_page_file_of_ten_times_the_memory_is_found_and_never_served() {
    // The campaign itself asks for evictions, writes of pages, growth and shrinking.
    rot_in_pages(300, true);
}
