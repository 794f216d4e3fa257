//! What `serve` writes to standard error: one line an event, of the level asked for.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::{Client, Reply};

fn serve(dir: &Path, flags: &[&str]) -> (Child, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let log = File::options()
        .append(true)
        .create(true)
        .open(dir.join("log"));
    let child = Command::new(env!("CARGO_BIN_EXE_hedgerow"))
        .args(["serve", "--workers", "1", "--memcached", "none"])
        .args(["--http", "none", "--resp", &address.to_string()])
        .args(flags)
        .current_dir(dir)
        .env_remove("HEDGEROW_DATA")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.unwrap())
        .spawn()
        .unwrap();
    (child, address)
}

fn connect(server: &mut Child, address: SocketAddr) -> Client {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Ok(client) = Client::connect(address) {
            return client;
        }
        assert_eq!(server.try_wait().unwrap(), None, "the server ended");
        assert!(Instant::now() < deadline, "the server does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shut_down(mut server: Child, mut client: Client) {
    // The connection ends without a reply.
    let _ = client.call(&[b"SHUTDOWN"]);
    assert!(server.wait().unwrap().success());
}

fn lines(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("log")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// How many lines have this level and hold all of the words.
fn count(lines: &[String], level: &str, words: &[&str]) -> usize {
    let level = format!(" {level} ");
    let has =
        |line: &&String| line.contains(&level) && words.iter().all(|word| line.contains(word));
    lines.iter().filter(has).count()
}

/// Target and message of the event that docs/operations.md shows: a checkpoint.
fn documented_event() -> String {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, event) = document.split_once("Z  INFO ").expect("an event");
    let (event, _) = event.split_once(" records=").expect("its numbers");
    event.to_owned()
}

#[test]
fn a_server_logs_its_start_its_checkpoints_and_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &[]);
    let mut client = connect(&mut server, address);
    client.call(&[b"SET", b"k", b"v"]).unwrap();
    let saved = client.call(&[b"SAVE"]).unwrap();
    assert_eq!(saved, Reply::Simple("OK".into()));
    client.call(&[b"SET", b"l", b"w"]).unwrap();
    shut_down(server, client);
    let first = lines(dir.path());
    for (level, words, times) in [
        ("INFO", &["serving", "pid=", "workers=1"][..], 1),
        ("INFO", &["checkpoint started", "kind=\"rows\""], 1),
        (
            "INFO",
            &["checkpoint written", "records=1", "bytes=", "duration_ms="],
            1,
        ),
        ("INFO", &["stopped; everything is on disk"], 1),
    ] {
        assert_eq!(
            count(&first, level, words),
            times,
            "{words:?} in {first:#?}"
        );
    }
    assert_eq!(
        count(&first, "INFO", &[&documented_event()]),
        1,
        "{first:#?}"
    );
    let (mut server, address) = serve(dir.path(), &[]);
    let client = connect(&mut server, address);
    shut_down(server, client);
    let second = lines(dir.path()).split_off(first.len());
    let recovered = [
        "recovered",
        "checkpoint_generation=",
        "log_bytes=",
        "records=",
    ];
    assert_eq!(count(&second, "INFO", &recovered), 1, "{second:#?}");
}

#[test]
fn a_server_logs_nothing_below_its_level() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.toml"), "log-level = \"error\"\n").unwrap();
    let (mut server, address) = serve(dir.path(), &["--config", "c.toml"]);
    let mut client = connect(&mut server, address);
    client.call(&[b"SAVE"]).unwrap();
    shut_down(server, client);
    assert_eq!(lines(dir.path()), [""; 0]);
}

#[test]
fn refused_clients_are_logged_without_flooding() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--max-connections", "1"]);
    let client = connect(&mut server, address);
    for _ in 0..50 {
        if let Ok(mut refused) = Client::connect(address) {
            let reply = refused.call(&[b"PING"]);
            assert!(matches!(reply, Err(_) | Ok(Reply::Error(_))), "{reply:?}");
        }
    }
    shut_down(server, client);
    let lines = lines(dir.path());
    let refused = count(
        &lines,
        "WARN",
        &["connection refused", "port=resp", "127.0.0.1:"],
    );
    assert!((1..50).contains(&refused), "{lines:#?}");
}

#[test]
fn slow_commands_are_logged_with_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--slow-command-ms", "1"]);
    let mut client = connect(&mut server, address);
    let value = vec![b'v'; 1 << 20];
    let keys: Vec<String> = (0..50).map(|i| format!("k{i}")).collect();
    for key in &keys {
        client.call(&[b"SET", key.as_bytes(), &value]).unwrap();
    }
    // More than a millisecond's work, however fast the machine; and another command may have had
    // the line of this second.
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(keys.iter().map(|key| key.as_bytes()));
    let said = [
        "slow command ",
        "command=\"MGET\"",
        "duration_ms=",
        "127.0.0.1:",
    ];
    let deadline = Instant::now() + Duration::from_secs(120);
    while count(&lines(dir.path()), "WARN", &said) == 0 {
        client.call(&words).unwrap();
        assert!(Instant::now() < deadline, "{:#?}", lines(dir.path()));
    }
    shut_down(server, client);
}

#[test]
fn a_slow_command_is_told_from_those_that_came_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--slow-command-ms", "1"]);
    let mut client = connect(&mut server, address);
    let value = vec![b'v'; 4 << 20];
    client.call(&[b"SET", b"k", &value]).unwrap();
    let mut together = request(&[b"STRLEN", b"k"]);
    together.extend(request(&[b"BITCOUNT", b"k"]));
    together.extend(request(&[b"STRLEN", b"k"]));
    let said = ["slow command ", "command=\"BITCOUNT\""];
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut stream = TcpStream::connect(address).unwrap();
    while count(&lines(dir.path()), "WARN", &said) == 0 {
        assert!(Instant::now() < deadline, "{:#?}", lines(dir.path()));
        stream.write_all(&together).unwrap();
        let mut replies = Vec::new();
        let mut chunk = [0; 256];
        while replies.iter().filter(|&&byte| byte == b'\n').count() < 3 {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "closed");
            replies.extend_from_slice(&chunk[..read]);
        }
    }
    shut_down(server, client);
    let lines = lines(dir.path());
    let other = ["slow command ", "STRLEN"];
    assert_eq!(count(&lines, "WARN", &other), 0, "{lines:#?}");
}

/// A request as clients send it.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
