//! `hedgerow keyspace`: creating, listing and dropping the keyspaces of a closed database.

use hedgerow::{Db, Error as Engine, KeyspaceOptions};
use serde_json::json;

use crate::arguments::{KeyspaceCommand, KeyspaceCreate, KeyspaceDrop, KeyspaceList};
use crate::data::{open, open_with};
use crate::error::{Error, Result, writing};
use crate::output::Output;
use crate::size::{show_bytes, show_count};
use crate::text;

pub(crate) fn run(command: KeyspaceCommand, out: &Output) -> Result<()> {
    match command {
        KeyspaceCommand::Create(create) => self::create(create, out),
        KeyspaceCommand::List(list) => self::list(&list, out),
        KeyspaceCommand::Drop(drop) => self::drop(drop, out),
    }
}

fn create(KeyspaceCreate { data, name, index }: KeyspaceCreate, out: &Output) -> Result<()> {
    let db = open_with(&data, index)?;
    let keyspace = db.create_keyspace_with(&name, KeyspaceOptions { index })?;
    let index = keyspace.index_kind()?.name();
    db.close()?;
    let json = json!({ "keyspace": name, "index": index });
    out.print(json, || {
        format!("keyspace {name:?} is made; its index is {index}")
    })
}

fn list(list: &KeyspaceList, out: &Output) -> Result<()> {
    use std::io::Write;
    let db = open(&list.data, false, true)?;
    let mut lines = out.lines();
    for name in db.keyspaces() {
        let keyspace = db.open_keyspace(&name)?;
        let (index, rows) = (keyspace.index_kind()?.name(), keyspace.len());
        let bytes = list.bytes.then(|| keyspace.index_bytes()).transpose()?;
        let line = match (out.json, bytes) {
            (true, None) => json!({ "keyspace": name, "index": index, "rows": rows }).to_string(),
            (true, Some(bytes)) => {
                let numbers = json!({
                    "keyspace": name, "index": index, "rows": rows, "bytes": bytes,
                });
                numbers.to_string()
            }
            (false, None) => {
                let name = text::shown(name.as_bytes());
                format!("{name}\t{index}\t{} rows", show_count(rows))
            }
            (false, Some(bytes)) => {
                let name = text::shown(name.as_bytes());
                let (rows, bytes) = (show_count(rows), show_bytes(bytes));
                format!("{name}\t{index}\t{rows} rows\t{bytes}")
            }
        };
        writeln!(lines, "{line}").map_err(writing)?;
    }
    lines.flush().map_err(writing)
}

fn drop(KeyspaceDrop { data, name }: KeyspaceDrop, out: &Output) -> Result<()> {
    let db = open(&data, false, false)?;
    let rows = db.open_keyspace(&name).map(|keyspace| keyspace.len());
    let dropped = rows.and_then(|rows| db.drop_keyspace(&name).map(|()| rows));
    let rows = dropped.map_err(|error| match error {
        Engine::KeyspaceMissing(_) => missing(&db, &name),
        error => error.into(),
    })?;
    db.close()?;
    let json = json!({ "keyspace": name, "rows": rows });
    out.print(json, || {
        format!("dropped {name:?} and its {} rows", show_count(rows))
    })
}

fn missing(db: &Db, name: &str) -> Error {
    Error::Failed(match &db.keyspaces()[..] {
        [] => format!("there is no keyspace {name:?}; the database has none yet"),
        names => format!(
            "there is no keyspace {name:?}; hedgerow keyspace list shows those that exist: {}",
            text::enumerated(names)
        ),
    })
}
