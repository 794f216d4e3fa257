//! A row that moves from one numbered database to another, the first of which is then emptied, and
//! a kill at about that moment: the row must be in one of them.
//!
//! Emptying a database does not go through the log that the move goes through, so it must not
//! survive a kill without it.

use std::io;
use std::thread;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::client::{Client, Reply};
use super::server::Server;

/// The databases that a row moves from and to; writers use neither.
const FROM: &[u8] = b"5";
const TO: &[u8] = b"6";
/// As wide as the keys of every index may be.
const KEY: &[u8] = b"it moved";

/// A row whose move a kill interrupted.
#[derive(Debug)]
pub(super) struct Move {
    value: Vec<u8>,
    /// Whether the emptying of the first database was acknowledged.
    emptied: bool,
}

/// One command, which must succeed.
fn call(client: &mut Client, words: &[&[u8]]) -> Result<Reply, String> {
    let name = String::from_utf8_lossy(words[0]).into_owned();
    match client.call(words) {
        Ok(Reply::Error(message)) => Err(format!("{name}: {message}")),
        Ok(reply) => Ok(reply),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Stores a row durably, moves it and empties where it was, in one pipeline; then kills the server.
pub(super) fn move_and_kill(
    mut server: Server,
    mut client: Client,
    rng: &mut StdRng,
) -> Result<Move, String> {
    let value = format!("{:x}", rng.random::<u64>()).into_bytes();
    call(&mut client, &[b"SELECT", FROM])?;
    call(&mut client, &[b"SET", KEY, &value])?;
    call(&mut client, &[b"WAITAOF", b"1", b"0", b"0"])?;
    let commands: [&[&[u8]]; 5] = [
        &[b"SELECT", TO],
        &[b"SET", KEY, &value],
        &[b"SELECT", FROM],
        &[b"DEL", KEY],
        &[b"FLUSHDB"],
    ];
    for words in commands {
        client.queue(words);
    }
    let sent = |error: io::Error| format!("the move: {error}");
    client.send().map_err(sent)?;
    let emptied = rng.random_bool(0.5);
    if emptied {
        for _ in commands {
            if let Reply::Error(message) = client.receive().map_err(sent)? {
                return Err(format!("the move: {message}"));
            }
        }
    }
    thread::sleep(Duration::from_micros(rng.random_range(0..3_000)));
    server.kill().map_err(|e| e.to_string())?;
    Ok(Move { value, emptied })
}

impl Move {
    /// Looks for the row after the restart, and empties both databases for the next one.
    pub(super) fn judge(&self, client: &mut Client) -> Result<(), String> {
        let mut found = Vec::new();
        for database in [FROM, TO] {
            call(client, &[b"SELECT", database])?;
            found.push(call(client, &[b"GET", KEY])? == Reply::Bulk(Some(self.value.clone())));
        }
        for database in [FROM, TO] {
            call(client, &[b"SELECT", database])?;
            call(client, &[b"FLUSHDB"])?;
        }
        call(client, &[b"SELECT", b"0"])?;
        match (found[0], found[1], self.emptied) {
            (false, false, _) => Err("a row that moved is gone from both databases".to_owned()),
            (true, _, true) => Err("a row is back that an acknowledged FLUSHDB removed".to_owned()),
            _ => Ok(()),
        }
    }
}
