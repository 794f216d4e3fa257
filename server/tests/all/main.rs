//! The server beside its clients. One program, so that the server is compiled and linked once.

mod backends;
mod client_commands;
mod client_memory;
mod clients;
mod command_stats;
mod commands;
mod event_loops;
mod failing_disk;
mod hostile_transactions;
mod idle_transactions;
mod interactive;
mod memcached;
mod memcached_replies;
mod observing;
mod page_file;
mod plain_keys;
mod redis;
mod redis_scripts;
mod refused_parts;
mod resets;
mod serving;
mod snapshots;
mod support;
mod udp;
mod unix_sockets;
