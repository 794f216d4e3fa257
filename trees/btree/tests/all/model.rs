//! The tree against the standard library's map, on keys chosen to hurt, with pages so small
//! that nodes split and merge all the time.

use std::ops::{Bound, ControlFlow};

use crate::steps::{Map, Model, Step, scan, step, take};
use hedgerow_btree::BTree;
use hedgerow_btree::configuration::{
    Adaptive, AdaptiveBy, Baseline, Configuration, Fingerprint, FullyDense, Heads, Hints, Prefix,
    SemiDense, SemiDenseBy, WideHeads, WideHints,
};
use hedgerow_index::{Decision, Direction};
use hedgerow_memory::{Placement, inspect};
use proptest::prelude::*;

impl<C: Configuration, const PAGE: usize> Map for BTree<C, PAGE> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        BTree::insert(self, key, value)
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        BTree::remove(self, key)
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        BTree::get(self, key, <[u8]>::to_vec)
    }

    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
        BTree::get_many(self, keys, read);
    }

    fn update(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()>,
    ) {
        BTree::update(self, key, new, decide);
    }

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        BTree::scan(self, from, direction, visit);
    }

    fn verify(&self) -> Result<(), String> {
        BTree::verify(self)
    }
}

pub fn check<C: Configuration, const PAGE: usize>(steps: &[Step]) {
    check_placed::<C, PAGE>(steps, Placement::default());
}

fn check_placed<C: Configuration, const PAGE: usize>(steps: &[Step], placement: Placement) {
    let mut tree = BTree::<C, PAGE>::with_placement(placement);
    let mut model = Model::new();
    for step in steps {
        take(&mut tree, &mut model, step.clone());
    }
    tree.verify().unwrap();
    assert_eq!(tree.len(), model.len());
    scan(&mut tree, &model, None, true, usize::MAX);
    scan(&mut tree, &model, None, false, usize::MAX);
    for key in model.keys() {
        assert!(tree.remove(key));
    }
    tree.verify().unwrap();
    assert_eq!(tree.statistics().get("live_bytes"), Some(PAGE as f64));
}

// Each pair of a form and a page size is a tree to compile. The smallest pages, in which rare steps
// are common, have the adaptive form, which has the leaves of most others, and the semi dense one.
/// Few heads may be equal, operations count often and far.
type Eager = AdaptiveBy<1, 500, 8>;

/// Semi dense leaves that are scanned by vectors.
type Vectors = SemiDenseBy<true, false, false>;

/// Semi dense leaves with all options.
type AllOptions = SemiDenseBy<true, true, true>;

macro_rules! models {
    ($($name:ident $config:ident $page:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(steps in prop::collection::vec(step(), 1..400)) {
                    check::<$config, $page>(&steps);
                }
            )*
        }
    };
}

models! {
    baseline Baseline 256;
    prefix Prefix 512;
    heads Heads 512;
    hints_512 Hints 512;
    wide_heads WideHeads 512;
    wide_hints WideHints 512;
    fingerprint_1024 Fingerprint 1024;
    semi_dense SemiDense 256;
    semi_dense_1024 SemiDense 1024;
    fully_dense_512 FullyDense 512;
    fully_dense_4096 FullyDense 4096;
    adaptive Adaptive 256;
    adaptive_1024 Adaptive 1024;
    eager_256 Eager 256;
    semi_dense_vectors_256 Vectors 256;
    semi_dense_options_256 AllOptions 256;
    semi_dense_options_1024 AllOptions 1024;
    hints_4096 Hints 4096;
    hints_65536 Hints 65536;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn pages_apart(steps in prop::collection::vec(step(), 1..400)) {
        check_placed::<Adaptive, 256>(&steps, Placement::Merged);
        check_placed::<Adaptive, 256>(&steps, Placement::System);
    }
}

// No other test has pages of 2 KiB in size classes, so that it may count them.
#[test]
fn pages_lie_where_they_are_told_and_go_back_there() {
    const PAGE: usize = 2048;
    let in_use = || {
        let report = inspect();
        let page = |pool: &&_| {
            let pool: &hedgerow_memory::ClassReport = pool;
            pool.kind.is_none() && pool.slot_bytes == PAGE
        };
        let pooled = !report.classes.is_empty();
        (
            report.classes.iter().find(page).map_or(0, |pool| pool.live),
            pooled,
        )
    };
    for placement in [Placement::Segregated, Placement::Merged, Placement::System] {
        let mut tree = BTree::<Hints, PAGE>::with_placement(placement);
        for _ in 0..2 {
            (0..20_000_u32).for_each(|key| {
                tree.insert(&key.wrapping_mul(2_654_435_761).to_be_bytes(), b"value");
            });
            tree.verify().expect("sound when full");
            let pages = tree.resident_bytes() / PAGE;
            let (live, pooled) = in_use();
            let expected = if placement == Placement::Merged && pooled {
                pages
            } else {
                0
            };
            assert_eq!(live, expected, "{placement:?}");
            // A load begins anew, in the same place.
            tree.bulk_load([(b"a", b"1"), (b"b", b"2")], 0.9)
                .expect("ascending");
            assert_eq!(tree.get(b"b", <[u8]>::to_vec), Some(b"2".to_vec()));
        }
        drop(tree);
        assert_eq!(in_use().0, 0, "{placement:?}");
    }
}
