//! The trees in the situations that their protocols are made for, one after the other; the bounded
//! form, without planted bugs.

use hedgerow_testkit::tree_duels::Duel;
use hedgerow_testkit::{matryoshka_duels, tree_duels};

fn end_well(duels: &[Duel]) {
    for duel in duels {
        let rounds = duel.rounds.min(100_000);
        (duel.run)(rounds).unwrap_or_else(|complaint| panic!("{}: {complaint}", duel.name));
    }
}

#[test]
fn duels_on_masstree_end_well() {
    end_well(&tree_duels::DUELS);
}

#[test]
fn duels_on_matryoshka_end_well() {
    end_well(&matryoshka_duels::DUELS);
}
