//! The systems that Hedgerow is measured beside.
//!
//! A claim of speed is worth what stands beside it, so the lab runs the structures and engines
//! that people use today in the same process, on the same keys, in the same minute. This crate
//! holds one adaptor for each, written as its documentation advises.
//!
//! * [`maps`]: ordered maps in memory.
//! * [`stores`]: durable engines.
//! * [`servers`]: programs that listen on a socket, and [`RowClient`] to ask those whose
//!   protocol is not text.
//!
//! Every peer is always listed. What a build has without (each kind of peer is a cargo feature,
//! all off by default, so that the default build compiles none of them) or what this machine
//! lacks is listed as unavailable, with the command that changes that.

mod maps;
mod native;
mod registry;
mod rows;
mod servers;
mod stores;

pub use maps::{maps, sets};
pub use registry::{Limits, MapPeer, StorePeer};
pub use rows::{ConnectRows, RowClient, mysql_client};
pub use servers::{
    HANDLER_SOCKET_PREAMBLE, Prepare, Protocol, ServerPeer, ServerSettings, servers, socket_in,
};
pub use stores::{stores, transactional};
