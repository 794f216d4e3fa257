//! Concurrent histories of the trees, checked for per-key linearizability and scan guarantees.
//!
//! Few keys make threads meet; key sets that make and empty trie layers, and removals in every
//! mixture, make the rare paths common. `HEDGEROW_TEST_SCALE` scales the number of operations
//! (sanitizers run a fraction, a long campaign a multiple); `HEDGEROW_SEED` repeats choices.

use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_bwtree::{BwTree, Standard, Tiny};
use hedgerow_index::Index;
use hedgerow_masstree::{Bytes, Masstree};
use hedgerow_matryoshka::MatryoshkaIndex;
use hedgerow_pages::{Options, Pool};
use hedgerow_testkit::index_workload::{ConcurrentRun, check_concurrent, check_sequential};
use hedgerow_testkit::keys::KeyShape;
use hedgerow_testkit::seed::seed;
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn scaled(operations: usize) -> usize {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    (operations as f64 * scale) as usize
}

/// Runs the mixtures on fresh trees of every kind over one set of keys.
fn histories(keys: &[Vec<u8>], threads: usize, seed: u64) {
    mixtures(Masstree::<Bytes>::default, keys, threads, seed);
    mixtures(<MatryoshkaIndex>::default, keys, threads, seed);
    mixtures(small_btree, keys, threads, seed);
    mixtures(BwTree::<Tiny>::new, keys, threads, seed);
    mixtures(BwTree::<Standard>::new, keys, threads, seed);
}

/// A B-tree of small pages, in as little memory as a pool can work in.
fn small_btree() -> BTreeIndex<Adaptive, 1024> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 128) * 1024 + 64 * 1024);
    let pool = Pool::open(&vfs, Path::new("/pages"), &options).expect("a new file");
    BTreeIndex::create(Arc::new(pool)).expect("an empty pool")
}

fn mixtures<I: Index>(make: impl Fn() -> I, keys: &[Vec<u8>], threads: usize, seed: u64) {
    for remove_percent in [5, 25, 45] {
        let tree = make();
        let operations = scaled(2_000);
        let run = ConcurrentRun {
            keys: keys.to_vec(),
            threads,
            operations,
            remove_percent,
            seed,
        };
        check_concurrent(&tree, &run).unwrap_or_else(|violation| {
            let tree = std::any::type_name::<I>();
            panic!(
                "{tree}, {remove_percent} % removes, {threads} threads, seed {seed}: {violation}"
            )
        });
    }
}

#[test]
fn few_keys_of_every_shape() {
    let seed = seed();
    for shape in KeyShape::all() {
        let keys = shape.distinct(6, &mut StdRng::seed_from_u64(seed));
        histories(&keys, 4, seed);
    }
}

#[test]
fn keys_that_make_and_empty_layers() {
    let seed = seed();
    for round in 0..6 {
        let keys = KeyShape::Layers.distinct(10, &mut StdRng::seed_from_u64(seed + round));
        histories(&keys, 4, seed + round);
    }
    // Chains of layers below one slice: each key is a prefix of the next.
    let chain: Vec<Vec<u8>> = (0..8).map(|layers| vec![b'c'; 8 * layers + 1]).collect();
    histories(&chain, 4, seed);
}

#[test]
fn enough_keys_to_split_and_merge_nodes() {
    let seed = seed();
    for shape in [
        KeyShape::Decimal,
        KeyShape::SharedPrefix(8),
        KeyShape::Nuls,
        KeyShape::Zeros,
        KeyShape::Email,
    ] {
        let keys = shape.distinct(150, &mut StdRng::seed_from_u64(seed));
        histories(&keys, 3, seed);
    }
}

#[test]
fn long_sequences_beside_the_model() {
    let seed = seed();
    sequences(Masstree::<Bytes>::default, seed);
    sequences(<MatryoshkaIndex>::default, seed);
    sequences(small_btree, seed);
    sequences(BwTree::<Tiny>::new, seed);
    sequences(BwTree::<Standard>::new, seed);
}

fn sequences<I: Index>(make: impl Fn() -> I, seed: u64) {
    for shape in KeyShape::all() {
        let keys = shape.distinct(300, &mut StdRng::seed_from_u64(seed));
        let tree = make();
        check_sequential(&tree, &keys, scaled(10_000), seed)
            .unwrap_or_else(|violation| panic!("{shape:?}: {violation}"));
        tree.verify()
            .unwrap_or_else(|problem| panic!("{shape:?}: {problem}"));
    }
}

/// Long keys of zeros, of which the short ones go: layers are left with nothing but another layer.
#[test]
fn zeros_of_every_length_beside_the_model() {
    let seed = seed();
    for round in 0..40 {
        zeros(Masstree::<Bytes>::default, seed + round);
        zeros(<MatryoshkaIndex>::default, seed + round);
        zeros(small_btree, seed + round);
        zeros(BwTree::<Tiny>::new, seed + round);
    }
}

fn zeros<I: Index>(make: impl Fn() -> I, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let count = rng.random_range(20..150);
    let keys = KeyShape::Zeros.distinct(count, &mut rng);
    check_sequential(&make(), &keys, scaled(2_000), seed)
        .unwrap_or_else(|violation| panic!("{}: {violation}", std::any::type_name::<I>()));
}
