//! The part of the script that has pages evicted, the page file grow, and the page file shrink.

use hedgerow::{Durability, WriteOptions};

use super::session::Session;
use crate::pressure;

const PREFIX: &str = "row/";
/// Rows of one commit.
const AT_ONCE: usize = 20;
/// Checkpoints until a file that was emptied is cut off.
const UNTIL_CUT_OFF: usize = 4;

impl Session {
    /// Writes all rows and closes.
    pub(super) fn fill(&mut self) {
        self.open();
        let all: Vec<u32> = (0..pressure::ROWS).collect();
        for numbers in all.chunks(AT_ONCE) {
            self.put_rows(numbers, "base", Durability::Periodic);
        }
        self.close();
    }

    /// What a round does under pressure: the first changes rows far apart from each other, so that
    /// pages that were changed are evicted; the second removes most of them, until the file is
    /// shorter; the third has it grow again.
    pub(super) fn press(&mut self, round: usize) {
        if !self.campaign.under_pressure {
            return;
        }
        self.read_counters();
        let scattered: Vec<u32> = (0..40).map(|n| n * (pressure::ROWS / 40)).collect();
        match round {
            0 => {
                for numbers in scattered.chunks(AT_ONCE) {
                    self.put_rows(numbers, "changed", Durability::Periodic);
                }
            }
            1 => {
                self.remove_rows();
                for _ in 0..UNTIL_CUT_OFF {
                    self.attempt(|db| db.checkpoint().map(drop));
                    self.read_counters();
                }
            }
            _ => {
                let some: Vec<u32> = (0..80).collect();
                for numbers in some.chunks(AT_ONCE) {
                    self.put_rows(numbers, "again", Durability::Periodic);
                    self.read_counters();
                }
            }
        }
    }

    /// Writes half of the rows anew, if that counts: more than memory holds.
    pub(super) fn overwrite_rows(&mut self, version: &str) {
        if self.campaign.under_pressure {
            let half: Vec<u32> = (0..pressure::ROWS / 2).collect();
            for numbers in half.chunks(AT_ONCE) {
                self.put_rows(numbers, version, Durability::Periodic);
            }
        }
    }

    /// Reads the page file's counters, if they count.
    pub(super) fn read_counters(&mut self) {
        if let (Some(db), Some(_)) = (&self.db, &self.pressure) {
            self.watch.read_counters(db);
        }
    }

    fn put_rows(&mut self, numbers: &[u32], version: &str, durability: Durability) {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = numbers
            .iter()
            .map(|&n| (pressure::key(PREFIX, n), pressure::value(n, version)))
            .collect();
        let states: Vec<(&[u8], Option<&[u8]>)> = rows
            .iter()
            .map(|(key, value)| (&key[..], Some(&value[..])))
            .collect();
        self.commit(&states, durability, |db, keyspaces| {
            let mut batch = db.batch();
            for ((key, value), keyspace) in rows.iter().zip(keyspaces) {
                batch.put(keyspace, key, value);
            }
            batch
                .commit(WriteOptions::default().durability(durability))
                .map(drop)
        });
    }

    /// Removes all rows but about a sixteenth of them.
    fn remove_rows(&mut self) {
        let (from, to) = (format!("{PREFIX}1"), format!("{PREFIX}~"));
        let range = from.as_bytes()..to.as_bytes();
        let keys: Vec<Vec<u8>> = self
            .facts
            .keys
            .keys()
            .filter(|key| range.contains(&&key[..]))
            .cloned()
            .collect();
        let states: Vec<(&[u8], Option<&[u8]>)> = keys.iter().map(|key| (&key[..], None)).collect();
        let options = WriteOptions::default().durability(Durability::Sync);
        self.commit(&states, Durability::Sync, |_, keyspaces| {
            // Not mixed: it is that of all.
            let Some(keyspace) = keyspaces.first() else {
                return Ok(());
            };
            keyspace
                .delete_range_with(range.clone(), &options)
                .map(drop)
        });
    }
}
