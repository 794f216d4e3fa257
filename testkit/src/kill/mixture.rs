//! Numbered databases of all kinds of indexes, and the one that each key is in.

use std::process::Command;

use hedgerow::IndexKind;

use super::campaign::KillCampaign;
use super::client::Client;

/// Databases, from 0, that the writers' keys are in.
pub(super) const DATABASES: usize = 3;

/// The keyspaces behind numbered databases. A [move](super::between_databases) goes from 3 to 4:
/// from the page file to memory.
const KEYSPACES: [(&str, IndexKind); 5] = [
    ("default", IndexKind::BTree),
    ("db1", IndexKind::Masstree),
    ("db2", IndexKind::Matryoshka),
    ("db3", IndexKind::BTree),
    ("db4", IndexKind::BwTree),
];

/// Makes the keyspaces, before the first start of a server.
pub(super) fn create_keyspaces(campaign: &KillCampaign) -> Result<(), String> {
    for (name, index) in KEYSPACES {
        let output = Command::new(&campaign.program)
            .args(["keyspace", "create", name, "--index", index.name()])
            .arg("--data")
            .arg(&campaign.data)
            .output()
            .map_err(|e| format!("starting {}: {e}", campaign.program.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("creating keyspace {name}: {said}"));
        }
    }
    Ok(())
}

/// The database of a key: keys that differ in their last digit are in different ones.
pub(super) fn database_of(key: &[u8]) -> usize {
    usize::from(key.last().copied().unwrap_or(0)) % DATABASES
}

/// Queues the `SELECT` of a key's database.
pub(super) fn queue_select(client: &mut Client, key: &[u8]) {
    client.queue(&[b"SELECT", database_of(key).to_string().as_bytes()]);
}
