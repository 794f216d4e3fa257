//! The trees in the situations that their protocols are made for, one after the other; the bounded
//! form, without planted bugs.

use hedgerow_testkit::tree_races::RaceTest;
use hedgerow_testkit::{bst_races, bwtree_races, matryoshka_races, tree_races};

fn end_well(race_tests: &[RaceTest]) {
    for race_test in race_tests {
        let rounds = race_test.rounds.min(100_000);
        (race_test.run)(rounds)
            .unwrap_or_else(|complaint| panic!("{}: {complaint}", race_test.name));
    }
}

#[test]
fn race_tests_on_masstree_end_well() {
    end_well(&tree_races::RACE_TESTS);
}

#[test]
fn race_tests_on_binary_search_trees_end_well() {
    for race_test in &bst_races::RACE_TESTS {
        (race_test.run)(race_test.rounds.div_ceil(50))
            .unwrap_or_else(|complaint| panic!("{}: {complaint}", race_test.name));
    }
}

#[test]
fn race_tests_on_the_bwtree_end_well() {
    for race_test in &bwtree_races::RACE_TESTS {
        (race_test.run)(race_test.rounds / 10)
            .unwrap_or_else(|complaint| panic!("{}: {complaint}", race_test.name));
    }
}

#[test]
fn race_tests_on_matryoshka_end_well() {
    end_well(&matryoshka_races::RACE_TESTS);
}
