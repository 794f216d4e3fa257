//! The `hedgerow` command as its users meet it.

mod commands;
mod dump;
mod process;
