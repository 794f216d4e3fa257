//! Every server that this machine has is started in a directory of its own, answers a client of
//! its protocol, and is gone afterwards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_lab_peers::{
    ConnectRows, Protocol, ServerPeer, ServerSettings, mysql_client, servers,
};

const SETTINGS: ServerSettings = ServerSettings {
    memory_bytes: 64 << 20,
    threads: 1,
    connections: 100,
};

/// A started server; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(peer: &ServerPeer, program: &Path, directory: &Path) -> (Running, SocketAddr) {
    let address = {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        free.local_addr().expect("it has one")
    };
    let arguments = (peer.prepare)(directory, address, &SETTINGS).expect("prepared");
    let child = Command::new(program)
        .args(&arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut running = Running(child);
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        let ended = running.0.try_wait().expect("a child");
        assert!(
            ended.is_none(),
            "{} {arguments:?}: {ended:?}",
            peer.entry.name
        );
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "it never listens"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    (running, address)
}

/// Sends a request and reads until the answer ends as it must.
fn ask(address: SocketAddr, request: &str, end: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).expect("a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    let mut bytes = [0; 512];
    while !answer.ends_with(end.as_bytes()) {
        let got = stream.read(&mut bytes).expect("it answers");
        assert!(got > 0, "closed after {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..got]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn talk(peer: &ServerPeer, address: SocketAddr) {
    match peer.protocol {
        Protocol::Memcached => {
            let answer = ask(address, "set k 0 0 2\r\nhi\r\nget k\r\n", "END\r\n");
            assert_eq!(answer, "STORED\r\nVALUE k 0 2\r\nhi\r\nEND\r\n");
        }
        Protocol::Resp => {
            let answer = ask(address, "SET k hi\r\nGET k\r\n", "$2\r\nhi\r\n");
            assert_eq!(answer, "+OK\r\n$2\r\nhi\r\n");
        }
        Protocol::MySql => match mysql_client() {
            Ok(connect) => talk_of_rows(connect, address),
            Err(unavailable) => println!("skipped: talking to {}: {unavailable}", peer.entry.name),
        },
    }
}

/// Two connections see each other's commits, and each statement says whether it found its key.
fn talk_of_rows(connect: ConnectRows, address: SocketAddr) {
    let mut one = connect(address).expect("it listens");
    let mut other = connect(address).expect("it listens");
    one.load(&[(b"a", b"1"), (b"b", b"2")]).expect("loaded");
    one.insert(b"c\0", b"3").expect("inserted");
    let again = other.insert(b"a", b"9").expect_err("it is there");
    assert!(again.to_string().contains("Duplicate"), "{again}");
    assert_eq!(other.get(b"c\0").expect("an answer"), Some(b"3".to_vec()));
    assert_eq!(other.get(b"c").expect("an answer"), None);
    assert!(other.update(b"b", b"2").expect("an answer"), "it is there");
    assert!(other.update(b"b", b"4").expect("an answer"));
    assert!(!other.update(b"d", b"4").expect("an answer"));
    assert_eq!(one.get(b"b").expect("an answer"), Some(b"4".to_vec()));
    assert!(one.remove(b"b").expect("an answer"));
    assert!(!other.remove(b"b").expect("an answer"));
}

#[test]
fn memcached_and_redis_start_answer_and_stop() {
    run(|protocol| protocol != Protocol::MySql);
}

#[test]
#[ignore = "makes a MariaDB installation, which takes seconds: add -- --ignored"]
fn mariadb_starts_answers_and_stops() {
    run(|protocol| protocol == Protocol::MySql);
}

fn run(which: impl Fn(Protocol) -> bool) {
    for peer in servers().into_iter().filter(|peer| which(peer.protocol)) {
        let name = peer.entry.name;
        let program = match &peer.program {
            Ok(program) => program.clone(),
            Err(unavailable) => {
                println!("skipped: {name}: {unavailable}");
                continue;
            }
        };
        let directory = tempfile::tempdir().expect("a directory");
        let begin = Instant::now();
        let (running, address) = start(&peer, &program, directory.path());
        talk(&peer, address);
        drop(running);
        assert!(TcpStream::connect(address).is_err(), "{name} still listens");
        println!(
            "{name} {}: answers, in {:?}",
            peer.entry.version,
            begin.elapsed()
        );
    }
}
