//! Keys drawn at random: each as likely as any other, however the keys are distributed.

use std::collections::BTreeMap;
use std::sync::Arc;

use hedgerow::{Db, IndexKind, Keyspace, WriteOptions};
use hedgerow_testkit::databases::{builder_of, key_of};
use hedgerow_testkit::keys::KeyShape;
use hedgerow_testkit::over_each_index;
use hedgerow_vfs::MemoryVfs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

over_each_index! {
    few_keys_are_drawn_alike,
    many_keys_are_drawn_alike,
    each_draw_of_many_rows_moves_one_of_many_cursors,
    cursors_are_placed_anew_when_most_rows_are_new_or_gone,
    cursors_go_on_while_rows_come_and_go,
    rows_that_have_expired_are_never_drawn,
    an_empty_keyspace_has_no_key,
}

fn database(index: IndexKind) -> (Db, Keyspace) {
    let db = builder_of(Some(index))
        .vfs(Arc::new(MemoryVfs::new()))
        .workers(2)
        .sweep_interval(None)
        .now(Box::new(|| 1_000))
        .open("/db")
        .unwrap();
    let rows = db.keyspace("rows").unwrap();
    (db, rows)
}

fn draw(rows: &Keyspace, rng: &mut StdRng) -> Option<Vec<u8>> {
    rows.random_key(|below| rng.random_range(0..below)).unwrap()
}

/// The sum of squared differences to what is expected, by that: about as many as there are classes
/// if draws are uniform, and many times as many if they are not.
fn chi_square(counts: impl Iterator<Item = u64>, expected: f64) -> f64 {
    counts
        .map(|count| (count as f64 - expected).powi(2) / expected)
        .sum()
}

/// A few keys beside many that begin alike, as programs make them.
fn keys(index: IndexKind, many: usize) -> Vec<Vec<u8>> {
    let key = |n| match index.key_bytes() {
        Some(_) => format!("u{n:07}").into_bytes(),
        None => format!("user:{n:09}:profile").into_bytes(),
    };
    let mut keys: Vec<Vec<u8>> = (0..many).map(key).collect();
    keys.extend(["a", "b", "zebra", "user", "user:"].map(|key| key_of(Some(index), key)));
    keys
}

fn few_keys_are_drawn_alike(index: IndexKind) {
    let mut rng = StdRng::seed_from_u64(7);
    let mixed = match index.key_bytes() {
        Some(_) => (0..20).map(|_| rng.random::<[u8; 8]>().to_vec()).collect(),
        None => KeyShape::Layers.distinct(20, &mut rng),
    };
    for keys in [keys(index, 1_000), keys(index, 1), mixed] {
        let (_db, rows) = database(index);
        for key in &keys {
            rows.put(key, b"value").unwrap();
        }
        let mut counts: BTreeMap<Vec<u8>, u64> = keys.iter().map(|k| (k.clone(), 0)).collect();
        let draws = keys.len() as u64 * 10;
        for _ in 0..draws {
            let key = draw(&rows, &mut rng).expect("there are keys");
            *counts.get_mut(&key).expect("it is one of them") += 1;
        }
        let classes = keys.len() as f64;
        let chi_square = chi_square(counts.into_values(), 10.0);
        assert!(chi_square < 2.0 * classes + 20.0, "{chi_square}");
    }
}

fn many_keys_are_drawn_alike(index: IndexKind) {
    const ROWS: usize = 6_000;
    const CLASSES: usize = 60;
    const DRAWS: usize = 3_000;
    let mut rng = StdRng::seed_from_u64(8);
    let (_db, rows) = database(index);
    let mut keys = keys(index, ROWS - 5);
    for key in &keys {
        rows.put(key, b"value").unwrap();
    }
    keys.sort();
    let mut counts = [0; CLASSES];
    for _ in 0..DRAWS {
        let key = draw(&rows, &mut rng).expect("there are keys");
        let position = keys.binary_search(&key).expect("it is one of them");
        counts[position * CLASSES / ROWS] += 1;
    }
    let chi_square = chi_square(counts.into_iter(), (DRAWS / CLASSES) as f64);
    assert!(
        chi_square < 4.0 * CLASSES as f64,
        "{chi_square}: {counts:?}"
    );
}

