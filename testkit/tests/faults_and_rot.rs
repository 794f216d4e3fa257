//! File faults, full disks and bit rot in the numbers that every run of the tests can afford;
//! `campaign fault` and `campaign rot` run all of them. The seed is printed.

use hedgerow::IndexKind;
use hedgerow_testkit::faults::{self, FaultCampaign};
use hedgerow_testkit::rot::{self, RotCampaign};

fn seed() -> u64 {
    let seed = std::env::var("HEDGEROW_SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("HEDGEROW_SEED is a number"),
    );
    println!("seed {seed}");
    seed
}

fn faults(index: Option<IndexKind>, stride: usize) {
    let campaign = FaultCampaign {
        seed: seed(),
        stride,
        cuts: 1,
        index,
    };
    let report = faults::run(&campaign).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.cases > 100 && report.poisoned > 10);
    assert!(report.full_disks > 10 && report.resumed > 10);
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged() {
    faults(None, 6);
}

#[test]
fn faults_and_full_disks_lose_nothing_acknowledged_in_a_page_file() {
    faults(Some(IndexKind::BTree), 6);
}

#[test]
fn rot_is_found_and_never_served() {
    let campaign = RotCampaign {
        flips: 1_500,
        seed: seed(),
        index: None,
    };
    let report = rot::run(&campaign).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.flips >= 1_500 && report.refused > 1_400 && report.torn < 100);
    assert_eq!(report.found_by_check, report.refused);
}

#[test]
fn rot_in_a_page_file_is_found_and_never_served() {
    let campaign = RotCampaign {
        flips: 1_000,
        seed: seed(),
        index: Some(IndexKind::BTree),
    };
    let report = rot::run(&campaign).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    let pages = report
        .files
        .iter()
        .find(|(file, _)| file.ends_with("pages.hdg"));
    // Blocks that are free, or of a checkpoint that was replaced, may rot.
    let (_, (flips, refused)) = pages.expect("a page file");
    assert!(*refused > 0 && refused < flips);
    assert_eq!(report.found_by_check, report.refused);
}
