//! What the command says when something is wrong, and what it leaves behind: nothing.

use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use crate::process::{SERVE, command, done, fails, hedgerow, hedgerow_with, no_forks, spawn};

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// Runs a command with one more environment variable.
fn with_variable(dir: &Path, name: &str, value: &str, words: &[&str]) -> Output {
    let child = spawn(command(dir, words).env(name, value));
    child.wait_with_output().unwrap()
}

#[test]
fn errors_name_flags_and_commands_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let missing = hedgerow(dir, &["get", "k", "--data", "nope"]);
    let error = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!error.contains("with create"), "{error}");
    fails(
        missing,
        1,
        &["no database in nope", "--data", "hedgerow serve"],
    );
    done(hedgerow(dir, &["put", "k", "v"]));
    let other = ["get", "k", "--keyspace", "db7"];
    fails(hedgerow(dir, &other), 1, &["db7", "--keyspace", "default"]);
    let words = ["load", "--index", "btree"];
    fails(
        hedgerow_with(dir, &words, b"a\n"),
        1,
        &["--index", "dump", "masstree"],
    );
    let words = ["load", "--index", "hash"];
    fails(
        hedgerow_with(dir, &words, b"a\n"),
        2,
        &["choose masstree, matryoshka, bwtree, bst or btree"],
    );
    // What needs more memory than it was given says which flag gives it.
    let lines: String = (0..20_000).map(|i| format!("key{i}\n")).collect();
    let words = ["load", "--memory", "64KiB", "--data", "small"];
    fails(
        hedgerow_with(dir, &words, lines.as_bytes()),
        1,
        &["--memory"],
    );
    for flag in [
        "--flush-interval=1h",
        "--max-value=2GiB",
        "--max-commit-bytes=3GiB",
        "--max-connections=0",
    ] {
        let name = flag.split('=').next().unwrap();
        fails(hedgerow(dir, &["serve", flag]), 2, &[name]);
    }
    let open = [
        "serve",
        "--resp",
        "0.0.0.0:0",
        "--memcached",
        "none",
        "--http",
        "none",
    ];
    fails(hedgerow(dir, &open), 2, &["--password"]);
}

#[test]
fn commands_on_directories_that_hold_no_database_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("empty")).unwrap();
    for data in ["missing", "empty"] {
        let said = ["no database in", data, "--data"];
        for words in [
            &["check", "--data", data][..],
            &["stats", "--data", data],
            &["dump", "--data", data],
            &["checkpoint", "--data", data],
            &["backup", "copy", "--data", data],
            &["delete", "k", "--data", data],
        ] {
            fails(hedgerow(dir, words), 1, &said);
        }
        let restore = ["restore", data, "--data", "new"];
        fails(
            hedgerow(dir, &restore),
            1,
            &["no backup in", data, "hedgerow backup"],
        );
    }
    assert!(!dir.join("missing").exists());
    assert!(!dir.join("copy").exists());
    assert!(!dir.join("new").exists());
    assert!(is_empty(&dir.join("empty")));
    std::fs::write(dir.join("file"), "mine").unwrap();
    fails(hedgerow(dir, &["check", "--data", "file"]), 1, &["file"]);
}

#[test]
fn a_server_that_cannot_start_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let none = "none";
    for (resp, memcached, http) in [
        (taken.as_str(), none, none),
        ("0", taken.as_str(), none),
        ("0", "0", taken.as_str()),
    ] {
        let ports = ["--resp", resp, "--memcached", memcached, "--http", http];
        let output = hedgerow(dir, &[&["serve"][..], &ports].concat());
        fails_with(output, &taken);
        assert!(is_empty(dir), "{ports:?}");
    }
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let twice = [
        "serve",
        "--resp",
        &free.to_string(),
        "--memcached",
        &free.to_string(),
    ];
    fails(hedgerow(dir, &twice), 2, &["--memcached", "twice"]);
    assert!(is_empty(dir));
    for options in [
        &["--index", "btree", "--memory", "1KiB"][..],
        &["--index", "hash"],
        &["--flush-interval", "0ms"],
        &["--workers", "5000"],
    ] {
        let ports = ["--resp", "0", "--memcached", "none", "--http", "none"];
        let output = hedgerow(dir, &[&["serve"][..], &ports, options].concat());
        assert!(!output.status.success());
        assert!(is_empty(dir), "{options:?}");
    }
    // Of a directory that holds something else nothing is touched.
    std::fs::create_dir(dir.join("mine")).unwrap();
    std::fs::write(dir.join("mine/diary.txt"), "today").unwrap();
    for words in [
        &[&SERVE[..], &["--data", "mine"]].concat()[..],
        &["put", "k", "v", "--data", "mine"],
        // Of nothing, which is refused before the directory is looked at if it could be a dump.
        &["load", "--raw", "--data", "mine"],
    ] {
        fails_with(hedgerow(dir, words), "mine");
    }
    assert_eq!(std::fs::read_dir(dir.join("mine")).unwrap().count(), 1);
}

