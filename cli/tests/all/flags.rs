//! Flags: those of `serve` that show what they did take effect, each is in some test, and messages
//! and examples name flags that the command has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::process::{command, done, hedgerow, spawn};

/// A server at the Unix domain sockets `s` and `h`; killed at the end.
struct Serving {
    child: Child,
    dir: tempfile::TempDir,
    /// What it said at its start.
    said: String,
}

impl Serving {
    fn start(flags: &[&str]) -> Serving {
        let dir = tempfile::tempdir().unwrap();
        let words = [
            "serve",
            "--resp",
            "unix:s",
            "--http",
            "unix:h",
            "--log-level",
            "error",
        ];
        let mut child = spawn(&mut command(dir.path(), &[&words[..], flags].concat()));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("promise") {
            let read = lines.read_line(&mut said).unwrap();
            assert!(read > 0, "the server ended: {said}");
        }
        Serving { child, dir, said }
    }

    /// What a Redis client is answered.
    #[track_caller]
    fn ask(&self, words: &[&str]) -> String {
        let words = [&["cli", "--resp", "unix:s"], words].concat();
        done(hedgerow(self.dir.path(), &words))
    }

    /// Sends bytes to a socket, and returns what came before the server closed the connection.
    fn exchange(&self, socket: &str, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.dir.path().join(socket)).unwrap();
        let longest = Some(Duration::from_secs(60));
        stream.set_read_timeout(longest).unwrap();
        stream.set_write_timeout(longest).unwrap();
        // It may close in the middle.
        let _ = stream.write_all(bytes);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }

    fn metrics(&self) -> String {
        let head = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        self.exchange("h", head.as_bytes())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn flags_of_serve_take_effect() {
    let server = Serving::start(&[
        "--memcached",
        "0.0.0.0:0",
        "--allow-unprotected",
        "--workers",
        "3",
        "--event-loop",
        "epoll",
        "--unix-mode",
        "660",
        "--memory",
        "96MiB",
        "--durability",
        "periodic",
        "--flush-interval",
        "37ms",
        "--max-connections",
        "123",
        "--idle-timeout",
        "7m",
        "--client-memory",
        "48MiB",
        "--client-hard-limit",
        "1MiB",
        "--max-value",
        "5MiB",
        "--keep-checkpoints",
        "3",
    ]);
    for said in ["3 workers", "  0.0.0.0:", "after at most 37 ms"] {
        assert!(server.said.contains(said), "{said}: {}", server.said);
    }
    for (name, value) in [
        ("appendfsync", "everysec"),
        ("io-threads", "3"),
        ("maxclients", "123"),
        ("maxmemory", "100663296"),
        ("proto-max-bulk-len", "5242880"),
        ("timeout", "420"),
        ("unixsocketperm", "660"),
    ] {
        let shown = server.ask(&["CONFIG", "GET", name]);
        assert_eq!(shown, format!("{name}\n{value}\n"));
    }
    let info = server.ask(&["INFO"]);
    for line in [
        "multiplexing_api:epoll",
        "client_memory_limit_bytes:50331648",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    for round in ["1", "2", "3", "4"] {
        assert_eq!(server.ask(&["SET", "key", round]), "OK\n");
        assert_eq!(server.ask(&["SAVE"]), "OK\n");
    }
    // A part of a request that is more than the hard limit.
    let head = b"*2\r\n$3\r\nGET\r\n$4194304\r\n".to_vec();
    let part = [head, vec![b'x'; 2 << 20]].concat();
    server.exchange("s", &part);
    let metrics = server.metrics();
    for line in [
        "hedgerow_engine_checkpoints_kept 3\n",
        "hedgerow_connections_closed_for_memory_total 1\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// A flag that is not shown.
const HIDDEN: &str = "resp-password";

/// The flags that a command says it has.
fn flags_of(command: &str) -> BTreeSet<String> {
    let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    let help = done(hedgerow(Path::new("."), &words));
    let flags = help.lines().filter_map(|line| {
        // Behind the short form, if there is one. What explains a flag is further to the right.
        let named = match line.strip_prefix("      --") {
            Some(named) => named,
            None => line.strip_prefix("  -")?.split_once(", --")?.1,
        };
        Some(leading_name(named).to_owned())
    });
    let hidden = (command == "serve").then(|| HIDDEN.to_owned());
    flags.chain(hidden).collect()
}

/// The name of a flag, at the beginning of a text.
fn leading_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-');
    text[..end.unwrap_or(text.len())].trim_end_matches('-')
}

/// The flags that a text names.
fn named_flags(text: &str) -> impl Iterator<Item = &str> {
    let named = text.match_indices("--").map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let is_within = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-');
        match is_within {
            true => "",
            false => leading_name(&text[at + 2..]),
        }
    });
    named.filter(|name| !name.is_empty() && !name.starts_with('-'))
}

/// All commands, those of `keyspace` each by itself, with their flags.
fn commands() -> BTreeMap<String, BTreeSet<String>> {
    let listed = |command: &[&str]| -> Vec<String> {
        let help = done(hedgerow(
            Path::new("."),
            &[command, &["--help"][..]].concat(),
        ));
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = lines
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.split_whitespace().next());
        let names = names.filter(|name| *name != "help");
        let names = names.map(|name| [command, &[name][..]].concat().join(" "));
        names.collect()
    };
    let mut all = listed(&[]);
    all.retain(|command| command != "keyspace");
    all.extend(listed(&["keyspace"]));
    assert!(all.contains(&"serve".to_owned()) && all.contains(&"keyspace list".to_owned()));
    let with_flags = all.into_iter().map(|command| {
        let flags = flags_of(&command);
        assert!(flags.contains("help"), "{command}: {flags:?}");
        (command, flags)
    });
    with_flags.collect()
}

