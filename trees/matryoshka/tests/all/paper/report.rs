//! The report's seven workloads, and then everything deleted, with pages and nodes so small that a
//! few thousand keys make several levels: the bounded form of `campaign report`.

use hedgerow_index::{IntIndex, IntKey, Statistics};
use hedgerow_matryoshka::{
    Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast, FlatSuperpage,
    MapKey, Matryoshka, Plain, Strategy,
};
use hedgerow_testkit::int_report::{self, ReportWorkload};
use hedgerow_testkit::int_workload::RandomValue;

use super::model::{Small, Tiny};

fn after<K, V, S>(workload: ReportWorkload) -> Statistics
where
    K: MapKey + IntKey<Encoded: From<u32>>,
    V: RandomValue + Default,
    S: Strategy,
{
    let mut tree: Matryoshka<K, V, S> = Matryoshka::new();
    let name = workload.name();
    int_report::run(&mut tree, workload, 20_000, 7).expect(name);
    tree.statistics()
}

/// Trees of the key types that `model.rs` has for this strategy: each other pair is a tree more to
/// compile.
macro_rules! every_workload_ends {
    ($strategy:ty, $tiny:ty => $tiny_value:ty, $small:ty => $small_value:ty) => {
        for workload in ReportWorkload::ALL {
            after::<$tiny, $tiny_value, Tiny<$strategy>>(workload);
            let statistics = after::<$small, $small_value, Small<$strategy>>(workload);
            let name = workload.name();
            assert_eq!(statistics.get("pages"), Some(1.0), "{name}");
            assert_eq!(statistics.get("outer_height"), Some(0.0), "{name}");
        }
    };
}

#[test]
fn the_reports_workloads_end_with_nested_pages() {
    every_workload_ends!(Plain, u32 => u32, i64 => u64);
    every_workload_ends!(Fence, i32 => (), u64 => u64);
    every_workload_ends!(FenceWithoutMassPrefetch, i32 => (), u64 => u64);
    every_workload_ends!(Eytzinger, u64 => u64, i32 => ());
}

#[test]
fn the_reports_workloads_end_with_flat_pages() {
    every_workload_ends!(Flat, u64 => u64, i32 => ());
    every_workload_ends!(FlatFast, i64 => u64, u32 => u32);
}

#[test]
fn the_reports_workloads_end_with_superpages() {
    every_workload_ends!(FenceSuperpage, u64 => u64, u32 => u32);
    every_workload_ends!(FlatSuperpage, i32 => (), i64 => u64);
}