#[test]
fn a_server_whose_sockets_cannot_be_made_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, none) = (dir.path(), "none");
    for (ports, said) in [
        (["unix:missing/dir/s", none, none], "no folder missing/dir"),
        (["0", none, "unix:a/b/c"], "no folder a/b"),
    ] {
        let [resp, memcached, http] = ports;
        let ports = ["--resp", resp, "--memcached", memcached, "--http", http];
        let output = hedgerow(dir, &[&["serve"][..], &ports].concat());
        fails_with(output, said);
        assert!(is_empty(dir), "{ports:?}");
    }
    std::fs::create_dir(dir.join("inner")).unwrap();
    let twice = ["--resp", "unix:s", "--memcached", "unix:inner/../s"];
    let output = hedgerow(dir, &[&["serve"][..], &twice].concat());
    fails(output, 2, &["--memcached", "twice"]);
    std::fs::remove_dir(dir.join("inner")).unwrap();
    assert!(is_empty(dir));
}

/// Checks that a command failed and names `word` on the last line of standard error.
#[track_caller]
fn fails_with(output: Output, word: &str) {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.lines().last().unwrap_or("").contains(word), "{error}");
}

#[test]
fn a_directory_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for json in [&[][..], &["--json"]] {
        let words = [&["serve"][..], json].concat();
        let mut serve = command(dir, &words);
        let sockets = ["--resp", "unix:s", "--memcached", "none", "--http", "none"];
        serve.args(sockets).arg("--data");
        let mut server = spawn(serve.arg(std::ffi::OsStr::from_bytes(b"data\xff")));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let ask = |word| hedgerow(dir, &["cli", "--resp", "unix:s", word]);
        while !ask("PING").status.success() {
            assert!(
                std::time::Instant::now() < deadline,
                "the server does not answer"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(ask("SHUTDOWN"));
        assert!(server.wait().unwrap().success());
        // Copies of it, too.
        let path = |name: &[u8]| std::ffi::OsStr::from_bytes(name).to_owned();
        for (word, from, flag, to) in [
            ("backup", path(b"data\xff"), "--data", path(b"copy\xff")),
            ("restore", path(b"copy\xff"), "--data", path(b"again\xff")),
        ] {
            let words = [&[word][..], json].concat();
            let mut copy = command(dir, &words);
            match word {
                "backup" => copy.arg(flag).arg(&from).arg(&to),
                _ => copy.arg(&from).arg(flag).arg(&to),
            };
            done(spawn(&mut copy).wait_with_output().unwrap());
            assert!(dir.join(&to).is_dir());
            if word == "restore" {
                std::fs::remove_dir_all(dir.join(&from)).unwrap();
                std::fs::remove_dir_all(dir.join(&to)).unwrap();
            }
        }
    }
}

/// The server's environment is not that of commands beside it.
#[test]
fn what_a_server_is_told_by_its_environment_is_not_asked_of_other_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow(dir, &["put", "k", "v"]));
    std::fs::write(dir.join("rows"), "a\n").unwrap();
    done(with_variable(
        dir,
        "HEDGEROW_INDEX",
        "btree",
        &["load", "rows"],
    ));
    done(hedgerow(dir, &["backup", "copy"]));
    let logs = dir.join("logs").display().to_string();
    let words = ["restore", "copy", "--data", "restored"];
    done(with_variable(dir, "HEDGEROW_LOG_DIR", &logs, &words));
    assert!(!dir.join("logs").exists());
    let words = ["get", "a", "--data", "restored"];
    assert_eq!(done(hedgerow(dir, &words)), "1\n");
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let with = |file: &str, words: &[&str]| {
        std::fs::write(dir.join("c.toml"), file).unwrap();
        let words = [&["serve", "--config", "c.toml"], words].concat();
        hedgerow(dir, &words)
    };
    // Times are texts, but for none at all: so what is wrong here is something else.
    let never = "checkpoint-idle = 0\ncheckpoint-interval = 0\nworkers = 0\n";
    fails(with(never, &[]), 2, &["--workers 0 makes no sense"]);
    fails(with("checkpoint-idle = 5\n", &[]), 2, &["c.toml", "200ms"]);
    fails(with("checkpoint-idle = true\n", &[]), 2, &["c.toml", "10s"]);
    fails(with("data = \"\"\n", &[]), 2, &["--data is empty"]);
    fails(with("backups = \"\"\n", &[]), 2, &["--backups is empty"]);
    // The former name of the password, beside another by the present one.
    let both = "password = \"a\"\nresp-password = \"b\"\n";
    fails(with(both, &[]), 2, &["--password", "differ"]);
    let words = ["serve", "--resp-password", "b"];
    let refused = with_variable(dir, "HEDGEROW_PASSWORD", "a", &words);
    fails(refused, 2, &["HEDGEROW_PASSWORD", "differ"]);
    std::fs::remove_file(dir.join("c.toml")).unwrap();
    assert!(is_empty(dir));
}

