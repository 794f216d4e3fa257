//! `--log-dir`: logs and checkpoints in directories besides the database's.

use std::fs;
use std::path::Path;

use hedgerow_testkit::kill::server::Server;

use crate::process::{command, done, fails, hedgerow, no_forks, spawn};

/// Serves the database `data` in `dir` with further flags until `words` have been run as a client.
#[track_caller]
fn serve(dir: &Path, flags: &[&str], words: &[&[&str]]) -> String {
    let program = env!("CARGO_BIN_EXE_hedgerow");
    let mut server = {
        let _alone = no_forks();
        Server::spawn(Path::new(program), &dir.join("data"), flags).unwrap()
    };
    server.connect().unwrap();
    let address = server.address().to_string();
    let mut said = String::new();
    for words in words {
        let words = [&["cli", "--resp", &address][..], words].concat();
        said += &done(hedgerow(dir, &words));
    }
    server.kill().unwrap();
    said
}

fn logs(dir: &Path) -> usize {
    fs::read_dir(dir.join("log")).map_or(0, |names| {
        let names = names.map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_str().unwrap().ends_with(".log"))
            .count()
    })
}

#[test]
fn a_server_finds_its_directories_and_other_commands_do() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(temporary.path()).unwrap();
    let run = |words: &[&str]| hedgerow(&dir, words);
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (a, b) = (at("a"), at("b"));
    let flags = [
        "--log-dir",
        &a,
        "--log-dir",
        &b,
        "--workers",
        "2",
        "--durability",
        "sync",
    ];
    let info = serve(
        &dir,
        &flags,
        &[&["SET", "k", "v"], &["INFO", "persistence"]],
    );
    assert!(info.contains(&format!("log_dirs:{a},{b}")), "{info}");
    assert!(info.contains("log_directories:2"), "{info}");
    assert_eq!((logs(&dir.join("a")), logs(&dir.join("b"))), (1, 1));
    assert_eq!(logs(&dir.join("data")), 0);
    // It was killed; without the flags all is found.
    assert_eq!(serve(&dir, &[], &[&["GET", "k"]]), "v\n");
    assert_eq!(done(run(&["get", "--data", "data", "k"])), "v\n");
    assert!(done(run(&["check", "--data", "data"])).contains("1 rows"));
    done(run(&["checkpoint", "--data", "data"]));
    let parts =
        |name: &str| fs::read_dir(dir.join(name).join("checkpoint")).map_or(0, |n| n.count());
    assert!(parts("a") + parts("b") > 0 && parts("data") == 0);
    // A backup is one folder; so is what is restored, unless directories are named.
    done(run(&["backup", "--data", "data", "copy"]));
    done(run(&["restore", "copy", "--data", "one"]));
    done(run(&[
        "restore",
        "copy",
        "--data",
        "two",
        "--log-dir",
        "c,d",
    ]));
    for name in ["copy", "one", "two"] {
        assert_eq!(done(run(&["get", "--data", name, "k"])), "v\n");
    }
    assert!(
        fs::exists(dir.join("c/OWNER")).unwrap() && !fs::exists(dir.join("one/OWNER")).unwrap()
    );
    fails(
        run(&["restore", "copy", "--data", "three", "--log-dir", &a]),
        1,
        &["--log-dir", "a:"],
    );
    assert!(!fs::exists(dir.join("three")).unwrap());
    // Back to the database's own directory.
    serve(
        &dir,
        &["--log-dir", "none"],
        &[&["SET", "k", "w"], &["SAVE"]],
    );
    for name in ["a", "b"] {
        assert_eq!(fs::read_dir(dir.join(name)).unwrap().count(), 0, "{name}");
    }
    assert_eq!(done(run(&["get", "--data", "data", "k"])), "w\n");
}

#[test]
fn directories_may_stand_in_a_file_of_settings() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(temporary.path()).unwrap();
    let dir = dir.as_path();
    let one_or_several = [
        "log-dir = \"a\"",
        "log-dir = [\"a\", \"b\"]",
        "log-dir = \"none\"",
    ];
    for (number, text) in one_or_several.into_iter().enumerate() {
        let text = format!("{text}\nresp = \"unix:resp\"\nmemcached = \"none\"\nhttp = \"none\"\n");
        fs::write(dir.join("c.toml"), text).unwrap();
        let mut server = spawn(&mut command(dir, &["serve", "--config", "c.toml"]));
        let ping = || hedgerow(dir, &["cli", "--resp", "unix:resp", "PING"]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !ping().status.success() {
            assert!(
                std::time::Instant::now() < deadline,
                "the server does not answer"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(hedgerow(dir, &["cli", "--resp", "unix:resp", "SHUTDOWN"]));
        assert!(server.wait().unwrap().success());
        let mut said = String::new();
        let mut stdout = server.stdout.take().unwrap();
        std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
        let paths = [dir.join("a"), dir.join("b")];
        let shown: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        match number {
            0 => assert!(
                said.contains(&format!("logs       {}\n", shown[0])),
                "{said}"
            ),
            1 => assert!(
                said.contains(&format!("logs       {}\n", shown.join(", "))),
                "{said}"
            ),
            _ => assert!(!said.contains("logs  "), "{said}"),
        }
    }
    fs::write(dir.join("c.toml"), "log-dir = 7\n").unwrap();
    let serve = hedgerow(dir, &["serve", "--config", "c.toml"]);
    fails(serve, 2, &["c.toml line 1", "directory"]);
}

#[test]
fn what_cannot_be_a_log_directory_is_said_in_the_words_of_the_flag() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join("full/mine"), "mine").unwrap();
    let serve = |words: &[&str]| {
        let ports = ["--resp", "0", "--memcached", "none", "--http", "none"];
        let words = [&["serve", "--data", "data"][..], &ports, words].concat();
        hedgerow(dir, &words)
    };
    fails(
        serve(&["--log-dir", "a", "--log-dir", "a"]),
        1,
        &["--log-dir", "twice"],
    );
    fails(serve(&["--log-dir", "a,./a"]), 1, &["--log-dir", "twice"]);
    fails(serve(&["--log-dir", "a,a/b"]), 1, &["--log-dir", "within"]);
    fails(
        serve(&["--log-dir", "data"]),
        1,
        &["--log-dir", "data folder"],
    );
    fails(
        serve(&["--log-dir", "full"]),
        1,
        &["--log-dir", "not empty"],
    );
    fails(
        serve(&["--log-dir", "none,a"]),
        2,
        &["--log-dir", "none alone"],
    );
    let in_memory = hedgerow(dir, &["serve", "--in-memory", "--log-dir", "a"]);
    fails(in_memory, 2, &["--log-dir", "--in-memory"]);
    assert!(!fs::exists(dir.join("data")).unwrap() && !fs::exists(dir.join("a")).unwrap());
}