/// So many rows lie between two cursors that no draw reaches from one to the next.
const ROWS: usize = 1 << 16;
/// By so many rows a draw goes on from an earlier one.
const LONGEST_STEP: usize = 512;

/// Keys in order: integers; a prefix that nearly all share; and two of which one begins with the
/// other, each of half of the keys. Where keys have one width, integers alone, also close ones.
fn shapes(index: IndexKind) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let integers = |shift: u32| (0..ROWS as u64).map(move |n| (n << shift).to_be_bytes().to_vec());
    if index.key_bytes().is_some() {
        let close = integers(0).collect();
        return vec![("integers", integers(40).collect()), ("close", close)];
    }
    let beside_few = |key: fn(usize) -> String| {
        let many = (2..ROWS - 1).map(key);
        let few = ["a", "tenant"].map(str::to_owned).into_iter();
        let keys = few.chain(many).chain(["zebra".to_owned()]);
        keys.map(String::into_bytes).collect()
    };
    vec![
        ("integers", integers(40).collect()),
        (
            "one prefix",
            beside_few(|n| format!("tenant:0001:user:{n:09}:profile")),
        ),
        (
            "nested prefixes",
            beside_few(|n| match n < ROWS / 2 {
                true => format!("tenant:0001:user:{n:09}:profile"),
                false => format!("tenant:0001:user:archive:of:last:year:{n:09}"),
            }),
        ),
    ]
}

/// How often keys of each class were drawn, which are as many as there are classes and follow each
/// other, and how many draws lay close behind the one before.
fn draw_often<const CLASSES: usize>(
    rows: &Keyspace,
    keys: &[Vec<u8>],
    rng: &mut StdRng,
    draws: usize,
) -> ([u64; CLASSES], usize) {
    let mut counts = [0; CLASSES];
    let (mut last, mut close) = (0, 0);
    for _ in 0..draws {
        let key = draw(rows, rng).expect("there are keys");
        let position = keys.binary_search(&key).expect("it is one of them");
        counts[position * CLASSES / keys.len()] += 1;
        close += usize::from((position + keys.len() - last) % keys.len() <= LONGEST_STEP);
        last = position;
    }
    (counts, close)
}

/// Cursors that stood still, moved by one row or were placed anew each time would leave out most
/// rows; with one for all, each draw would lie close behind the one before; and if a part of the
/// keys had too few, it would be drawn too seldom.
fn each_draw_of_many_rows_moves_one_of_many_cursors(index: IndexKind) {
    const CLASSES: usize = 512;
    const DRAWS: usize = 8 * CLASSES;
    for (shape, keys) in shapes(index) {
        let mut rng = StdRng::seed_from_u64(11);
        let (_db, rows) = database(index);
        for key in &keys {
            rows.put(key, b"value").unwrap();
        }
        let (counts, close) = draw_often::<CLASSES>(&rows, &keys, &mut rng, DRAWS);
        // One in 64 goes on from the same cursor, and one in 128 is as close by chance.
        assert!(close < DRAWS / 8, "{shape}: {close} draws lie close behind");
        let chi_square = chi_square(counts.into_iter(), (DRAWS / CLASSES) as f64);
        assert!(chi_square < 3.0 * CLASSES as f64, "{shape}: {chi_square}");
    }
}

