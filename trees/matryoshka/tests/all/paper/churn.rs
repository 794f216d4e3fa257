//! Filling and emptying again and again, every answer compared with an array: the bounded form of
//! `campaign churn`.

use hedgerow_matryoshka::{
    Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast, FlatSuperpage,
    Matryoshka, Plain, Strategy,
};
use hedgerow_testkit::int_churn::{ChurnCampaign, churn};

fn survives<S: Strategy>() {
    let campaign = ChurnCampaign {
        operations: 400_000,
        keys: 60_000,
        verify_every: 50_000,
        seed: 12,
    };
    for scattered in [true, false] {
        let mut tree: Matryoshka<u64, u64, S> = Matryoshka::new();
        let report = churn(&mut tree, &campaign, scattered).expect("a tree that holds");
        assert_eq!(report.inserts, report.removals);
    }
}

#[test]
fn nested_pages_survive_churn() {
    survives::<Plain>();
    survives::<Fence>();
    survives::<FenceWithoutMassPrefetch>();
    survives::<Eytzinger>();
}

#[test]
fn flat_pages_survive_churn() {
    survives::<Flat>();
    survives::<FlatFast>();
}

#[test]
fn superpages_survive_churn() {
    survives::<FenceSuperpage>();
    survives::<FlatSuperpage>();
}
