//! Leaves of a B-tree whose keys are replaced one by one get the form that suits the new keys, in
//! the background.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Db, Keyspace};
use hedgerow_testkit::databases::LITTLE_MEMORY;
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
fn replaced(sweep_interval: Option<Duration>, memory: usize) -> (Db, Keyspace) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let builder = builder(&vfs)
        .sweep_interval(sweep_interval)
        .memory_limit(Some(memory));
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

/// More than the rows take.
const ENOUGH_MEMORY: usize = 64 << 20;

const EACH_MILLISECOND: Option<Duration> = Some(Duration::from_millis(1));

#[test]
fn leaves_whose_keys_were_replaced_get_another_form() {
    let (db, keyspace) = replaced(EACH_MILLISECOND, ENOUGH_MEMORY);
    let deadline = Instant::now() + Duration::from_secs(60);
    // Walks of the whole tree, which latch its leaves, are beside those that adapt them.
    while counted(&keyspace, "fingerprint_leaves") > 0.1 * counted(&keyspace, "comparison_leaves") {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            keyspace.index_statistics()
        );
    }
    assert!(counted(&keyspace, "adapted_leaves") > 50.0);
    check(&db, &keyspace);
}

/// Leaves come and go meanwhile, and with them the forms that they got.
#[test]
fn nothing_is_lost_where_leaves_do_not_fit_memory() {
    let (db, keyspace) = replaced(EACH_MILLISECOND, LITTLE_MEMORY);
    let deadline = Instant::now() + Duration::from_secs(60);
    while counted(&keyspace, "adapted_leaves") < 20.0 {
        assert!(Instant::now() < deadline, "no leaf is adapted");
    }
    check(&db, &keyspace);
}

#[test]
fn without_the_background_thread_they_keep_theirs() {
    let (db, keyspace) = replaced(None, ENOUGH_MEMORY);
    assert!(
        counted(&keyspace, "fingerprint_leaves") > 9.0 * counted(&keyspace, "comparison_leaves")
    );
    assert_eq!(counted(&keyspace, "adapted_leaves"), 0.0);
    check(&db, &keyspace);
}
