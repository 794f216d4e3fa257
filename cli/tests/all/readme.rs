//! The README's first session, run as it is printed: with a `cargo` that only runs the command, on
//! ports that are free, and with fewer paths to load.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::process::{no_forks, spawn};

const PATHS: usize = 3000;

/// The longest time that a block may take, in seconds: one that waits for a server which never
/// comes would take for ever.
const LIMIT_S: &str = "300";

/// The least port that a session gets.
const LEAST_PORT: u16 = 10_000;

/// The blocks of code in a section of a document.
fn blocks(document: &str, section: &str) -> Vec<String> {
    let (_, rest) = document.split_once(section).expect("the section is there");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let parts = section.split("```").skip(1).step_by(2);
    parts
        .map(|block| block.trim_start_matches('\n').to_owned())
        .collect()
}

/// Ports that are free, below those that the system gives to a server that asks for any: other
/// tests start such servers before the session uses its own.
fn free_ports() -> [u16; 3] {
    let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_given = given.split_whitespace().next();
    let first_given = first_given.and_then(|port| port.parse::<u16>().ok());
    let ports = u32::from(first_given.unwrap_or(32_768).saturating_sub(LEAST_PORT));
    // Another run of this test begins elsewhere.
    let first = std::process::id() % ports.max(1);
    let below = (0..ports).map(|step| u32::from(LEAST_PORT) + (first + step) % ports);
    let below = below.filter_map(|port| u16::try_from(port).ok());
    // Where the system gives all of them, one that it gives.
    let candidates = below.chain([0; 3]);
    let bound = candidates.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    // All are bound until the last one is found: they differ.
    let listeners: Vec<TcpListener> = bound.take(3).collect();
    let ports = listeners.iter().map(|it| it.local_addr().unwrap().port());
    let ports: Vec<u16> = ports.collect();
    ports.try_into().expect("three free ports")
}

/// Whether there is a command `timeout`, as of GNU.
fn has_timeout() -> bool {
    let mut command = Command::new("timeout");
    command.args(["10", "true"]).stderr(Stdio::null());
    let _alone = no_forks();
    command.status().is_ok_and(|status| status.success())
}

/// A place to run the session in.
struct Session {
    dir: tempfile::TempDir,
    ports: [u16; 3],
}

impl Session {
    fn new() -> Session {
        let dir = tempfile::tempdir().unwrap();
        let ports = free_ports();
        let session = Session { dir, ports };
        fs::create_dir(session.path("bin")).unwrap();
        fs::create_dir(session.path("here")).unwrap();
        // As `cargo run --release -- …`; who serves is remembered, for `pkill`.
        let program = env!("CARGO_BIN_EXE_hedgerow");
        session.tool(
            "cargo",
            &format!(
                "while [ \"$1\" != -- ]; do shift; done; shift\n\
                 [ \"$1\" = serve ] && echo $$ > \"$SESSION/serve.pid\"\n\
                 exec {program} \"$@\"\n"
            ),
        );
        session.tool("pkill", "kill -9 $(cat \"$SESSION/serve.pid\")\n");
        let find = format!("for i in $(seq {PATHS}); do echo /usr/share/$i; done\n");
        session.tool("find", &find);
        session
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tool(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A shell that runs a block of the README, started by these words.
    fn shell(&self, words: &[&str], block: &str) -> Command {
        let [resp, memcached, http] = self.ports.map(|port| port.to_string());
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new(words[0]);
        shell
            .args(&words[1..])
            .args(["-c", &block.replace("7211", &memcached)])
            .current_dir(self.path("here"))
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("SESSION", self.dir.path())
            .env("HEDGEROW_RESP", resp)
            .env("HEDGEROW_MEMCACHED", memcached)
            .env("HEDGEROW_HTTP", http)
            .env_remove("HEDGEROW_DATA")
            .stdin(Stdio::null());
        shell
    }

    /// Runs a block to its end; what it printed.
    #[track_caller]
    fn run(&self, block: &str) -> String {
        let words: &[&str] = match has_timeout() {
            true => &["timeout", LIMIT_S, "bash"],
            false => &["bash"],
        };
        let mut shell = self.shell(words, block);
        shell.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = spawn(&mut shell).wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}: {printed}{errors}");
        printed
    }
}

/// A server in the foreground of another terminal; killed if the test fails.
struct Foreground(Child);

impl Foreground {
    /// Ends it as Ctrl-C does.
    fn interrupt(mut self) {
        let process = self.0.id().to_string();
        let mut kill = spawn(Command::new("kill").args(["-INT", &process]));
        assert!(kill.wait().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_first_session_works_as_printed() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let blocks = blocks(&readme, "\n## A first session");
    let [serve, greeting, commands, memcached, load, worst] = &blocks[..] else {
        panic!("the session has other blocks now: {blocks:#?}");
    };
    let session = Session::new();

    let mut shell = session.shell(&["bash"], &format!("exec {serve}"));
    shell.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Foreground(spawn(&mut shell));
    let mut printed = BufReader::new(server.0.stdout.take().unwrap());
    for (line, port) in greeting
        .lines()
        .zip([None, Some(0), Some(1), Some(2), None])
    {
        let mut found = String::new();
        printed.read_line(&mut found).unwrap();
        let words = |line: &str| line.split_whitespace().next().map(str::to_owned);
        assert_eq!(words(&found), words(line));
        if let Some(port) = port {
            assert!(found.contains(&session.ports[port].to_string()), "{found}");
        }
    }
    std::thread::spawn(move || std::io::copy(&mut printed.by_ref(), &mut std::io::sink()));

    let printed = session.run(commands);
    assert!(printed.starts_with("OK\n2\nuser:1\n"), "{printed}");
    assert!(printed.ends_with("greeting\nuser:1\n"), "{printed}");
    assert!(printed.contains("Ada\n"), "{printed}");
    let printed = session.run(memcached);
    assert_eq!(printed, "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
    server.interrupt();

    let printed = session.run(load);
    assert!(
        printed.starts_with(&format!("loaded {PATHS} lines")),
        "{printed}"
    );
    let count = PATHS + 2;
    assert!(printed.ends_with(&format!("\n{count}\n")), "{printed}");
    let printed = session.run(worst);
    assert!(printed.contains("files"), "{printed}");
    let end = format!("\nthing\n{}\n", count + 1);
    assert!(printed.ends_with(&end), "{printed}");
    assert!(printed.contains("are whole"), "{printed}");
}
