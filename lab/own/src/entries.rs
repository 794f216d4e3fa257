//! The registry's lines about what is ours, by name.

use hedgerow_btree::configuration::{self, Configuration};
use hedgerow_lab_contender::{
    Entry, Map, MapEntry, NewMap, OpenStore, Promises, StoreEntry, Unavailable,
};
use hedgerow_masstree::{Concurrent, SingleThreaded};
use hedgerow_matryoshka::{
    Eytzinger, Fence, FenceSuperpage, FenceWithoutMassPrefetch, Flat, FlatFast, FlatSuperpage,
    MapKey, Matryoshka, MatryoshkaIndex, Plain, SharedNodeKey, Strategy,
};

use crate::{
    BTreeMark, Batched, Delta, Empty, Engine, Indexed, Inline, Integer, IntegerSet, Integers,
    Paged, SharedPaged, Words,
};

/// An entry of our own.
#[must_use]
pub fn own(name: &'static str, promises: Promises) -> Entry {
    Entry {
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        origin: "Hedgerow",
        promises,
    }
}

/// A map for one thread, made by its `Default`.
pub fn single<M: Map + Default + 'static>() -> Result<NewMap, Unavailable> {
    Ok(NewMap::Single(|| Box::new(M::default())))
}

/// A map for many threads, made by its `Default`.
pub fn concurrent<M: Map + Default + Send + Sync + 'static>() -> Result<NewMap, Unavailable> {
    Ok(NewMap::Concurrent(|| Box::new(M::default())))
}

/// What an ordered map of byte strings promises, for one thread or many.
#[must_use]
pub fn ordered(concurrent: bool) -> Promises {
    Promises {
        ordered: true,
        concurrent,
        variable_keys: true,
        ..Promises::default()
    }
}

/// What a hash table of byte strings for many threads promises, and the empty contender.
#[must_use]
pub fn unordered() -> Promises {
    Promises {
        ordered: false,
        ..ordered(true)
    }
}

/// What an ordered map of integers of one width promises, for one thread.
fn of_integers<K: Integer>() -> Promises {
    Promises {
        variable_keys: false,
        longest_key: Some(K::BYTES),
        ..ordered(false)
    }
}

/// Matryoshka with keys of one width, in one strategy.
fn matryoshka<K: Integer + MapKey, S: Strategy>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: own(name, of_integers::<K>()),
        build: single::<Integers<K, Matryoshka<K, u64, S>, true>>(),
    }
}

/// The same with writes in batches.
fn batched<K: Integer + MapKey, S: Strategy>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: own(name, of_integers::<K>()),
        build: single::<Batched<K, S>>(),
    }
}

/// Matryoshka for many threads with keys of one width.
fn shared_matryoshka<K: Integer<Encoded: SharedNodeKey>>(name: &'static str) -> MapEntry {
    let promises = Promises {
        concurrent: true,
        ..of_integers::<K>()
    };
    MapEntry {
        entry: own(name, promises),
        build: concurrent::<Words<K>>(),
    }
}

/// What an ordered set of integers of one width promises, for one thread.
pub(crate) fn set_of_integers<K: Integer>() -> Promises {
    Promises {
        keys_only: true,
        ..of_integers::<K>()
    }
}

/// Matryoshka as a set of keys of one width, in one strategy.
fn matryoshka_set<K: Integer + MapKey, S: Strategy>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: own(name, set_of_integers::<K>()),
        build: single::<IntegerSet<K, Matryoshka<K, (), S>, true>>(),
    }
}

/// The standard library's set of integers of one width: its `BTreeSet` is a `BTreeMap` to nothing.
fn integer_set_mark<K: Integer>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: Entry {
            version: rust_version(),
            origin: "Rust standard library",
            ..own(name, set_of_integers::<K>())
        },
        build: single::<IntegerSet<K, std::collections::BTreeMap<K, ()>, false>>(),
    }
}

/// The standard library's map of integers of one width.
fn integer_mark<K: Integer>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: Entry {
            version: rust_version(),
            origin: "Rust standard library",
            ..own(name, of_integers::<K>())
        },
        build: single::<Integers<K, std::collections::BTreeMap<K, u64>, false>>(),
    }
}

/// One configuration of the B-tree on pages, for one thread and for many.
fn both_forms<C: Configuration>(single_name: &'static str, shared: &'static str) -> [MapEntry; 2] {
    [
        MapEntry {
            entry: own(single_name, ordered(false)),
            build: single::<Paged<C>>(),
        },
        MapEntry {
            entry: own(shared, ordered(true)),
            build: concurrent::<SharedPaged<C>>(),
        },
    ]
}

