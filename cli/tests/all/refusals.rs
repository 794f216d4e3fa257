//! Words and files that make no sense: each is refused with one line that names what is wrong, and
//! the exit code of its kind.

use std::path::Path;

use hedgerow_testkit::kill::trouble::SmallDisk;

use crate::process::{done, fails, hedgerow, hedgerow_with};

/// Runs `serve` with further words where nothing listens.
fn serve_alone(dir: &Path, words: &[&str]) -> std::process::Output {
    let ports = ["--resp", "none", "--memcached", "none", "--http", "none"];
    hedgerow(dir, &[&["serve"][..], &ports, words].concat())
}

#[test]
fn a_load_counts_the_lines_that_it_skips_apart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow_with(dir, &["load"], b"a\nb\n"));
    let said = done(hedgerow_with(dir, &["load", "--skip", "2"], b"a\nb\nc\n"));
    assert!(said.starts_with("loaded 1 lines (1 new keys)"), "{said}");
    assert!(said.trim_end().ends_with("skipped 2 lines"), "{said}");
    let beyond = ["load", "--skip", "9", "--json"];
    let said = done(hedgerow_with(dir, &beyond, b"a\nb\nc\n"));
    let wanted = ["\"lines\":0,", "\"skipped\":3"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    let all = done(hedgerow_with(dir, &["load"], b"d\n"));
    assert!(
        all.starts_with("loaded 1 lines") && !all.contains("skipped"),
        "{all}"
    );
}

#[test]
fn a_load_of_a_folder_says_that_it_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("rows")).unwrap();
    fails(hedgerow(dir, &["load", "rows"]), 1, &["rows is a folder"]);
    assert!(!dir.join("hedgerow-data").exists());
}

#[test]
fn a_time_to_live_of_nothing_stores_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let put = ["put", "k", "new", "--ttl"];
    for none in ["0", "0s"] {
        let refused = hedgerow(dir, &[&put[..], &[none]].concat());
        fails(refused, 2, &["--ttl", "1ms", "hedgerow delete"]);
    }
    assert!(!dir.join("hedgerow-data").exists());
    done(hedgerow(dir, &["put", "k", "v"]));
    fails(hedgerow(dir, &[&put[..], &["0ms"]].concat()), 2, &["--ttl"]);
    assert_eq!(done(hedgerow(dir, &["get", "k"])), "v\n");
    done(hedgerow(dir, &[&put[..], &["1h"]].concat()));
    assert_eq!(done(hedgerow(dir, &["get", "k"])), "new\n");
}

#[test]
fn values_of_serve_that_are_out_of_range_name_their_flag_and_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (flag, value, limit) in [
        ("--client-memory", "100KiB", "1.0 MiB"),
        ("--workers", "1025", "1024"),
        ("--flush-interval", "0ms", "1ms"),
        ("--max-value", "0", "1 and"),
        ("--max-commit-bytes", "0", "1 and"),
        ("--max-connections", "0", "at least 1"),
        ("--keep-checkpoints", "101", "100"),
        ("--transaction-idle-timeout", "0", "at least 1ms"),
        ("--max-snapshot-age", "0", "1ms"),
        ("--memcached", "udp:127.0.0.1:65535", "65535"),
    ] {
        let workers = match flag {
            "--workers" => [flag, value, "--resp", "0"],
            _ => [flag, value, "--workers", "2"],
        };
        let others = ["--resp", "unix:s", "--http", "none"];
        let words = match flag {
            "--memcached" => [&["serve"][..], &others, &workers].concat(),
            "--workers" => [&["serve"][..], &workers].concat(),
            _ => [&["serve"][..], &others, &["--memcached", "none"], &workers].concat(),
        };
        fails(hedgerow(dir, &words), 2, &[flag, limit]);
    }
    // What the file says is judged like the flags.
    std::fs::write(dir.join("c.toml"), "client-memory = 7\n").unwrap();
    let said = ["--client-memory", "1.0 MiB"];
    fails(hedgerow(dir, &["serve", "--config", "c.toml"]), 2, &said);
    assert!(!dir.join("hedgerow-data").exists());
}

#[test]
fn a_configuration_that_is_no_text_is_an_error_of_usage() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("c.toml"), b"workers = 1\n# \xff\n").unwrap();
    let serve = serve_alone(dir, &["--config", "c.toml"]);
    fails(serve, 2, &["c.toml line 2", "UTF-8"]);
}

#[test]
fn bench_refuses_what_has_no_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (data, resp) = (["--data", "b"], ["--resp", "127.0.0.1:1"]);
    for (target, words, said) in [
        (
            data,
            &["--pipeline", "4"][..],
            &["--pipeline", "--data"][..],
        ),
        (resp, &["--durability", "sync"], &["--durability", "--resp"]),
        (data, &["--threads", "0"], &["--threads"]),
        (data, &["--threads", "1025"], &["--threads", "1024"]),
        (data, &["--records", "0"], &["--records"]),
        (data, &["--operations", "0"], &["--operations"]),
        (resp, &["--pipeline", "0"], &["--pipeline"]),
        (data, &["--workload", ""], &["--workload"]),
        (data, &["--value-bytes", "2000000000"], &["--value-bytes"]),
    ] {
        fails(
            hedgerow(dir, &[&["bench"], &target[..], words].concat()),
            2,
            said,
        );
    }
    assert!(!dir.join("b").exists());
}

/// Runs a tool of the system; what it says if it fails or is not there.
fn tool(name: &str, words: &[&str], path: &Path) -> Result<(), String> {
    let said = std::process::Command::new(name)
        .args(words)
        .arg(path)
        .output();
    let said = said.map_err(|error| format!("{name}: {error}"))?;
    match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
    }
}

#[test]
fn a_backup_needs_no_permission_to_write_to_what_it_copies() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, disk) = (dir.path(), dir.path().join("disk"));
    std::fs::create_dir(&disk).unwrap();
    let _disk = match SmallDisk::mount(&disk, 64 << 20) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no small disk can be mounted: {why}"),
    };
    for index in ["masstree", "btree"] {
        let data = format!("disk/{index}");
        let at = ["--data", &data, "--memory", "8MiB"];
        let load = [&["load", "--index", index][..], &at].concat();
        done(hedgerow_with(dir, &load, b"a\nb\nc\n"));
        // After the last checkpoint.
        done(hedgerow(dir, &[&["put", "d", "4"][..], &at].concat()));
    }
    if let Err(why) = tool("mount", &["-o", "remount,ro"], &disk) {
        return println!("skipped: no disk can be made read-only: {why}");
    }
    for index in ["masstree", "btree"] {
        let data = format!("disk/{index}");
        let at = ["--data", &data, "--memory", "8MiB"];
        let said = done(hedgerow(dir, &[&["backup", index][..], &at].concat()));
        assert!(said.contains("files"), "{said}");
        let copy = hedgerow(dir, &["scan", "--data", index, "--memory", "8MiB"]);
        assert_eq!(done(copy), "a\t1\nb\t2\nc\t3\nd\t4\n");
    }
}
