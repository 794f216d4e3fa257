//! What each command does, one file per family. The table (`resp/table.rs`) says which there are.

pub(crate) mod backup;
pub(crate) mod bits;
mod clients;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod copying;
pub(crate) mod expiry;
pub(crate) mod hashes;
pub(crate) mod info;
pub(crate) mod introspection;
pub(crate) mod keys;
pub(crate) mod object;
pub(crate) mod ordered;
pub(crate) mod scan;
pub(crate) mod server;
pub(crate) mod snapshots;
pub(crate) mod strings;
pub(crate) mod subcommands;
