//! `--resp unix:PATH`: a server at a Unix domain socket, and clients that find it there.

use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::server::Server;

use crate::process::{command, done, fails, fails_with_lines, hedgerow, no_forks, spawn};

#[test]
fn clients_find_a_server_at_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let (path, program) = (dir.path().join("socket"), env!("CARGO_BIN_EXE_hedgerow"));
    let at = format!("unix:{}", path.display());
    let mut server = {
        let _alone = no_forks();
        let data = dir.path().join("data");
        Server::spawn(Path::new(program), &data, &["--resp", &at]).unwrap()
    };
    // The port is there as well.
    server.connect().unwrap();
    let run = |words: &[&str]| hedgerow(dir.path(), words);
    assert_eq!(done(run(&["cli", "--resp", &at, "SET", "k", "v"])), "OK\n");
    let port = server.address().to_string();
    assert_eq!(done(run(&["cli", "--resp", &port, "GET", "k"])), "v\n");
    let bench = [
        "bench",
        "--resp",
        &at,
        "--records",
        "500",
        "--operations",
        "500",
    ];
    let report = done(run(&[&bench[..], &["--workload", "a"]].concat()));
    assert!(report.contains("operations/s"), "{report}");
    // A second server does not start there, and makes no database.
    let second = ["serve", "--data", "other", "--resp", &at];
    let said = fails_with_lines(run(&second), 1, &[&at, "another server listens there"]);
    assert!(!said.contains("os error 98"), "{said}");
    assert!(!dir.path().join("other").exists());
    drop(server);
    // Killed: the file is there, and nobody behind it.
    assert!(path.exists());
    fails(run(&["cli", "--resp", &at, "PING"]), 1, &[&at, "--resp"]);
}

#[test]
fn a_server_of_a_file_of_settings_has_sockets_alone_and_removes_them() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "resp = [\"unix:resp\"]\nmemcached = \"none\"\nhttp = \"none\"\n\
                    unix-mode = \"660\"\n";
    std::fs::write(dir.path().join("c.toml"), settings).unwrap();
    let path = dir.path().join("resp");
    // One that a killed server has left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut server = spawn(&mut command(dir.path(), &["serve", "--config", "c.toml"]));
    let ping = || hedgerow(dir.path(), &["cli", "--resp", "unix:resp", "PING"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ping().status.success() {
        assert!(Instant::now() < deadline, "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let stopped = hedgerow(dir.path(), &["cli", "--resp", "unix:resp", "SHUTDOWN"]);
    drop(stopped);
    let output = server.wait().unwrap();
    assert!(output.success() && !path.exists());
    let mut said = String::new();
    let mut stdout = server.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
    assert!(said.contains("Redis      unix:resp\n"), "{said}");
    assert!(said.contains("memcached  off\n"), "{said}");
}

#[test]
fn what_cannot_be_a_socket_is_said_in_the_words_of_the_flags() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "mine").unwrap();
    let serve = |words: &[&str]| hedgerow(dir.path(), &[&["serve"][..], words].concat());
    fails(serve(&["--resp", "unix:"]), 2, &["--resp", "unix:"]);
    let two = ["--resp", "unix:a", "--resp", "unix:b"];
    fails(serve(&two), 2, &["--resp", "one port and one Unix"]);
    let same = ["--resp", "unix:a", "--memcached", "unix:a"];
    fails(serve(&same), 2, &["unix:a", "--memcached", "twice"]);
    let mode = ["--resp", "unix:a", "--unix-mode", "9"];
    fails(serve(&mode), 2, &["--unix-mode", "octal"]);
    for mode in ["060", "006", "000"] {
        let mode = ["--resp", "unix:a", "--unix-mode", mode];
        fails(serve(&mode), 2, &["--unix-mode", "own user", "200"]);
    }
    let file = [
        "--resp",
        "unix:file",
        "--memcached",
        "none",
        "--http",
        "none",
    ];
    fails(serve(&file), 1, &["unix:file", "no socket"]);
    let left = std::fs::read_to_string(dir.path().join("file")).unwrap();
    assert_eq!(left, "mine");
    assert!(!dir.path().join("hedgerow-data").exists());
}

#[test]
fn files_and_variables_of_settings_say_what_a_place_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let with_file = |text: &str| {
        std::fs::write(dir.path().join("c.toml"), text).unwrap();
        hedgerow(dir.path(), &["serve", "--config", "c.toml"])
    };
    fails(
        with_file("resp = 70000\n"),
        2,
        &["line 1", "70000", "65535"],
    );
    fails(with_file("resp = [-1]\n"), 2, &["line 1", "-1", "65535"]);
    let said = fails_with_lines(
        with_file("resp = 1.5\n"),
        2,
        &["line 1", "65535", "unix:PATH"],
    );
    assert!(!said.contains("Ports"), "{said}");
    fails(with_file("unix-mode = 60\n"), 2, &["line 1", "own user"]);
    fails(with_file("unix-mode = 888\n"), 2, &["line 1", "octal"]);
    fails(
        with_file("unix-mode = 0o660\n"),
        2,
        &["line 1", "without 0o"],
    );
    // Digits are octal, with quotes and without; a variable takes what a flag takes twice.
    let settings = "memcached = \"none\"\nhttp = \"none\"\nunix-mode = 660\n";
    std::fs::write(dir.path().join("c.toml"), settings).unwrap();
    let mut serve = command(dir.path(), &["serve", "--config", "c.toml"]);
    let mut server = spawn(serve.env("HEDGEROW_RESP", "127.0.0.1:0,unix:s"));
    let path = dir.path().join("s");
    let deadline = Instant::now() + Duration::from_secs(60);
    let at = |words: &[&str]| {
        let words = [&["cli"][..], words].concat();
        let asked = spawn(command(dir.path(), &words).env("HEDGEROW_RESP", "unix:s,7379"));
        asked.wait_with_output().unwrap()
    };
    while !at(&["PING"]).status.success() {
        assert!(Instant::now() < deadline, "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    drop(at(&["SHUTDOWN"]));
    assert!(server.wait().unwrap().success());
    let mut said = String::new();
    let mut stdout = server.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
    assert!(said.contains("Redis      127.0.0.1:"), "{said}");
    assert!(said.contains("unix:s\n"), "{said}");
}
