//! `kill -9` of the real server while clients write; `campaign kill` does it hundreds of times.

use std::path::PathBuf;
use std::time::Duration;

use hedgerow::IndexKind;
use hedgerow_testkit::kill::{KillCampaign, run};

fn kill(index: Option<IndexKind>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let seed = std::env::var("HEDGEROW_SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("HEDGEROW_SEED is a number"),
    );
    println!("seed {seed}");
    let campaign = KillCampaign {
        program: PathBuf::from(env!("CARGO_BIN_EXE_hedgerow")),
        data: dir.path().join("data"),
        kills: 24,
        index,
        // The campaign itself asks for evictions, writes of pages, growth and shrinking.
        under_pressure: index == Some(IndexKind::BTree),
        writers: 3,
        seed,
        // Machines that run tests may be busy: a flush that is late is not lost.
        slack: Duration::from_secs(5),
    };
    let report = run(&campaign).unwrap_or_else(|error| panic!("{error}"));
    println!("{report:?}");
    assert!(report.kills == 24 && report.acknowledged > 0);
}

#[test]
fn killed_servers_keep_what_they_acknowledged() {
    kill(None);
}

#[test]
fn killed_servers_keep_what_they_acknowledged_with_ten_times_as_much_data_as_memory() {
    kill(Some(IndexKind::BTree));
}
