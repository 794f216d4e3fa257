//! Servers that the lab starts on loopback: ours beside the one this program was built with, and
//! those of other people, from `hedgerow_lab_peers`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_lab_contender::{Entry, Promises, Unavailable};
use hedgerow_lab_peers::{
    Prepare, Protocol, ServerPeer, ServerSettings, mysql_client, servers, socket_in,
};

use crate::bare_server;
use crate::experiment::Participant;
use crate::process::{Server, free_address};
use crate::wire::wait_for_table;
use crate::{LabError, Result};
use hedgerow_lab_own::own;

/// Ours, by RESP, with a log that is synced periodically.
pub const OURS: &str = "hedgerow server";

/// Ours, by memcached's protocol.
pub const OURS_BY_MEMCACHED: &str = "hedgerow server, memcached protocol";

/// Ours, by RESP, without a log.
pub const OURS_IN_MEMORY: &str = "hedgerow server in memory";

/// Ours, by RESP, with a log, without io_uring.
pub const OURS_ON_EPOLL: &str = "hedgerow server on epoll";

/// What a server of ours does to keep what it acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// Nothing: no files.
    InMemory,
    /// A log, synced as `--durability` says.
    Log(&'static str),
}

/// Ours by RESP over each index that experiments compare, with what logging and syncing add.
/// B-trees have a file of pages in any case, so the least that they can do is never to sync it.
const OVER_INDEXES: [(&str, &str, Keeping); 10] = [
    ("hedgerow bwtree in memory", "bwtree", Keeping::InMemory),
    (
        "hedgerow bwtree periodic",
        "bwtree",
        Keeping::Log("periodic"),
    ),
    ("hedgerow bwtree sync", "bwtree", Keeping::Log("sync")),
    ("hedgerow btree never synced", "btree", Keeping::Log("none")),
    ("hedgerow btree periodic", "btree", Keeping::Log("periodic")),
    ("hedgerow btree sync", "btree", Keeping::Log("sync")),
    ("hedgerow masstree in memory", "masstree", Keeping::InMemory),
    (
        "hedgerow masstree periodic",
        "masstree",
        Keeping::Log("periodic"),
    ),
    ("hedgerow masstree sync", "masstree", Keeping::Log("sync")),
    ("hedgerow bst periodic", "bst", Keeping::Log("periodic")),
];

/// The least that a server does: what sockets alone cost.
pub const BARE: &str = "(bare server)";

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
        Protocol::Resp | Protocol::Memcached | Protocol::HandlerSocket => Ok(()),
    };
    Participant {
        entry: server.entry.clone(),
        available: server.program.clone().map(drop).and(client),
        environment: Vec::new(),
    }
}

