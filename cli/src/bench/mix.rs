//! The YCSB core workloads and their random choices (Cooper et al., SoCC 2010).
//!
//! Zipfian popularity is scrambled over the key space by hashing, as YCSB does; *latest* makes
//! the newest records the popular ones.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::error::{Error, Result};

/// One operation on a record, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read(u64),
    Update(u64),
    Insert(u64),
    Scan(u64, usize),
    ReadModifyWrite(u64),
}

/// Shares of operations in percent, and how records are chosen.
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    read: u32,
    update: u32,
    insert: u32,
    scan: u32,
    latest: bool,
}

const fn mix(name: &'static str, shares: [u32; 4], latest: bool) -> Mix {
    let [read, update, insert, scan] = shares;
    Mix {
        name,
        read,
        update,
        insert,
        scan,
        latest,
    }
}

/// What is missing to 100 is read-modify-write.
static MIXES: [Mix; 6] = [
    mix("a", [50, 50, 0, 0], false),
    mix("b", [95, 5, 0, 0], false),
    mix("c", [100, 0, 0, 0], false),
    mix("d", [95, 0, 5, 0], true),
    mix("e", [0, 0, 5, 95], false),
    mix("f", [50, 0, 0, 0], false),
];

impl Mix {
    pub(crate) fn named(letter: char) -> Result<&'static Mix> {
        let name = letter.to_ascii_lowercase().to_string();
        MIXES.iter().find(|mix| mix.name == name).ok_or_else(|| {
            Error::Usage(format!(
                "there is no workload {letter:?}; YCSB has a, b, c, d, e and f"
            ))
        })
    }
}

/// Zipfian numbers below a growing limit (Gray et al., SIGMOD 1994), θ = 0.99.
struct Zipfian {
    items: u64,
    zeta: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    fn new(items: u64) -> Zipfian {
        let mut zipfian = Zipfian {
            items: 0,
            zeta: 0.0,
        };
        zipfian.grow(items);
        zipfian
    }

    /// ζ is a sum over items: adding some is cheap, and none ever go.
    fn grow(&mut self, items: u64) {
        for i in self.items..items {
            self.zeta += 1.0 / ((i + 1) as f64).powf(THETA);
        }
        self.items = self.items.max(items);
    }

    fn next(&self, random: &mut SmallRng) -> u64 {
        let u: f64 = random.random();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let zeta2 = 1.0 + 0.5f64.powf(THETA);
        let alpha = 1.0 / (1.0 - THETA);
        let eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - THETA)) / (1.0 - zeta2 / self.zeta);
        let rank = (self.items as f64 * (eta * u - eta + 1.0).powf(alpha)) as u64;
        rank.min(self.items - 1)
    }
}

/// A stream of operations. `records` counts the records over all clients.
pub(crate) struct Choices<'a> {
    mix: &'static Mix,
    records: &'a AtomicU64,
    /// Records that are surely there: inserted before any stream began.
    known: u64,
    zipfian: Zipfian,
    random: SmallRng,
    own: Vec<u64>,
}

/// How many of a client's own inserts *latest* chooses among.
const MAX_OWN_KEYS: usize = 1024;

