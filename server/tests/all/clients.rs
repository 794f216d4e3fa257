//! Unmodified Redis tools against a started server. Skipped where they are not installed; those
//! of other languages run in CI (`server/tests/clients`).

use std::process::Command;

use hedgerow::backend::Backend;

use crate::support::{Started, one_worker};
use crate::tested::Database;

/// What a program prints; `None`, with a message, if it is not installed.
fn output(program: &str, arguments: &[&str], started: &Started) -> Option<String> {
    let port = started.resp().port().to_string();
    let result = Command::new(program)
        .args(["-p", &port])
        .args(arguments)
        .output();
    match result {
        Err(error) => {
            println!("skipped: {program} cannot be started ({error})");
            None
        }
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
    }
}

#[test]
fn redis_cli_talks_to_the_server() {
    let started = Started::new(one_worker());
    for (arguments, expected) in [
        (&["SET", "a key", "a value"][..], "OK\n"),
        (&["GET", "a key"], "a value\n"),
        (&["-3", "HSET", "h", "f", "v"], "1\n"),
        (&["-3", "HGETALL", "h"], "f v\n"),
        (&["RANGE", "-", "+", "KEYS"], "a key\nh\n"),
        (&["--scan", "--pattern", "a*"], "a key\n"),
        (&["-n", "3", "DBSIZE"], "0\n"),
    ] {
        let Some(found) = output("redis-cli", arguments, &started) else {
            return;
        };
        assert_eq!(found, expected, "{arguments:?}");
    }
}

#[test]
fn redis_benchmark_runs_without_errors() {
    let started = Started::new(one_worker());
    // Elsewhere each write takes milliseconds.
    let requests = if Database::IS_REMOTE { "200" } else { "2000" };
    for depth in ["1", "64"] {
        let arguments = ["-q", "-n", requests, "-r", "1000", "-P", depth, "-t"];
        let tests = ["ping,set,get,incr,hset,mset"];
        let all = [&arguments[..], &tests].concat();
        let Some(found) = output("redis-benchmark", &all, &started) else {
            return;
        };
        assert!(!found.to_lowercase().contains("error"), "{found}");
        for test in ["SET: ", "GET: ", "INCR: ", "HSET: ", "MSET (10 keys): "] {
            assert!(found.contains(test), "{test} in {found}");
        }
    }
}
