//! Clients of servers whose protocol is not text: a table of pairs, one statement at a time.
//!
//! The lab builds requests of text protocols beforehand and compares replies byte for byte. A
//! binary protocol with a handshake and prepared statements is better left to the client that
//! its users use; what that client costs, the lab measures and prints.

use std::net::SocketAddr;

use hedgerow_lab_contender::{StoreError, Unavailable};

mod client;
#[cfg(feature = "servers")]
mod mysql;

pub use client::RowClient;

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
