//! Who takes part from client to server, and where their files are.

use std::path::Path;

use crate::experiment::{Participant, Settings};
use crate::servers::{BARE, named, participant};

/// What ratios are taken to: the Bw-tree as the thesis had it, in memory alone.
pub(super) const BASELINE: &str = "hedgerow bwtree in memory";

/// Ours over three indexes, each in memory alone (B-trees: never synced), with a log that is synced
/// periodically, and with one that is synced before each answer.
pub(super) const HEDGEROW: [&str; 9] = [
    BASELINE,
    "hedgerow bwtree periodic",
    "hedgerow bwtree sync",
    "hedgerow btree never synced",
    "hedgerow btree periodic",
    "hedgerow btree sync",
    "hedgerow masstree in memory",
    "hedgerow masstree periodic",
    "hedgerow masstree sync",
];

/// InnoDB, by the shorter way and by SQL, its log written at each commit or synced as well.
pub(super) const INNODB: [&str; 4] = [
    "mariadb handlersocket periodic",
    "mariadb handlersocket",
    "mariadb periodic",
    "mariadb",
];

const OTHERS: [&str; 3] = ["redis", "redis aof", "memcached"];

/// Enough to see that all ways work.
pub(super) const FEW: [&str; 4] = [
    BASELINE,
    "hedgerow bwtree sync",
    "redis",
    "mariadb handlersocket",
];

/// Enough for an experiment whose requests another one sends to [`FEW`]: starting servers is most
/// of the time of a smoke run.
pub(super) const FEWEST: [&str; 2] = [BASELINE, BARE];

/// Everyone.
pub(super) fn all() -> Vec<&'static str> {
    [&HEDGEROW[..], &INNODB, &OTHERS].concat()
}

/// Everyone, and the least that a server does.
pub(super) fn all_and_bare() -> Vec<&'static str> {
    [all(), vec![BARE]].concat()
}

/// These as the runner sees them, with their files in the RAM disk if there is one.
pub(super) fn participants(names: &[&str]) -> Vec<Participant> {
    let servers = named(names);
    let with_files = servers.iter().map(|server| Participant {
        environment: match has_ram_disk() {
            true => vec![("TMPDIR", RAM_DISK.to_owned())],
            false => Vec::new(),
        },
        ..participant(server)
    });
    with_files.collect()
}

const RAM_DISK: &str = "/dev/shm";

/// Free bytes that a RAM disk must have: containers often get one of 64 MiB.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// Where the files of a run are.
pub(super) fn files(settings: &Settings) -> &'static str {
    match (&settings.directory, has_ram_disk()) {
        (Some(_), _) => "--directory",
        (None, true) => "RAM disk",
        (None, false) => "temporary directory",
    }
}

fn has_ram_disk() -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    is_ram_disk(&mounts) && free_bytes(Path::new(RAM_DISK)) >= LEAST_FREE_BYTES
}

fn is_ram_disk(mounts: &str) -> bool {
    mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(RAM_DISK) && words.next() == Some("tmpfs")
    })
}

#[cfg(target_os = "linux")]
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail * disk.f_frsize)
}

#[cfg(not(target_os = "linux"))]
fn free_bytes(_folder: &Path) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_server() {
        let names = all_and_bare();
        assert_eq!(named(&names).len(), names.len());
        assert!(FEW.iter().all(|few| names.contains(few)));
        assert!(FEWEST.iter().all(|few| names.contains(few)));
    }

    #[test]
    fn a_ram_disk_is_one_of_its_kind_at_its_place() {
        assert!(is_ram_disk(
            "proc /proc proc rw 0 0\nshm /dev/shm tmpfs rw 0 0\n"
        ));
        assert!(!is_ram_disk(
            "/dev/sda /dev/shm ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n"
        ));
    }
}
