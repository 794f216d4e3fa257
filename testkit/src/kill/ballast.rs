//! Rows that nobody changes: more of them than a B-tree's memory holds, so that pages come and go
//! under those that writers change.

use std::io;

use rand::Rng;
use rand::rngs::StdRng;

use super::client::{Client, Reply};
use super::{KillCampaign, Server, Start};

const ROWS: u32 = 12_000;
const AT_ONCE: u32 = 500;
/// Rows that are read after each restart.
const SAMPLE: usize = 60;

fn key(number: u32) -> Vec<u8> {
    // Neighbours in time are not neighbours in the tree.
    format!("ballast/{:08x}", number.wrapping_mul(0x9e37_79b9)).into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(100)
}

/// Writes the rows, durably, and kills the server.
pub(super) fn fill(campaign: &KillCampaign) -> io::Result<()> {
    let start = Start {
        workers: 1,
        durability: "sync",
        checkpoint_log: "1MiB",
        index: campaign.index.unwrap_or_default(),
    };
    let mut server = Server::spawn(campaign, &start)?;
    let mut client = server.connect()?;
    for first in (0..ROWS).step_by(AT_ONCE as usize) {
        for number in first..first + AT_ONCE {
            client.queue(&[b"SET", &key(number), &value(number)]);
        }
        client.send()?;
        for _ in 0..AT_ONCE {
            if let Reply::Error(message) = client.receive()? {
                return Err(io::Error::other(message));
            }
        }
    }
    server.kill()
}

/// Reads some of the rows.
pub(super) fn check(client: &mut Client, rng: &mut StdRng) -> Result<(), String> {
    for _ in 0..SAMPLE {
        let number = rng.random_range(0..ROWS);
        let reply = client.call(&[b"GET", &key(number)]);
        match reply.map_err(|e| e.to_string())? {
            Reply::Bulk(Some(found)) if found == value(number) => {}
            other => return Err(format!("ballast row {number} is {other:?}")),
        }
    }
    Ok(())
}
