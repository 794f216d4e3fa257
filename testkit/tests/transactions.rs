//! Recorded histories of transactions over each index: no anomaly that the isolation forbids, and
//! those that it allows. The seed is printed; `HEDGEROW_SEED` repeats a run's choices.

use hedgerow::{IndexKind, Isolation};
use hedgerow_testkit::over_each_index;
use hedgerow_testkit::seed::seed;
use hedgerow_testkit::transaction_histories::{
    Histories, counters, run, second_run, time_of_a_snapshot,
};

over_each_index! {
    serializable_transactions_have_a_serial_order,
    snapshot_isolation_shows_write_skew_and_nothing_else,
    transactions_that_run_again_lose_nothing,
}

fn campaign(index: IndexKind, isolation: Isolation) -> Histories {
    Histories {
        index,
        isolation,
        histories: 10 * scale(),
        operations: 2_000,
        seed: seed(),
    }
}

/// `HEDGEROW_TEST_SCALE`, or 1.
fn scale() -> usize {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").ok();
    scale.and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

fn serializable_transactions_have_a_serial_order(index: IndexKind) {
    let ran = run(&campaign(index, Isolation::Serializable)).unwrap_or_else(|e| panic!("{e}"));
    // Where few keys are popular, one commit ends the transactions of all other processes.
    assert!(
        4 * ran.committed > ran.aborted && ran.aborted > 0,
        "{ran:?}"
    );
}

fn snapshot_isolation_shows_write_skew_and_nothing_else(index: IndexKind) {
    let ran = run(&campaign(index, Isolation::Snapshot)).unwrap_or_else(|e| panic!("{e}"));
    assert!(ran.write_skews > 0, "{ran:?}");
}

fn transactions_that_run_again_lose_nothing(index: IndexKind) {
    second_run(index).unwrap();
    counters(index, 200).unwrap();
    time_of_a_snapshot(index).unwrap();
}
