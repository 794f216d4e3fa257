//! Every durable engine that this build has, against a model: a random mix of operations with
//! values of many sizes, scans, batches, and all of it again after closing and reopening.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use hedgerow_lab_contender::{OpenStore, Store, StoreError, StoreSettings, Sync};
use hedgerow_lab_data::random::Random;
use hedgerow_lab_peers::{StorePeer, stores};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The engines of this build.
fn at_hand() -> impl Iterator<Item = (StorePeer, OpenStore)> {
    stores()
        .into_iter()
        .filter_map(|peer| match peer.store.open.clone() {
            Ok(open) => Some((peer, open)),
            Err(unavailable) => {
                println!("skipped: {}: {unavailable}", peer.store.entry.name);
                None
            }
        })
}

fn key(random: &mut Random) -> Vec<u8> {
    let digits = 1 + random.below(10) as u32;
    let number = random.below(10_u64.pow(digits)) % 5000;
    match random.below(3) {
        0 => number.to_string().into_bytes(),
        1 => format!("/usr/share/doc/package-{number}/copyright").into_bytes(),
        _ => number
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_be_bytes()
            .into(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = [1, 8, 100, 1000][random.below(4) as usize];
    let byte = random.below(256) as u8;
    vec![byte; len]
}

/// Applies random operations to both and compares every answer.
fn work(store: &dyn Store, model: &mut Model, steps: usize, seed: u64) -> Result<(), StoreError> {
    let mut random = Random::new(seed);
    let mut found = Vec::new();
    for step in 0..steps {
        let key = key(&mut random);
        match random.below(6) {
            0..=2 => {
                let value = value(&mut random);
                store.put(&key, &value)?;
                model.insert(key, value);
            }
            3 => {
                store.remove(&key)?;
                model.remove(&key);
            }
            _ => {
                let there = store.get(&key, &mut found)?;
                let right = model.get(&key);
                assert_eq!(there.then_some(&found), right, "get {key:?} at step {step}");
            }
        }
    }
    Ok(())
}

/// Compares all pairs, in scans of several lengths.
fn compare(store: &dyn Store, model: &Model) -> Result<(), StoreError> {
    let mut all = Vec::new();
    let first = [0];
    let visited = store.scan(&first, usize::MAX >> 1, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
    })?;
    assert_eq!((visited, all.len()), (model.len(), model.len()));
    let right: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    assert!(all == right, "a scan of everything");
    for (from, _) in model.iter().step_by(97) {
        let mut some = Vec::new();
        let visited = store.scan(from, 13, &mut |key, value| {
            some.push((key.to_vec(), value.to_vec()));
        })?;
        let range = model.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Unbounded));
        let right: Vec<_> = range
            .take(13)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!(
            visited == right.len() && some == right,
            "a scan from {from:?}"
        );
    }
    Ok(())
}

fn settings(sync: Sync) -> StoreSettings {
    StoreSettings {
        process_bytes: None,
        cache_bytes: 8 << 20,
        sync,
    }
}

fn check(
    peer: &StorePeer,
    open: OpenStore,
    sync: Sync,
    directory: &Path,
) -> Result<(), StoreError> {
    let steps = if sync == Sync::EveryCommit {
        400
    } else {
        12_000
    };
    let mut model = Model::new();
    let durable = peer.store.entry.promises.durable;
    for round in 0..if durable { 3 } else { 1 } {
        let store = open(directory, &settings(sync))?;
        compare(&*store, &model)?;
        work(&*store, &mut model, steps, round)?;
        let batch: Vec<_> = (0..50_u8)
            .map(|n| (vec![b'b', n, round as u8], vec![n; 20]))
            .collect();
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        match store.put_all(&pairs) {
            Ok(()) => model.extend(batch),
            Err(_) if !peer.atomic_batches => {}
            Err(error) => return Err(error),
        }
        if round == 1 {
            store.sync()?;
        }
        compare(&*store, &model)?;
    }
    Ok(())
}

#[test]
fn every_engine_answers_rightly_and_keeps_it_over_a_reopening() {
    for (peer, open) in at_hand() {
        let name = peer.store.entry.name;
        let mut honoured = 0;
        for sync in [Sync::EveryCommit, Sync::Periodic, Sync::Never] {
            let directory = tempfile::tempdir().expect("a directory");
            // A setting that the engine cannot honour is refused at once, with a reason.
            if let Err(why) = open(directory.path(), &settings(sync)) {
                println!(
                    "{name} {} {sync:?}: refused: {why}",
                    peer.store.entry.version
                );
                continue;
            }
            honoured += 1;
            let start = std::time::Instant::now();
            let directory = tempfile::tempdir().expect("a directory");
            check(&peer, open, sync, directory.path()).expect(name);
            println!(
                "{name} {} {sync:?}: right in {:?}",
                peer.store.entry.version,
                start.elapsed()
            );
        }
        assert!(honoured > 0, "{name} takes no setting at all");
    }
}

#[test]
fn engines_serve_several_threads() {
    for (peer, open) in at_hand() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path(), &settings(Sync::Never)).expect("never is for all");
        let store = &*store;
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                scope.spawn(move || {
                    let mut found = Vec::new();
                    for n in 0..300_u32 {
                        let key = [&[thread + 1][..], &n.to_be_bytes()].concat();
                        store.put(&key, &key).expect("a put");
                        assert!(store.get(&key, &mut found).expect("a get"));
                        assert_eq!(found, key);
                    }
                });
            }
        });
        let pairs = store.scan(&[0], 2000, &mut |key, value| assert_eq!(key, value));
        assert_eq!(pairs.expect("a scan"), 1200, "{}", peer.store.entry.name);
    }
}

#[test]
fn every_engine_is_listed_once() {
    let mut names: Vec<_> = stores().iter().map(|peer| peer.store.entry.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for peer in stores() {
        assert!(!peer.store.entry.version.is_empty());
        assert!(!peer.licence.is_empty() && !peer.usage.is_empty());
    }
}