/// Cursors that lay among the rows of before would draw these, or the first behind them.
fn cursors_are_placed_anew_when_most_rows_are_new_or_gone(index: IndexKind) {
    const CLASSES: usize = 64;
    const DRAWS: usize = 8 * CLASSES;
    let key = |n: usize| format!("{n:08}").into_bytes();
    let keys: Vec<Vec<u8>> = (0..ROWS).map(key).collect();
    let is_uniform = |rows: &Keyspace, keys: &[Vec<u8>], what: &str| {
        let mut rng = StdRng::seed_from_u64(12);
        let (counts, _) = draw_often::<CLASSES>(rows, keys, &mut rng, DRAWS);
        let chi_square = chi_square(counts.into_iter(), (DRAWS / CLASSES) as f64);
        assert!(chi_square < 3.0 * CLASSES as f64, "{what}: {chi_square}");
    };
    let mut rng = StdRng::seed_from_u64(13);
    let (_db, rows) = database(index);
    for key in &keys[..4_000] {
        rows.put(key, b"value").unwrap();
    }
    assert!(draw(&rows, &mut rng).is_some());
    for key in &keys[4_000..] {
        rows.put(key, b"value").unwrap();
    }
    is_uniform(&rows, &keys, "most rows are new");
    let (gone, left) = keys.split_at(ROWS - 10_000);
    for key in gone {
        rows.remove(key).unwrap();
    }
    is_uniform(&rows, left, "most rows are gone");
}

/// Cursors that went back to their places at every change of the rows would leave out what lies
/// between these.
fn cursors_go_on_while_rows_come_and_go(index: IndexKind) {
    const CLASSES: usize = 512;
    const DRAWS: usize = 8 * CLASSES;
    let (_, keys) = &shapes(index)[0];
    let mut rng = StdRng::seed_from_u64(14);
    let (_db, rows) = database(index);
    let comes_and_goes = |n: usize| n % 8 == 4;
    for (_, key) in keys.iter().enumerate().filter(|(n, _)| !comes_and_goes(*n)) {
        rows.put(key, b"value").unwrap();
    }
    for grows in [true, false] {
        let mut counts = [0; CLASSES];
        for round in 0..DRAWS {
            let key = &keys[8 * round + 4];
            if grows {
                rows.put(key, b"value").unwrap();
            } else {
                rows.remove(key).unwrap();
            }
            let key = draw(&rows, &mut rng).expect("there are keys");
            let position = keys.binary_search(&key).expect("it is one of them");
            counts[position * CLASSES / ROWS] += 1;
        }
        let chi_square = chi_square(counts.into_iter(), (DRAWS / CLASSES) as f64);
        let bound = 3.0 * CLASSES as f64;
        assert!(chi_square < bound, "it grows: {grows}, {chi_square}");
    }
}

fn rows_that_have_expired_are_never_drawn(index: IndexKind) {
    let mut rng = StdRng::seed_from_u64(9);
    for many in [100, 4_000] {
        let (_db, rows) = database(index);
        for (n, key) in keys(index, many).iter().enumerate() {
            let options = WriteOptions {
                expiry_ms: Some(if n % 5 == 0 { 2_000 } else { 500 }),
                ..WriteOptions::default()
            };
            rows.put_with(key, b"value", &options).unwrap();
        }
        for _ in 0..200 {
            let key = draw(&rows, &mut rng).expect("a fifth of the keys is there");
            assert!(rows.contains(&key).unwrap(), "{}", key.escape_ascii());
        }
    }
    let (_db, rows) = database(index);
    let expired = WriteOptions {
        expiry_ms: Some(500),
        ..WriteOptions::default()
    };
    for key in keys(index, 3_000) {
        rows.put_with(&key, b"value", &expired).unwrap();
    }
    assert_eq!(draw(&rows, &mut rng), None);
    rows.put(b"only one", b"value").unwrap();
    for _ in 0..5 {
        let key = draw(&rows, &mut rng);
        assert_eq!(key.as_deref(), Some(&b"only one"[..]));
    }
}

fn an_empty_keyspace_has_no_key(index: IndexKind) {
    let mut rng = StdRng::seed_from_u64(10);
    let (db, rows) = database(index);
    assert_eq!(draw(&rows, &mut rng), None);
    for key in keys(index, 3_000) {
        rows.put(&key, b"value").unwrap();
    }
    assert!(draw(&rows, &mut rng).is_some());
    db.clear_keyspace("rows").unwrap();
    assert_eq!(draw(&rows, &mut rng), None);
    rows.put(b"some key", b"value").unwrap();
    assert_eq!(draw(&rows, &mut rng).as_deref(), Some(&b"some key"[..]));
}
