//! MariaDB's InnoDB, asked in SQL or through the plugin HandlerSocket.
//!
//! HandlerSocket is the shortest way to a table that MariaDB has, as the memcached plugin is for
//! MySQL: requests go past the parser and the optimiser to the storage engine. Its worker commits
//! what it read from all of its connections together; a worker for each connection makes each
//! request a commit of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hedgerow_lab_contender::{Promises, StoreError, Unavailable};

use super::package::{
    Configuration, Package, Prepare, Protocol, ServerPeer, ServerSettings, find_program, is_root,
    text, words,
};

/// What a connection to HandlerSocket sends first: the word that the server was told to ask for,
/// then the two views of table `lab.pairs`: 0 has key and value, 1 the value alone. Each line is
/// answered by `0`, a tab and `1`.
pub const HANDLER_SOCKET_PREAMBLE: &str =
    "A\t1\tlab\nP\t0\tlab\tpairs\tPRIMARY\tk,v\nP\t1\tlab\tpairs\tPRIMARY\tv\n";

/// Whether commits are synced one by one, and by which way clients ask.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    usage: &'static str,
    flush_at_commit: u8,
    protocol: Protocol,
}

const FORMS: [Form; 4] = [
    Form {
        name: "mariadb",
        usage: "InnoDB, one table with the key as primary key, no binary log; each commit synced",
        flush_at_commit: 1,
        protocol: Protocol::MySql,
    },
    Form {
        name: "mariadb periodic",
        usage: "InnoDB, one table with the key as primary key, no binary log; commits written at \
                once and synced every second",
        flush_at_commit: 2,
        protocol: Protocol::MySql,
    },
    Form {
        name: "mariadb handlersocket",
        usage: "the same table through HandlerSocket; each commit synced",
        flush_at_commit: 1,
        protocol: Protocol::HandlerSocket,
    },
    Form {
        name: "mariadb handlersocket periodic",
        usage: "the same table through HandlerSocket; commits written at once and synced every \
                second",
        flush_at_commit: 2,
        protocol: Protocol::HandlerSocket,
    },
];

/// All forms.
pub(super) fn servers() -> Vec<ServerPeer> {
    FORMS.into_iter().flat_map(server).collect()
}

fn server(form: Form) -> Vec<ServerPeer> {
    let package = Package {
        program: "mariadbd",
        origin: "Debian package mariadb-server",
        package: "mariadb-server",
        licence: "GPL-2.0",
        protocol: form.protocol,
        promises: Promises {
            ordered: true,
            concurrent: true,
            variable_keys: true,
            longest_key: Some(255),
            ..Promises::default()
        },
    };
    let prepare: Prepare =
        Arc::new(move |folder, address, settings| arguments(form, folder, address, settings));
    let mut servers = package.configured(vec![Configuration {
        name: form.name,
        usage: form.usage,
        durable: true,
        prepare,
    }]);
    if form.protocol == Protocol::HandlerSocket && plugin_folder().is_none() {
        for server in servers.iter_mut().filter(|server| server.program.is_ok()) {
            server.program = Err(Unavailable {
                why: "no plugin handlersocket.so where MariaDB has its plugins".to_owned(),
                remedy: "apt-get install mariadb-server, in Debian's build".to_owned(),
            });
        }
    }
    servers
}

/// Where the plugin is, in Debian's packages or in MariaDB's own.
fn plugin_folder() -> Option<PathBuf> {
    let known = ["/usr/lib/mysql/plugin", "/usr/lib64/mysql/plugin"];
    let mut folders = known.into_iter().map(PathBuf::from);
    folders.find(|folder| folder.join("handlersocket.so").is_file())
}

/// Runs at every start of the server.
const SCHEMA: &str = "CREATE DATABASE IF NOT EXISTS lab;
CREATE TABLE IF NOT EXISTS lab.pairs \
(k VARBINARY(255) PRIMARY KEY, v VARBINARY(8192) NOT NULL) ENGINE = InnoDB;
CREATE USER IF NOT EXISTS 'lab'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON lab.* TO 'lab'@'127.0.0.1';
";

/// Makes the server's own tables, which takes seconds, and the script of ours.
fn arguments(
    form: Form,
    folder: &Path,
    address: SocketAddr,
    settings: &ServerSettings,
) -> Result<Vec<String>, StoreError> {
    let folder_text = text(folder)?;
    let mut arguments = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={folder_text}/data"),
    ];
    if is_root() {
        arguments.push("--user=root".to_owned());
    }
    install(&arguments, folder)?;
    let script = folder.join("schema.sql");
    std::fs::write(&script, SCHEMA).map_err(StoreError::from_display)?;
    arguments.extend([
        format!("--init-file={}", text(&script)?),
        format!("--socket={folder_text}/socket"),
        format!("--pid-file={folder_text}/pid"),
        format!("--innodb-buffer-pool-size={}", settings.memory_bytes),
        format!("--innodb-flush-log-at-trx-commit={}", form.flush_at_commit),
        "--skip-log-bin".to_owned(),
    ]);
    arguments.extend(match form.protocol {
        Protocol::HandlerSocket => words(&handler_socket(address, settings)),
        _ => words(&format!(
            "--bind-address={} --port={} --max-connections={connections} \
             --thread-cache-size={connections} --skip-name-resolve",
            address.ip(),
            address.port(),
            connections = settings.connections
        )),
    });
    Ok(arguments)
}

/// Two ports, no other, and a worker for each connection. The word that clients give is not
/// secret: the plugin refuses everybody where it has none.
fn handler_socket(address: SocketAddr, settings: &ServerSettings) -> String {
    format!(
        "--skip-networking --plugin-maturity=beta --plugin-load-add=handlersocket.so \
         --handlersocket-address={} --handlersocket-port={} --handlersocket-port-wr={} \
         --handlersocket-threads={workers} --handlersocket-threads-wr={workers} \
         --handlersocket-accept-balance=1 \
         --handlersocket-plain-secret=lab --handlersocket-plain-secret-wr=lab",
        address.ip(),
        settings.readers_port,
        address.port(),
        workers = settings.connections
    )
}

fn install(arguments: &[String], folder: &Path) -> Result<(), StoreError> {
    let program = find_program("mariadb-install-db")
        .ok_or_else(|| StoreError("no program mariadb-install-db on this machine".to_owned()))?;
    let output = Command::new(program)
        .args(arguments)
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(StoreError::from_display)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(StoreError(format!("mariadb-install-db failed: {said}")))
}
