//! The Redis protocol, each file above those that it uses:
//!
//! | what | where |
//! |---|---|
//! | taking requests out of a connection's input, and running them | `requests` |
//! | which commands there are | `table` |
//! | how several of them become one commit | `transactions`, `interactive` |
//! | what they do, one file per family | `commands` |
//! | what a command is, and what its function gets | `command`, `arguments`, `data`, `failure` |
//! | what a connection is | `session`, `open_snapshots`, `open_transaction`, `outside_effects` |
//! | the bytes of requests and replies | `frame`, `reply` |

mod arguments;
mod command;
mod commands;
mod cursors;
mod data;
mod decimal;
mod failure;
pub(crate) mod frame;
mod glob;
mod interactive;
mod number;
mod open_snapshots;
mod open_transaction;
mod outside_effects;
mod reply;
mod requests;
mod session;
mod table;
mod transactions;

pub(crate) use cursors::Cursors;
pub(crate) use open_snapshots::SharedSnapshots;
pub(crate) use session::{Replies, Session};

/// The names of the commands, by their numbers.
pub(crate) fn command_names() -> Vec<&'static str> {
    let commands = table::COMMANDS.iter();
    commands.map(|command| command.name).collect()
}
