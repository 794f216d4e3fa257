//! What the configurations of a server's program share.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hedgerow_lab_contender::{Entry, Promises, StoreError, Unavailable};

/// The language that a server's clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's text protocol.
    Memcached,
    /// Redis's.
    Resp,
    /// MySQL's. Table `lab.pairs` has the columns `k` (the key) and `v`; user `lab` has no
    /// password.
    MySql,
    /// That of MariaDB's plugin HandlerSocket, over the same table: see
    /// [`HANDLER_SOCKET_PREAMBLE`](crate::HANDLER_SOCKET_PREAMBLE). Requests that only read have a
    /// port of their own.
    HandlerSocket,
}

/// The longest path of a Unix domain socket, on all systems that have them.
const LONGEST_SOCKET_PATH: usize = 100;

/// The file in a server's folder at which it listens as well, if it can: a Unix domain socket.
/// `None` where the path is too long for one.
#[must_use]
pub fn socket_in(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("socket");
    Some(file).filter(|file| file.as_os_str().len() <= LONGEST_SOCKET_PATH)
}

/// How large a server may grow.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings {
    /// Memory for data, in bytes.
    pub memory_bytes: u64,
    /// Threads, where a server lets one choose.
    pub threads: usize,
    /// Connections that it must take.
    pub connections: usize,
    /// A second free port, for servers where requests that only read have one of their own.
    pub readers_port: u16,
}

/// Prepares an empty directory and gives the arguments to start the server with, to listen at
/// the address.
pub type Prepare = Arc<
    dyn Fn(&Path, SocketAddr, &ServerSettings) -> Result<Vec<String>, StoreError> + Send + Sync,
>;

/// A server that is not ours.
#[derive(Clone)]
pub struct ServerPeer {
    /// The registry's line.
    pub entry: Entry,
    /// Its licence.
    pub licence: &'static str,
    /// How it is configured, in a sentence.
    pub usage: &'static str,
    /// What its clients speak.
    pub protocol: Protocol,
    /// Where it is, or why it cannot be had here.
    pub program: Result<PathBuf, Unavailable>,
    /// What it takes to start it.
    pub prepare: Prepare,
}

/// One configuration of a program.
pub(super) struct Configuration {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) durable: bool,
    pub(super) prepare: Prepare,
}

/// A program and what all its configurations share.
pub(super) struct Package {
    pub(super) program: &'static str,
    pub(super) origin: &'static str,
    pub(super) package: &'static str,
    pub(super) licence: &'static str,
    pub(super) protocol: Protocol,
    pub(super) promises: Promises,
}

impl Package {
    pub(super) fn configured(&self, configurations: Vec<Configuration>) -> Vec<ServerPeer> {
        let found = find_program(self.program);
        let version = found.as_deref().and_then(version_of);
        let configured = configurations.into_iter().map(|configuration| ServerPeer {
            entry: Entry {
                name: configuration.name,
                version: version.clone().unwrap_or_else(|| "not found".to_owned()),
                origin: self.origin,
                promises: Promises {
                    durable: configuration.durable,
                    ..self.promises
                },
            },
            licence: self.licence,
            usage: configuration.usage,
            protocol: self.protocol,
            program: found.clone().ok_or_else(|| Unavailable {
                why: format!("no program {} on this machine", self.program),
                remedy: format!("apt-get install {}", self.package),
            }),
            prepare: configuration.prepare,
        });
        configured.collect()
    }
}

pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub(super) fn text(path: &Path) -> Result<String, StoreError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| StoreError(format!("{}: not UTF-8", path.display())))
}

/// Some servers refuse to run as root unless told to.
#[cfg(unix)]
pub(super) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(not(unix))]
pub(super) fn is_root() -> bool {
    false
}

/// A program on `PATH`, or where Debian puts servers.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beyond = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(beyond)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

/// The first number with dots in what a program says of itself.
fn version_in(said: &str) -> Option<String> {
    said.split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|number| number.trim_matches('.'))
        .find(|number| number.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_servers_say() {
        let found = |said| version_in(said).expect("a version");
        assert_eq!(found("memcached 1.6.18\n"), "1.6.18");
        assert_eq!(found("Redis server v=7.0.15 sha=00000000:0"), "7.0.15");
        assert_eq!(
            found("mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu"),
            "10.11.19"
        );
        assert_eq!(version_in("no number."), None);
    }
}
