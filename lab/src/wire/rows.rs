//! The same steps for servers that are asked through a client library: one thread per
//! connection, each with one statement under way.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::Kind;
use hedgerow_lab_peers::{ConnectRows, RowClient};

use super::steps::{Step, updated_text};
use crate::{LabError, Result};

/// Pairs that one statement loads.
const LOADED_AT_ONCE: usize = 500;

/// Inserts every key with its first value, on one connection.
///
/// # Errors
///
/// What the server says.
pub fn load_rows(
    connect: ConnectRows,
    address: SocketAddr,
    keys: &Keys,
    value_bytes: usize,
) -> Result<()> {
    let mut client = connect(address).map_err(LabError::from_display)?;
    for from in (0..keys.len()).step_by(LOADED_AT_ONCE) {
        let some = keys.range(from..keys.len().min(from + LOADED_AT_ONCE));
        let keys: Vec<&[u8]> = some.iter().collect();
        let value = |key: &&[u8]| updated_text(key, 0, value_bytes);
        let values: Vec<Vec<u8>> = keys.iter().map(value).collect();
        let pairs = keys.iter().zip(&values);
        let pairs: Vec<_> = pairs.map(|(key, value)| (*key, value.as_slice())).collect();
        client.load(&pairs).map_err(LabError::from_display)?;
    }
    Ok(())
}

/// Plays each list of steps on a connection of its own, all at once; operations per second.
///
/// # Errors
///
/// A connection that fails, or the first answer that is wrong.
pub fn play_rows(
    connect: ConnectRows,
    address: SocketAddr,
    keys: &Keys,
    steps: &[Vec<Step>],
    value_bytes: usize,
) -> Result<f64> {
    let connections = steps
        .iter()
        .map(|_| connect(address).map_err(LabError::from_display));
    let connections = connections.collect::<Result<Vec<_>>>()?;
    let barrier = Barrier::new(connections.len() + 1);
    let (barrier, count) = (&barrier, steps.iter().map(Vec::len).sum::<usize>());
    let seconds = thread::scope(|scope| {
        let play = |mut client: Box<dyn RowClient>, steps: &'_ [Step]| {
            barrier.wait();
            let mut steps = steps.iter();
            steps.try_for_each(|step| ask(client.as_mut(), keys, *step, value_bytes))
        };
        let players: Vec<_> = connections
            .into_iter()
            .zip(steps)
            .map(|(client, steps)| scope.spawn(move || play(client, steps)))
            .collect();
        barrier.wait();
        let start = Instant::now();
        for player in players {
            let outcome = player.join();
            outcome.map_err(|_| LabError::Process("a client ended early".to_owned()))??;
        }
        Ok::<_, LabError>(start.elapsed().as_secs_f64())
    })?;
    Ok(count as f64 / seconds)
}

/// Asks for one step and compares the answer.
fn ask(client: &mut dyn RowClient, keys: &Keys, step: Step, value_bytes: usize) -> Result<()> {
    let key = keys.get(step.record);
    let value = updated_text(key, step.updates, value_bytes);
    let right = match step.kind {
        Kind::Insert => client.insert(key, &value).map(|()| true),
        Kind::Update => client.update(key, &value),
        Kind::Remove => client.remove(key),
        _ => client.get(key).map(|found| found == Some(value)),
    };
    if right.map_err(LabError::from_display)? {
        return Ok(());
    }
    Err(LabError::WrongAnswer(format!(
        "{} of key \"{}\": no such row, or another value",
        step.kind.name(),
        key.escape_ascii()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use hedgerow_lab_contender::StoreError;
    use hedgerow_lab_data::workload::Workload;

    type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
    static ROWS: Mutex<Rows> = Mutex::new(Rows::new());

    /// A table in this process.
    struct Table;

    impl RowClient for Table {
        fn load(&mut self, pairs: &[(&[u8], &[u8])]) -> std::result::Result<(), StoreError> {
            pairs
                .iter()
                .try_for_each(|(key, value)| self.insert(key, value))
        }

        fn get(&mut self, key: &[u8]) -> std::result::Result<Option<Vec<u8>>, StoreError> {
            Ok(ROWS.lock().expect("whole").get(key).cloned())
        }

        fn insert(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), StoreError> {
            let old = ROWS
                .lock()
                .expect("whole")
                .insert(key.to_vec(), value.to_vec());
            let duplicate = old.map(|_| StoreError("duplicate".to_owned()));
            duplicate.map_or(Ok(()), Err)
        }

        fn update(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<bool, StoreError> {
            let mut rows = ROWS.lock().expect("whole");
            let row = rows.get_mut(key);
            Ok(row.map(|row| *row = value.to_vec()).is_some())
        }

        fn remove(&mut self, key: &[u8]) -> std::result::Result<bool, StoreError> {
            Ok(ROWS.lock().expect("whole").remove(key).is_some())
        }
    }

    #[test]
    fn right_answers_are_counted_and_wrong_ones_end_the_run() {
        let connect: ConnectRows = |_| Ok(Box::new(Table));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let keys: Keys = (0..1000)
            .map(|n: u32| n.to_string())
            .collect::<Vec<_>>()
            .iter()
            .collect();
        let play = |name: &str| {
            let workload = Workload::named(name).expect("it is there");
            let slices = [0..300, 300..300, 300..1000];
            let steps = slices.map(|slice| super::super::steps(&workload, slice, 7));
            play_rows(connect, address, &keys, &steps, 8)
        };
        load_rows(connect, address, &keys, 8).expect("an empty table");
        assert!(play("bwtree/read-update").expect("right answers") > 0.0);
        let changed = play("bwtree/read")
            .expect_err("the updates changed rows")
            .to_string();
        assert!(changed.starts_with("wrong answer"), "{changed}");
        assert!(play("bwtree/delete").expect("each row is there") > 0.0);
        assert!(play("bwtree/delete").is_err());
        assert!(play("bwtree/insert").expect("no row is there") > 0.0);
        assert!(play("bwtree/insert").is_err());
    }
}
