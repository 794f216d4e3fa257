//! Limits that the command passes on: the size of a commit, the space in `TMPDIR`, and the address
//! space of the process.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use hedgerow::{Db, IndexKind};
use hedgerow_testkit::kill::client::{Client, Reply};
use hedgerow_testkit::kill::server::Server;
use hedgerow_testkit::kill::trouble::SmallDisk;

use crate::process::{command, done, fails, hedgerow, no_forks, spawn};

/// The error that a command is answered with.
#[track_caller]
fn refused(client: &mut Client, words: &[&[u8]]) -> String {
    match client.call(words).unwrap() {
        Reply::Error(why) => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_none(client: &mut Client, keys: &[&[u8]]) {
    for key in keys {
        let reply = client.call(&[b"GET", key]).unwrap();
        assert_eq!(reply, Reply::Bulk(None), "{}", key.escape_ascii());
    }
}

#[test]
fn a_server_refuses_commits_beyond_its_limit_whole() {
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let flags = ["--max-commit-bytes", "64KiB", "--workers", "1"];
    let mut server = {
        let _alone = no_forks();
        Server::spawn(program, &dir.path().join("data"), &flags).unwrap()
    };
    let mut client = server.connect().unwrap();
    let value = vec![b'v'; 30 << 10];
    let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    let simple = |text: &str| Reply::Simple(text.into());

    let mset: Vec<&[u8]> = [&b"MSET"[..]]
        .into_iter()
        .chain(keys.iter().flat_map(|key| [*key, &value]))
        .collect();
    let why = refused(&mut client, &mset);
    assert!(
        why.contains("65536") && why.contains("`--max-commit-bytes`"),
        "{why}"
    );
    assert_none(&mut client, &keys);

    assert_eq!(client.call(&[b"MULTI"]).unwrap(), simple("OK"));
    for key in keys {
        let queued = client.call(&[b"SET", key, &value]).unwrap();
        assert_eq!(queued, simple("QUEUED"));
    }
    let why = refused(&mut client, &[b"EXEC"]);
    assert!(
        why.contains("65536") && why.contains("`--max-commit-bytes`"),
        "{why}"
    );
    assert_none(&mut client, &keys);

    // Within the limit both are applied, and a row alone has the limit of its value.
    assert_eq!(client.call(&mset[..5]).unwrap(), simple("OK"));
    let large = value.repeat(3);
    assert_eq!(client.call(&[b"SET", b"c", &large]).unwrap(), simple("OK"));
    let counted = client.call(&[b"EXISTS", b"a", b"b", b"c"]).unwrap();
    assert_eq!(counted, Reply::Integer(3));
}

const ROWS: usize = 20_000;

/// A database of B-trees in `dir/data` whose log has several times what `--memory 1MiB` allows.
fn database_with_a_long_log(dir: &Path) {
    let _alone = no_forks();
    let builder = Db::builder().index(IndexKind::BTree);
    // Without checkpoints closing takes none either.
    let builder = builder
        .memory_limit(Some(64 << 20))
        .checkpoint_log_bytes(None);
    let db = builder.open(dir.join("data")).unwrap();
    let rows = db.keyspace("default").unwrap();
    for n in 0..ROWS {
        // In no order, so that pages come and go.
        let key = format!("key{:05}", n * 7919 % ROWS);
        rows.put(key.as_bytes(), &[b'v'; 200]).unwrap();
    }
    drop(rows);
    db.close().unwrap();
}

#[test]
fn a_database_can_be_looked_at_while_tmpdir_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, full) = (dir.path(), dir.path().join("full"));
    database_with_a_long_log(dir);
    std::fs::create_dir(&full).unwrap();
    let _disk = match SmallDisk::mount(&full, 64 << 10) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no small disk can be mounted: {why}"),
    };
    let run = |words: &[&str]| {
        let mut command = command(dir, words);
        command.args(["--data", "data", "--memory", "1MiB"]);
        let child = spawn(command.env("TMPDIR", &full));
        done(child.wait_with_output().unwrap())
    };
    assert!(run(&["check"]).contains("20000 rows"));
    assert_eq!(run(&["count"]).trim(), "20000");
    assert!(run(&["dump"]).contains("rows=20000"));
    assert!(run(&["stats"]).contains("pages_written"));
}

#[test]
fn a_tmpdir_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    database_with_a_long_log(dir);
    for words in [&["check"][..], &["count"], &["dump"], &["stats"]] {
        let mut command = command(dir, words);
        command.args(["--data", "data", "--memory", "1MiB"]);
        let child = spawn(command.env("TMPDIR", dir.join("missing")));
        let output = child.wait_with_output().unwrap();
        fails(output, 1, &["TMPDIR", "missing", "`--memory`"]);
    }
    // Nothing was changed.
    let counted = hedgerow(dir, &["count", "--data", "data", "--memory", "64MiB"]);
    assert_eq!(done(counted).trim(), "20000");
}

/// Runs the command in a process that has 1.5 GB of addresses.
fn with_few_addresses(dir: &Path, words: &[&str]) -> Output {
    with_addresses(1_500_000, dir, words)
}

/// Runs the command in a process that has that many KiB of addresses.
fn with_addresses(kib: u32, dir: &Path, words: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("ulimit -v {kib} && exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_hedgerow"))
        .args(words)
        .args(["--data", "data"])
        .current_dir(dir);
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    spawn(&mut shell).wait_with_output().unwrap()
}

#[test]
fn an_index_that_reserves_more_addresses_than_there_are_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let wanted = ["\"wide\"", "bwtree", "ulimit -v", "another index"];
    done(with_few_addresses(dir, &["put", "key", "value"]));
    let create = ["keyspace", "create", "wide", "--index", "bwtree"];
    fails(with_few_addresses(dir, &create), 1, &wanted);
    let listed = ["keyspace", "list"];
    assert!(!done(with_few_addresses(dir, &listed)).contains("wide"));
    // One that is there already cannot be opened either, and nothing is lost.
    done(hedgerow(dir, &[&create[..], &["--data", "data"]].concat()));
    fails(with_few_addresses(dir, &listed), 1, &wanted);
    let rows = hedgerow(dir, &["count", "--data", "data"]);
    assert_eq!(done(rows).trim(), "1");
}

#[test]
fn a_page_file_is_opened_with_the_addresses_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..1000).map(|n| format!("{n}\n")).collect();
    std::fs::write(dir.join("keys"), lines).unwrap();
    let load = ["load", "keys", "--index", "btree", "--memory", "64MiB"];
    let count = ["count", "--memory", "64MiB"];
    let wanted = ["address space", "ulimit -v"];
    // A database that could soon be full is not begun.
    fails(with_few_addresses(dir, &load), 1, &wanted);
    // Enough for a page file, far less than is asked for first.
    done(with_addresses(8_000_000, dir, &load));
    assert_eq!(done(with_addresses(8_000_000, dir, &count)).trim(), "1000");
    fails(with_few_addresses(dir, &count), 1, &wanted);
    let rows = hedgerow(dir, &["count", "--data", "data", "--memory", "64MiB"]);
    assert_eq!(done(rows).trim(), "1000");
}
