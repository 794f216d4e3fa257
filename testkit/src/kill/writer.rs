//! One connection that writes its own keys until the server is killed.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::IndexKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::campaign::KillCampaign;
use super::client::{Client, Reply};
use super::ledger::Ledger;
use super::mixture::{self, Form};
use crate::databases::key_of;

/// Keys of each writer.
pub(super) const KEYS: usize = 12;

/// One value in so many is large, where the campaign has room for that.
const LARGE_EVERY: u32 = 40;
/// Bytes of a large value: a chain of overflow pages in a B-tree, and a long record of the log.
const LARGE_BYTES: usize = 100_000;

/// The key of a writer by its number, of a width that all indexes take which the campaign has.
pub(super) fn key(campaign: &KillCampaign, writer: usize, number: usize) -> Vec<u8> {
    let index = match campaign.mixed {
        true => Some(IndexKind::Bst),
        false => campaign.index,
    };
    key_of(index, format!("w{writer:02}/k{number:03} of this writer"))
}

/// A value that begins like this, of up to 2000 bytes more, or a large one.
pub(super) fn value(campaign: &KillCampaign, rng: &mut StdRng, start: String) -> Vec<u8> {
    let mut value = start.into_bytes();
    let is_large = rng.random_range(0..LARGE_EVERY) == 0;
    let length = match is_large && campaign.has_room_for_large_values() {
        true => LARGE_BYTES,
        false => [0, 10, 100, 600, 2000][rng.random_range(0..5)],
    };
    value.resize(value.len() + length, b'.');
    value
}

/// A request of a pipeline that is under way.
enum Sent {
    /// A commit of so many replies.
    Commit(usize),
    /// A `WAITAOF`.
    Wait,
}

/// Whether a removal, by itself or in a transaction, found nothing.
fn removed_nothing(reply: &Reply) -> bool {
    match reply {
        Reply::Integer(count) => *count == 0,
        Reply::Array(Some(replies)) => replies.iter().any(removed_nothing),
        _ => false,
    }
}

/// Whether a `WAITAOF` is answered that everything before it is durable.
fn says_durable(reply: &Reply) -> bool {
    match reply {
        Reply::Array(Some(replies)) => replies.first() == Some(&Reply::Integer(1)),
        _ => false,
    }
}

/// A writer, its keys and its workload.
pub(super) struct Writer<'l> {
    number: usize,
    ledger: &'l mut Ledger,
    seed: u64,
    rng: StdRng,
    values: u64,
    /// Whether the disk may fail: then errors of the log are no errors of the server.
    may_fail: bool,
    /// Set when a commit gets such an error.
    has_failed: &'l AtomicBool,
    campaign: &'l KillCampaign,
}

impl<'l> Writer<'l> {
    pub(super) fn new(
        number: usize,
        ledger: &'l mut Ledger,
        seed: u64,
        may_fail: bool,
        has_failed: &'l AtomicBool,
        campaign: &'l KillCampaign,
    ) -> Self {
        Writer {
            number,
            ledger,
            seed,
            rng: StdRng::seed_from_u64(seed),
            values: 0,
            may_fail,
            has_failed,
            campaign,
        }
    }