#[test]
fn a_bad_environment_variable_is_named_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, value, words) in [
        ("HEDGEROW_RESP", "nowhere", &["serve"][..]),
        ("HEDGEROW_WORKERS", "many", &["serve"]),
        ("HEDGEROW_DURABILITY", "maybe", &["serve"]),
        ("HEDGEROW_MEMORY", "1.5G", &["count"]),
        ("HEDGEROW_DATA", "elsewhere", &["serve", "--in-memory"]),
        ("HEDGEROW_IN_MEMORY", "maybe", &["serve"]),
        ("HEDGEROW_ALLOW_UNPROTECTED", "maybe", &["serve"]),
    ] {
        let output = with_variable(dir, name, value, words);
        fails(output, 2, &[name, "environment"]);
    }
    let in_memory = |value, words: &[&str]| {
        let words = [&["serve"], words].concat();
        with_variable(dir, "HEDGEROW_IN_MEMORY", value, &words)
    };
    fails(
        in_memory("true", &["--index", "btree"]),
        2,
        &["--in-memory"],
    );
    fails(in_memory("true", &["--data", "d"]), 2, &["--data"]);
    // It is off: what is wrong is something else.
    for no in ["false", "0", "no", "off"] {
        let off = in_memory(no, &["--data", "d", "--workers", "0"]);
        fails(off, 2, &["--workers 0 makes no sense"]);
    }
    // The environment wins over the file, and flags over both.
    let file = "in-memory = true\nallow-unprotected = true\n";
    std::fs::write(dir.join("c.toml"), file).unwrap();
    let with_file = ["--config", "c.toml", "--data", "d", "--workers", "0"];
    fails(in_memory("false", &with_file), 2, &["--workers 0 makes"]);
    fails(in_memory("true", &with_file), 2, &["--in-memory", "--data"]);
    let by_flag = [&with_file[..], &["--in-memory=false"]].concat();
    fails(in_memory("true", &by_flag), 2, &["--workers 0 makes"]);
    let exposed = [
        "serve",
        "--config",
        "c.toml",
        "--in-memory=true",
        "--memcached",
        "0.0.0.0:0",
    ];
    let refused = with_variable(dir, "HEDGEROW_ALLOW_UNPROTECTED", "false", &exposed);
    fails(refused, 2, &["password"]);
    std::fs::remove_file(dir.join("c.toml")).unwrap();
    // Who gives the flag is not told of the variable.
    let output = with_variable(
        dir,
        "HEDGEROW_WORKERS",
        "2",
        &["serve", "--workers", "many"],
    );
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    fails(output, 2, &["--workers"]);
    assert!(!error.contains("HEDGEROW_WORKERS"), "{error}");
    assert!(is_empty(dir));
}

#[test]
fn statistics_have_units_for_people_and_integers_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let lines: String = (0..3000).map(|i| format!("key{i}\n")).collect();
    done(hedgerow_with(dir, &["load"], lines.as_bytes()));
    let stats = done(hedgerow(dir, &["stats", "--index"]));
    let line = |name: &str| {
        let mut lines = stats
            .lines()
            .filter(|line| line.trim_start().starts_with(name));
        lines.next().unwrap_or_else(|| panic!("{stats}"))
    };
    assert!(line("rows ").contains(" 3,000 "), "{stats}");
    assert!(
        line("recovered_checkpoint_bytes ").contains(" KiB "),
        "{stats}"
    );
    assert!(line("checkpoint_duration_ms").contains(" ms "), "{stats}");
    assert!(line("memory_limit_bytes").contains(" none "), "{stats}");
    let json = done(hedgerow(dir, &["stats", "--index", "--json"]));
    assert!(
        json.contains("\"rows\":3000,") || json.contains("\"rows\":3000}"),
        "{json}"
    );
    assert!(!json.contains(".0,") && !json.contains(".0}"), "{json}");
}

