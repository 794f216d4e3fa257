//! Clients move to another place while they write, as `docs/backends.md` says: backups of the
//! running server are copied, each time only what changed since the one before; then the server
//! ends, what changed since the last backup is copied, and another server serves the target. A
//! ledger outside knows what was acknowledged.
//!
//! The target is a directory; an HBase cluster, where `HEDGEROW_HBASE_URL` names one and the
//! feature `hbase` is on. `HEDGEROW_SWITCH_ROWS` rows that nobody changes are there beside those of
//! the writers, 20,000 if it says nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::{Client, Reply};
use hedgerow_testkit::kill::server::Server;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::process::{done, hedgerow, no_forks};

const WRITERS: u64 = 4;
const KEYS: u64 = 300;
/// Only what hangs takes longer.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The values that a row may have.
type Ledger = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

/// Writes rows of its own until the server ends; what they may be then.
fn write_until_the_end(
    address: std::net::SocketAddr,
    number: u64,
    acknowledged: &AtomicU64,
) -> Ledger {
    let mut client = Client::connect(address).unwrap();
    let mut random = SmallRng::seed_from_u64(number);
    let mut ledger = Ledger::new();
    for count in 0_u64.. {
        let key = format!("writer {number} {:04}", random.random_range(0..KEYS)).into_bytes();
        let value = (random.random_range(0..4) > 0).then(|| count.to_string().into_bytes());
        let reply = match &value {
            Some(value) => client.call(&[b"SET", &key, value]),
            None => client.call(&[b"DEL", &key]),
        };
        match reply {
            Ok(Reply::Simple(_) | Reply::Integer(_)) => {
                ledger.insert(key, vec![value]);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // Nobody knows whether the last one happened.
            _ => {
                ledger.entry(key).or_insert_with(|| vec![None]).push(value);
                return ledger;
            }
        }
    }
    unreachable!("there are enough numbers")
}

/// Makes a backup of a server.
fn back_up(client: &mut Client, name: &str) {
    let begun = client.call(&[b"BACKUP", name.as_bytes()]).unwrap();
    assert_eq!(begun, Reply::Simple("Background backup started".into()));
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "the backup does not end");
        std::thread::sleep(Duration::from_millis(10));
        let Reply::Bulk(Some(info)) = client.call(&[b"INFO", b"persistence"]).unwrap() else {
            panic!("INFO is text");
        };
        let info = String::from_utf8(info).unwrap();
        if info.contains("backup_in_progress:0\r\n") {
            assert!(info.contains("last_backup_status:ok\r\n"), "{info}");
            return;
        }
    }
}

/// Fills the rows that nobody changes.
fn fill(client: &mut Client, rows: u64) {
    const TOGETHER: u64 = 500;
    for first in (0..rows).step_by(TOGETHER as usize) {
        let some = first..rows.min(first + TOGETHER);
        for i in some.clone() {
            let (key, value) = (format!("row {i:09}"), format!("value of {i}"));
            client.queue(&[b"SET", key.as_bytes(), value.as_bytes()]);
        }
        client.send().unwrap();
        for _ in some {
            assert_eq!(client.receive().unwrap(), Reply::Simple("OK".into()));
        }
    }
}

#[test]
fn clients_that_write_move_to_another_place_and_lose_nothing() {
    moved_while_clients_write("btree");
}

#[test]
fn clients_that_write_move_from_rows_in_memory_and_lose_nothing() {
    moved_while_clients_write("masstree");
}

/// Where the rows come from, in `data`, and where they go.
struct Move<'a> {
    dir: &'a Path,
    index: &'a str,
    target: String,
}

