//! Ordered maps in memory: those in Rust here, those in C and C++ from `native`.

use hedgerow_lab_contender::{Entry, MapEntry, NewMap, Promises, Unavailable};

use crate::registry::{LONGEST_SHORT, Limits, MapPeer, version};

#[cfg(feature = "maps")]
mod bf_tree;
#[cfg(feature = "maps")]
mod blart;
#[cfg(feature = "maps")]
mod concurrent_map;
#[cfg(feature = "maps")]
mod congee;
#[cfg(feature = "maps")]
mod guarded;
#[cfg(feature = "maps")]
mod indexset;
#[cfg(feature = "maps")]
mod keys;
#[cfg(feature = "maps")]
mod masstree;
#[cfg(feature = "maps")]
mod rart;
#[cfg(feature = "maps")]
mod scc;
#[cfg(feature = "maps")]
mod skiplist;

/// A map for one thread, in a build that has it.
macro_rules! single {
    ($map:ty) => {{
        #[cfg(feature = "maps")]
        let build = Ok(NewMap::Single(|| {
            Box::<guarded::GuardedMap<$map>>::default()
        }));
        #[cfg(not(feature = "maps"))]
        let build = Err(crate::registry::not_built());
        build
    }};
}

/// A map for many threads, in a build that has it.
macro_rules! concurrent {
    ($map:ty) => {{
        #[cfg(feature = "maps")]
        let build = Ok(NewMap::Concurrent(|| {
            Box::<guarded::GuardedMap<$map>>::default()
        }));
        #[cfg(not(feature = "maps"))]
        let build = Err(crate::registry::not_built());
        build
    }};
}

/// Keys that a contender takes, and how its entry says so.
#[derive(Clone, Copy)]
enum Takes {
    Words,
    Short,
    Bytes(Limits),
}

/// What all contenders of one crate share.
struct Crate {
    name: &'static str,
    licence: &'static str,
    concurrent: bool,
    usage: &'static str,
}

impl Crate {
    fn peer(
        &self,
        name: &'static str,
        takes: Takes,
        build: Result<NewMap, Unavailable>,
    ) -> MapPeer {
        let limits = match takes {
            Takes::Words => Limits::WORDS,
            Takes::Short => Limits {
                longest_key: Some(LONGEST_SHORT),
                ..Limits::NONE
            },
            Takes::Bytes(limits) => limits,
        };
        let entry = Entry {
            name,
            version: version(self.name),
            origin: "crate",
            promises: Promises {
                ordered: true,
                concurrent: self.concurrent,
                durable: false,
                variable_keys: !matches!(takes, Takes::Words),
                longest_key: limits.longest_key,
                keys_only: false,
            },
        };
        MapPeer {
            map: MapEntry { entry, build },
            licence: self.licence,
            usage: self.usage,
            limits,
        }
    }
}

/// A map whose scans are not worth waiting for.
fn without_scans(mut peer: MapPeer) -> MapPeer {
    peer.map.entry.promises.ordered = false;
    peer
}

/// Every map, whether this build has it or not.
#[must_use]
pub fn maps() -> Vec<MapPeer> {
    let mut all = tries();
    all.extend(lists());
    all.extend(trees());
    all.extend(sorted_vectors());
    all.extend(paged());
    all.extend(crate::native::maps());
    all
}

/// Every set of integers, whether this build has it or not.
#[must_use]
pub fn sets() -> Vec<MapPeer> {
    crate::native::sets()
}

fn tries() -> Vec<MapPeer> {
    let masstree = Crate {
        name: "masstree",
        licence: "MIT",
        concurrent: true,
        usage: "values inline, 15 keys per node, a guard held over 1024 operations, scans by \
                scan_intra_leaf_batch",
    };
    let congee = Crate {
        name: "congee",
        licence: "MIT",
        concurrent: true,
        usage: "U64Congee, an epoch guard held over 1024 operations, scans into one kept buffer",
    };
    let blart = Crate {
        name: "blart",
        licence: "MIT OR Apache-2.0",
        concurrent: false,
        usage: "keys as [u8; 8], or as CString so that none is a prefix of another",
    };
    let rart = Crate {
        name: "rart",
        licence: "Apache-2.0",
        concurrent: false,
        usage: "AdaptiveRadixTree over ArrayKey<16> or OverflowKey<32, 8>; no scans",
    };
    let masstree_limits = Limits {
        longest_key: Some(256),
        scans_share_at_most: Some(7),
        ..Limits::NONE
    };
    let no_zero_bytes = Limits {
        no_zero_bytes: true,
        ..Limits::NONE
    };
    let any = Takes::Bytes(Limits::NONE);
    vec![
        masstree.peer(
            "masstree crate",
            Takes::Bytes(masstree_limits),
            concurrent!(masstree::Inline),
        ),
        congee.peer("congee", Takes::Words, concurrent!(congee::Radix)),
        blart.peer("blart u64", Takes::Words, single!(blart::Words)),
        blart.peer(
            "blart",
            Takes::Bytes(no_zero_bytes),
            single!(blart::Terminated),
        ),
        without_scans(rart.peer("rart u64", Takes::Words, single!(rart::Words))),
        without_scans(rart.peer("rart", any, single!(rart::Bytes))),
    ]
}