#[test]
fn every_command_has_examples_in_its_help() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let help = done(hedgerow(dir, &["--help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(
        commands.contains(&"serve") && commands.contains(&"cli"),
        "{help}"
    );
    for name in commands {
        let help = done(hedgerow(dir, &[name, "--help"]));
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{help}"));
        assert!(examples.contains(&format!("hedgerow {name}")), "{help}");
    }
}

#[test]
fn read_only_commands_take_memory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let words = ["load", "--index", "btree", "--memory", "8MiB"];
    done(hedgerow_with(dir, &words, b"a\nb\n"));
    for words in [
        &["check"][..],
        &["get", "a"],
        &["scan"],
        &["count"],
        &["stats"],
        &["dump"],
    ] {
        done(hedgerow(dir, &[words, &["--memory", "16MiB"]].concat()));
        let small = hedgerow(dir, &[words, &["--memory", "1KiB"]].concat());
        fails(small, 1, &["--memory"]);
    }
}

/// Runs a command on a terminal of its own, by `script`; what came to that terminal. `None` where
/// there is no such tool.
fn on_a_terminal(dir: &Path, words: &str) -> Option<String> {
    let line = format!("{} {words}", env!("CARGO_BIN_EXE_hedgerow"));
    let mut script = std::process::Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .env("TERM", "xterm")
        .stdout(std::process::Stdio::piped());
    let started = {
        let _alone = no_forks();
        script.spawn()
    };
    match started {
        Ok(child) => {
            let output = child.wait_with_output().unwrap();
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            println!("skipped: there is no tool called script: {error}");
            None
        }
    }
}

#[test]
fn checks_and_backups_show_what_they_do_on_a_terminal_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow_with(dir, &["load"], b"a\nb\n"));
    for (words, shown) in [
        ("check", "verifying files"),
        ("backup copy", "preparing the copy"),
        ("restore copy --data again", "preparing the copy"),
    ] {
        if let Some(printed) = on_a_terminal(dir, words) {
            assert!(printed.contains(shown), "{words}: {printed:?}");
        }
    }
    let quiet = hedgerow(dir, &["check"]);
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn nobody_need_read_what_a_command_prints() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let sockets = ["--resp", "unix:s", "--memcached", "none", "--http", "none"];
    let mut server = spawn(&mut command(dir, &[&["serve"][..], &sockets].concat()));
    drop(server.stdout.take());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let ask = |word| hedgerow(dir, &["cli", "--resp", "unix:s", word]);
    while !ask("PING").status.success() {
        assert_eq!(server.try_wait().unwrap(), None, "the server is gone");
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(ask("SHUTDOWN"));
    assert!(server.wait().unwrap().success());
    // What is wrong with a database is wrong also where nobody reads of it.
    done(hedgerow_with(dir, &["load"], b"a\nb\n"));
    let parts = std::fs::read_dir(dir.join("hedgerow-data/checkpoint")).unwrap();
    for part in parts.map(|entry| entry.unwrap().path()) {
        std::fs::write(part, "damage").unwrap();
    }
    let mut check = spawn(&mut command(dir, &["check", "--json"]));
    drop(check.stdout.take());
    assert_eq!(check.wait().unwrap().code(), Some(1));
}

#[test]
fn nobody_need_read_errors_and_events() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // The exit code says it all the same.
    for (words, code) in [
        (&["get", "k"][..], 1),
        (&["serve", "--workers", "0"], 2),
        (&["serve", "--workers", "x"], 2),
    ] {
        let mut child = spawn(&mut command(dir, words));
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().unwrap().code(), Some(code), "{words:?}");
    }
    // A server starts, answers, and stops when it is asked to.
    let sockets = ["--resp", "unix:s", "--memcached", "none", "--http", "none"];
    let words = [&["serve", "--log-level", "debug"][..], &sockets].concat();
    let mut server = spawn(&mut command(dir, &words));
    drop((server.stdout.take(), server.stderr.take()));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let sleep = || {
        assert!(std::time::Instant::now() < deadline, "it hangs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    while !hedgerow(dir, &["cli", "--resp", "unix:s", "PING"])
        .status
        .success()
    {
        assert_eq!(server.try_wait().unwrap(), None, "the server is gone");
        sleep();
    }
    let process = server.id().to_string();
    let mut kill = std::process::Command::new("kill");
    assert!(
        spawn(kill.args(["-TERM", &process]))
            .wait()
            .unwrap()
            .success()
    );
    let status = loop {
        match server.try_wait().unwrap() {
            Some(status) => break status,
            None => sleep(),
        }
    };
    assert!(status.success(), "{status}");
}
