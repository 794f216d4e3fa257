//! MySQL's protocol, by the `mysql` crate: statements prepared once per connection, which
//! commits each by itself.

use std::net::SocketAddr;

use hedgerow_lab_contender::StoreError;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement, Value};

use super::client::RowClient;

/// One connection and its statements.
struct Client {
    connection: Conn,
    get: Statement,
    insert: Statement,
    update: Statement,
    remove: Statement,
}

/// Connects as the user `lab`.
pub fn connect(address: SocketAddr) -> Result<Box<dyn RowClient>, StoreError> {
    let options = OptsBuilder::new()
        .ip_or_hostname(Some(address.ip().to_string()))
        .tcp_port(address.port())
        // Over TCP, as the others; not over the server's local socket.
        .prefer_socket(false)
        .user(Some("lab"))
        .db_name(Some("lab"))
        // Counts a row that is found, whether or not its value was another.
        .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS);
    let mut connection = Conn::new(options).map_err(StoreError::from_display)?;
    let mut prepare = |text| connection.prep(text).map_err(StoreError::from_display);
    let get = prepare("SELECT v FROM pairs WHERE k = ?")?;
    let insert = prepare("INSERT INTO pairs (k, v) VALUES (?, ?)")?;
    let update = prepare("UPDATE pairs SET v = ? WHERE k = ?")?;
    let remove = prepare("DELETE FROM pairs WHERE k = ?")?;
    Ok(Box::new(Client {
        connection,
        get,
        insert,
        update,
        remove,
    }))
}

impl RowClient for Client {
    fn load(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let rows = vec!["(?, ?)"; pairs.len()].join(", ");
        let text = format!("INSERT INTO pairs (k, v) VALUES {rows}");
        let words: Vec<Value> = pairs
            .iter()
            .flat_map(|(key, value)| [Value::from(*key), Value::from(*value)])
            .collect();
        let done = self.connection.exec_drop(text, words);
        done.map_err(StoreError::from_display)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.connection.exec_first(&self.get, (key,));
        found.map_err(StoreError::from_display)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let done = self.connection.exec_drop(&self.insert, (key, value));
        done.map_err(StoreError::from_display)
    }

    fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError> {
        let done = self.connection.exec_drop(&self.update, (value, key));
        done.map_err(StoreError::from_display)?;
        Ok(self.connection.affected_rows() == 1)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let done = self.connection.exec_drop(&self.remove, (key,));
        done.map_err(StoreError::from_display)?;
        Ok(self.connection.affected_rows() == 1)
    }
}
