//! The tree in the situations that its protocol is made for, one after the other; the bounded
//! form, without planted bugs.

use hedgerow_testkit::tree_duels::DUELS;

#[test]
fn duels_end_well() {
    for duel in DUELS {
        let rounds = duel.rounds.min(100_000);
        (duel.run)(rounds).unwrap_or_else(|complaint| panic!("{}: {complaint}", duel.name));
    }
}
