//! Servers that other people run: memcached, Redis, Valkey and MariaDB, as Debian packages them.
//!
//! A server is a program on this machine, so no feature compiles it. This says where it is and
//! what it takes to run one on loopback with its files in one directory; the lab starts it,
//! pins it, measures it and stops it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hedgerow_lab_contender::{Promises, StoreError};

mod mariadb;
mod package;

pub use mariadb::HANDLER_SOCKET_PREAMBLE;
use package::{Configuration, Package, is_root, text, words};
pub use package::{Prepare, Protocol, ServerPeer, ServerSettings, socket_in};

/// Every server, whether this machine has it or not.
#[must_use]
pub fn servers() -> Vec<ServerPeer> {
    let mut all = memcached();
    all.extend(redis());
    all.extend(valkey());
    all.extend(mariadb::servers());
    all
}

fn memcached() -> Vec<ServerPeer> {
    let package = Package {
        program: "memcached",
        origin: "Debian package memcached",
        package: "memcached",
        licence: "BSD-3-Clause",
        protocol: Protocol::Memcached,
        promises: Promises {
            concurrent: true,
            variable_keys: true,
            longest_key: Some(250),
            ..Promises::default()
        },
    };
    package.configured(vec![Configuration {
        name: "memcached",
        usage: "forgets the oldest when its memory is full; keys without spaces",
        durable: false,
        prepare: Arc::new(|_, address, settings| {
            let mut arguments = words(&format!(
                "-l {} -p {} -U {} -t {} -m {} -c {}",
                address.ip(),
                address.port(),
                address.port(),
                settings.threads,
                settings.memory_bytes >> 20,
                settings.connections
            ));
            if is_root() {
                arguments.extend(words("-u root"));
            }
            Ok(arguments)
        }),
    }])
}

fn redis() -> Vec<ServerPeer> {
    let aof_always =
        "an append-only file synced before every answer, never rewritten; no snapshots";
    of_redis("redis-server", "Debian package redis-server").configured(vec![
        unlogged("redis"),
        appending("redis aof", "everysec", AOF_EVERY_SECOND),
        appending("redis aof always", "always", aof_always),
    ])
}

/// What went on from Redis 7.2. Debian has it since its version 13.
fn valkey() -> Vec<ServerPeer> {
    of_redis("valkey-server", "Debian package valkey-server").configured(vec![
        unlogged("valkey"),
        appending("valkey aof", "everysec", AOF_EVERY_SECOND),
    ])
}

const AOF_EVERY_SECOND: &str =
    "an append-only file synced every second, never rewritten; no snapshots";

/// Redis or what went on from it; the package has the program's name.
fn of_redis(program: &'static str, origin: &'static str) -> Package {
    Package {
        program,
        origin,
        package: program,
        licence: "BSD-3-Clause",
        protocol: Protocol::Resp,
        promises: Promises {
            concurrent: true,
            variable_keys: true,
            ..Promises::default()
        },
    }
}

/// Without persistence.
fn unlogged(name: &'static str) -> Configuration {
    Configuration {
        name,
        usage: "no snapshots and no append-only file: its fastest form",
        durable: false,
        prepare: Arc::new(|folder, address, settings| {
            redis_arguments("--appendonly no", folder, address, settings)
        }),
    }
}

/// With an append-only file that is synced as `fsync` says, in the program's words.
fn appending(name: &'static str, fsync: &'static str, usage: &'static str) -> Configuration {
    Configuration {
        name,
        usage,
        durable: true,
        prepare: Arc::new(move |folder, address, settings| {
            let file =
                format!("--appendonly yes --appendfsync {fsync} --auto-aof-rewrite-percentage 0");
            redis_arguments(&file, folder, address, settings)
        }),
    }
}

fn redis_arguments(
    persistence: &str,
    folder: &Path,
    address: SocketAddr,
    settings: &ServerSettings,
) -> Result<Vec<String>, StoreError> {
    let mut arguments = words(&format!(
        "--bind {} --port {} --maxclients {} {persistence}",
        address.ip(),
        address.port(),
        settings.connections
    ));
    // A folder may hold spaces; and an empty word says: no snapshots.
    arguments.extend(["--dir".to_owned(), text(folder)?]);
    if let Some(socket) = socket_in(folder) {
        arguments.extend(["--unixsocket".to_owned(), text(&socket)?]);
    }
    arguments.extend(["--save".to_owned(), String::new()]);
    Ok(arguments)
}
