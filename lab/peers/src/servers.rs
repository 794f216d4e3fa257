//! Servers that other people run: memcached, Redis and MariaDB, as Debian packages them.
//!
//! A server is a program on this machine, so no feature compiles it. This says where it is and
//! what it takes to run one on loopback with its files in one directory; the lab starts it,
//! pins it, measures it and stops it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
}

/// Prepares an empty directory and gives the arguments to start the server with, to listen at
/// the address.
pub type Prepare = fn(&Path, SocketAddr, &ServerSettings) -> Result<Vec<String>, StoreError>;

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
struct Configuration {
    name: &'static str,
    usage: &'static str,
    durable: bool,
    prepare: Prepare,
}

/// A program and what all its configurations share.
struct Package {
    program: &'static str,
    origin: &'static str,
    package: &'static str,
    licence: &'static str,
    protocol: Protocol,
    promises: Promises,
}

impl Package {
    fn configured(&self, configurations: Vec<Configuration>) -> Vec<ServerPeer> {
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

/// Every server, whether this machine has it or not.
#[must_use]
pub fn servers() -> Vec<ServerPeer> {
    let mut all = memcached();
    all.extend(redis());
    all.extend(mariadb());
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
        usage: "no UDP; forgets the oldest when its memory is full; keys without spaces",
        durable: false,
        prepare: |_, address, settings| {
            let mut arguments = words(&format!(
                "-l {} -p {} -U 0 -t {} -m {} -c {}",
                address.ip(),
                address.port(),
                settings.threads,
                settings.memory_bytes >> 20,
                settings.connections
            ));
            if is_root() {
                arguments.extend(words("-u root"));
            }
            Ok(arguments)
        },
    }])
}

fn redis() -> Vec<ServerPeer> {
    let package = Package {
        program: "redis-server",
        origin: "Debian package redis-server",
        package: "redis-server",
        licence: "BSD-3-Clause",
        protocol: Protocol::Resp,
        promises: Promises {
            concurrent: true,
            variable_keys: true,
            ..Promises::default()
        },
    };
    package.configured(vec![
        Configuration {
            name: "redis",
            usage: "no snapshots and no append-only file: its fastest form",
            durable: false,
            prepare: |folder, address, settings| {
                redis_arguments("--appendonly no", folder, address, settings)
            },
        },
        Configuration {
            name: "redis aof",
            usage: "an append-only file synced every second, never rewritten; no snapshots",
            durable: true,
            prepare: |folder, address, settings| {
                let file = "--appendonly yes --appendfsync everysec \
                            --auto-aof-rewrite-percentage 0";
                redis_arguments(file, folder, address, settings)
            },
        },
        Configuration {
            name: "redis aof always",
            usage: "an append-only file synced before every answer, never rewritten; no snapshots",
            durable: true,
            prepare: |folder, address, settings| {
                let file = "--appendonly yes --appendfsync always \
                            --auto-aof-rewrite-percentage 0";
                redis_arguments(file, folder, address, settings)
            },
        },
    ])
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
    arguments.extend(["--save".to_owned(), String::new()]);
    Ok(arguments)
}

fn mariadb() -> Vec<ServerPeer> {
    let package = Package {
        program: "mariadbd",
        origin: "Debian package mariadb-server",
        package: "mariadb-server",
        licence: "GPL-2.0",
        protocol: Protocol::MySql,
        promises: Promises {
            ordered: true,
            concurrent: true,
            variable_keys: true,
            longest_key: Some(255),
            ..Promises::default()
        },
    };
    package.configured(vec![
        Configuration {
            name: "mariadb",
            usage: "InnoDB, one table with the key as primary key, no binary log; each commit \
                    synced",
            durable: true,
            prepare: |folder, address, settings| mariadb_arguments(1, folder, address, settings),
        },
        Configuration {
            name: "mariadb periodic",
            usage: "InnoDB, one table with the key as primary key, no binary log; commits \
                    written at once and synced every second",
            durable: true,
            prepare: |folder, address, settings| mariadb_arguments(2, folder, address, settings),
        },
    ])
}

/// Runs at every start of the server.
const SCHEMA: &str = "CREATE DATABASE IF NOT EXISTS lab;
CREATE TABLE IF NOT EXISTS lab.pairs \
(k VARBINARY(255) PRIMARY KEY, v VARBINARY(8192) NOT NULL) ENGINE = InnoDB;
CREATE USER IF NOT EXISTS 'lab'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON lab.* TO 'lab'@'127.0.0.1';
";

/// Makes the server's own tables, which takes seconds, and the script of ours.
fn mariadb_arguments(
    flush_at_commit: u8,
    folder: &Path,
    address: SocketAddr,
    settings: &ServerSettings,
) -> Result<Vec<String>, StoreError> {
    let install = find_program("mariadb-install-db")
        .ok_or_else(|| StoreError("no program mariadb-install-db on this machine".to_owned()))?;
    let folder_text = text(folder)?;
    let mut common = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={folder_text}/data"),
    ];
    if is_root() {
        common.push("--user=root".to_owned());
    }
    let output = Command::new(install)
        .args(&common)
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(StoreError::from_display)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(StoreError(format!("mariadb-install-db failed: {said}")));
    }
    let script = folder.join("schema.sql");
    std::fs::write(&script, SCHEMA).map_err(StoreError::from_display)?;
    common.extend([
        format!("--init-file={}", text(&script)?),
        format!("--socket={folder_text}/socket"),
        format!("--pid-file={folder_text}/pid"),
        format!("--bind-address={}", address.ip()),
        format!("--port={}", address.port()),
        format!("--max-connections={}", settings.connections),
        format!("--innodb-buffer-pool-size={}", settings.memory_bytes),
        format!("--innodb-flush-log-at-trx-commit={flush_at_commit}"),
    ]);
    common.extend(words("--skip-name-resolve --skip-log-bin"));
    Ok(common)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn text(path: &Path) -> Result<String, StoreError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| StoreError(format!("{}: not UTF-8", path.display())))
}

/// Some servers refuse to run as root unless told to.
#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// A program on `PATH`, or where Debian puts servers.
fn find_program(name: &str) -> Option<PathBuf> {
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
