//! Numbered databases of all kinds of indexes, and the one that each key is in.

use std::path::Path;
use std::process::Command;

use hedgerow::IndexKind;
use rand::Rng;
use rand::rngs::StdRng;

use super::client::Client;
use super::ledger::State;

/// Databases, from 0, that the writers' keys are in: one of each kind.
pub(crate) const DATABASES: usize = 5;

/// The keyspaces behind numbered databases. A [move](super::between_databases) goes from 5 to 6:
/// from the page file to memory.
const KEYSPACES: [(&str, IndexKind); 7] = [
    ("default", IndexKind::BTree),
    ("db1", IndexKind::Masstree),
    ("db2", IndexKind::Matryoshka),
    ("db3", IndexKind::BwTree),
    ("db4", IndexKind::Bst),
    ("db5", IndexKind::BTree),
    ("db6", IndexKind::BwTree),
];

/// Makes the keyspaces by the `hedgerow` binary, before the first start of a server.
pub(crate) fn create_keyspaces(program: &Path, data: &Path) -> Result<(), String> {
    for (name, index) in KEYSPACES {
        let output = Command::new(program)
            .args(["keyspace", "create", name, "--index", index.name()])
            .arg("--data")
            .arg(data)
            .output()
            .map_err(|e| format!("starting {}: {e}", program.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("creating keyspace {name}: {said}"));
        }
    }
    Ok(())
}

/// The database of a key: keys that differ in their last digit are in different ones.
pub(crate) fn database_of(key: &[u8]) -> usize {
    usize::from(key.last().copied().unwrap_or(0)) % DATABASES
}

/// Queues the `SELECT` of a key's database.
fn queue_select(client: &mut Client, key: &[u8]) {
    client.queue(&[b"SELECT", database_of(key).to_string().as_bytes()]);
}

/// How several changes become one commit.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Queued, and executed at the end.
    Multi,
    /// An interactive transaction, each of whose commands is answered at once.
    Begin,
}

impl Form {
    /// One of them.
    pub(crate) fn any(rng: &mut StdRng) -> Form {
        match rng.random_bool(0.5) {
            true => Form::Multi,
            false => Form::Begin,
        }
    }

    /// What begins the commit, and what ends it.
    pub(crate) fn words(self) -> [&'static [u8]; 2] {
        match self {
            Form::Multi => [b"MULTI", b"EXEC"],
            Form::Begin => [b"BEGIN", b"COMMIT"],
        }
    }
}

/// Queues one commit of these changes, of keys that may be in different databases; returns how many
/// replies it has.
pub(crate) fn queue_changes(
    client: &mut Client,
    form: Form,
    changes: &[(Vec<u8>, Option<Vec<u8>>)],
) -> usize {
    let is_one = changes.len() == 1;
    let [begin, end] = form.words();
    if !is_one {
        client.queue(&[begin]);
    }
    for (key, value) in changes {
        queue_select(client, key);
        match value {
            Some(value) => client.queue(&[b"SET", key, value]),
            None => client.queue(&[b"DEL", key]),
        }
    }
    if !is_one {
        client.queue(&[end]);
    }
    2 * changes.len() + if is_one { 0 } else { 2 }
}

/// Reads keys of several databases.
pub(crate) fn read_values(client: &mut Client, keys: Vec<Vec<u8>>) -> Result<State, String> {
    let mut found = State::new();
    let mut of_databases = vec![Vec::new(); DATABASES];
    for key in keys {
        of_databases[database_of(&key)].push(key);
    }
    // The first comes last, and stays selected.
    for keys in of_databases.iter().rev() {
        queue_select(client, &keys[0]);
        client.send().map_err(|e| format!("SELECT: {e}"))?;
        client.receive().map_err(|e| format!("SELECT: {e}"))?;
        found.extend(client.read_values(keys)?);
    }
    Ok(found)
}
