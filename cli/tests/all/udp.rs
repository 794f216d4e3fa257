//! `--memcached udp:ADDR`: a server at UDP ports.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::time::Duration;

use crate::process::{command, fails_with_lines, hedgerow, spawn};

#[test]
fn a_server_says_its_udp_ports_and_answers_there() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "resp = 0\nmemcached = \"udp:127.0.0.1:0\"\nhttp = \"none\"\nworkers = 2\n";
    std::fs::write(dir.path().join("c.toml"), settings).unwrap();
    let mut server = spawn(&mut command(dir.path(), &["serve", "--config", "c.toml"]));
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut said = |start: &str| {
        let found = lines.find_map(|line| line.unwrap().strip_prefix(start).map(str::to_owned));
        found.expect("it is said").trim().to_owned()
    };
    let resp = said("  Redis");
    let udp = said("  memcached");
    let ports = udp.strip_prefix("udp:127.0.0.1:").expect(&udp);
    let (first, last) = ports.split_once(" to ").expect(&udp);
    let first: u16 = first.parse().unwrap();
    assert_eq!(last, format!("{}, one a worker", first + 1));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    for port in [first, first + 1] {
        let mut reply = [0; 100];
        client
            .send_to(b"\0\x05\0\0\0\x01\0\0mn\r\n", ("127.0.0.1", port))
            .unwrap();
        let count = client.recv(&mut reply).unwrap();
        assert_eq!(reply[..count], *b"\0\x05\0\0\0\x01\0\0MN\r\n");
    }
    // A second server does not start there, nor one whose second worker would be there, and none
    // makes a database.
    for asked in [first, first - 1] {
        let at = format!("udp:127.0.0.1:{asked}");
        let second = [
            "serve",
            "--data",
            "other",
            "--resp",
            "0",
            "--memcached",
            &at,
        ];
        let second = [&second[..], &["--workers", "2"]].concat();
        let said = hedgerow(dir.path(), &second);
        let taken = format!("udp:127.0.0.1:{first}: ");
        fails_with_lines(said, 1, &[&taken, "stop its user"]);
    }
    let last = ["serve", "--data", "other", "--resp", "0", "--workers", "2"];
    let last = [&last[..], &["--memcached", "udp:65535"]].concat();
    let said = ["--memcached", "65535", "--workers"];
    fails_with_lines(hedgerow(dir.path(), &last), 2, &said);
    assert!(!dir.path().join("other").exists());
    drop(hedgerow(dir.path(), &["cli", "--resp", &resp, "SHUTDOWN"]));
    assert!(server.wait().unwrap().success());
}

#[test]
fn only_memcached_is_spoken_by_udp() {
    let dir = tempfile::tempdir().unwrap();
    for flag in ["--resp", "--http"] {
        let said = hedgerow(dir.path(), &["serve", flag, "udp:127.0.0.1:0"]);
        fails_with_lines(said, 2, &[flag, "udp:", "memcached"]);
    }
    let open = ["serve", "--memcached", "udp:0.0.0.0:0"];
    fails_with_lines(hedgerow(dir.path(), &open), 2, &["UDP", "password"]);
}
