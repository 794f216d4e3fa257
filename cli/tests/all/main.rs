//! The `hedgerow` command as its users meet it.

mod client;
mod commands;
mod copy;
mod dump;
mod flags;
mod keyspaces;
mod killed_backups;
mod left_behind;
mod limits;
mod log_dirs;
mod manners;
mod process;
mod prompt;
mod readme;
mod refusals;
mod signals;
mod snapshots;
mod switching_over;
mod two_processes;
mod udp;
mod unix_sockets;
