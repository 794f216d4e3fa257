//! `hedgerow serve` bounds what snapshots and transactions of Redis clients take, by flags.

use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::{Client, Reply};
use hedgerow_testkit::kill::server::Server;

use crate::process::{command, done, fails, fails_with_lines, hedgerow, no_forks, spawn};

/// A server with flags, and the directory that it is in until the end of the test.
fn start(flags: &[&str]) -> (Server, tempfile::TempDir) {
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let dir = tempfile::tempdir().unwrap();
    let _alone = no_forks();
    let server = Server::spawn(program, &dir.path().join("data"), flags).unwrap();
    (server, dir)
}

fn run(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.call(&words).unwrap()
}

/// Checks that a command is refused with these words.
#[track_caller]
fn refused(client: &mut Client, line: &str, words: &[&str]) {
    match run(client, line) {
        Reply::Error(why) => {
            for word in words {
                assert!(why.contains(word), "{why:?} does not say {word:?}");
            }
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// A number that `INFO memory` shows.
fn shown(client: &mut Client, name: &str) -> u64 {
    let Reply::Bulk(Some(text)) = run(client, "INFO memory") else {
        panic!("no text");
    };
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().map(|line| line.split_once(':'));
    let mut named = lines.flatten().filter(|(found, _)| *found == name);
    let (_, value) = named
        .next()
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    value.trim().parse::<f64>().unwrap() as u64
}

#[test]
fn flags_bound_snapshots_and_transactions() {
    let (mut server, _dir) = start(&[
        "--max-snapshots=1",
        "--max-shared-snapshots=1",
        "--max-snapshot-age=2s",
        "--transaction-idle-timeout=20ms",
    ]);
    let mut client = server.connect().unwrap();
    assert!(matches!(run(&mut client, "SNAPSHOT"), Reply::Bulk(Some(_))));
    refused(&mut client, "SNAPSHOT", &["1", "`--max-snapshots`"]);
    let shared = run(&mut client, "SNAPSHOT NAME a TTL 2000");
    assert_eq!(shared, Reply::Bulk(Some(b"a".to_vec())));
    let another = "SNAPSHOT NAME b TTL 2000";
    refused(&mut client, another, &["1", "`--max-shared-snapshots`"]);
    let longer = "SNAPSHOT NAME b TTL 2001";
    refused(&mut client, longer, &["2000", "`--max-snapshot-age`"]);
    let mut other = server.connect().unwrap();
    assert_eq!(run(&mut client, "BEGIN"), ok());
    let deadline = Instant::now() + Duration::from_secs(60);
    while shown(&mut other, "open_transactions") > 0 {
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(
        &mut client,
        "SET key value",
        &["20 ms", "`--transaction-idle-timeout`", "ROLLBACK"],
    );
    refused(&mut client, "COMMIT", &["rolled back"]);
    assert_eq!(run(&mut client, "EXISTS key"), Reply::Integer(0));
}

#[test]
fn an_endless_transaction_meets_the_memory_of_clients() {
    let (mut server, _dir) = start(&["--client-memory=4MiB", "--workers=1"]);
    let mut client = server.connect().unwrap();
    let mut other = server.connect().unwrap();
    assert_eq!(run(&mut client, "BEGIN"), ok());
    let value = "v".repeat(100_000);
    for i in 0..19 {
        assert_eq!(run(&mut client, &format!("SET key{i} {value}")), ok());
    }
    let why = ["rolled back", "2097152", "`--client-memory`"];
    let refused_at = (20..30).find(|i| {
        let reply = run(&mut client, &format!("SET key{i} {value}"));
        matches!(reply, Reply::Error(text) if why.iter().all(|word| text.contains(word)))
    });
    assert!(refused_at.is_some());
    refused(&mut client, "COMMIT", &why);
    assert_eq!(run(&mut other, "DBSIZE"), Reply::Integer(0));
    assert_eq!(run(&mut client, "SET key value"), ok());
}

#[test]
fn little_memory_for_versions_ends_snapshots_and_no_writer() {
    let (mut server, _dir) = start(&["--version-memory=64KiB", "--workers=1"]);
    let mut client = server.connect().unwrap();
    let mut writer = server.connect().unwrap();
    let value = "v".repeat(1000);
    let set = |i: usize| format!("SET key{} {value}", i % 100);
    for i in 0..100 {
        assert_eq!(run(&mut writer, &set(i)), ok());
    }
    assert_eq!(shown(&mut writer, "version_limit_bytes"), 64 << 10);
    run(&mut client, "SNAPSHOT NAME report TTL 60000");
    assert_eq!(run(&mut client, "BEGIN"), ok());
    assert_eq!(run(&mut client, "SET key1 mine"), ok());
    for i in 0..1000 {
        assert_eq!(run(&mut writer, &set(i)), ok());
        assert!(shown(&mut writer, "version_bytes") <= 80 << 10, "{i}");
    }
    assert_eq!(shown(&mut writer, "snapshots_ended_total"), 2);
    let deadline = Instant::now() + Duration::from_secs(120);
    while shown(&mut writer, "version_bytes") > 0 {
        assert!(Instant::now() < deadline, "ended snapshots keep versions");
    }
    let ended = ["was ended", "65536 bytes", "`--version-memory`"];
    refused(&mut writer, "WITH report GET key0", &ended);
    refused(&mut client, "GET key0", &ended);
    refused(&mut client, "COMMIT", &ended);
    assert_eq!(
        run(&mut client, "SNAPSHOT RELEASE report"),
        Reply::Integer(1)
    );
    assert_eq!(run(&mut client, "DBSIZE"), Reply::Integer(100));
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for flag in [
        "--transaction-idle-timeout=0",
        "--max-snapshot-age=0ms",
        "--max-snapshot-age=9000h",
    ] {
        let name = flag.split('=').next().unwrap();
        fails(hedgerow(dir, &["serve", flag]), 2, &[name, "must be"]);
    }
    for (flag, words) in [
        ("--transaction-idle-timeout=10", "200ms or 5m"),
        ("--max-snapshot-age=long", "200ms or 5m"),
        ("--max-snapshots=few", "invalid digit"),
        ("--max-shared-snapshots=-1", "invalid digit"),
        ("--version-memory=some", "512MiB"),
    ] {
        let name = flag.split('=').next().unwrap();
        fails_with_lines(hedgerow(dir, &["serve", flag]), 2, &[name, words]);
        // Each has a variable and a line of the configuration file.
        let variable = format!("HEDGEROW_{}", name[2..].replace('-', "_").to_uppercase());
        let help = done(hedgerow(dir, &["serve", "--help"]));
        assert!(help.contains(name) && help.contains(&variable), "{help}");
        let value = flag.split('=').nth(1).unwrap();
        let child = spawn(command(dir, &["serve"]).env(&variable, value));
        fails_with_lines(child.wait_with_output().unwrap(), 2, &[&variable]);
        let line = format!("{} = \"{value}\"\n", &name[2..]);
        std::fs::write(dir.join("c.toml"), line).unwrap();
        let file = hedgerow(dir, &["serve", "--config", "c.toml"]);
        fails_with_lines(file, 2, &["c.toml line 1"]);
    }
}

#[test]
fn stats_tell_of_snapshots_and_versions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["put", "key", "value"]));
    let names = [
        "snapshots",
        "open_transactions",
        "oldest_snapshot_age_ms",
        "snapshots_ended_total",
        "versions",
        "version_bytes",
        "version_limit_bytes",
    ];
    let lines = done(hedgerow(dir, &["stats"]));
    let json = done(hedgerow(dir, &["stats", "--json"]));
    for name in names {
        let is_there = |line: &str| line.split_whitespace().next() == Some(name);
        assert!(lines.lines().any(is_there), "no {name} in {lines}");
        assert!(
            json.contains(&format!("\"{name}\":")),
            "no {name} in {json}"
        );
    }
}