/// The source files in a folder and those below, by their paths in it.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Which commands print the messages in a file of this crate, by how its path begins.
static PRINTED_BY: [(&str, &[&str]); 9] = [
    ("bench/", &["bench"]),
    ("client/", &["cli"]),
    ("copy", &["copy"]),
    ("data.rs", &["get", "put", "delete", "scan", "count"]),
    ("load.rs", &["load"]),
    ("rows.rs", &["load"]),
    ("serve", &["serve"]),
    ("settings.rs", &["serve"]),
    (
        "text.rs",
        &["get", "put", "delete", "scan", "count", "load"],
    ),
];

/// Flags in messages that one command of those of a file prints.
const OF_ONE: [(&str, &str, &str); 1] = [("data.rs", "ttl", "put")];

/// Any command prints it.
const BY_ANY: &[&str] = &[];
const BY_SERVE: &[&str] = &["serve"];

/// Flags of cargo, in messages that say how to build this program.
const OF_CARGO: [&str; 2] = ["release", "features"];

#[test]
fn messages_name_flags_of_the_command_that_prints_them() {
    let commands = commands();
    let own = sources(&workspace().join("cli/src"));
    let own = own.into_iter().map(|(path, text)| {
        let printed_by = PRINTED_BY.iter().find(|(begin, _)| path.starts_with(begin));
        (path, text, printed_by.map_or(BY_ANY, |(_, by)| *by))
    });
    let of_server = sources(&workspace().join("server/src")).into_iter();
    let of_server = of_server.map(|(path, text)| (path, text, BY_SERVE));
    let (mut named, mut problems) = (0, Vec::new());
    for (path, text, printed_by) in own.chain(of_server) {
        let messages = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = messages.lines();
        let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
        for flag in lines.flat_map(named_flags) {
            let has = |command: &str| commands[command].contains(flag);
            let of_one = OF_ONE
                .iter()
                .find(|(of, one, _)| *of == path && *one == flag);
            let is_known = match (of_one, printed_by) {
                (Some((_, _, command)), _) => has(command),
                (None, []) => commands.values().any(|flags| flags.contains(flag)),
                (None, some) => some.iter().all(|command| has(command)),
            };
            named += 1;
            if !is_known && !OF_CARGO.contains(&flag) {
                problems.push(format!("{path}: --{flag} of {printed_by:?}"));
            }
        }
    }
    assert!(named > 60, "{named} flags in messages");
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn examples_give_flags_that_their_commands_have() {
    let commands = commands();
    let mut given = 0;
    for command in commands.keys() {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = done(hedgerow(Path::new("."), &words));
        let (_, examples) = help.split_once("Examples:\n").expect("there are examples");
        let examples = examples.replace("\\\n", " ");
        let lines = examples.lines().map(str::trim_start);
        for line in lines.filter_map(|line| line.strip_prefix("hedgerow ")) {
            let is_its =
                |name: &&String| line == name.as_str() || line.starts_with(&format!("{name} "));
            let name = commands.keys().find(is_its).expect(line);
            for flag in named_flags(line) {
                given += 1;
                assert!(
                    commands[name].contains(flag),
                    "--{flag} in: hedgerow {line}"
                );
            }
        }
    }
    assert!(given > 30, "{given} flags in examples");
}

/// By more than a refusal.
#[test]
fn each_flag_of_serve_is_in_some_test() {
    let refuse = ["all/refusals.rs", "all/manners.rs"];
    let mut tests = sources(&workspace().join("cli/tests"));
    tests.retain(|(path, _)| !refuse.contains(&path.as_str()));
    tests.extend(sources(&workspace().join("testkit/src/kill")));
    let mut flags = flags_of("serve");
    flags.retain(|flag| flag != "help" && flag != HIDDEN);
    assert!(flags.len() > 30, "{flags:?}");
    flags.retain(|flag| {
        let [word, value] = ["\"", "="].map(|end| format!("\"--{flag}{end}"));
        let is_given = |text: &str| text.contains(&word) || text.contains(&value);
        !tests.iter().any(|(_, text)| is_given(text))
    });
    assert!(flags.is_empty(), "in no test: {flags:?}");
}
