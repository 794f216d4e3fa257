//! One process run on the database, and the script of what it does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{Db, Durability, Error, Keyspace, WriteOptions};
use hedgerow_vfs::Vfs;

use super::campaign::{FaultCampaign, open};
use super::facts::{Facts, Text};
use crate::databases::key_of;
use crate::pressure::{Pressure, Watch};

/// One process run on the database, faults included.
pub(super) struct Session {
    vfs: Arc<dyn Vfs>,
    pub(super) campaign: FaultCampaign,
    pub(super) db: Option<Db>,
    pub(super) facts: Facts,
    accepted: BTreeMap<Vec<u8>, usize>,
    /// Calls that failed.
    pub(super) failures: usize,
    /// A write failed because of an earlier failed sync.
    poisoned: bool,
    /// The first such failure's words.
    pub(super) poison: Option<String>,
    /// What must never happen and did.
    pub(super) broken: Option<String>,
    backups: usize,
    /// The page file of the database that is open.
    pub(super) watch: Watch,
    /// What happened to it in all of its process runs, if that counts.
    pub(super) pressure: Option<Pressure>,
}

impl Session {
    pub(super) fn new(vfs: Arc<dyn Vfs>, campaign: &FaultCampaign, facts: Facts) -> Self {
        Session {
            vfs,
            campaign: campaign.clone(),
            db: None,
            facts,
            accepted: BTreeMap::new(),
            failures: 0,
            poisoned: false,
            poison: None,
            broken: None,
            backups: 0,
            watch: Watch::default(),
            pressure: campaign.under_pressure.then(Pressure::default),
        }
    }

    /// Everything the database does with files, once.
    pub(super) fn script(&mut self) {
        for round in 0..3 {
            self.open();
            self.press(round);
            for number in 0..4 {
                let value = format!("{round}.{number}.").repeat(1 + 60 * number);
                self.put(&format!("key{number}"), &value, Durability::Sync);
                self.put(&format!("loose{number}"), &value, Durability::Periodic);
                self.pair(&value, Durability::Sync);
            }
            self.attempt(|db| db.checkpoint().map(drop));
            self.remove("key1");
            self.put(
                "key2",
                &format!("{round} behind the checkpoint"),
                Durability::Sync,
            );
            self.pair(&format!("{round} also"), Durability::Periodic);
            self.attempt(|db| db.create_keyspace("extra").map(drop));
            self.back_up();
            self.attempt(|db| db.drop_keyspace("extra"));
            self.put("key3", &format!("{round} last"), Durability::Sync);
            if round != 1 {
                self.close();
            } else {
                drop(self.end());
                // Whether the close in it went well nobody hears.
                self.accepted.clear();
                self.poisoned = false;
            }
        }
    }

    fn fail(&mut self, error: &Error) {
        self.failures += 1;
        match error {
            Error::Poisoned(_) => {
                self.poisoned = true;
                self.poison.get_or_insert(error.to_string());
            }
            Error::Corrupt(_) | Error::NotADatabase { .. } | Error::HalfWritten { .. } => {
                self.broken
                    .get_or_insert(format!("a passing fault was taken for damage: {error}"));
            }
            _ => {}
        }
    }

