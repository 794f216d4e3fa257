//! A sorted run that is loaded at once beside the same run put pair by pair.

use hedgerow_lab_contender::{Map, value_of};
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_own::{Delta, Indexed};

#[test]
fn a_bulk_load_and_puts_leave_the_same_pairs() {
    let keys: Keys = KeySet::Decimal.keys(5000).expect("keys").sorted();
    let loaded: Indexed<Delta> = Indexed::default();
    loaded.load_sorted_run(keys.all());
    let counters = loaded.index().tree().counters();
    let consolidations = counters.get("consolidations");
    assert_eq!(consolidations, Some(0.0), "no pair was put by itself");
    let put: Indexed<Delta> = Indexed::default();
    put.put_run(keys.all(), 0);
    let pairs = |map: &Indexed<Delta>| {
        let mut pairs = Vec::new();
        map.scan(b"", 6000, &mut |key, value| {
            assert_eq!(value, value_of(key));
            pairs.push(key.to_vec());
        });
        pairs
    };
    assert_eq!(pairs(&loaded).len(), 5000);
    assert_eq!(pairs(&loaded), pairs(&put));
    loaded.load_sorted_run(keys.all());
    assert_eq!(pairs(&loaded).len(), 5000, "a second load puts");
}
