//! How long contenders take beside one another, to say beforehand what a run will take.
//!
//! An experiment knows what a round is for a contender of ordinary speed ([`Need`]): for maps
//! that is the standard library's, for engines and servers ours. This table says how many times
//! as long others take over the same, and what they need to start. It was read off results of
//! this lab on a common server processor, with large maps: an estimate is to be right within a
//! factor of two, which few digits are enough for. Who is not listed is ordinary.

use crate::experiment::Need;

/// Seconds that starting a process takes, with all that the lab does before a map.
pub const PROCESS_SECONDS: f64 = 0.04;

/// Seconds that a map of ordinary speed takes over the throwaway keys.
pub const WARM_UP_SECONDS: f64 = 0.02;

/// Seconds that a map of ordinary speed takes over the script of verification.
pub const VERIFY_SECONDS: f64 = 0.15;

/// Seconds that a pair of a scan takes on a map of ordinary speed.
pub const PAIR_SECONDS: f64 = 100e-9;

/// Seconds that a key takes before a map sees it: made, copied in the order of use, compared.
#[must_use]
pub fn key_seconds(key_bytes: u64) -> f64 {
    (20.0 + 4.0 * key_bytes as f64) * 1e-9
}

/// Seconds that one operation takes on a map of ordinary speed of so many keys: the larger it
/// is, the more of its nodes are cache misses.
#[must_use]
pub fn step_seconds(keys: u64, key_bytes: u64) -> f64 {
    let large = (keys as f64 / 10_000.0).max(1.0).powf(0.42);
    (0.12 * large + 0.004 * key_bytes as f64) * 1e-6
}

/// A contender's part in an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pace {
    /// How many times as long as an ordinary contender it takes over the same work.
    times: f64,
    /// Seconds that it takes to start.
    start_seconds: f64,
}

const ORDINARY: Pace = Pace {
    times: 1.0,
    start_seconds: 0.0,
};

const fn times(times: f64) -> Pace {
    Pace {
        times,
        start_seconds: 0.0,
    }
}

const fn starting(start_seconds: f64, times: f64) -> Pace {
    Pace {
        times,
        start_seconds,
    }
}

/// What MariaDB takes to start in an empty folder.
const MARIADB_SECONDS: f64 = 2.5;

