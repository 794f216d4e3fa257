//! What thread 0 does beside writing: checkpoints, backups, keyspaces that come and go, time.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use hedgerow::{Durability, WriteOptions};
use rand::Rng;

use super::{Backup, Outcome, PLAIN, Writer, failed};
use crate::powercut::oracle::{Change, Content, Row};

/// The keyspaces that thread 0 creates, clears and drops.
const SCRATCH: [&str; 2] = ["scratch-a", "scratch-b"];

impl Writer<'_> {
    pub(super) fn administer(&mut self) -> Outcome {
        if let Some(disk) = &self.process_run.faulty
            && self.rng.random_bool(0.4)
        {
            return self.abandon_checkpoint(disk);
        }
        match self.rng.random_range(0..10) {
            0..3 => self
                .process_run
                .db
                .checkpoint()
                .map(drop)
                .map_err(failed("a checkpoint")),
            3 | 4 => self.back_up(),
            5..8 => self.change_keyspaces(),
            _ => {
                self.process_run
                    .clock_ms
                    .fetch_add(self.rng.random_range(1..400), Ordering::SeqCst);
                Ok(())
            }
        }
    }

    /// Stores a row in a keyspace, durably, and moves it to another without waiting for that: the
    /// row must then be in one of them, also if the first keyspace goes right after.
    fn move_out_of(&mut self, name: &str) -> Outcome {
        let open = |name| self.process_run.db.open_keyspace(name);
        let from = open(name).map_err(failed("opening a keyspace"))?;
        let to = open("main").map_err(failed("opening a keyspace"))?;
        let (from_number, to_number) = self.process_run.with_oracle(|oracle| {
            let number = |name| oracle.incarnation(name).expect("open keyspaces are alive");
            (number(name), number("main"))
        });
        let (key, value) = (self.key(PLAIN), self.value());
        let row = Some(Row {
            content: Content::Plain(value.clone()),
            expiry_ms: None,
        });
        let change = |incarnation, row| Change {
            incarnation,
            key: key.clone(),
            row,
        };
        let sync = WriteOptions::default().durability(Durability::Sync);
        self.commit(
            vec![change(from_number, row.clone())],
            Durability::Sync,
            || from.put_with(&key, &value, &sync),
        )?;
        let changes = vec![change(from_number, None), change(to_number, row)];
        let mut batch = self.process_run.db.batch();
        batch.remove(&from, &key).put(&to, &key, &value);
        self.commit(changes, Durability::Periodic, || {
            batch.commit(Durability::Periodic)
        })
    }

    fn back_up(&mut self) -> Outcome {
        let started_at = (self.process_run.operations)();
        let mut backups = self
            .process_run
            .backups
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let dir = Path::new("/").join(format!(
            "backup-{}-{}",
            self.process_run.number,
            backups.len()
        ));
        self.process_run
            .db
            .backup(&dir)
            .map_err(failed("a backup"))?;
        let finished_at = (self.process_run.operations)();
        backups.push(Backup {
            dir,
            started_at,
            finished_at,
        });
        Ok(())
    }

    fn change_keyspaces(&mut self) -> Outcome {
        let name = SCRATCH[self.rng.random_range(0..2)];
        let alive = self
            .process_run
            .with_oracle(|oracle| oracle.incarnation(name))
            .is_some();
        if !alive {
            let keyspace = self.process_run.create(name)?;
            self.keyspaces.insert(name.to_owned(), keyspace);
            return Ok(());
        }
        if self.rng.random_bool(0.5) {
            self.move_out_of(name)?;
        }
        let started = (self.process_run.operations)();
        if self.rng.random_bool(0.4) {
            let event = self
                .process_run
                .with_oracle(|oracle| oracle.creating(name, started));
            self.process_run
                .db
                .clear_keyspace(name)
                .map_err(failed("clearing a keyspace"))?;
            let done = (self.process_run.operations)();
            self.process_run
                .with_oracle(|oracle| oracle.keyspace_done(event, done));
            return Ok(());
        }
        self.keyspaces.remove(name);
        let event = self
            .process_run
            .with_oracle(|oracle| oracle.dropping(name, started));
        self.process_run
            .db
            .drop_keyspace(name)
            .map_err(failed("dropping a keyspace"))?;
        let done = (self.process_run.operations)();
        self.process_run
            .with_oracle(|oracle| oracle.keyspace_done(event, done));
        Ok(())
    }
}
