//! Clients of servers whose protocol is not text: a table of pairs, one statement at a time.
//!
//! The lab builds requests of text protocols beforehand and compares replies byte for byte. A
//! binary protocol with a handshake and prepared statements is better left to the client that
//! its users use; what that client costs, the lab measures and prints.

use std::net::SocketAddr;

use hedgerow_lab_contender::{StoreError, Unavailable};

#[cfg(feature = "servers")]
mod mysql;

/// One connection to a server that holds a table of pairs. Every call is one statement, and a
/// commit of its own where it writes.
pub trait RowClient: Send {
    /// Inserts pairs whose keys are not there, all with one statement.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn load(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError>;

    /// The value under `key`.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Inserts a pair; an error where the key is there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Replaces the value under `key`; whether it was there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError>;

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn remove(&mut self, key: &[u8]) -> Result<bool, StoreError>;
}

/// Opens a connection.
pub type ConnectRows = fn(SocketAddr) -> Result<Box<dyn RowClient>, StoreError>;

/// The client of servers that speak MySQL's protocol, in a build that has it.
///
/// # Errors
///
/// In a build without the feature `servers`.
pub fn mysql_client() -> Result<ConnectRows, Unavailable> {
    #[cfg(feature = "servers")]
    let client: Result<ConnectRows, Unavailable> = Ok(mysql::connect);
    #[cfg(not(feature = "servers"))]
    let client = Err(crate::registry::not_built());
    client
}
