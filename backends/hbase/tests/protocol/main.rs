//! The server's own tests over a real cluster, whose URL is in `HEDGEROW_HBASE_URL`: the same files
//! as over the embedded engine, with a namespace for each test that goes at its end.
//!
//! Left out are tests that need what HBase lacks; `server/tests/all/embedded/mod.rs` lists them
//! with the reasons. Without a URL the program says that it was skipped, and ends.

mod tested;

#[path = "../../../../server/tests/all/support/mod.rs"]
mod support;

#[path = "../../../../server/tests/all/client_commands.rs"]
mod client_commands;
#[path = "../../../../server/tests/all/client_memory.rs"]
mod client_memory;
#[path = "../../../../server/tests/all/clients.rs"]
mod clients;
#[path = "../../../../server/tests/all/command_stats.rs"]
mod command_stats;
#[path = "../../../../server/tests/all/commands.rs"]
mod commands;
#[path = "../../../../server/tests/all/memcached.rs"]
mod memcached;
#[path = "../../../../server/tests/all/memcached_replies.rs"]
mod memcached_replies;
#[path = "../../../../server/tests/all/observing.rs"]
mod observing;
#[path = "../../../../server/tests/all/plain_keys.rs"]
mod plain_keys;
#[path = "../../../../server/tests/all/redis.rs"]
mod redis;
#[path = "../../../../server/tests/all/redis_scripts.rs"]
mod redis_scripts;
#[path = "../../../../server/tests/all/resets.rs"]
mod resets;
#[path = "../../../../server/tests/all/serving.rs"]
mod serving;
#[path = "../../../../server/tests/all/udp.rs"]
mod udp;
#[path = "../../../../server/tests/all/unix_sockets.rs"]
mod unix_sockets;

/// All that the other tests pass over is refused by name, and does nothing.
#[test]
fn what_hbase_lacks_is_refused() {
    let started = support::Started::new(support::one_worker());
    assert_eq!(started.refuses_what_it_lacks(), 13);
}
