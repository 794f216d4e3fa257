//! Signals that end a server: before it serves, gracefully, and at once.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::process::{SERVE, command, done, hedgerow, spawn};

fn signal(server: &Child, name: &str) {
    let mut kill = Command::new("kill");
    kill.args([name, &server.id().to_string()]);
    assert!(spawn(&mut kill).wait().unwrap().success());
}

fn end_of(mut server: Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = server.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "it hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The last log of a database that was closed and has a row, replaced by a pipe to which nobody
/// writes: recovery waits where it opens it.
fn pipe_in_place_of_a_log(dir: &Path) -> std::path::PathBuf {
    done(hedgerow(dir, &["put", "key", "value"]));
    let logs = std::fs::read_dir(dir.join("hedgerow-data/log")).unwrap();
    let log = logs.map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::rename(&log, dir.join("kept")).unwrap();
    let mut made = Command::new("mkfifo");
    assert!(spawn(made.arg(&log)).wait().unwrap().success());
    log
}

#[test]
fn a_signal_during_recovery_ends_the_server_and_loses_nothing() {
    for name in ["-TERM", "-INT"] {
        let dir = tempfile::tempdir().unwrap();
        let log = pipe_in_place_of_a_log(dir.path());
        let logs = || {
            let logs = std::fs::read_dir(dir.path().join("hedgerow-data/log"));
            logs.unwrap().count()
        };
        let before = logs();
        let mut server = spawn(&mut command(dir.path(), &SERVE));
        let deadline = Instant::now() + Duration::from_secs(60);
        // Its own logs are made before those that are there are read.
        while logs() == before {
            assert_eq!(server.try_wait().unwrap(), None, "it ended by itself");
            assert!(Instant::now() < deadline, "it does not begin to recover");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&server, name);
        let status = end_of(server);
        assert!(status.success(), "{status}");
        std::fs::rename(dir.path().join("kept"), &log).unwrap();
        assert_eq!(done(hedgerow(dir.path(), &["get", "key"])), "value\n");
    }
}

/// How a server ends that is signalled again while it waits for a client to fetch a reply.
fn ended_by_two_signals(second: &str) -> ExitStatus {
    let dir = tempfile::tempdir().unwrap();
    let words = [&SERVE[..], &["--in-memory"]].concat();
    let mut server = spawn(&mut command(dir.path(), &words));
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    let address = said.find_map(|line| Some(line.unwrap().strip_prefix("  Redis")?.to_owned()));
    let mut client = TcpStream::connect(address.unwrap().trim()).unwrap();
    let value = vec![b'v'; 8 << 20];
    write!(client, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).unwrap();
    client.write_all(&value).unwrap();
    client.write_all(&b"\r\nGET k\r\n".repeat(8)).unwrap();
    let mut replies = BufReader::new(&client).lines();
    assert_eq!(replies.next().unwrap().unwrap(), "+OK");
    assert_eq!(replies.next().unwrap().unwrap(), "$8388608");
    signal(&server, "-TERM");
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("stopping: a signal")));
    signal(&server, second);
    end_of(server)
}

#[test]
fn ctrl_c_ends_a_server_at_once_that_is_about_to_stop() {
    // It stops by itself after 2 s: a machine may be too slow for the second signal.
    let codes = (0..10).map(|_| ended_by_two_signals("-INT").code());
    assert!(codes.into_iter().any(|code| code == Some(128 + 2)));
    // Who sends the same signal twice does not mean this.
    assert!(ended_by_two_signals("-TERM").success());
}
