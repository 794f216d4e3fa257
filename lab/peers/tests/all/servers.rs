//! Every server that this machine has is started in a directory of its own, answers a client of
//! its protocol, and is gone afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_lab_peers::{
    ConnectRows, HANDLER_SOCKET_PREAMBLE, Protocol, ServerPeer, ServerSettings, mysql_client,
    servers,
};

fn settings() -> ServerSettings {
    ServerSettings {
        memory_bytes: 64 << 20,
        threads: 1,
        connections: 100,
        readers_port: free_address().port(),
    }
}

fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("it has one")
}

/// A started server; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(peer: &ServerPeer, program: &Path, directory: &Path) -> (Running, SocketAddr) {
    let address = free_address();
    let arguments = (peer.prepare)(directory, address, &settings()).expect("prepared");
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

/// Sends requests and reads as many lines.
fn ask_lines(address: SocketAddr, requests: &str, lines: usize) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).expect("a socket");
    stream.write_all(requests.as_bytes()).expect("it reads");
    let answers = BufReader::new(stream).lines().take(lines);
    answers.map(|line| line.expect("text") + "\n").collect()
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
        Protocol::HandlerSocket => talk_of_lines(address),
        Protocol::MySql => match mysql_client() {
            Ok(connect) => talk_of_rows(connect, address),
            Err(unavailable) => println!("skipped: talking to {}: {unavailable}", peer.entry.name),
        },
    }
}

/// Each request says whether it found its key. The table is there a moment after the port.
fn talk_of_lines(address: SocketAddr) {
    let opened = "0\t1\n0\t1\n0\t1\n";
    let begin = Instant::now();
    let talk = |requests: &str, answers: &str| {
        let lines = 3 + requests.lines().count();
        let all = format!("{HANDLER_SOCKET_PREAMBLE}{requests}");
        let answer = ask_lines(address, &all, lines);
        answer == format!("{opened}{answers}")
    };
    while !talk("", "") {
        assert!(begin.elapsed() < Duration::from_secs(60), "no table");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(talk("0\t+\t2\ta\t1\n", "0\t1\n"), "an insert");
    assert!(talk("0\t+\t2\ta\t9\n", "1\t1\t121\n"), "it is there");
    assert!(talk("1\t=\t1\ta\t1\t0\tU\t2\n", "0\t1\t1\n"), "an update");
    assert!(talk("1\t=\t1\ta\n", "0\t1\t2\n"), "the new value");
    assert!(talk("1\t=\t1\ta\t1\t0\tD\n", "0\t1\t1\n"), "a delete");
    assert!(talk("1\t=\t1\ta\n", "0\t1\n"), "nothing");
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
    run(|protocol| matches!(protocol, Protocol::Memcached | Protocol::Resp));
}

#[test]
#[ignore = "makes a MariaDB installation, which takes seconds: add -- --ignored"]
fn mariadb_starts_answers_and_stops() {
    run(|protocol| matches!(protocol, Protocol::MySql | Protocol::HandlerSocket));
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
