//! Ordered maps in C and C++, behind thin shims of ours (`native/`).
//!
//! The build script compiles those shims whose libraries it finds, and says which by
//! `cfg(peer = "…")`; the others are listed with the Debian package that brings them.

use hedgerow_lab_contender::{Entry, MapEntry, NewMap, Promises, Unavailable};

use crate::registry::{Limits, MapPeer};

#[cfg(any(peer = "std", peer = "rocksdb"))]
pub(crate) mod table;

#[cfg(peer = "std")]
mod shims {
    //! What `native/*.cpp` export.

    use std::ffi::c_char;

    use super::table::Table;

    unsafe extern "C" {
        pub(super) fn peer_std_map_halves() -> *const Table;
        pub(super) fn peer_std_map_words() -> *const Table;
        pub(super) fn peer_std_map() -> *const Table;
        pub(super) fn peer_std_set_halves() -> *const Table;
        pub(super) fn peer_std_set_words() -> *const Table;
        pub(super) fn peer_std_version() -> *const c_char;
    }
    #[cfg(peer = "absl")]
    unsafe extern "C" {
        pub(super) fn peer_absl_btree_halves() -> *const Table;
        pub(super) fn peer_absl_btree_words() -> *const Table;
        pub(super) fn peer_absl_btree() -> *const Table;
        pub(super) fn peer_absl_btree_set_halves() -> *const Table;
        pub(super) fn peer_absl_btree_set_words() -> *const Table;
        pub(super) fn peer_absl_version() -> *const c_char;
    }
    #[cfg(peer = "judy")]
    unsafe extern "C" {
        pub(super) fn peer_judy_halves() -> *const Table;
        pub(super) fn peer_judy_words() -> *const Table;
        pub(super) fn peer_judy() -> *const Table;
    }
    #[cfg(peer = "cds")]
    unsafe extern "C" {
        pub(super) fn peer_cds_bronson() -> *const Table;
        pub(super) fn peer_cds_ellen() -> *const Table;
        pub(super) fn peer_cds_version() -> *const c_char;
    }
}

/// Why a peer that needs a Debian package is not there.
#[allow(dead_code, reason = "a build with every library needs it for no peer")]
pub(crate) fn missing(package: &str) -> Unavailable {
    if cfg!(feature = "native") {
        Unavailable {
            why: "its headers or a C++ compiler were not found when this was built".to_owned(),
            remedy: format!("apt-get install {package}"),
        }
    } else {
        crate::registry::not_built()
    }
}

/// A map for one thread, in a build that has it.
macro_rules! single {
    ($peer:literal, $package:literal, $table:ident, $key_bytes:expr) => {{
        #[cfg(peer = $peer)]
        let build = Ok(NewMap::Single(|| {
            Box::new(table::Native::new(shims::$table, $key_bytes))
        }));
        #[cfg(not(peer = $peer))]
        let build = Err(missing($package));
        build
    }};
}

/// A map for many threads, in a build that has it.
macro_rules! concurrent {
    ($peer:literal, $package:literal, $table:ident, $key_bytes:expr) => {{
        #[cfg(peer = $peer)]
        let build = Ok(NewMap::Concurrent(|| {
            let map = table::Native::new(shims::$table, $key_bytes);
            Box::new(table::Shared(map))
        }));
        #[cfg(not(peer = $peer))]
        let build = Err(missing($package));
        build
    }};
}

/// A version from a shim, in a build that has it.
macro_rules! version {
    ($peer:literal, $version:ident) => {{
        #[cfg(peer = $peer)]
        let version = table::text(shims::$version);
        #[cfg(not(peer = $peer))]
        let version = "not found".to_owned();
        version
    }};
}

/// What all contenders of one library share.
struct Library {
    version: String,
    origin: &'static str,
    licence: &'static str,
    usage: &'static str,
    /// Ordered maps for one thread; the others are unordered ones for many.
    ordered: bool,
}

