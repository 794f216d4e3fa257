//! The server beside its clients. One program, so that the server is compiled and linked once.

mod clients;
mod commands;
mod memcached;
mod page_file;
mod redis;
mod serving;
mod support;
