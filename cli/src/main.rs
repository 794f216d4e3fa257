//! The `hedgerow` command.
fn main() {}