impl Library {
    fn peer(
        &self,
        name: &'static str,
        limits: Limits,
        build: Result<NewMap, Unavailable>,
    ) -> MapPeer {
        let entry = Entry {
            name,
            version: self.version.clone(),
            origin: self.origin,
            promises: Promises {
                ordered: self.ordered,
                concurrent: !self.ordered,
                durable: false,
                variable_keys: limits.longest_key != Some(limits.shortest_key),
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

/// Every set in C++, whether this build has it or not.
pub(crate) fn sets() -> Vec<MapPeer> {
    let (standard, absl) = (standard_library(), absl_library());
    let mut sets = vec![
        standard.peer(
            "std::set u32",
            Limits::HALVES,
            single!("std", "g++", peer_std_set_halves, Some(4)),
        ),
        standard.peer(
            "std::set u64",
            Limits::WORDS,
            single!("std", "g++", peer_std_set_words, Some(8)),
        ),
        absl.peer(
            "absl::btree_set u32",
            Limits::HALVES,
            single!(
                "absl",
                "g++ libabsl-dev",
                peer_absl_btree_set_halves,
                Some(4)
            ),
        ),
        absl.peer(
            "absl::btree_set u64",
            Limits::WORDS,
            single!(
                "absl",
                "g++ libabsl-dev",
                peer_absl_btree_set_words,
                Some(8)
            ),
        ),
    ];
    for set in &mut sets {
        set.map.entry.promises.keys_only = true;
    }
    sets
}

/// Every map in C or C++, whether this build has it or not.
pub(crate) fn maps() -> Vec<MapPeer> {
    [standard_maps(), absl_maps(), judy_arrays(), cds_trees()]
        .into_iter()
        .flatten()
        .collect()
}

fn standard_library() -> Library {
    Library {
        version: version!("std", peer_std_version),
        origin: "the C++ compiler's library",
        licence: "GPL-3.0 with the runtime exception (libstdc++)",
        usage: "std::map and std::set over uint32_t and uint64_t, std::map over std::string with \
                lookups by string_view",
        ordered: true,
    }
}

fn standard_maps() -> Vec<MapPeer> {
    let standard = standard_library();
    vec![
        standard.peer(
            "std::map u32",
            Limits::HALVES,
            single!("std", "g++", peer_std_map_halves, Some(4)),
        ),
        standard.peer(
            "std::map u64",
            Limits::WORDS,
            single!("std", "g++", peer_std_map_words, Some(8)),
        ),
        standard.peer(
            "std::map",
            Limits::NONE,
            single!("std", "g++", peer_std_map, None),
        ),
    ]
}

fn absl_library() -> Library {
    Library {
        version: version!("absl", peer_absl_version),
        origin: "Debian package libabsl-dev",
        licence: "Apache-2.0",
        usage: "absl::btree_map and btree_set over uint32_t and uint64_t, btree_map over \
                std::string with lookups by string_view",
        ordered: true,
    }
}

fn absl_maps() -> Vec<MapPeer> {
    let absl = absl_library();
    vec![
        absl.peer(
            "absl::btree_map u32",
            Limits::HALVES,
            single!("absl", "g++ libabsl-dev", peer_absl_btree_halves, Some(4)),
        ),
        absl.peer(
            "absl::btree_map u64",
            Limits::WORDS,
            single!("absl", "g++ libabsl-dev", peer_absl_btree_words, Some(8)),
        ),
        absl.peer(
            "absl::btree_map",
            Limits::NONE,
            single!("absl", "g++ libabsl-dev", peer_absl_btree, None),
        ),
    ]
}

fn judy_arrays() -> Vec<MapPeer> {
    let judy = Library {
        version: judy_version(),
        origin: "Debian package libjudy-dev",
        licence: "LGPL-2.1-or-later",
        usage: "JudyL over integers, JudySL over strings that end in a zero byte",
        ordered: true,
    };
    let text = Limits {
        no_zero_bytes: true,
        ..Limits::NONE
    };
    vec![
        judy.peer(
            "JudyL u32",
            Limits::HALVES,
            single!("judy", "g++ libjudy-dev", peer_judy_halves, Some(4)),
        ),
        judy.peer(
            "JudyL",
            Limits::WORDS,
            single!("judy", "g++ libjudy-dev", peer_judy_words, Some(8)),
        ),
        judy.peer(
            "JudySL",
            text,
            single!("judy", "g++ libjudy-dev", peer_judy, None),
        ),
    ]
}

fn cds_trees() -> Vec<MapPeer> {
    let cds = Library {
        version: version!("cds", peer_cds_version),
        origin: "Debian package libcds-dev",
        licence: "BSL-1.0",
        usage: "the library's default traits; no scans; Bronson et al. with buffered RCU, Ellen \
                et al. with hazard pointers",
        ordered: false,
    };
    vec![
        cds.peer(
            "libcds BronsonAVL",
            Limits::WORDS,
            concurrent!("cds", "g++ libcds-dev", peer_cds_bronson, Some(8)),
        ),
        cds.peer(
            "libcds Ellen",
            Limits::WORDS,
            concurrent!("cds", "g++ libcds-dev", peer_cds_ellen, Some(8)),
        ),
    ]
}

/// Judy's headers do not say; the package does.
fn judy_version() -> String {
    option_env!("PEER_JUDY_VERSION")
        .unwrap_or("not found")
        .to_owned()
}