/// Servers under the names that an experiment gives them, because it asks one server in several
/// ways: each of the pairs is such a name and the server's own.
#[must_use]
pub fn participants_as(names: &[(&'static str, &str)]) -> Vec<Participant> {
    let participants = names.iter().flat_map(|(name, server)| {
        let mut participants: Vec<_> = named(&[server]).iter().map(participant).collect();
        for participant in &mut participants {
            participant.entry.name = name;
        }
        participants
    });
    participants.collect()
}

/// Starts the server of this name on its core, in a directory of its own.
///
/// # Errors
///
/// When there is none here, or it does not start.
pub fn start(name: &str, settings: &ServerSettings) -> Result<(ServerPeer, Server)> {
    start_on(Some(SERVER_CORE), name, settings)
}

/// Starts the server of this name on a core, or wherever the system puts it.
///
/// # Errors
///
/// Those of [`start`].
pub fn start_on(
    core: Option<usize>,
    name: &str,
    settings: &ServerSettings,
) -> Result<(ServerPeer, Server)> {
    let mut found = named(&[name]);
    let peer = found
        .pop()
        .ok_or_else(|| LabError::Usage(format!("no server is called {name}")))?;
    let program = peer.program.as_deref().map_err(LabError::unavailable)?;
    let readers = free_address()?;
    let settings = ServerSettings {
        readers_port: readers.port(),
        ..*settings
    };
    let server = Server::start(program, core, |folder, address| {
        (peer.prepare)(folder, address, &settings).map_err(LabError::from_display)
    })?;
    if peer.protocol == Protocol::HandlerSocket {
        wait_for_table(server.address())?;
        wait_for_table(readers)?;
        return Ok((peer, server.with_readers(readers)));
    }
    Ok((peer, server))
}

fn own_servers() -> Vec<ServerPeer> {
    let promises = Promises {
        ordered: true,
        concurrent: true,
        durable: true,
        variable_keys: true,
        longest_key: Some(hedgerow::MAX_KEY_BYTES),
        keys_only: false,
    };
    let server = |name, protocol, promises, prepare: Prepare| ServerPeer {
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
    let started = |index, protocol, keeping| -> Prepare {
        Arc::new(move |folder: &Path, address, settings: &ServerSettings| {
            Ok(own_arguments(
                index, protocol, keeping, folder, address, settings,
            ))
        })
    };
    let log = Keeping::Log("periodic");
    let on_epoll = on_epoll(started(None, "resp", log));
    let mut all = vec![
        server(OURS, Protocol::Resp, promises, started(None, "resp", log)),
        server(OURS_ON_EPOLL, Protocol::Resp, promises, on_epoll),
        server(
            OURS_BY_MEMCACHED,
            Protocol::Memcached,
            promises,
            started(None, "memcached", log),
        ),
        server(
            OURS_IN_MEMORY,
            Protocol::Resp,
            volatile,
            started(None, "resp", Keeping::InMemory),
        ),
    ];
    all.extend(OVER_INDEXES.map(|(name, index, keeping)| {
        let promises = match keeping {
            Keeping::InMemory => volatile,
            Keeping::Log(_) => promises,
        };
        let promises = Promises {
            // The binary search tree is for keys of 8 bytes.
            variable_keys: index != "bst",
            longest_key: if index == "bst" {
                Some(8)
            } else {
                promises.longest_key
            },
            ..promises
        };
        let prepare = started(Some(index), "resp", keeping);
        server(name, Protocol::Resp, promises, prepare)
    }));
    all.push(bare());
    all
}

/// The same without io_uring.
fn on_epoll(as_usual: Prepare) -> Prepare {
    Arc::new(move |folder: &Path, address, settings| {
        let mut arguments = as_usual(folder, address, settings)?;
        arguments.extend(["--event-loop".to_owned(), "epoll".to_owned()]);
        Ok(arguments)
    })
}

/// One that this program is itself, by a subcommand.
fn bare() -> ServerPeer {
    let promises = Promises {
        variable_keys: true,
        ..Promises::default()
    };
    let program = std::env::current_exe().map_err(|error| Unavailable {
        why: format!("this program does not know its own path: {error}"),
        remedy: "start it by its path".to_owned(),
    });
    ServerPeer {
        entry: Entry {
            origin: "the lab: a loop over sockets and a hash table",
            ..own(BARE, promises)
        },
        licence: "MIT OR Apache-2.0",
        usage: "one thread, GET, SET and DEL, no order and no log",
        protocol: Protocol::Resp,
        program,
        prepare: Arc::new(|_, address, _| {
            Ok(vec![
                bare_server::SUBCOMMAND.to_owned(),
                address.to_string(),
            ])
        }),
    }
}

/// Ours lies beside this program.
///
/// # Errors
///
/// When it does not.
pub fn own_program() -> std::result::Result<PathBuf, Unavailable> {
    let beside = std::env::current_exe().map(|lab| lab.with_file_name("hedgerow"));
    beside
        .ok()
        .filter(|file| file.is_file())
        .ok_or_else(|| Unavailable {
            why: "hedgerow is not beside this program".to_owned(),
            remedy: "cargo build --release -p hedgerow-cli".to_owned(),
        })
}

/// The arguments of ours, with its files in `folder` where it has some. B-trees, which go to their
/// file when their memory is full, get what a server may take.
fn own_arguments(
    index: Option<&str>,
    protocol: &str,
    keeping: Keeping,
    folder: &Path,
    address: SocketAddr,
    settings: &ServerSettings,
) -> Vec<String> {
    let other = match protocol {
        "resp" => "memcached",
        _ => "resp",
    };
    let mut arguments = vec!["serve".to_owned()];
    match keeping {
        Keeping::InMemory => arguments.push("--in-memory".to_owned()),
        Keeping::Log(durability) => arguments.extend([
            "--data".to_owned(),
            folder.join("data").display().to_string(),
            "--durability".to_owned(),
            durability.to_owned(),
        ]),
    }
    let mut rest = format!(
        "--workers {} --http 127.0.0.1:0 --{protocol} {address} --{other} 127.0.0.1:0 \
         --max-connections {}",
        settings.threads, settings.connections
    );
    if let Some(index) = index {
        rest += &format!(" --index {index}");
    }
    if let Some(socket) = socket_in(folder).filter(|_| protocol == "resp") {
        arguments.extend(["--resp".to_owned(), format!("unix:{}", socket.display())]);
    }
    if protocol == "memcached" {
        rest += &format!(" --memcached udp:{address}");
    }
    if index == Some("btree") {
        rest += &format!(" --memory {}", settings.memory_bytes);
    }
    arguments.extend(rest.split_whitespace().map(str::to_owned));
    arguments
}
