//! What a process run does to have pages evicted, the file grow, and the file shrink.

use rand::Rng;

use super::{Outcome, Writer, failed};
use crate::powercut::oracle::{Change, Content, Row};
use crate::pressure;

/// Threads of a process run under pressure; each has its part of the rows.
pub const THREADS: usize = 3;
const ROWS_EACH: u32 = pressure::ROWS / THREADS as u32;
/// Rows of one commit while filling.
const AT_ONCE: usize = 20;
/// Checkpoints until a file that was emptied is cut off: the first writes what is left, the next
/// moves what lies at the end, the one after it no longer needs where that was.
const UNTIL_CUT_OFF: usize = 4;

impl Writer<'_> {
    /// Makes the own rows complete, changes some, removes most, and begins anew.
    pub(super) fn press(&mut self, steps: usize) -> Outcome {
        self.fill(ROWS_EACH)?;
        for step in 0..steps {
            if self.rng.random_range(0..3) == 0 {
                let first = self.rng.random_range(0..ROWS_EACH);
                let count = self.rng.random_range(1..=10).min(ROWS_EACH - first);
                self.put_rows((first..first + count).collect())?;
            } else {
                self.step()?;
            }
            self.read_counters();
            if step == steps / 2 {
                self.empty()?;
            }
        }
        let some = self.rng.random_range(0..=ROWS_EACH / 2);
        self.fill(some)
    }

    fn prefix(&self) -> String {
        format!("row{}/", self.thread)
    }

    fn read_counters(&self) {
        self.process_run.watch().read_counters(self.process_run.db);
    }

    /// Writes those of the first rows that are missing.
    fn fill(&mut self, rows: u32) -> Outcome {
        let (prefix, main) = (
            self.prefix(),
            self.process_run.with_oracle(|o| o.incarnation("main")),
        );
        let main = main.expect("made first, and never dropped");
        let missing: Vec<u32> = self.process_run.with_oracle(|oracle| {
            let is_missing = |&n: &u32| oracle.current(main, &pressure::key(&prefix, n)).is_none();
            (0..rows).filter(is_missing).collect()
        });
        for numbers in missing.chunks(AT_ONCE) {
            self.put_rows(numbers.to_vec())?;
            self.read_counters();
        }
        Ok(())
    }

    /// New values for these rows, in one commit.
    fn put_rows(&mut self, numbers: Vec<u32>) -> Outcome {
        let (prefix, durability) = (self.prefix(), self.durability());
        let keyspace = self.keyspaces["main"].clone();
        let main = self.process_run.with_oracle(|o| o.incarnation("main"));
        let main = main.expect("made first, and never dropped");
        let mut batch = self.process_run.db.batch();
        let mut changes = Vec::new();
        for number in numbers {
            self.next_value += 1;
            let version = format!("{}.{}", self.process_run.number, self.next_value);
            let (key, value) = (
                pressure::key(&prefix, number),
                pressure::value(number, &version),
            );
            batch.put(&keyspace, &key, &value);
            let content = Content::Plain(value);
            let row = Some(Row {
                content,
                expiry_ms: None,
            });
            changes.push(Change {
                incarnation: main,
                key,
                row,
            });
        }
        self.commit(changes, durability, || {
            batch.commit(hedgerow::WriteOptions::default().durability(durability))
        })
    }

    /// Removes all own rows, or all but a few, and takes checkpoints until the file is short.
    fn empty(&mut self) -> Outcome {
        let prefix = self.prefix();
        let from = match self.rng.random_range(0..2) {
            0 => prefix.clone(),
            _ => format!("{prefix}1"),
        };
        let end = format!("row{}0", self.thread);
        self.remove_between("main", from.as_bytes()..end.as_bytes())?;
        for _ in 0..UNTIL_CUT_OFF {
            let checkpoint = self.process_run.db.checkpoint();
            checkpoint.map_err(failed("a checkpoint"))?;
            self.read_counters();
        }
        Ok(())
    }
}
