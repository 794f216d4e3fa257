//! Layers that begin narrow and widen: beside a model, and beside other threads.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::thread;

use hedgerow_masstree::{Direction, Masstree};
use hedgerow_testkit::side_by_side::Side;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Tree = Masstree<u64>;

fn number(tree: &Tree, name: &str) -> f64 {
    tree.statistics().get(name).expect("a number of this name")
}

/// Keys of a few layers, with tails that end in the layer, go on, or share a deeper layer.
fn key(random: &mut StdRng, layers: u32) -> Vec<u8> {
    let mut key = format!("layer{:03}", random.random_range(0..layers)).into_bytes();
    key.push(b'a' + random.random_range(0..12_u8));
    match random.random_range(0..4) {
        0 => {}
        1 => key.extend_from_slice(b"-and a suffix"),
        2 => key.extend_from_slice(b"7 bytes"),
        _ => key
            .extend_from_slice(&[b"7 bytes+"[..].as_ref(), &[random.random_range(0..9)]].concat()),
    }
    key
}

#[test]
fn small_layers_widen_as_the_model_grows() {
    let mut random = StdRng::seed_from_u64(7);
    let tree = Tree::new();
    let mut model = BTreeMap::new();
    for step in 0..40_000_u64 {
        let key = key(&mut random, 60);
        // Times of growth and times of shrinking, so that layers come, widen and go.
        let grows = step / 4_000 % 2 == 0;
        if random.random_range(0..10) < if grows { 8 } else { 1 } {
            assert_eq!(tree.put(&key, step), model.insert(key, step));
        } else {
            assert_eq!(tree.remove(&key), model.remove(&key));
        }
        if step % 1_000 == 0 {
            tree.verify().expect("sound");
        }
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut seen = Vec::new();
        tree.scan(Bound::Unbounded, direction, |key, value| {
            seen.push((key.to_vec(), value));
            ControlFlow::Continue(())
        });
        if direction == Direction::Reverse {
            seen.reverse();
        }
        assert!(
            seen.iter().map(|(k, v)| (k, v)).eq(model.iter()),
            "{direction:?}"
        );
    }
    assert!(number(&tree, "widenings") > 100.0);
    for key in model.keys() {
        assert_eq!(tree.get(key), model.get(key).copied());
        tree.remove(key).expect("present");
    }
    tree.collapse_deferred();
    tree.verify().expect("sound");
    assert_eq!(number(&tree, "layers"), 1.0);
    assert_eq!(number(&tree, "narrow_nodes"), 0.0);
}

#[test]
fn a_layer_of_two_keys_takes_one_line_and_widens_twice() {
    let tree = Tree::new();
    let mut widenings = Vec::new();
    for tail in 0..7_u8 {
        tree.put(&[&b"slice-01"[..], &[tail]].concat(), tail.into());
        widenings.push(number(&tree, "widenings"));
    }
    assert_eq!(widenings, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0]);
    assert_eq!(number(&tree, "narrow_nodes"), 0.0);
    let tree = Tree::new();
    tree.put(b"slice-01a", 1);
    tree.put(b"slice-01b", 2);
    assert_eq!(number(&tree, "narrow_nodes"), 1.0);
    assert_eq!(number(&tree, "border_nodes"), 2.0);
}

/// Writers widen and empty the same layers while readers look for keys that stay.
#[test]
fn keys_that_stay_are_found_while_their_layers_widen_and_collapse() {
    for round in 0..20_u64 {
        let tree = Tree::new();
        let layer = |number: u64| format!("layer{number:03}").into_bytes();
        let stays = |number: u64| [&layer(number)[..], b"m stays"].concat();
        (0..40).for_each(|number| assert_eq!(tree.put(&stays(number), number), None));
        let (writes, reads) = (Side::new(3, 6), Side::new(1, 3));
        thread::scope(|scope| {
            for writer in 0..3_u64 {
                let (tree, writes, reads) = (&tree, &writes, &reads);
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(round * 3 + writer);
                    let mut share = writes.share();
                    while share.continues(reads) {
                        for step in 0..1_000_u64 {
                            let number = random.random_range(0..40);
                            let tail = [random.random_range(0..6_u8) * 3 + writer as u8, b'x'];
                            let key = [&layer(number)[..], &tail].concat();
                            // Each writer owns its tails, so it knows what it finds.
                            let before = tree.get(&key);
                            if share.rounds() % 2 == 1 {
                                assert_eq!(tree.put(&key, step), before);
                            } else {
                                assert_eq!(tree.remove(&key), before);
                            }
                        }
                    }
                });
            }
            let mut share = reads.share();
            while share.continues(&writes) {
                let mut count = 0;
                tree.scan(Bound::Unbounded, Direction::Forward, |key, _| {
                    count += usize::from(key.ends_with(b"m stays"));
                    ControlFlow::Continue(())
                });
                assert_eq!(count, 40, "a scan lost a key that stays");
                let keys: Vec<_> = (0..40).map(stays).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                tree.get_many(&keys, |index, value| assert_eq!(value, Some(index as u64)));
            }
        });
        tree.collapse_deferred();
        tree.verify().expect("sound");
        assert!(number(&tree, "widenings") > 0.0);
    }
}
