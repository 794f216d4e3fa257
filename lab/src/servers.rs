//! Servers that the lab starts on loopback: ours beside the one this program was built with, and
//! those of other people, from `hedgerow_lab_peers`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hedgerow_lab_contender::{Promises, StoreError, Unavailable};
use hedgerow_lab_peers::{Protocol, ServerPeer, ServerSettings, mysql_client, servers};

use crate::experiment::Participant;
use crate::process::Server;
use crate::{LabError, Result};
use hedgerow_lab_own::own;

/// Ours, by RESP, with a log that is synced periodically.
pub const OURS: &str = "hedgerow server";

/// Ours, by memcached's protocol.
pub const OURS_BY_MEMCACHED: &str = "hedgerow server, memcached protocol";

/// Ours, by RESP, without a log.
pub const OURS_IN_MEMORY: &str = "hedgerow server in memory";

/// The core that servers run on.
pub const SERVER_CORE: usize = 0;

/// The core of the client.
pub const CLIENT_CORE: usize = 1;

/// Every server, whether this machine has it or not.
#[must_use]
pub fn all() -> Vec<ServerPeer> {
    let mut all = own_servers();
    all.extend(servers());
    all
}

/// The servers of these names, in this order.
#[must_use]
pub fn named(names: &[&str]) -> Vec<ServerPeer> {
    let all = all();
    let of = |name: &&str| all.iter().find(|one| one.entry.name == *name).cloned();
    names.iter().filter_map(of).collect()
}

/// A server as the runner sees it.
#[must_use]
pub fn participant(server: &ServerPeer) -> Participant {
    let client = match server.protocol {
        Protocol::MySql => mysql_client().map(drop),
        Protocol::Resp | Protocol::Memcached => Ok(()),
    };
    Participant {
        entry: server.entry.clone(),
        available: server.program.clone().map(drop).and(client),
        environment: Vec::new(),
    }
}

/// Starts the server of this name on its core, in a directory of its own.
///
/// # Errors
///
/// When there is none here, or it does not start.
pub fn start(name: &str, settings: &ServerSettings) -> Result<(ServerPeer, Server)> {
    let mut found = named(&[name]);
    let peer = found
        .pop()
        .ok_or_else(|| LabError::Usage(format!("no server is called {name}")))?;
    let program = peer.program.as_deref().map_err(LabError::unavailable)?;
    let server = Server::start(program, Some(SERVER_CORE), |folder, address| {
        (peer.prepare)(folder, address, settings).map_err(LabError::from_display)
    })?;
    Ok((peer, server))
}

fn own_servers() -> Vec<ServerPeer> {
    let promises = Promises {
        ordered: true,
        concurrent: true,
        durable: true,
        variable_keys: true,
        longest_key: Some(hedgerow::MAX_KEY_BYTES),
    };
    let server = |name, protocol, promises, prepare| ServerPeer {
        entry: own(name, promises),
        licence: "MIT OR Apache-2.0",
        usage: "the binary beside the lab's",
        protocol,
        program: own_program(),
        prepare,
    };
    let volatile = Promises {
        durable: false,
        ..promises
    };
    vec![
        server(
            OURS,
            Protocol::Resp,
            promises,
            |folder, address, settings| own_arguments(Some(folder), "resp", address, settings),
        ),
        server(
            OURS_BY_MEMCACHED,
            Protocol::Memcached,
            promises,
            |folder, address, settings| own_arguments(Some(folder), "memcached", address, settings),
        ),
        server(
            OURS_IN_MEMORY,
            Protocol::Resp,
            volatile,
            |_, address, settings| own_arguments(None, "resp", address, settings),
        ),
    ]
}

/// Ours lies beside this program.
fn own_program() -> std::result::Result<PathBuf, Unavailable> {
    let beside = std::env::current_exe().map(|lab| lab.with_file_name("hedgerow"));
    beside
        .ok()
        .filter(|file| file.is_file())
        .ok_or_else(|| Unavailable {
            why: "hedgerow is not beside this program".to_owned(),
            remedy: "cargo build --release -p hedgerow-cli".to_owned(),
        })
}

/// The arguments of ours: its files in `folder`, or nowhere.
fn own_arguments(
    folder: Option<&Path>,
    protocol: &str,
    address: SocketAddr,
    settings: &ServerSettings,
) -> std::result::Result<Vec<String>, StoreError> {
    let other = match protocol {
        "resp" => "memcached",
        _ => "resp",
    };
    let mut arguments = vec!["serve".to_owned()];
    match folder {
        None => arguments.push("--in-memory".to_owned()),
        Some(folder) => arguments.extend([
            "--data".to_owned(),
            folder.join("data").display().to_string(),
            "--durability".to_owned(),
            "periodic".to_owned(),
        ]),
    }
    let rest = format!(
        "--workers {} --http 127.0.0.1:0 --{protocol} {address} --{other} 127.0.0.1:0 \
         --max-connections {}",
        settings.threads, settings.connections
    );
    arguments.extend(rest.split_whitespace().map(str::to_owned));
    Ok(arguments)
}
