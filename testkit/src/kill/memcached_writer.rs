//! One connection of a memcached client that writes its own keys until the server is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::IndexKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::campaign::KillCampaign;
use super::ledger::Ledger;
use super::writer::{self, KEYS};
use crate::databases::key_of;

/// Connections of memcached clients.
pub(super) const CONNECTIONS: usize = 2;

/// A key of a connection by its number: of a width that all indexes take which the campaign has,
/// and a word, as memcached's requests have them. It is in the first database.
pub(super) fn key(campaign: &KillCampaign, connection: usize, number: usize) -> Vec<u8> {
    let index = match campaign.mixed {
        true => Some(IndexKind::Bst),
        false => campaign.index,
    };
    key_of(index, format!("m{connection:02}/k{number:03}-of-memcached"))
}

/// All keys of a connection.
pub(super) fn keys(campaign: &KillCampaign, connection: usize) -> Vec<Vec<u8>> {
    let numbers = 0..KEYS;
    numbers
        .map(|number| key(campaign, connection, number))
        .collect()
}

/// A connection, its keys and its workload.
pub(super) struct MemcachedWriter<'l> {
    pub(super) connection: usize,
    pub(super) ledger: &'l mut Ledger,
    pub(super) seed: u64,
    /// Whether the disk may fail: then errors of the log are no errors of the server.
    pub(super) may_fail: bool,
    /// Set when a commit gets such an error.
    pub(super) has_failed: &'l AtomicBool,
    pub(super) campaign: &'l KillCampaign,
}

impl MemcachedWriter<'_> {
    /// Sends pipelines of commits until the connection is lost or `dead` says so.
    pub(super) fn write(mut self, address: SocketAddr, dead: &AtomicBool) -> io::Result<()> {
        let timeout = Duration::from_secs(120);
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        let mut replies = BufReader::new(stream.try_clone()?);
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut commits = 0_u64;
        while !dead.load(Ordering::SeqCst) {
            let mut requests = Vec::new();
            let pipeline = rng.random_range(1..=16);
            for _ in 0..pipeline {
                commits += 1;
                self.queue_commit(&mut requests, &mut rng, commits);
            }
            stream.write_all(&requests)?;
            let mut failed = false;
            for _ in 0..pipeline {
                failed |= !self.receive(&mut replies)?;
            }
            if failed {
                // Others get their turn, and the disk its space.
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Adds one commit of a random kind to `requests`.
    fn queue_commit(&mut self, requests: &mut Vec<u8>, rng: &mut StdRng, commit: u64) {
        let key = key(self.campaign, self.connection, rng.random_range(0..KEYS));
        let kind = rng.random_range(0..10);
        if kind < 2 {
            for part in [&b"delete "[..], &key[..], &b"\r\n"[..]] {
                requests.extend_from_slice(part);
            }
            self.ledger.issue(vec![(key, None)]);
            return;
        }
        let start = format!("{:x}-{commit}-", self.seed);
        let value = writer::value(self.campaign, rng, start);
        let bytes = value.len();
        let (command, length) = match kind < 4 {
            true => ("ms ", format!(" {bytes}\r\n")),
            false => ("set ", format!(" 0 0 {bytes}\r\n")),
        };
        let head = [command.as_bytes(), &key[..], length.as_bytes()];
        for part in head.into_iter().chain([&value[..], &b"\r\n"[..]]) {
            requests.extend_from_slice(part);
        }
        self.ledger.issue(vec![(key, Some(value))]);
    }

    /// Receives the reply to the oldest unanswered commit; whether it succeeded.
    fn receive(&mut self, replies: &mut impl BufRead) -> io::Result<bool> {
        let mut line = String::new();
        replies.read_line(&mut line)?;
        let Some(reply) = line.strip_suffix("\r\n") else {
            let kind = io::ErrorKind::UnexpectedEof;
            return Err(io::Error::new(kind, "the connection closed"));
        };
        match reply {
            "STORED" | "HD" | "DELETED" => self.ledger.acknowledge(),
            // What was not there may have been removed by a commit that failed, and that is not on
            // disk: nothing was promised about it.
            "NOT_FOUND" if self.may_fail => self.ledger.fail(),
            "NOT_FOUND" => self.ledger.acknowledge(),
            error if self.may_fail && error.starts_with("SERVER_ERROR ") => {
                self.ledger.fail();
                self.has_failed.store(true, Ordering::Relaxed);
                return Ok(false);
            }
            other => return Err(io::Error::other(other.to_owned())),
        }
        Ok(true)
    }
}
