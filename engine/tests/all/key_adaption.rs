//! Leaves of a B-tree whose keys are replaced one by one get the form that suits the new keys, in
//! the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Db, Keyspace};
use hedgerow_vfs::{MemoryVfs, Vfs};

use crate::page_file::{DIR, builder};

const GROUPS: u32 = 3_000;

/// Keys of groups in which the heads are equal, or differ; both kinds of a group are in one leaf.
fn keys(heads_differ: bool) -> impl Iterator<Item = Vec<u8>> {
    (0..GROUPS * 10).map(move |n| {
        let (group, number) = (n / 10, (n % 10) as u8);
        let first = if heads_differ { number * 25 } else { b's' };
        let tail = [&[first][..], b"ame-", &[number]].concat();
        [&group.to_be_bytes()[..], &tail].concat()
    })
}

fn counted(keyspace: &Keyspace, name: &str) -> f64 {
    let statistics = keyspace.index_statistics().unwrap();
    statistics.get(name).unwrap()
}

/// A database whose keyspace had keys whose heads are equal, each replaced by one of those whose
/// heads differ.
fn replaced(sweep_interval: Option<Duration>) -> (Db, Keyspace) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let builder = builder(&vfs).sweep_interval(sweep_interval);
    let db = builder.open(DIR).unwrap();
    let keyspace = db.keyspace("replaced").unwrap();
    for key in keys(false) {
        keyspace.put(&key, &[7; 8]).unwrap();
    }
    assert!(
        counted(&keyspace, "fingerprint_leaves") > 9.0 * counted(&keyspace, "comparison_leaves")
    );
    for (old, new) in keys(false).zip(keys(true)) {
        assert!(keyspace.remove(&old).unwrap());
        keyspace.put(&new, &[8; 8]).unwrap();
    }
    (db, keyspace)
}

fn check(db: &Db, keyspace: &Keyspace) {
    for key in keys(true) {
        assert_eq!(keyspace.get(&key).unwrap().as_deref(), Some(&[8; 8][..]));
    }
    assert_eq!(keyspace.len(), u64::from(GROUPS) * 10);
    db.verify().unwrap();
}

#[test]
fn leaves_whose_keys_were_replaced_get_another_form() {
    let (db, keyspace) = replaced(Some(Duration::from_millis(1)));
    let deadline = Instant::now() + Duration::from_secs(60);
    // Those that the writer was in at the time of the last walk may keep theirs.
    let is_done = || {
        let left = counted(&keyspace, "fingerprint_leaves");
        counted(&keyspace, "adapted_leaves") > 50.0
            && left < counted(&keyspace, "comparison_leaves")
    };
    while !is_done() {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            keyspace.index_statistics()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    check(&db, &keyspace);
}

#[test]
fn without_the_background_thread_they_keep_theirs() {
    let (db, keyspace) = replaced(None);
    assert!(
        counted(&keyspace, "fingerprint_leaves") > 9.0 * counted(&keyspace, "comparison_leaves")
    );
    assert_eq!(counted(&keyspace, "adapted_leaves"), 0.0);
    check(&db, &keyspace);
}
