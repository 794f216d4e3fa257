//! Power cuts in the numbers that every run of the tests can afford; `campaign power-cut` runs
//! the same on a larger scale. The seed is printed; `HEDGEROW_SEED` repeats a run's choices.

use hedgerow::IndexKind;
use hedgerow_testkit::powercut::{DbSubject, LogSubject, PowerCutCampaign, run, serial_order};
use hedgerow_testkit::seed::seed;

fn campaign(images: usize) -> PowerCutCampaign {
    let seed = seed();
    PowerCutCampaign {
        images,
        threads: 2,
        cuts_per_life: None,
        seed,
        failures: None,
    }
}

#[test]
fn the_log_keeps_its_promises_under_power_cuts() {
    let report = run(&campaign(2_000), LogSubject::default).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 2_000 && report.distinct_images > 200 && report.second_level > 50);
}

#[test]
fn the_engine_keeps_its_promises_under_power_cuts() {
    let report = run(&campaign(5_000), DbSubject::default).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 5_000 && report.distinct_images > 500 && report.second_level > 100);
    assert!(report.damaged > 50, "hardly a checkpoint was damaged");
}

#[test]
fn what_survives_of_transactions_that_meet_is_a_prefix_of_their_serial_order() {
    let report = serial_order::run(800, seed()).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 800 && report.incomplete >= 80);
    assert!(report.transactions > 10);
}

#[test]
fn the_engine_keeps_its_promises_with_logs_in_several_directories() {
    for subject in [DbSubject::default, DbSubject::mixed] {
        let subject = || subject().in_directories();
        let report = run(&campaign(3_000), subject).unwrap_or_else(|e| panic!("{e}"));
        println!("{report:?}");
        assert!(report.images >= 3_000 && report.distinct_images > 200);
        assert!(report.second_level > 50);
    }
}

#[test]
fn the_engine_keeps_its_promises_in_a_page_file() {
    let subject = || DbSubject::of_index(IndexKind::BTree);
    let report = run(&campaign(2_500), subject).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 2_500 && report.distinct_images > 150 && report.second_level > 30);
    assert!(report.abandoned > 0, "no checkpoint was abandoned");
}

#[test]
fn the_engine_keeps_its_promises_in_a_binary_tree() {
    let subject = || DbSubject::of_index(IndexKind::Bst);
    let report = run(&campaign(1_500), subject).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 1_500 && report.distinct_images > 150 && report.second_level > 30);
}

#[test]
fn the_engine_keeps_its_promises_with_keyspaces_of_all_kinds() {
    let report = run(&campaign(5_000), DbSubject::mixed).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 5_000 && report.distinct_images > 300 && report.second_level > 60);
    assert!(report.damaged > 30, "hardly a checkpoint was damaged");
    assert!(report.abandoned > 0, "no checkpoint was abandoned");
}

#[test]
fn the_engine_keeps_its_promises_with_ten_times_as_much_data_as_memory() {
    let mut campaign = campaign(300);
    campaign.cuts_per_life = Some(40);
    // The campaign itself asks for evictions, writes of pages, growth and shrinking.
    let report = run(&campaign, DbSubject::under_pressure).unwrap_or_else(|e| panic!("{e}"));
    println!("{report:?}");
    assert!(report.images >= 300 && report.second_level > 5 && report.pressure.is_some());
}
