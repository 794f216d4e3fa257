//! `BACKUP`: a copy of a served database is what it was at one moment, while clients write, and
//! what makes no sense is refused before anything is made.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hedgerow::{Db, IndexKind};
use hedgerow_server::{Server, ServerOptions};
use hedgerow_vfs::{CallKind, FaultyVfs, SystemVfs};

use crate::commands::text;
use crate::support::{Client, Started, TIMEOUT, Value, ok, one_worker, start};

fn with_backups(dir: &Path) -> ServerOptions {
    ServerOptions {
        workers: 2,
        backups: Some(dir.to_path_buf()),
        ..ServerOptions::default()
    }
}

fn begun() -> Value {
    Value::Simple("Background backup started".into())
}

/// A line of `INFO persistence`, once no backup is under way.
fn when_ended(client: &mut Client, field: &str) -> Option<String> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let info = text(client.run("INFO persistence"));
        if info.contains("backup_in_progress:0\r\n") {
            let begins = format!("{field}:");
            let found = info.lines().find_map(|line| line.strip_prefix(&begins));
            return found.map(str::to_owned);
        }
        assert!(Instant::now() < until, "{info}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The two rows that each transaction of a writer changes.
fn pair(db: &Db) -> [u64; 2] {
    let rows = db.keyspace("default").unwrap();
    ["one", "other"].map(|key| {
        let row = rows.read(key.as_bytes(), |row| row.value().map(<[u8]>::to_vec));
        let value = row.unwrap().flatten().unwrap_or_default();
        String::from_utf8(value).unwrap().parse().unwrap_or(0)
    })
}

/// Ends a writer, also if the test fails.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One writer changes two rows at once, and counts what was acknowledged, while backups are made.
fn copied_beside_a_writer(index: IndexKind) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().index(index).open(dir.path().join("data"));
    let db = Arc::new(db.unwrap());
    let backups = dir.path().join("made/if/missing");
    let server = start(db, with_backups(&backups)).unwrap();
    let resp = server.addresses().resp.unwrap();
    let mut client = Client::connect(resp);
    for i in 0..2000 {
        client.run(&format!("SET filler:{i} {i:0200}"));
    }
    let (acknowledged, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stops);
        scope.spawn(|| {
            let mut writer = Client::connect(resp);
            for i in 1.. {
                writer.run("MULTI");
                writer.run(&format!("SET one {i}"));
                writer.run(&format!("SET other {i}"));
                assert!(matches!(writer.run("EXEC"), Value::Array(_)));
                acknowledged.store(i, Ordering::SeqCst);
                if stops.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        for name in ["first", "second"] {
            while acknowledged.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::SeqCst);
            assert_eq!(client.run(&format!("BACKUP {name}")), begun());
            let status = when_ended(&mut client, "last_backup_status");
            let after = acknowledged.load(Ordering::SeqCst) + 1;
            assert_eq!(status.as_deref(), Some("ok"));
            assert_eq!(when_ended(&mut client, "last_backup_name").unwrap(), name);
            let bytes = when_ended(&mut client, "last_backup_bytes").unwrap();
            assert!(bytes.parse::<u64>().unwrap() > 400_000, "{bytes}");
            let copy = Db::open(backups.join(name)).unwrap();
            let [one, other] = pair(&copy);
            assert_eq!(one, other, "of one moment");
            assert!((before..=after).contains(&one), "{before} {one} {after}");
            assert!(copy.keyspace("default").unwrap().len() >= 2002);
            copy.close().unwrap();
        }
    });
    server.shutdown();
}

#[test]
fn a_backup_beside_a_writer_is_of_one_moment() {
    copied_beside_a_writer(IndexKind::Masstree);
}

#[test]
fn a_backup_of_pages_beside_a_writer_is_of_one_moment() {
    copied_beside_a_writer(IndexKind::BTree);
}

#[test]
fn a_backup_that_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |client: &mut Client, line: &str, because: &str| {
        let Value::Error(error) = client.run(line) else {
            panic!("{line} is not refused");
        };
        assert!(error.contains(because), "{error}");
    };
    let started = Started::new(one_worker());
    refused(&mut started.client(), "BACKUP name", "--backups DIR");
    let started = Started::in_memory(with_backups(dir.path()));
    refused(&mut started.client(), "BACKUP name", "memory");
    let started = Started::new(with_backups(dir.path()));
    let mut client = started.client();
    for name in ["..", "../x", "/x", ".x", "a/b", "ä", &"n".repeat(65)] {
        refused(&mut client, &format!("BACKUP {name}"), "letters, digits");
    }
    refused(&mut client, "BACKUP", "wrong number of arguments");
    std::fs::create_dir(dir.path().join("taken")).unwrap();
    std::fs::write(dir.path().join("taken/file"), "x").unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    for name in ["taken", "file"] {
        refused(&mut client, &format!("BACKUP {name}"), "another name");
    }
    client.run("MULTI");
    refused(&mut client, "BACKUP name", "not allowed");
    client.run("DISCARD");
    assert_eq!(when_ended(&mut client, "last_backup_status"), None);
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["file", "taken"], "nothing was made");
}