/// The B-tree on pages, and its configurations: each adds an idea to the one before.
fn btrees() -> Vec<MapEntry> {
    use configuration::{
        Adaptive, Baseline, Fingerprint, FullyDense, Heads, Hints, Prefix, SemiDense, WideHeads,
        WideHints,
    };
    [
        both_forms::<Adaptive>("btree adaptive", "btree shared adaptive"),
        both_forms::<Baseline>("btree baseline", "btree shared baseline"),
        both_forms::<Prefix>("btree prefix", "btree shared prefix"),
        both_forms::<Heads>("btree heads", "btree shared heads"),
        both_forms::<Hints>("btree hints", "btree shared hints"),
        both_forms::<WideHeads>("btree wide heads", "btree shared wide heads"),
        both_forms::<WideHints>("btree wide hints", "btree shared wide hints"),
        both_forms::<Fingerprint>("btree fingerprint", "btree shared fingerprint"),
        both_forms::<SemiDense>("btree semi dense", "btree shared semi dense"),
        both_forms::<FullyDense>("btree fully dense", "btree shared fully dense"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The adaptive B-tree with other thresholds (§5.1), each of them on its own: how many heads may be
/// equal, in 64ths, what part of operations is counted, how far. Not in [`maps`]: they are to be
/// compared with the adaptive tree and nobody else.
#[must_use]
pub fn btree_thresholds() -> Vec<MapEntry> {
    use configuration::AdaptiveBy;
    vec![
        layout::<AdaptiveBy<1, 100, 3>>("equal heads 1/64"),
        layout::<AdaptiveBy<2, 100, 3>>("equal heads 2/64"),
        layout::<AdaptiveBy<8, 100, 3>>("equal heads 8/64"),
        layout::<AdaptiveBy<16, 100, 3>>("equal heads 16/64"),
        layout::<AdaptiveBy<4, 50, 3>>("counted x 0.5"),
        layout::<AdaptiveBy<4, 200, 3>>("counted x 2"),
        layout::<AdaptiveBy<4, 100, 5>>("counter to 5"),
        layout::<AdaptiveBy<4, 100, 8>>("counter to 8"),
    ]
}

/// The B-tree of semi dense leaves with options that its paper names (§4.6), each on its own and
/// all. Not in [`maps`]: they are to be compared with the tree's layouts, where keys are dense.
#[must_use]
pub fn btree_semi_dense() -> Vec<MapEntry> {
    use configuration::SemiDenseBy;
    vec![
        layout::<SemiDenseBy<true, false, false>>("semi dense, vectors"),
        layout::<SemiDenseBy<false, true, false>>("semi dense, over-commit"),
        layout::<SemiDenseBy<false, true, true>>("semi dense, ends"),
        layout::<SemiDenseBy<true, true, true>>("semi dense, all options"),
    ]
}

/// Lengths of values in the trees of [`btree_payloads`]; leaves have room for the longest.
pub const PAYLOAD_BYTES: [usize; 5] = [8, 64, 128, 256, 400];

/// Layouts of the B-tree for one thread with values of so many bytes (§5.1), under the names that
/// they have in [`maps`]. None if no experiment takes values of this length
/// ([`PAYLOAD_BYTES`]).
#[must_use]
pub fn btree_payloads(value_bytes: usize) -> Vec<MapEntry> {
    match value_bytes {
        8 => with_values::<8>(),
        64 => with_values::<64>(),
        128 => with_values::<128>(),
        256 => with_values::<256>(),
        400 => with_values::<400>(),
        _ => Vec::new(),
    }
}

fn with_values<const VALUE: usize>() -> Vec<MapEntry> {
    use configuration::{Adaptive, Fingerprint, Hints};
    let entry = |name, build| MapEntry {
        entry: own(name, ordered(false)),
        build,
    };
    vec![
        entry("btree hints", single::<Paged<Hints, VALUE>>()),
        entry("btree fingerprint", single::<Paged<Fingerprint, VALUE>>()),
        entry("btree adaptive", single::<Paged<Adaptive, VALUE>>()),
    ]
}

/// A layout of the B-tree for one thread.
fn layout<C: Configuration>(name: &'static str) -> MapEntry {
    MapEntry {
        entry: own(name, ordered(false)),
        build: single::<Paged<C>>(),
    }
}

/// Ordered maps in memory, ours and the standard library's, and the empty one.
#[must_use]
pub fn maps() -> Vec<MapEntry> {
    let entry = |name, many| own(name, ordered(many));
    let mut maps = vec![
        MapEntry {
            entry: entry("hedgerow inline", true),
            build: concurrent::<Inline<Concurrent>>(),
        },
        MapEntry {
            entry: entry("hedgerow single-threaded", false),
            build: single::<Inline<SingleThreaded>>(),
        },
        MapEntry {
            entry: entry("hedgerow index", true),
            build: concurrent::<Indexed>(),
        },
        MapEntry {
            entry: entry("matryoshka index", true),
            build: concurrent::<Indexed<MatryoshkaIndex>>(),
        },
        MapEntry {
            entry: entry("bwtree", true),
            build: concurrent::<Indexed<Delta>>(),
        },
        shared_matryoshka::<u32>("matryoshka shared u32"),
        shared_matryoshka::<u64>("matryoshka shared u64"),
        matryoshka::<u32, Plain>("matryoshka plain u32"),
        matryoshka::<u64, Plain>("matryoshka plain u64"),
        matryoshka::<u32, Fence>("matryoshka fence u32"),
        matryoshka::<u64, Fence>("matryoshka fence u64"),
        matryoshka::<u32, FenceWithoutMassPrefetch>("matryoshka fence without mass prefetch u32"),
        matryoshka::<u64, FenceWithoutMassPrefetch>("matryoshka fence without mass prefetch u64"),
        matryoshka::<u32, Eytzinger>("matryoshka eytzinger u32"),
        matryoshka::<u64, Eytzinger>("matryoshka eytzinger u64"),
        matryoshka::<u32, FenceSuperpage>("matryoshka fence superpage u32"),
        matryoshka::<u64, FenceSuperpage>("matryoshka fence superpage u64"),
        matryoshka::<u32, Flat>("matryoshka flat u32"),
        matryoshka::<u64, Flat>("matryoshka flat u64"),
        matryoshka::<u32, FlatFast>("matryoshka flat fast u32"),
        matryoshka::<u64, FlatFast>("matryoshka flat fast u64"),
        matryoshka::<u32, FlatSuperpage>("matryoshka flat superpage u32"),
        matryoshka::<u64, FlatSuperpage>("matryoshka flat superpage u64"),
        batched::<u32, Flat>("matryoshka flat batches u32"),
        batched::<u64, Flat>("matryoshka flat batches u64"),
        MapEntry {
            entry: Entry {
                version: rust_version(),
                origin: "Rust standard library",
                ..own("std BTreeMap", ordered(false))
            },
            build: single::<BTreeMark>(),
        },
        integer_mark::<u32>("std BTreeMap u32"),
        integer_mark::<u64>("std BTreeMap u64"),
        MapEntry {
            entry: Entry {
                origin: "the lab itself",
                ..own(Empty::NAME, unordered())
            },
            build: concurrent::<Empty>(),
        },
    ];
    maps.extend(btrees());
    maps
}

/// Ordered sets of integers in memory, ours and the standard library's. Matryoshka's pages of
/// 4-byte keys are then the report's: 4 KiB, and 855 keys where they are nested.
#[must_use]
pub fn sets() -> Vec<MapEntry> {
    vec![
        matryoshka_set::<u32, Plain>("matryoshka set plain u32"),
        matryoshka_set::<u64, Plain>("matryoshka set plain u64"),
        matryoshka_set::<u32, Fence>("matryoshka set fence u32"),
        matryoshka_set::<u64, Fence>("matryoshka set fence u64"),
        matryoshka_set::<u32, FenceWithoutMassPrefetch>(
            "matryoshka set fence without mass prefetch u32",
        ),
        matryoshka_set::<u64, FenceWithoutMassPrefetch>(
            "matryoshka set fence without mass prefetch u64",
        ),
        matryoshka_set::<u32, FenceSuperpage>("matryoshka set fence superpage u32"),
        matryoshka_set::<u64, FenceSuperpage>("matryoshka set fence superpage u64"),
        matryoshka_set::<u32, Eytzinger>("matryoshka set eytzinger u32"),
        matryoshka_set::<u64, Eytzinger>("matryoshka set eytzinger u64"),
        matryoshka_set::<u32, Flat>("matryoshka set flat u32"),
        matryoshka_set::<u64, Flat>("matryoshka set flat u64"),
        matryoshka_set::<u32, FlatFast>("matryoshka set flat fast u32"),
        matryoshka_set::<u64, FlatFast>("matryoshka set flat fast u64"),
        matryoshka_set::<u32, FlatSuperpage>("matryoshka set flat superpage u32"),
        matryoshka_set::<u64, FlatSuperpage>("matryoshka set flat superpage u64"),
        integer_set_mark::<u32>("std BTreeSet u32"),
        integer_set_mark::<u64>("std BTreeSet u64"),
    ]
}

/// Our engine, over its indexes.
#[must_use]
pub fn stores() -> Vec<StoreEntry> {
    let promises = Promises {
        durable: true,
        longest_key: Some(hedgerow::MAX_KEY_BYTES),
        ..ordered(true)
    };
    let engine = |name, open: OpenStore| StoreEntry {
        entry: own(name, promises),
        open: Ok(open),
    };
    vec![
        engine("hedgerow", Engine::open),
        engine("hedgerow btree", Engine::open_paged),
    ]
}

/// The compiler's version, which is the standard library's.
fn rust_version() -> String {
    env!("HEDGEROW_LAB_RUSTC").to_owned()
}
