//! The Redis protocol: requests (`frame`), replies (`reply`), what a connection is (`session`),
//! which commands there are (`table`), what they do (`commands`, one file per family), and how
//! several of them become one commit (`transactions`).

mod call;
mod commands;
mod cursors;
pub(crate) mod frame;
mod glob;
mod number;
mod reply;
mod session;
mod table;
mod transactions;

pub(crate) use cursors::Cursors;
pub(crate) use session::Session;

/// The names of the commands, by their numbers.
pub(crate) fn command_names() -> Vec<&'static str> {
    let commands = table::COMMANDS.iter();
    commands.map(|command| command.name).collect()
}