/// By name; of several forms of a map, each for itself where they differ much.
const PACES: &[(&str, Pace)] = &[
    ("(harness)", times(0.05)),
    ("std BTreeMap u32", times(0.5)),
    ("std BTreeMap u64", times(0.55)),
    ("hedgerow inline", times(0.6)),
    ("hedgerow single-threaded", times(0.5)),
    ("hedgerow index", times(0.8)),
    ("bwtree", times(0.9)),
    ("btree adaptive", times(0.8)),
    ("btree baseline", times(1.2)),
    ("btree fingerprint", times(0.8)),
    ("matryoshka plain u32", times(0.5)),
    ("matryoshka plain u64", times(0.85)),
    ("matryoshka fence u32", times(0.5)),
    ("matryoshka fence u64", times(0.8)),
    ("matryoshka fence without mass prefetch u32", times(0.5)),
    ("matryoshka fence without mass prefetch u64", times(0.8)),
    ("matryoshka fence superpage u32", times(0.5)),
    ("matryoshka fence superpage u64", times(0.8)),
    ("matryoshka eytzinger u32", times(0.6)),
    ("matryoshka flat u32", times(0.4)),
    ("matryoshka flat u64", times(0.5)),
    ("matryoshka flat fast u32", times(0.4)),
    ("matryoshka flat fast u64", times(0.5)),
    ("matryoshka flat superpage u32", times(0.4)),
    ("matryoshka flat superpage u64", times(0.5)),
    ("matryoshka flat batches u32", times(0.4)),
    ("matryoshka flat batches u64", times(0.5)),
    ("matryoshka shared u64", times(0.6)),
    ("btree semi dense", times(0.8)),
    ("btree fully dense", times(0.8)),
    ("btree hints", times(0.9)),
    ("JudyL u32", times(0.3)),
    ("JudyL", times(0.4)),
    ("JudySL", times(1.2)),
    ("absl::btree_map", times(1.6)),
    ("absl::btree_map u32", times(0.5)),
    ("absl::btree_map u64", times(0.5)),
    ("std::map", times(2.4)),
    ("std::map u32", times(1.7)),
    ("std::map u64", times(1.7)),
    ("blart u64", times(0.9)),
    ("blart", times(1.3)),
    ("rart u64", times(1.8)),
    ("rart", times(1.8)),
    ("congee", times(1.5)),
    ("masstree crate", times(0.8)),
    ("scc TreeIndex u64", times(1.2)),
    ("scc TreeIndex short", times(1.4)),
    ("scc TreeIndex", times(3.4)),
    ("crossbeam-skiplist u64", times(3.0)),
    ("crossbeam-skiplist short", times(3.5)),
    ("crossbeam-skiplist", times(4.2)),
    ("concurrent-map", times(10.0)),
    ("indexset", times(3.5)),
    ("indexset concurrent u64", times(0.7)),
    ("bf-tree", times(3.0)),
    ("libcds BronsonAVL", times(2.5)),
    ("libcds Ellen", times(5.0)),
    ("binary tree", times(4.0)),
    ("binary +arena", times(3.6)),
    ("binary +superpage", times(2.9)),
    ("binary +intcmp", times(3.1)),
    ("4-tree", times(2.1)),
    ("B-tree", times(1.3)),
    ("hedgerow btree", times(2.0)),
    ("redb", times(8.0)),
    ("fjall", times(5.0)),
    ("sled", times(8.0)),
    ("lmdb", times(5.0)),
    ("sqlite", times(14.0)),
    ("rocksdb", times(7.0)),
    ("bf-tree on disk", times(3.0)),
    // It makes its own tables first.
    ("mariadb", starting(MARIADB_SECONDS, 3.0)),
    ("mariadb periodic", starting(MARIADB_SECONDS, 1.5)),
];

fn of(name: &str) -> Pace {
    let known = PACES.iter().find(|(known, _)| *known == name);
    known.map_or(ORDINARY, |(_, pace)| *pace)
}

/// Seconds that a round of this contender is likely to take.
#[must_use]
pub fn round_seconds(name: &str, need: &Need) -> f64 {
    let pace = of(name);
    need.shared_seconds + pace.start_seconds + need.own_seconds * pace.times
}

/// Seconds that verifying it is likely to take.
#[must_use]
pub fn verify_seconds(name: &str, need: &Need) -> f64 {
    let pace = of(name);
    pace.start_seconds + need.verify_seconds * pace.times.max(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use crate::servers;
    use hedgerow_lab_own::Empty;

    #[test]
    fn slow_contenders_and_slow_starters_take_longer() {
        let need = Need {
            shared_seconds: 1.0,
            own_seconds: 2.0,
            verify_seconds: 0.1,
            ..Need::default()
        };
        assert_eq!(round_seconds("nobody knows it", &need), 3.0);
        assert!(round_seconds("libcds Ellen", &need) > 10.0);
        assert!(round_seconds(Empty::NAME, &need) < 1.2);
        assert!(verify_seconds("mariadb", &need) > 1.0);
    }

    #[test]
    fn every_name_is_a_contenders_and_there_once() {
        let registry = Registry::new();
        let maps = registry.maps.iter().map(|map| map.entry.name);
        let stores = registry.stores.iter().map(|store| store.entry.name);
        let sets = registry.sets.iter().map(|set| set.entry.name);
        let mut known: Vec<&str> = maps.chain(sets).chain(stores).collect();
        let servers = servers::all();
        known.extend(servers.iter().map(|server| server.entry.name));
        known.extend(hedgerow_lab_comparison_trees::NAMES);
        for (index, (name, _)) in PACES.iter().enumerate() {
            assert!(known.contains(name), "{name}");
            assert!(PACES[..index].iter().all(|(other, _)| other != name));
        }
    }
}
