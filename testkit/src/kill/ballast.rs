//! Ten times as many rows as a B-tree's memory holds, changed all the time by one more writer: it
//! overwrites scattered rows, so that pages that were changed are evicted; removes ranges and asks
//! for checkpoints, so that the file shrinks; and writes what is missing, so that it grows.

use std::io;
use std::thread;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::client::{Client, Reply};
use super::ledger::Ledger;
use crate::pressure::{self, ROWS};

const PREFIX: &str = "ballast/";
/// The most rows of one commit.
const AT_ONCE: u32 = 16;

/// The keys of all rows.
pub(super) fn keys() -> Vec<Vec<u8>> {
    (0..ROWS).map(|n| pressure::key(PREFIX, n)).collect()
}

/// Queues a commit of some rows.
fn put(client: &mut Client, ledger: &mut Ledger, numbers: &[u32], version: &str) {
    let rows: Vec<(Vec<u8>, Vec<u8>)> = numbers
        .iter()
        .map(|&n| (pressure::key(PREFIX, n), pressure::value(n, version)))
        .collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    words.extend(rows.iter().flat_map(|(key, value)| [&key[..], &value[..]]));
    client.queue(&words);
    let changes = rows.iter().cloned().map(|(key, value)| (key, Some(value)));
    ledger.issue(changes.collect());
}

/// Removes a range and asks for a checkpoint, which the end of the file needs to be cut off.
fn remove(client: &mut Client, ledger: &mut Ledger, rng: &mut StdRng) -> io::Result<()> {
    let from = format!("{PREFIX}{:x}", rng.random_range(0..3));
    let to = format!("{PREFIX}{:x}", rng.random_range(12..16));
    client.queue(&[b"DELRANGE", from.as_bytes(), to.as_bytes()]);
    let range = from.as_bytes()..to.as_bytes();
    let changes = keys().into_iter().filter(|key| range.contains(&&key[..]));
    ledger.issue(changes.map(|key| (key, None)).collect());
    expect_no_error(client)?;
    ledger.acknowledge();
    // Where one is under way already, this is refused: then another comes.
    client.call(&[b"BGSAVE"]).map(drop)
}

/// Removes most rows and then asks for checkpoints, until the file is short or the server dead.
pub(super) fn shrink(
    client: &mut Client,
    ledger: &mut Ledger,
    rng: &mut StdRng,
    done: impl Fn() -> bool,
) -> io::Result<()> {
    remove(client, ledger, rng)?;
    while !done() {
        thread::sleep(Duration::from_millis(10));
        client.call(&[b"BGSAVE"])?;
    }
    Ok(())
}

/// Writes until something fails or `done` says so.
pub(super) fn write(
    client: &mut Client,
    ledger: &mut Ledger,
    seed: u64,
    rng: &mut StdRng,
    done: impl Fn() -> bool,
) -> io::Result<()> {
    let mut missing = missing(ledger);
    let mut count = 0_u32;
    while !done() {
        count += 1;
        let version = format!("{seed:x}-{count}");
        if !missing.is_empty() && rng.random_range(0..8) > 0 {
            let rest = missing.len().saturating_sub(AT_ONCE as usize);
            put(client, ledger, &missing.split_off(rest), &version);
        } else if missing.is_empty() && rng.random_range(0..40) == 0 {
            remove(client, ledger, rng)?;
            missing = (0..ROWS).collect();
            continue;
        } else {
            let some: Vec<u32> = (0..rng.random_range(1..=AT_ONCE))
                .map(|n| n * (ROWS / AT_ONCE) + rng.random_range(0..ROWS / AT_ONCE))
                .collect();
            put(client, ledger, &some, &version);
        }
        expect_no_error(client)?;
        ledger.acknowledge();
    }
    Ok(())
}

fn missing(ledger: &Ledger) -> Vec<u32> {
    let is_missing = |&n: &u32| !ledger.base().contains_key(&pressure::key(PREFIX, n));
    (0..ROWS).filter(is_missing).collect()
}

/// Whether so much is missing that a process run must be long for pages to be evicted.
pub(super) fn is_small(ledger: &Ledger) -> bool {
    ledger.base().len() < ROWS as usize / 2
}

fn expect_no_error(client: &mut Client) -> io::Result<()> {
    client.send()?;
    match client.receive()? {
        Reply::Error(message) => Err(io::Error::other(message)),
        _ => Ok(()),
    }
}