impl<'a> Choices<'a> {
    /// `known` records are there before any client begins: of those that `records` counts since,
    /// another client may be about to insert some.
    pub(crate) fn new(
        mix: &'static Mix,
        records: &'a AtomicU64,
        known: u64,
        seed: u64,
    ) -> Choices<'a> {
        let random = SmallRng::seed_from_u64(seed);
        Choices {
            mix,
            records,
            known,
            zipfian: Zipfian::new(known),
            random,
            own: Vec::new(),
        }
    }

    fn record(&mut self) -> u64 {
        let rank = self.zipfian.next(&mut self.random);
        if !self.mix.latest {
            return scramble(rank) % self.known;
        }
        // The newest first: this client's own inserts, then what was there.
        match self.own.len().checked_sub(1 + rank.min(1 << 20) as usize) {
            Some(i) => self.own[i],
            None => self.known - 1 - (rank - self.own.len() as u64).min(self.known - 1),
        }
    }

    pub(crate) fn next(&mut self) -> Operation {
        let Mix {
            read,
            update,
            insert,
            scan,
            ..
        } = *self.mix;
        let choice = self.random.random_range(0..100);
        if choice < read {
            Operation::Read(self.record())
        } else if choice < read + update {
            Operation::Update(self.record())
        } else if choice < read + update + insert {
            let record = self.records.fetch_add(1, Ordering::Relaxed);
            if self.own.len() == MAX_OWN_KEYS {
                self.own.drain(..MAX_OWN_KEYS / 2);
            }
            self.own.push(record);
            Operation::Insert(record)
        } else if choice < read + update + insert + scan {
            let rows = self.random.random_range(1..=100);
            Operation::Scan(self.record(), rows)
        } else {
            Operation::ReadModifyWrite(self.record())
        }
    }
}

/// FNV-1a over the bytes, as YCSB scatters its popular records.
fn scramble(rank: u64) -> u64 {
    rank.to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

/// The key of a record: YCSB hashes record numbers so that inserts do not come in key order.
pub(crate) fn key(record: u64) -> String {
    format!("user{:020}", scramble(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_another_client_is_about_to_insert_are_not_chosen() {
        // Of 110 that are counted, 10 may be on their way.
        let records = AtomicU64::new(110);
        for letter in ['a', 'c', 'f'] {
            let mut choices = Choices::new(Mix::named(letter).unwrap(), &records, 100, 7);
            for _ in 0..1000 {
                assert!(choices.record() < 100);
            }
        }
        let mut choices = Choices::new(Mix::named('d').unwrap(), &records, 100, 7);
        let reads = (0..1000).map(|_| choices.record());
        assert!(reads.into_iter().all(|record| record < 100));
    }

    fn shares(letter: char) -> [usize; 5] {
        let records = AtomicU64::new(10_000);
        let mut choices = Choices::new(Mix::named(letter).unwrap(), &records, 10_000, 7);
        let mut counts = [0; 5];
        for _ in 0..10_000 {
            let kind = match choices.next() {
                Operation::Read(record) => (0, record),
                Operation::Update(record) => (1, record),
                Operation::Insert(record) => (2, record),
                Operation::Scan(record, rows) => {
                    assert!((1..=100).contains(&rows));
                    (3, record)
                }
                Operation::ReadModifyWrite(record) => (4, record),
            };
            assert!(kind.1 < records.load(Ordering::Relaxed));
            counts[kind.0] += 1;
        }
        counts
    }

    #[test]
    fn mixes_have_their_shares() {
        for (letter, expected) in [
            ('a', [50, 50, 0, 0, 0]),
            ('B', [95, 5, 0, 0, 0]),
            ('c', [100, 0, 0, 0, 0]),
            ('d', [95, 0, 5, 0, 0]),
            ('e', [0, 0, 5, 95, 0]),
            ('f', [50, 0, 0, 0, 50]),
        ] {
            for (count, percent) in shares(letter).into_iter().zip(expected) {
                assert!(
                    count.abs_diff(percent * 100) < 250,
                    "{letter}: {count} of {percent} %"
                );
            }
        }
        assert!(Mix::named('g').is_err());
    }

    #[test]
    fn zipfian_ranks_have_their_frequencies() {
        let zipfian = Zipfian::new(1000);
        let mut random = SmallRng::seed_from_u64(1);
        let mut counts = vec![0u32; 1000];
        (0..100_000).for_each(|_| counts[zipfian.next(&mut random) as usize] += 1);
        // Rank 0 has 1/ζ of all: about 13 % here; each next rank is rarer.
        assert!((12_000..14_500).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[1] && counts[1] > counts[5] && counts[5] > counts[50]);
    }
}