impl Move<'_> {
    /// A server over a directory, which makes backups, or over a cluster.
    fn serve(&self, place: &str) -> Server {
        let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
        let backups = self.dir.join("backups");
        let backups = backups.to_str().unwrap();
        let flags = ["--index", self.index, "--backups", backups];
        let _alone = no_forks();
        let server = match place.contains("://") {
            true => Server::spawn_over(program, place, &[]),
            false => Server::spawn(program, &self.dir.join(place), &flags),
        };
        server.unwrap()
    }

    /// Copies to the target; how many rows.
    fn copy(&self, words: &[&str]) -> u64 {
        let began = Instant::now();
        let copy = [&["copy", "--to", &self.target, "--exclusive"], words].concat();
        let said = done(hedgerow(self.dir, &copy));
        println!("{words:?}: {} s: {said}", began.elapsed().as_secs_f64());
        said.split(' ').next().unwrap().parse().unwrap()
    }

    /// Copies backups of a server to which clients write until it ends; what their rows may be.
    fn copy_beside_writers(&self, rows: u64, acknowledged: &AtomicU64) -> Ledger {
        let mut server = self.serve("data");
        let mut client = server.connect().unwrap();
        fill(&mut client, rows);
        let address = server.address();
        let write_more = || {
            let until = acknowledged.load(Ordering::Relaxed) + WRITERS * KEYS;
            let deadline = Instant::now() + TIMEOUT;
            while acknowledged.load(Ordering::Relaxed) < until {
                assert!(Instant::now() < deadline, "nobody writes");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::scope(|scope| {
            // A panic ends it, and with it the writers.
            let (mut server, mut client) = (server, client);
            let write = |number| write_until_the_end(address, number, acknowledged);
            let writers: Vec<_> = (0..WRITERS)
                .map(|number| scope.spawn(move || write(number)))
                .collect();
            write_more();
            back_up(&mut client, "first");
            assert!(self.copy(&["--from", "backups/first"]) >= rows);
            write_more();
            back_up(&mut client, "second");
            let since = ["--changed-since", "backups/first"];
            let changed = self.copy(&[&["--from", "backups/second"], &since[..]].concat());
            assert!(changed > 0 && changed <= WRITERS * KEYS, "{changed}");
            write_more();
            server.shut_down().unwrap();
            let ledgers = writers.into_iter().map(|writer| writer.join().unwrap());
            ledgers.flatten().collect()
        })
    }
}

/// One at a time: a master of HBase may end when two namespaces are made at once, as
/// `ZKNamespaceManager` then fails.
static ALONE: Mutex<()> = Mutex::new(());

fn moved_while_clients_write(index: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let cluster = std::env::var("HEDGEROW_HBASE_URL").ok();
    let cluster = cluster.filter(|_| cfg!(feature = "hbase"));
    let its = Move {
        dir: dir.path(),
        index,
        // A namespace of its own.
        target: cluster.map_or("target".to_owned(), |url| {
            format!("{url}_{index}{}", std::process::id())
        }),
    };
    let rows = std::env::var("HEDGEROW_SWITCH_ROWS").map_or(20_000, |rows| rows.parse().unwrap());
    let acknowledged = AtomicU64::new(0);
    let ledger = its.copy_beside_writers(rows, &acknowledged);
    let stopped = Instant::now();
    let changed = its.copy(&["--from", "data", "--changed-since", "backups/second"]);
    assert!(changed > 0 && changed <= WRITERS * KEYS, "{changed}");
    let mut server = its.serve(&its.target);
    let mut client = server.connect().unwrap();
    println!(
        "{} writes acknowledged; nobody served for {} s",
        acknowledged.load(Ordering::Relaxed),
        stopped.elapsed().as_secs_f64()
    );
    for (key, allowed) in &ledger {
        let Reply::Bulk(found) = client.call(&[b"GET", key]).unwrap() else {
            panic!("a value or none");
        };
        let key = key.escape_ascii();
        assert!(allowed.contains(&found), "{key}: {found:?}");
    }
    // Writes go on where they ended.
    let stored = client.call(&[b"SET", b"new", b"1"]).unwrap();
    assert_eq!(stored, Reply::Simple("OK".into()));
    assert_eq!(client.call(&[b"DEL", b"new"]).unwrap(), Reply::Integer(1));
    server.shut_down().unwrap();
    let words = [
        "copy",
        "--from",
        "data",
        "--to",
        &its.target,
        "--verify-only",
    ];
    println!("{}", done(hedgerow(its.dir, &words)));
}
