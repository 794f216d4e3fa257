//! Two servers on one directory, each a process of its own: the second is refused, or the first
//! ends writing; what either has acknowledged stays.

use std::fs;
use std::path::Path;

use hedgerow_testkit::kill::client::Reply;
use hedgerow_testkit::kill::server::Server;

use crate::process::no_forks;

const INDEXES: [&str; 2] = ["masstree", "btree"];

fn start(data: &Path, index: &str) -> Server {
    let flags = ["--index", index, "--durability", "sync", "--workers", "1"];
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let _alone = no_forks();
    Server::spawn(program, data, &flags).unwrap()
}

/// Commands that must be acknowledged.
#[track_caller]
fn set(server: &mut Server, keys: &[&str]) {
    let mut client = server.connect().unwrap();
    for key in keys {
        let reply = client.call(&[b"SET", key.as_bytes(), b"value"]).unwrap();
        assert_eq!(reply, Reply::Simple("OK".into()), "{key}");
    }
}

#[track_caller]
fn has_all(server: &mut Server, keys: &[&str]) {
    let mut client = server.connect().unwrap();
    for key in keys {
        let reply = client.call(&[b"GET", key.as_bytes()]).unwrap();
        assert_eq!(reply, Reply::Bulk(Some(b"value".to_vec())), "{key}");
    }
}

#[test]
fn removing_the_lock_file_lets_no_second_server_in() {
    for index in INDEXES {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut first = start(&data, index);
        set(&mut first, &["before"]);
        fs::remove_file(data.join("LOCK")).unwrap();
        let refused = start(&data, index).connect().unwrap_err().to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
        set(&mut first, &["after"]);
        let mut client = first.connect().unwrap();
        assert_eq!(client.call(&[b"SAVE"]).unwrap(), Reply::Simple("OK".into()));
        set(&mut first, &["at last"]);
        first.kill().unwrap();
        has_all(&mut start(&data, index), &["before", "after", "at last"]);
    }
}

/// Moves what is in a directory, but for `LOCK`, into a new directory of the same name: neither of
/// the first server's locks keeps anybody out of that.
fn replace_directory(data: &Path) {
    let aside = data.with_extension("aside");
    fs::rename(data, &aside).unwrap();
    fs::create_dir(data).unwrap();
    for entry in fs::read_dir(&aside).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "LOCK" {
            fs::rename(entry.path(), data.join(entry.file_name())).unwrap();
        }
    }
}

/// A server is displaced by a second one, finds that with a command, and writes no more.
fn displace(index: &str, command: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut first = start(&data, index);
    set(&mut first, &["of the first"]);
    replace_directory(&data);
    let mut second = start(&data, index);
    set(&mut second, &["of the second"]);

    let mut client = first.connect().unwrap();
    for words in [&[command][..], &[b"SET", b"key", b"value"]] {
        let Reply::Error(why) = client.call(words).unwrap() else {
            panic!("{index}, {words:?}: not refused");
        };
        assert!(why.contains("MANIFEST"), "{index}, {words:?}: {why}");
    }
    first.kill().unwrap();
    set(&mut second, &["at last"]);
    let mut client = second.connect().unwrap();
    assert_eq!(client.call(&[b"SAVE"]).unwrap(), Reply::Simple("OK".into()));
    second.kill().unwrap();
    let all = ["of the first", "of the second", "at last"];
    has_all(&mut start(&data, index), &all);
}

// Each command meets another check, and a pair of servers of its own: once a check has refused, no
// later one is asked.

#[test]
fn a_server_whose_directory_was_replaced_takes_no_checkpoint() {
    for index in INDEXES {
        displace(index, b"SAVE");
    }
}

#[test]
fn a_server_whose_directory_was_replaced_stores_no_manifest() {
    for index in INDEXES {
        displace(index, b"FLUSHDB");
    }
}