    /// Sends pipelines of commits, some of them with a `WAITAOF` in between or behind, until the
    /// connection is lost or `dead` says so.
    pub(super) fn write(mut self, address: SocketAddr, dead: &AtomicBool) -> io::Result<()> {
        let mut client = Client::connect(address)?;
        while !dead.load(Ordering::SeqCst) {
            let mut sent = Vec::new();
            for _ in 0..self.rng.random_range(1..=16) {
                sent.push(Sent::Commit(self.queue_commit(&mut client)));
                if self.rng.random_range(0..24) == 0 {
                    // On a full disk it says within that time that nothing is durable.
                    client.queue(&[b"WAITAOF", b"1", b"0", b"50"]);
                    sent.push(Sent::Wait);
                }
            }
            client.send()?;
            let mut failed = false;
            for sent in sent {
                failed |= !self.receive(&mut client, &sent)?;
            }
            if failed {
                // Others get their turn, and the disk its space.
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Receives the replies of a request; whether it succeeded.
    fn receive(&mut self, client: &mut Client, sent: &Sent) -> io::Result<bool> {
        let replies = match sent {
            Sent::Commit(replies) => *replies,
            Sent::Wait => 1,
        };
        let mut error = None;
        let (mut found_nothing, mut is_durable) = (false, false);
        for _ in 0..replies {
            match client.receive()? {
                Reply::Error(message) => error = Some(message),
                reply => {
                    found_nothing |= removed_nothing(&reply);
                    is_durable = says_durable(&reply);
                }
            }
        }
        match (sent, error) {
            (_, Some(message)) if !self.may_fail || !message.starts_with("MISCONF ") => {
                return Err(io::Error::other(message));
            }
            (Sent::Commit(_), Some(_)) => {
                self.ledger.fail();
                self.has_failed.store(true, Ordering::Relaxed);
                return Ok(false);
            }
            // What was not there may have been removed by a commit that failed, and that is not on
            // disk: nothing was promised about it.
            (Sent::Commit(_), None) if self.may_fail && found_nothing => self.ledger.fail(),
            (Sent::Commit(_), None) => self.ledger.acknowledge(),
            (Sent::Wait, None) if is_durable => self.ledger.durable(),
            (Sent::Wait, _) => {}
        }
        Ok(true)
    }

    /// A value that no other commit writes.
    fn value(&mut self) -> Vec<u8> {
        self.values += 1;
        let start = format!("{:x}-{}-", self.seed, self.values);
        value(self.campaign, &mut self.rng, start)
    }

    /// Queues one commit of a random kind, of keys that may be in different databases.
    fn queue_mixed_commit(
        &mut self,
        client: &mut Client,
        a: Vec<u8>,
        b: Vec<u8>,
        value: Vec<u8>,
    ) -> usize {
        let changes = match self.rng.random_range(0..6) {
            0 | 1 => vec![(a, Some(value))],
            2 => vec![(a, None)],
            3 | 4 => vec![(a, Some(value.clone())), (b, Some(value))],
            _ => vec![(a, Some(value)), (b, None)],
        };
        let form = Form::any(&mut self.rng);
        let replies = mixture::queue_changes(client, form, &changes);
        self.ledger.issue(changes);
        replies
    }

    /// Queues one commit of a random kind and returns how many replies it has.
    fn queue_commit(&mut self, client: &mut Client) -> usize {
        let value = self.value();
        let first = self.rng.random_range(0..KEYS);
        let second = (first + self.rng.random_range(1..KEYS)) % KEYS;
        let key = |number| key(self.campaign, self.number, number);
        let (a, b) = (key(first), key(second));
        if self.campaign.mixed {
            return self.queue_mixed_commit(client, a, b, value);
        }
        match self.rng.random_range(0..11) {
            0..6 => {
                client.queue(&[b"SET", &a, &value]);
                self.ledger.issue(vec![(a, Some(value))]);
                1
            }
            6 => {
                client.queue(&[b"DEL", &a]);
                self.ledger.issue(vec![(a, None)]);
                1
            }
            7 | 8 => {
                client.queue(&[b"MSET", &a, &value, &b, &value]);
                let changes = vec![(a, Some(value.clone())), (b, Some(value))];
                self.ledger.issue(changes);
                1
            }
            _ => {
                let form = match self.campaign.index {
                    // With the least memory versions have so little that transactions are ended.
                    Some(IndexKind::BTree) => Form::Multi,
                    _ => Form::any(&mut self.rng),
                };
                let [begin, end] = form.words();
                client.queue(&[begin]);
                client.queue(&[b"SET", &a, &value]);
                client.queue(&[b"DEL", &b]);
                client.queue(&[end]);
                self.ledger.issue(vec![(a, Some(value)), (b, None)]);
                4
            }
        }
    }
}
