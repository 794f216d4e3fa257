//! A server that is killed while it makes a backup: the database has all that was acknowledged, and
//! under the name of the backup is either a whole one or nothing that opens as one.

use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::Reply;
use hedgerow_testkit::kill::server::Server;
use rand::Rng;

use crate::process::{done, fails_with_lines, hedgerow, no_forks};

const ROUNDS: u64 = 12;
/// Rounds until one kill came in the middle of a backup.
const MOST_ROUNDS: u64 = 60;
const ROWS: u64 = 5_000;

#[test]
fn a_kill_during_a_backup_leaves_a_whole_one_or_none() {
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut whole, mut unfinished, mut none) = (0, 0, 0);
    for round in 0..MOST_ROUNDS {
        if round >= ROUNDS && unfinished > 0 {
            break;
        }
        let mut server = {
            let _alone = no_forks();
            let backups = dir.join("backups");
            let flags = ["--backups", backups.to_str().unwrap()];
            Server::spawn(program, &dir.join("data"), &flags).unwrap()
        };
        let mut client = server.connect().unwrap();
        for i in round * ROWS..(round + 1) * ROWS {
            client.queue(&[b"SET", i.to_string().as_bytes(), b"value"]);
        }
        client.send().unwrap();
        for _ in 0..ROWS {
            assert_eq!(client.receive().unwrap(), Reply::Simple("OK".into()));
        }
        let name = format!("round{round}");
        let begun = client.call(&[b"BACKUP", name.as_bytes()]).unwrap();
        assert_eq!(begun, Reply::Simple("Background backup started".into()));
        let backup = format!("backups/{name}");
        let is_whole = || dir.join(&backup).join("MANIFEST").exists();
        if round == 0 {
            // At least this one is whole.
            let until = Instant::now() + Duration::from_secs(60);
            while !is_whole() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        } else {
            // As often within 100 µs as within 100 ms: nobody knows how long a backup takes here.
            let most_us = 1_u64 << rand::rng().random_range(0..18_u32);
            std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..most_us)));
        }
        server.kill().unwrap();
        let count = |place: &str| hedgerow(dir, &["count", "--data", place]);
        let expected = format!("{}\n", (round + 1) * ROWS);
        assert_eq!(done(count("data")), expected);
        if is_whole() {
            done(hedgerow(dir, &["check", "--data", &backup]));
            assert_eq!(done(count(&backup)), expected);
            whole += 1;
        } else {
            // What the kill left of it is there.
            match dir.join(&backup).exists() {
                true => unfinished += 1,
                false => none += 1,
            }
            fails_with_lines(count(&backup), 1, &[&backup]);
        }
    }
    let counts = format!("{whole} whole backups, {unfinished} unfinished, {none} times none");
    assert!(whole > 0 && unfinished > 0, "{counts}");
    println!("{counts}");
}
