//! The whole engine beside a `BTreeMap`: random operations, compared after each, with closing
//! and opening, checkpoints and a hand-turned clock in between; over each index.

mod reads;
mod rows;
mod steps;
mod world;
mod writes;

use hedgerow::IndexKind;
use proptest::collection::vec;
use proptest::prelude::*;

use steps::{Step, step};
use world::World;

/// Histories over this index.
fn steps(index: IndexKind) -> impl Strategy<Value = Vec<Step>> {
    vec(step(index), 1..120)
}

fn agrees(index: IndexKind, steps: &[Step]) {
    let mut world = World::new(index);
    for (i, step) in steps.iter().enumerate() {
        world.run(step);
        if i % 8 == 0 {
            world.compare();
        }
    }
    world.run(&Step::Reopen {
        workers: 2,
        read_only_first: true,
    });
    world.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_model(steps in steps(IndexKind::Masstree)) {
        agrees(IndexKind::Masstree, &steps);
    }

    #[test]
    fn the_engine_over_matryoshka_agrees_with_the_model(steps in steps(IndexKind::Matryoshka)) {
        agrees(IndexKind::Matryoshka, &steps);
    }

    #[test]
    fn the_engine_over_a_bwtree_agrees_with_the_model(steps in steps(IndexKind::BwTree)) {
        agrees(IndexKind::BwTree, &steps);
    }

    #[test]
    fn the_engine_over_a_binary_tree_agrees_with_the_model(steps in steps(IndexKind::Bst)) {
        agrees(IndexKind::Bst, &steps);
    }

    /// If this passes and the other fails, look at the tree first.
    #[test]
    fn the_engine_over_a_locked_map_agrees_with_the_model(steps in steps(IndexKind::LockedMap)) {
        agrees(IndexKind::LockedMap, &steps);
    }
}

proptest! {
    // Each writes and reads more than fits its memory.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_over_a_page_file_agrees_with_the_model(steps in steps(IndexKind::BTree)) {
        agrees(IndexKind::BTree, &steps);
    }
}
