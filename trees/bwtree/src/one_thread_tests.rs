//! Every operation of one thread beside a `BTreeMap`, small enough for Miri, which sees reads of
//! freed memory, of bytes that nobody wrote, and beyond what was allocated.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::configuration::{
    Centralised, Configuration, CopyAndReplace, InnerChains, ReplayConsolidation, RetryFromRoot,
    SplitRecords, Tiny, WithoutChunks, WithoutCompareAndSwap, WithoutDistances, WithoutFilters,
    WithoutMappingTable,
};
use crate::multimap::BwMultimap;
use crate::one_thread::OneThread;
use crate::tree::BwTree;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const STEPS: usize = if cfg!(miri) { 100 } else { 6_000 };
const NUMBERS: u32 = if cfg!(miri) { 40 } else { 400 };

/// Keys of different lengths, some of which begin with others, in no order.
fn key(number: u32) -> Vec<u8> {
    let digits = (number * 7_919 % 10_007).to_string().into_bytes();
    match number % 3 {
        0 => digits,
        1 => [b"prefix-", &digits[..]].concat(),
        _ => [&digits[..], &[0]].concat(),
    }
}

fn pairs<C: Configuration>(tree: &BwTree<C>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let all = ScanRange::starting_at(Bound::Unbounded, direction);
    tree.scan_range(&all, |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    pairs
}

fn compare<C: Configuration>(tree: &BwTree<C>, model: &Model) {
    tree.verify().expect("sound");
    let mut expected: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(pairs(tree, Direction::Forward), expected);
    expected.reverse();
    assert_eq!(pairs(tree, Direction::Reverse), expected);
    let keys: Vec<Vec<u8>> = (0..NUMBERS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    tree.get_many(&keys, |index, value| {
        assert_eq!(value, model.get(keys[index]).map(Vec::as_slice));
    });
}

fn one_step<C: Configuration>(tree: &BwTree<C>, model: &mut Model, rng: &mut StdRng) {
    let number = rng.random_range(0..NUMBERS);
    let key = key(number);
    match rng.random_range(0..100) {
        0..50 => {
            // Some values have a block of their own.
            let bytes = if number % 8 == 0 {
                600
            } else {
                number as usize % 20
            };
            let value = vec![rng.random(); bytes];
            assert_eq!(tree.put(&key, &value), model.contains_key(&key));
            model.insert(key, value);
        }
        50..80 => assert_eq!(tree.remove(&key), model.remove(&key).is_some()),
        80..99 => assert_eq!(
            tree.get_with(&key, <[u8]>::to_vec),
            model.get(&key).cloned()
        ),
        _ => {
            let to = [&key[..1], b"~"].concat();
            tree.remove_range(Bound::Included(&key), Bound::Excluded(&to), |_, value| {
                ControlFlow::Continue(value.len() % 4 != 0)
            });
            let range = (Bound::Included(key), Bound::Excluded(to));
            let gone = model.range(range).filter(|(_, value)| value.len() % 4 != 0);
            let gone: Vec<Vec<u8>> = gone.map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(model.remove(key)));
        }
    }
}

fn beside_a_map<C: Configuration>() {
    let (tree, mut model) = (BwTree::<C>::new(), Model::new());
    let mut rng = StdRng::seed_from_u64(5);
    for _ in 0..STEPS {
        one_step(&tree, &mut model, &mut rng);
    }
    compare(&tree, &model);
    for key in model.keys() {
        assert!(tree.remove(key));
    }
    compare(&tree, &Model::new());
    assert_eq!(tree.statistics().get("leaves"), Some(1.0));
}

#[test]
fn a_tree_in_tiny_nodes() {
    beside_a_map::<Tiny>();
}

#[test]
fn forms_of_many_threads() {
    beside_a_map::<CopyAndReplace<Tiny>>();
    beside_a_map::<Centralised<Tiny>>();
    beside_a_map::<RetryFromRoot<ReplayConsolidation<Tiny>>>();
    beside_a_map::<WithoutDistances<WithoutFilters<InnerChains<Tiny>>>>();
}

#[test]
fn forms_of_one_thread() {
    beside_a_map::<WithoutCompareAndSwap<Tiny>>();
    beside_a_map::<WithoutCompareAndSwap<WithoutChunks<Tiny>>>();
}

#[test]
#[cfg_attr(miri, ignore = "one allocation has all nodes: too slow")]
fn a_form_without_mapping_table() {
    beside_a_map::<WithoutMappingTable<Tiny>>();
    beside_a_map::<WithoutMappingTable<SplitRecords<WithoutChunks<Tiny>>>>();
}

#[test]
fn a_loaded_tree_goes_on() {
    loaded::<Tiny>();
    loaded::<WithoutMappingTable<Tiny>>();
}

fn loaded<C: Configuration>() {
    let model: Model = (0..NUMBERS)
        .map(|number| (key(number), key(number)))
        .collect();
    let tree = BwTree::<C>::bulk_load(&model).expect("ascending");
    compare(&tree, &model);
    assert!(tree.partition(4).is_sorted());
    model.keys().for_each(|key| assert!(tree.remove(key)));
    compare(&tree, &Model::new());
}

#[test]
fn values_of_few_keys() {
    let map = BwMultimap::<Tiny>::new();
    for number in 0..NUMBERS {
        assert_eq!(map.insert(&key(number % 3), &key(number)), Ok(true));
    }
    map.verify().expect("sound");
    assert_eq!(map.count(&key(1)), NUMBERS as usize / 3);
    assert_eq!(map.remove_all(&key(1)), NUMBERS as usize / 3);
    map.verify().expect("sound");
}

#[test]
fn a_tree_of_one_thread_is_refused_to_others() {
    let mine = OneThread::new(BwTree::<WithoutCompareAndSwap>::new());
    mine.tree().put(b"key", b"value");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| mine.tree().contains(b"key"));
        assert!(other.join().is_err(), "another thread used it");
    });
    let tree = mine.into_tree();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || tree.contains(b"key"));
        assert!(other.join().expect("sent to it"));
    });
}
