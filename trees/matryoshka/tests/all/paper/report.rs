//! The report's seven workloads, and then everything deleted, with pages and nodes so small that a
//! few thousand keys make several levels: the bounded form of `campaign report`.

use hedgerow_index::IntIndex;
use hedgerow_matryoshka::{
    Eytzinger, Fence, FenceSuperpage, Flat, FlatFast, FlatSuperpage, Matryoshka, Plain, Strategy,
};
use hedgerow_testkit::int_report::{self, ReportWorkload};

use super::model::{Small, Tiny};

fn every_workload_ends<S: Strategy>() {
    for workload in ReportWorkload::ALL {
        let name = workload.name();
        let mut tiny: Matryoshka<i32, (), Tiny<S>> = Matryoshka::new();
        int_report::run(&mut tiny, workload, 20_000, 7).expect(name);
        let mut small: Matryoshka<u64, u64, Small<S>> = Matryoshka::new();
        int_report::run(&mut small, workload, 20_000, 7).expect(name);
        let statistics = small.statistics();
        assert_eq!(statistics.get("pages"), Some(1.0), "{name}");
        assert_eq!(statistics.get("outer_height"), Some(0.0), "{name}");
    }
}

#[test]
fn the_reports_workloads_end_with_nested_pages() {
    every_workload_ends::<Plain>();
    every_workload_ends::<Fence>();
    every_workload_ends::<Eytzinger>();
}

#[test]
fn the_reports_workloads_end_with_flat_pages() {
    every_workload_ends::<Flat>();
    every_workload_ends::<FlatFast>();
}

#[test]
fn the_reports_workloads_end_with_superpages() {
    every_workload_ends::<FenceSuperpage>();
    every_workload_ends::<FlatSuperpage>();
}
