//! What a server over a page file takes of memory and disk: no more than it was allowed with ten
//! times as much data, through a kill and the recovery after it; and little when all is gone.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::{Client, Reply};

const BUDGET: u64 = 16 << 20;
const ROWS: u32 = 160_000;
/// Besides what an idle server takes and the pages: logs on their way to the disk, buffers of a
/// connection, blocks under way to and from the file.
const BESIDES: u64 = 4 << 20;

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(data: &Path) -> Server {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_hedgerow"))
            .args([
                "serve",
                "--index",
                "btree",
                "--memory",
                "16MiB",
                "--workers",
                "2",
            ])
            .args([
                "--checkpoint-log",
                "64MiB",
                "--memcached",
                "none",
                "--http",
                "none",
            ])
            .args(["--resp", &address.to_string(), "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Server { child, address }
    }

    fn connect(&mut self) -> Client {
        let patience = Instant::now() + Duration::from_secs(120);
        loop {
            if let Ok(client) = Client::connect(self.address) {
                return client;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended");
            assert!(Instant::now() < patience, "it does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Takes a checkpoint, however long that takes.
    fn save(&mut self) {
        let patience = Instant::now() + Duration::from_secs(300);
        loop {
            // A client gives up after a while; the checkpoint goes on.
            match self.connect().call(&[b"SAVE"]) {
                Ok(Reply::Error(why)) if why.contains("in progress") => {
                    assert!(Instant::now() < patience, "{why}");
                    std::thread::sleep(Duration::from_millis(50));
                }
                Ok(reply) => return assert_eq!(reply, Reply::Simple("OK".into())),
                Err(error) => assert!(Instant::now() < patience, "{error}"),
            }
        }
    }

    /// The most memory that it ever had, in bytes.
    fn peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib: u64 = line
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .unwrap();
        kib << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Dead already, where a test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(256)
}

/// Sends commands in batches, and checks each reply.
fn burst(
    client: &mut Client,
    numbers: impl Iterator<Item = u32>,
    words: impl Fn(u32) -> Vec<Vec<u8>>,
    good: impl Fn(u32, &Reply) -> bool,
) {
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let batch: Vec<u32> = numbers.by_ref().take(128).collect();
        for &n in &batch {
            let words = words(n);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            client.queue(&words);
        }
        client.send().unwrap();
        for &n in &batch {
            let reply = client.receive().unwrap();
            assert!(good(n, &reply), "{n}: {reply:?}");
        }
    }
}

fn set(client: &mut Client, numbers: impl Iterator<Item = u32>) {
    let ok = Reply::Simple("OK".into());
    let words = |n| vec![b"SET".to_vec(), key(n), value(n)];
    burst(client, numbers, words, |_, reply| *reply == ok);
}

fn get(client: &mut Client, numbers: impl Iterator<Item = u32>) {
    let words = |n| vec![b"GET".to_vec(), key(n)];
    burst(client, numbers, words, |n, reply| {
        *reply == Reply::Bulk(Some(value(n)))
    });
}

/// Numbers of rows, far apart from each other.
fn scattered(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|n| n.wrapping_mul(0x9e37_79b9) % ROWS)
}

#[test]
fn a_server_keeps_to_its_memory_and_gives_its_disk_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data);
    let mut client = server.connect();
    client.call(&[b"SET", b"first", b"-"]).unwrap();
    let idle = server.peak();
    set(&mut client, 0..ROWS);
    get(&mut client, scattered(5_000));
    set(&mut client, scattered(5_000));
    let allowed = idle + BUDGET + BUDGET / 10 + BESIDES;
    let peak = server.peak();
    println!("{idle} bytes when idle, {peak} at most");
    assert!(peak < allowed, "{peak} bytes, {idle} when idle");
    assert!(peak > BUDGET, "all of it is in use");
    drop((client, server));

    // What was not in a checkpoint comes back, in no more memory.
    let mut server = Server::start(&data);
    let mut client = server.connect();
    let peak = server.peak();
    println!("{peak} at most in recovery");
    assert!(peak < allowed, "{peak} bytes in recovery, {idle} when idle");
    get(&mut client, scattered(2_000));
    let file = data.join("pages.hdg");
    let full = std::fs::metadata(&file).unwrap();
    assert!(full.len() > 10 * BUDGET, "{} bytes", full.len());
    let done = client.call(&[b"FLUSHALL"]).unwrap();
    assert_eq!(done, Reply::Simple("OK".into()));
    client.call(&[b"SET", b"last", b"-"]).unwrap();
    drop(client);
    (0..4).for_each(|_| server.save());
    let mut client = server.connect();
    let empty = std::fs::metadata(&file).unwrap();
    println!(
        "{} bytes and {} blocks when empty",
        empty.len(),
        empty.blocks()
    );
    assert!(empty.len() < full.len() / 20, "{} bytes long", empty.len());
    assert!(
        empty.blocks() * 512 < full.len() / 20,
        "{} blocks",
        empty.blocks()
    );
    assert_eq!(client.call(&[b"DBSIZE"]).unwrap(), Reply::Integer(1));
    let peak = server.peak();
    assert!(peak < allowed, "{peak} bytes to the end, {idle} when idle");
}
