//! Transactions that lock nothing, and snapshots that live beside everything else that a process
//! run does: also beyond a checkpoint that is abandoned, a keyspace that is dropped, and the cut.

use std::ops::ControlFlow;

use hedgerow::{Commit, Error, Isolation, OptimisticTransaction, Row as StoredRow, Snapshot};

use super::{OpenSnapshot, Outcome, Staged, Writer, failed, row_of};
use crate::powercut::oracle::{Content, Contents, Rows};

/// How often a transaction begins anew: more often than others can be in its way.
const MOST_RUNS: usize = 1000;

/// Everything that a snapshot shows.
fn contents_at(snapshot: &Snapshot) -> hedgerow::Result<Contents> {
    let mut contents = Contents::new();
    for name in snapshot.keyspaces() {
        let mut rows = Rows::new();
        let visit = |key: &[u8], row: StoredRow<'_>| {
            rows.insert(key.to_vec(), row_of(row));
            ControlFlow::Continue(())
        };
        let keyspace = snapshot.keyspace(&name)?;
        keyspace.scan(.., hedgerow::Direction::Forward, visit)?;
        contents.insert(name, rows);
    }
    Ok(contents)
}

/// Whether an error says that nothing happened and another attempt may succeed.
fn is_passing(error: &Error) -> bool {
    error.is_conflict() || matches!(error, Error::TransactionTooOld { .. })
}

impl Writer<'_> {
    /// Reads several keys, of which only this thread writes, and writes them, in a transaction that
    /// locks nothing.
    pub(super) fn validate(&mut self) -> Outcome {
        let durability = self.durability();
        let chosen = self.several();
        let db = self.process_run.db;
        let expected = self.process_run.with_oracle(|oracle| {
            let staged = chosen.iter().map(|staged| &staged.change);
            let rows = staged.map(|change| oracle.current(change.incarnation, &change.key));
            let values = rows.map(|row| match row.map(|row| &row.content) {
                Some(Content::Plain(value)) => Some(value.clone()),
                _ => None,
            });
            values.collect::<Vec<_>>()
        });
        let changes = chosen.iter().map(|staged| staged.change.clone()).collect();
        let mut wrong = None;
        self.commit(changes, durability, || {
            let attempt = || -> hedgerow::Result<Commit> {
                let mut transaction = db.begin(Isolation::Serializable)?;
                for (staged, expected) in chosen.iter().zip(&expected) {
                    let found = transaction.get(&staged.keyspace, &staged.key)?;
                    if found != *expected {
                        wrong = Some(String::from_utf8_lossy(&staged.key).into_owned());
                    }
                }
                stage(&mut transaction, &chosen)?;
                transaction.commit(durability)
            };
            repeat(attempt)
        })?;
        match wrong {
            None => Ok(()),
            Some(key) => Err(format!(
                "a transaction does not find {key} as it was written"
            )),
        }
    }

    /// Opens a snapshot, or finds the one that is open as it was, and drops it.
    pub(super) fn hold(&mut self) -> Outcome {
        let Some(opened) = self.snapshot.take() else {
            let snapshot = self.process_run.db.snapshot();
            let snapshot = snapshot.map_err(failed("opening a snapshot"))?;
            self.snapshot = match contents_at(&snapshot) {
                Ok(contents) => Some(OpenSnapshot { snapshot, contents }),
                Err(Error::SnapshotEnded { .. }) => None,
                Err(error) => return Err(format!("reading a snapshot failed: {error}")),
            };
            return Ok(());
        };
        match contents_at(&opened.snapshot) {
            Ok(contents) if contents == opened.contents => Ok(()),
            Ok(_) => Err("a snapshot does not show what it showed".to_owned()),
            Err(Error::SnapshotEnded { .. }) => Ok(()),
            Err(error) => Err(format!("reading a snapshot failed: {error}")),
        }
    }
}

fn stage(transaction: &mut OptimisticTransaction, chosen: &[Staged]) -> hedgerow::Result<()> {
    for staged in chosen {
        match &staged.value {
            Some(value) => transaction.put(&staged.keyspace, &staged.key, value)?,
            None => drop(transaction.remove(&staged.keyspace, &staged.key)?),
        }
    }
    Ok(())
}

/// Makes attempts until one is in nobody's way.
fn repeat(mut attempt: impl FnMut() -> hedgerow::Result<Commit>) -> hedgerow::Result<Commit> {
    let mut runs = 1;
    loop {
        match attempt() {
            Err(error) if is_passing(&error) && runs < MOST_RUNS => runs += 1,
            outcome => return outcome,
        }
    }
}
