//! The server beside its clients. One program, so that the server is compiled and linked once.

// The database that they run over, and what the tests share.
mod support;
mod tested;

// Of every backend: `backends/hbase/tests/protocol/main.rs` runs these over HBase too.
mod client_commands;
mod client_memory;
mod clients;
mod command_stats;
mod commands;
mod memcached;
mod memcached_replies;
mod observing;
mod plain_keys;
mod redis;
mod redis_scripts;
mod resets;
mod serving;
mod udp;
mod unix_sockets;

// Of the embedded engine: `embedded/mod.rs` says why.
mod backends;
mod embedded;
mod event_loops;
mod failing_disk;
mod hostile_transactions;
mod idle_transactions;
mod interactive;
mod page_file;
mod refused_parts;
mod snapshots;