    pub(super) fn open(&mut self) {
        // A fault while opening is reported, and the next attempt finds everything in order.
        for _ in 0..3 {
            match open(Arc::clone(&self.vfs), &self.campaign) {
                Ok(db) => {
                    self.db = Some(db);
                    return;
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    pub(super) fn attempt(&mut self, run: impl FnOnce(&Db) -> hedgerow::Result<()>) {
        let Some(db) = &self.db else { return };
        if let Err(error) = run(db) {
            self.fail(&error);
        }
    }

    /// The keyspaces of some keys.
    fn keyspaces(&mut self, states: &[(&[u8], Option<&[u8]>)]) -> Option<Vec<Keyspace>> {
        let db = self.db.as_ref()?;
        let keyspaces = states
            .iter()
            .map(|(key, _)| self.campaign.keyspace_of(db, key));
        match keyspaces.collect() {
            Ok(keyspaces) => Some(keyspaces),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// One commit over some keys, each with its new state. `run` gets the keyspace of each.
    pub(super) fn commit(
        &mut self,
        states: &[(&[u8], Option<&[u8]>)],
        durability: Durability,
        run: impl FnOnce(&Db, &[Keyspace]) -> hedgerow::Result<()>,
    ) {
        let Some(keyspaces) = self.keyspaces(states) else {
            return;
        };
        for (key, state) in states {
            self.facts.issue(key, *state);
        }
        let was_poisoned = self.poisoned;
        match run(self.db.as_ref().expect("it has keyspaces"), &keyspaces) {
            Err(error) => self.fail(&error),
            Ok(()) => {
                if was_poisoned {
                    self.broken
                        .get_or_insert("a write was accepted after a failed sync".to_owned());
                }
                for &(key, _) in states {
                    let issued = self.facts.keys[key].issued.len();
                    self.accepted.insert(key.to_vec(), issued);
                    if durability == Durability::Sync {
                        self.facts.acknowledge(key);
                    }
                }
            }
        }
        // Reads go on whatever happened to the write.
        for ((key, _), keyspace) in states.iter().zip(&keyspaces) {
            self.read_back(keyspace, key);
        }
    }

    pub(super) fn read_back(&mut self, keyspace: &Keyspace, key: &[u8]) {
        let mut found = keyspace.get(key);
        if let (true, Err(error)) = (self.campaign.under_pressure, &found) {
            // The call that fails may be the read of a page: once.
            self.fail(error);
            found = keyspace.get(key);
        }
        match found {
            Ok(value) if self.facts.keys[key].allows(value.as_ref()) => {}
            Ok(value) => {
                let value = value.map(|v| Text(&v).to_string());
                self.broken
                    .get_or_insert(format!("a read of {} returned {value:?}", Text(key)));
            }
            Err(error) => {
                self.broken
                    .get_or_insert(format!("a read of {} failed: {error}", Text(key)));
            }
        }
    }

    pub(super) fn put(&mut self, name: &str, value: &str, durability: Durability) {
        let key = key_of(self.campaign.index, name);
        let options = WriteOptions::default().durability(durability);
        let states = [(&key[..], Some(value.as_bytes()))];
        self.commit(&states, durability, |_, keyspaces| {
            keyspaces[0]
                .put_with(&key, value.as_bytes(), &options)
                .map(drop)
        });
    }

    pub(super) fn remove(&mut self, name: &str) {
        let key = key_of(self.campaign.index, name);
        self.commit(&[(&key[..], None)], Durability::Sync, |db, keyspaces| {
            let mut batch = db.batch();
            batch.remove(&keyspaces[0], &key);
            batch
                .commit(WriteOptions::default().durability(Durability::Sync))
                .map(drop)
        });
    }

    pub(super) fn pair(&mut self, value: &str, durability: Durability) {
        let [a, b] = ["pair-a", "pair-b"].map(|name| key_of(self.campaign.index, name));
        if self.facts.pairs.is_empty() {
            self.facts.pairs.push((a.clone(), b.clone()));
        }
        self.commit(
            &[&a, &b].map(|key| (&key[..], Some(value.as_bytes()))),
            durability,
            |db, keyspaces| {
                let mut batch = db.batch();
                batch.put(&keyspaces[0], &a, value.as_bytes());
                batch.put(&keyspaces[1], &b, value.as_bytes());
                batch
                    .commit(WriteOptions::default().durability(durability))
                    .map(drop)
            },
        );
    }

    pub(super) fn back_up(&mut self) {
        self.backups += 1;
        let dir = format!("/backup-{}", self.backups);
        self.attempt(|db| db.backup(Path::new(&dir)).map(drop));
    }

    pub(super) fn close(&mut self) {
        let Some(db) = self.end() else { return };
        match db.close() {
            Ok(()) => self.facts.acknowledge_all(&self.accepted),
            Err(error) => {
                self.fail(&error);
                // The next process run may begin without what this one accepted and did not make
                // durable: that it closes well says nothing about that.
                self.accepted.clear();
            }
        }
        self.poisoned = false;
    }

    /// There is space again: writes must succeed without reopening, sooner or later.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        if self.db.is_none() {
            self.open();
        }
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            let before = self.failures;
            self.put("key0", "there is space again", Durability::Sync);
            if self.failures == before && self.db.is_some() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("writes do not resume although there is space".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forgets the database that is open, but for what happened to its page file.
    pub(super) fn end(&mut self) -> Option<Db> {
        self.read_counters();
        if let Some(pressure) = &mut self.pressure {
            pressure.add(&std::mem::take(&mut self.watch).seen());
        }
        self.db.take()
    }

    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.end();
        self.broken.take().map_or(Ok(()), Err)
    }
}