fn lists() -> Vec<MapPeer> {
    #[cfg(feature = "maps")]
    use keys::{Boxed, Short, Word};
    let skiplist = Crate {
        name: "crossbeam-skiplist",
        licence: "MIT OR Apache-2.0",
        concurrent: true,
        usage: "SkipMap under an epoch guard held over 1024 operations",
    };
    let any = Takes::Bytes(Limits::NONE);
    let (words, short) = (Takes::Words, Takes::Short);
    vec![
        skiplist.peer(
            "crossbeam-skiplist u64",
            words,
            concurrent!(skiplist::SkipList<Word>),
        ),
        skiplist.peer(
            "crossbeam-skiplist short",
            short,
            concurrent!(skiplist::SkipList<Short>),
        ),
        skiplist.peer(
            "crossbeam-skiplist",
            any,
            concurrent!(skiplist::SkipList<Boxed>),
        ),
    ]
}

fn trees() -> Vec<MapPeer> {
    #[cfg(feature = "maps")]
    use keys::{Boxed, Growable, Short, Word};
    let scc = Crate {
        name: "scc",
        licence: "Apache-2.0",
        concurrent: true,
        usage: "TreeIndex: peek, upsert_sync, remove_sync, a guard held over 1024 operations",
    };
    let concurrent_map = Crate {
        name: "concurrent-map",
        licence: "MIT OR Apache-2.0",
        concurrent: true,
        usage: "a clone per thread; its iterator clones keys; byte keys are Vec<u8>",
    };
    let any = Takes::Bytes(Limits::NONE);
    let (words, short) = (Takes::Words, Takes::Short);
    vec![
        scc.peer("scc TreeIndex u64", words, concurrent!(scc::Tree<Word>)),
        scc.peer("scc TreeIndex short", short, concurrent!(scc::Tree<Short>)),
        scc.peer("scc TreeIndex", any, concurrent!(scc::Tree<Boxed>)),
        concurrent_map.peer(
            "concurrent-map u64",
            words,
            concurrent!(concurrent_map::Tree<Word>),
        ),
        concurrent_map.peer(
            "concurrent-map short",
            short,
            concurrent!(concurrent_map::Tree<Short>),
        ),
        concurrent_map.peer(
            "concurrent-map",
            any,
            concurrent!(concurrent_map::Tree<Growable>),
        ),
    ]
}

fn sorted_vectors() -> Vec<MapPeer> {
    #[cfg(feature = "maps")]
    use keys::{Boxed, Short, Word};
    let indexset = Crate {
        name: "indexset",
        licence: "Apache-2.0 OR MIT",
        concurrent: false,
        usage: "BTreeMap with the default node size of 1024",
    };
    let indexset_beta = Crate {
        concurrent: true,
        usage: "concurrent::map::BTreeMap (beta, as its authors say), default node size",
        ..indexset
    };
    let any = Takes::Bytes(Limits::NONE);
    let (words, short) = (Takes::Words, Takes::Short);
    vec![
        indexset.peer("indexset u64", words, single!(indexset::Single<Word>)),
        indexset.peer("indexset short", short, single!(indexset::Single<Short>)),
        indexset.peer("indexset", any, single!(indexset::Single<Boxed>)),
        indexset_beta.peer(
            "indexset concurrent u64",
            words,
            concurrent!(indexset::Concurrent<Word>),
        ),
        indexset_beta.peer(
            "indexset concurrent short",
            short,
            concurrent!(indexset::Concurrent<Short>),
        ),
    ]
}

fn paged() -> Vec<MapPeer> {
    let bf_tree = Crate {
        name: "bf-tree",
        licence: "MIT",
        concurrent: true,
        usage: "pages in memory, a 256 MiB buffer, keys up to 256 bytes; a removal reads first",
    };
    let limits = Limits {
        shortest_key: 1,
        longest_key: Some(256),
        ..Limits::NONE
    };
    vec![bf_tree.peer(
        "bf-tree",
        Takes::Bytes(limits),
        concurrent!(bf_tree::Memory),
    )]
}
