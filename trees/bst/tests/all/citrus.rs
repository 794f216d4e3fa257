//! `citrus`, in its forms.

use hedgerow_bst::{BaselineCitrus, Citrus, HeavyLookups, Padded, ScatteredFields, SearchTree};
use hedgerow_index::ConcurrentIntMap;

use crate::suite::suite;

suite!(improved, K, Citrus<K>);
suite!(baseline, K, BaselineCitrus<K>);
suite!(other_flaws, K, Citrus<K, Padded<ScatteredFields<HeavyLookups>>>);

/// A removal that waits for searches may be called from a batched lookup of the same thread.
#[test]
fn a_batch_may_remove_what_it_finds() {
    let map = Citrus::<u64>::segregated();
    let keys: Vec<u64> = (0..200).map(|number| number * 7 % 200).collect();
    for &key in &keys {
        assert_eq!(map.insert(key, key), None);
    }
    map.get_many(&keys, |at, word| {
        assert_eq!(word, Some(keys[at]));
        assert_eq!(map.remove(keys[at]), word);
    });
    let statistics = map.statistics();
    assert_eq!(statistics.get("keys"), Some(0.0));
    assert!(
        statistics.get("grace_periods") > Some(0.0),
        "{statistics:?}"
    );
}