#[test]
fn a_backup_that_fails_says_so_and_another_may_follow() {
    let dir = tempfile::tempdir().unwrap();
    let backups = dir.path().join("backups");
    std::fs::write(&backups, "no directory").unwrap();
    let started = Started::new(with_backups(&backups));
    let mut client = started.client();
    client.run("SET a 1");
    assert_eq!(client.run("BACKUP name"), begun());
    let status = when_ended(&mut client, "last_backup_status").unwrap();
    assert!(status.starts_with("err: "), "{status}");
    std::fs::remove_file(&backups).unwrap();
    // What a backup that failed may have left.
    std::fs::create_dir_all(backups.join("name")).unwrap();
    assert_eq!(client.run("BACKUP name"), begun());
    let status = when_ended(&mut client, "last_backup_status");
    assert_eq!(status.as_deref(), Some("ok"));
    assert_eq!(client.run("SAVE"), ok());
}

/// A backup that waits as it begins, until `during` has returned; and where it is.
fn paused(during: impl FnOnce(&Server, &mut Client, &dyn Fn())) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyVfs::new(Arc::new(SystemVfs));
    let db = Db::builder().vfs(Arc::new(disk.clone()));
    let db = Arc::new(db.open(dir.path().join("data")).unwrap());
    let server = start(Arc::clone(&db), with_backups(dir.path())).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    client.run("SET a 1");
    let pause = disk.pause_once(CallKind::CreateDir, 0);
    assert_eq!(client.run("BACKUP name"), begun());
    assert!(pause.is_reached_within(TIMEOUT));
    let pause = std::cell::Cell::new(Some(pause));
    during(&server, &mut client, &|| drop(pause.take()));
    drop(pause);
    server.shutdown();
    db.close().unwrap();
    dir
}

#[test]
fn checkpoints_and_backups_that_clients_ask_for_exclude_each_other() {
    paused(|_, client, go_on| {
        for line in ["SAVE", "BGSAVE", "BACKUP other"] {
            assert!(matches!(client.run(line), Value::Error(_)), "{line}");
        }
        let info = text(client.run("INFO persistence"));
        assert!(info.contains("backup_in_progress:1\r\n"), "{info}");
        assert_eq!(client.run("SET b 2"), ok(), "writers go on");
        go_on();
        let status = when_ended(client, "last_backup_status");
        assert_eq!(status.as_deref(), Some("ok"));
        // At once.
        assert_eq!(client.run("BACKUP other"), begun());
        when_ended(client, "last_backup_status");
        assert_eq!(client.run("SAVE"), ok());
    });
}

#[test]
fn a_shutdown_waits_for_a_backup() {
    let dir = paused(|server, _, go_on| {
        std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| server.shutdown());
            let until = Instant::now() + TIMEOUT;
            while TcpStream::connect(server.addresses().resp.unwrap()).is_ok()
                && Instant::now() < until
            {
                std::thread::yield_now();
            }
            let is_early = shutdown.is_finished();
            go_on();
            assert!(!is_early);
        });
    });
    let copy = Db::open(dir.path().join("name")).unwrap();
    let rows = copy.keyspace("default").unwrap();
    assert_eq!(rows.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_backup_among_the_files_of_the_database_fails_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, logs) = (dir.path().join("data"), dir.path().join("logs"));
    for within in [&data, &logs, &data.join("../missing/../data/deeper")] {
        let db = Db::builder().log_dirs([&logs]).open(&data).unwrap();
        let server = start(Arc::new(db), with_backups(within)).unwrap();
        let mut client = Client::connect(server.addresses().resp.unwrap());
        client.run("INCR a");
        assert_eq!(client.run("BACKUP some"), begun());
        let status = when_ended(&mut client, "last_backup_status").unwrap();
        assert!(status.contains("files of the database"), "{status}");
        assert_eq!(client.run("SAVE"), ok());
    }
    let db = Db::open(&data).unwrap();
    let rows = db.keyspace("default").unwrap();
    assert_eq!(rows.get(b"a").unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_backup_on_a_full_disk_fails_and_writers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    std::fs::create_dir(&backups).unwrap();
    let disk = FaultyVfs::new(Arc::new(SystemVfs));
    let db = Db::builder().vfs(Arc::new(disk.clone())).open(&data);
    let server = start(Arc::new(db.unwrap()), with_backups(&backups)).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    for i in 0..1000 {
        client.run(&format!("SET {i} {i:0100}"));
    }
    disk.set_space_in(&backups, Some(20_000));
    assert_eq!(client.run("BACKUP name"), begun());
    let status = when_ended(&mut client, "last_backup_status").unwrap();
    assert!(status.starts_with("err: "), "{status}");
    assert!(!backups.join("name/MANIFEST").exists());
    assert_eq!(client.run("SET other 1"), ok());
    disk.set_space_in(&backups, None);
    assert_eq!(client.run("BACKUP name"), begun());
    let status = when_ended(&mut client, "last_backup_status");
    assert_eq!(status.as_deref(), Some("ok"));
    let copy = Db::open(backups.join("name")).unwrap();
    assert_eq!(copy.keyspace("default").unwrap().len(), 1001);
}
