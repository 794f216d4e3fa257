//! `hedgerow cli` with a running server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use hedgerow_testkit::kill::server::Server;

use crate::process::{done, fails, fails_with_lines, hedgerow, hedgerow_with, no_forks, spawn};

/// Runs `hedgerow cli` with this server.
fn cli(server: &Server, words: &[&str], input: &str) -> Output {
    let address = server.address().to_string();
    let words = [&["cli", "--resp", &address][..], words].concat();
    hedgerow_with(Path::new("."), &words, input.as_bytes())
}

/// A server, and the directory that it is in until the end of the test.
fn start(flags: &[&str]) -> (Server, tempfile::TempDir) {
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let dir = tempfile::tempdir().unwrap();
    let mut server = {
        let _alone = no_forks();
        Server::spawn(program, &dir.path().join("data"), flags).unwrap()
    };
    server.connect().unwrap();
    (server, dir)
}

#[test]
fn one_command_prints_its_reply() {
    let (server, _dir) = start(&[]);
    let run = |words: &[&str]| done(cli(&server, words, ""));
    assert_eq!(run(&["SET", "greeting", "hello world"]), "OK\n");
    assert_eq!(run(&["GET", "greeting"]), "hello world\n");
    assert_eq!(run(&["GET", "missing"]), "\n");
    assert_eq!(run(&["INCRBY", "n", "-5"]), "-5\n");
    assert_eq!(
        run(&["HSET", "user:1", "name", "Ada", "born", "1815"]),
        "2\n"
    );
    assert_eq!(
        run(&["RANGE", "-", "+", "LIMIT", "10", "KEYS"]),
        "greeting\nn\nuser:1\n"
    );
    assert_eq!(run(&["--no-raw", "GET", "missing"]), "(nil)\n");
    assert_eq!(run(&["--no-raw", "GET", "greeting"]), "\"hello world\"\n");
    assert_eq!(run(&["--no-raw", "DBSIZE"]), "(integer) 3\n");
    assert_eq!(
        run(&["--no-raw", "MGET", "n", "x"]),
        "1) \"-5\"\n2) (nil)\n"
    );
    assert_eq!(run(&["--json", "MGET", "n", "x"]), "[\"-5\",null]\n");
    assert_eq!(run(&["-n", "1", "DBSIZE"]), "0\n");
    let refused = cli(&server, &["SET", "only"], "");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.starts_with("ERR wrong number of arguments"), "{said}");
}

#[test]
fn commands_are_read_from_standard_input() {
    let (server, _dir) = start(&[]);
    let input = "SET \"a b\" 'c d'\n\n# a remark\nGET \"a b\"\r\nselect 1\nDBSIZE\n";
    assert_eq!(done(cli(&server, &[], input)), "OK\nc d\nOK\n0\n");
    let wrong = cli(&server, &[], "SET a 1\nNONSENSE\nGET a\n");
    let said = String::from_utf8_lossy(&wrong.stdout).into_owned();
    assert!(said.starts_with("OK\nERR unknown command"), "{said}");
    assert!(
        said.ends_with("\n1\n"),
        "what follows is sent all the same: {said}"
    );
    fails(wrong, 1, &["refused 1"]);
    fails(cli(&server, &[], "GET \"a\n"), 1, &["line 1", "quote"]);
}

#[test]
fn passwords_are_given_and_asked_for() {
    let (server, _dir) = start(&["--password", "secret"]);
    assert_eq!(done(cli(&server, &["-a", "secret", "PING"], "")), "PONG\n");
    let without = cli(&server, &["PING"], "");
    assert!(String::from_utf8_lossy(&without.stdout).starts_with("NOAUTH"));
    assert_eq!(without.status.code(), Some(1));
    fails(
        cli(&server, &["-a", "wrong", "PING"], ""),
        1,
        &["refused AUTH"],
    );
}

#[test]
fn a_shutdown_is_no_failure() {
    let (server, _dir) = start(&[]);
    assert_eq!(
        done(cli(&server, &["shutdown"], "")),
        "the server shuts down\n"
    );
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = free.port().to_string();
    let output = hedgerow(Path::new("."), &["cli", "--resp", &port, "PING"]);
    fails_with_lines(output, 1, &[&free.to_string(), "hedgerow serve", "--resp"]);
}

#[test]
fn a_port_and_a_name_are_addresses() {
    for form in ["PORT", "localhost:PORT"] {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let address = form.replace("PORT", &free.port().to_string());
        let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
        let mut command = std::process::Command::new(program);
        command
            .args([
                "serve",
                "--in-memory",
                "--memcached",
                "none",
                "--http",
                "none",
            ])
            .args(["--resp", &address])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = spawn(&mut command);
        let mut first = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut first).unwrap();
        let pong = hedgerow(dir.path(), &["cli", "--resp", &address, "PING"]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(done(pong), "PONG\n", "{address}: {first}");
    }
}

#[test]
fn databases_of_b_trees_checkpoint_when_flags_say_so() {
    // So often that the defaults, 10 seconds and 5 minutes, would take longer than the timeout.
    for flags in [
        ["--checkpoint-idle", "1ms", "--checkpoint-interval", "0"],
        ["--checkpoint-idle", "1h", "--checkpoint-interval", "1ms"],
    ] {
        let (server, _dir) = start(&[&["--index", "btree"], &flags[..]].concat());
        let checkpoints = || -> u64 {
            let info = done(cli(&server, &["INFO", "persistence"], ""));
            let name = "checkpoints_total:";
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_end().parse().unwrap()
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        for i in 0..15 {
            let before = checkpoints();
            done(cli(&server, &["SET", &i.to_string(), "v"], ""));
            while checkpoints() == before {
                let left = std::time::Instant::now() < deadline;
                assert!(left, "{flags:?}: {i} checkpoints in two minutes");
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    for flag in ["--checkpoint-idle", "--checkpoint-interval"] {
        let wrong = hedgerow(dir.path(), &["serve", flag, "soon"]);
        fails_with_lines(wrong, 2, &[flag, "5m"]);
        let both = hedgerow(dir.path(), &["serve", "--in-memory", flag, "1s"]);
        fails_with_lines(both, 2, &[flag, "--in-memory"]);
        let help = done(hedgerow(dir.path(), &["serve", "--help"]));
        let variable = flag
            .replace("--", "HEDGEROW_")
            .replace('-', "_")
            .to_uppercase();
        assert!(help.contains(&variable), "{help}");
        std::fs::write(
            dir.path().join("c.toml"),
            format!("{} = \"soon\"\n", &flag[2..]),
        )
        .unwrap();
        let file = hedgerow(dir.path(), &["serve", "--config", "c.toml"]);
        fails_with_lines(file, 2, &["c.toml line 1", "5m"]);
    }
}

/// A server that answers whatever it receives with these bytes.
fn answering(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut received = [0; 1 << 16];
                while stream.read(&mut received).is_ok_and(|bytes| bytes > 0) {
                    if stream.write_all(reply).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn bench_takes_a_length_below_zero_for_no_value() {
    for reply in [&b"$-2\r\n"[..], b"*-2\r\n", b"%-9223372036854775808\r\n"] {
        let address = answering(reply);
        let words = ["bench", "--resp", &address, "--workload", "c"];
        let counts = ["--records", "3", "--operations", "3"];
        let ran = hedgerow(Path::new("."), &[&words[..], &counts].concat());
        fails(ran, 1, &["3 reads did not find their record"]);
    }
}
