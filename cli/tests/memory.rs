//! What a server over a page file takes of memory and disk: no more than it was allowed with ten
//! times as much data, through a kill and the recovery after it; and little when all is gone.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::client::{Client, Reply};
use hedgerow_testkit::kill::server::Server;

const BUDGET: u64 = 16 << 20;
const ROWS: u32 = 160_000;
/// What docs/operations.md promises besides the pages and a tenth of them: 8 MiB for buffers of
/// connections, blocks under way to and from the file and what the program allocates when idle; and
/// the log's buffers, two of 512 KiB for each of two workers.
const BESIDES: u64 = (8 << 20) + 2 * (1 << 20);

fn start(data: &Path) -> Server {
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let flags = [
        ["--index", "btree"],
        ["--memory", "16MiB"],
        ["--workers", "2"],
        ["--checkpoint-log", "64MiB"],
    ];
    Server::spawn(program, data, flags.as_flattened()).unwrap()
}

/// Takes a checkpoint, however long that takes.
fn save(server: &mut Server) {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        // A client gives up after a while; the checkpoint goes on.
        match server.connect().unwrap().call(&[b"SAVE"]) {
            Ok(Reply::Error(why)) if why.contains("in progress") => {
                assert!(Instant::now() < deadline, "{why}");
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(reply) => return assert_eq!(reply, Reply::Simple("OK".into())),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// The most memory that a server ever had for itself, in bytes: without the pages of the program's
/// file, which are more in a build for tests, and which the system drops when it needs the memory.
fn peak_bytes(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.process());
    let status = std::fs::read_to_string(path).unwrap();
    let bytes = |name| {
        let line = status.lines().find(|line| line.starts_with(name));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kib.unwrap() << 10
    };
    bytes("VmHWM:") - bytes("RssFile:")
}

/// The memory that a process has now, in bytes. Counted page by page: what `status` has of it is
/// added up inexactly.
fn resident_bytes(server: &Server) -> u64 {
    let path = format!("/proc/{}/smaps_rollup", server.process());
    let pages = std::fs::read_to_string(path).unwrap();
    let line = pages.lines().find(|line| line.starts_with("Rss:")).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

/// What runs only at the start of a server does not stay in memory.
#[test]
fn an_empty_server_takes_less_than_8_mib() {
    for index in ["masstree", "btree"] {
        let dir = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
        let flags = ["--index", index, "--workers", "1"];
        let mut server = Server::spawn(program, &dir.path().join("data"), &flags).unwrap();
        server.connect().unwrap().call(&[b"PING"]).unwrap();
        // It says that it serves before it gives back what the start needed.
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let bytes = resident_bytes(&server);
            if bytes < 8 << 20 {
                break println!("{index}: {bytes} bytes");
            }
            assert!(Instant::now() < deadline, "{index}: {bytes} bytes");
            std::thread::sleep(Duration::from_millis(10));
        }
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

/// Sends one command and checks its reply.
fn expect(client: &mut Client, words: &[&[u8]], reply: &Reply) {
    let found = client.call(words).unwrap();
    assert!(found == *reply, "{:?}", words[..2].to_vec());
}

/// Values of up to a megabyte come and go in buffers of connections, of the log and of the index;
/// what these leave behind goes back to the system.
#[test]
fn a_server_keeps_to_its_memory_with_large_values() {
    const LARGE_BUDGET: u64 = 32 << 20;
    const LARGEST: u32 = 1_000_000;
    const VALUES: u32 = 400;
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--index", "btree", "--memory", "32MiB", "--workers", "2"];
    let flags = [&flags[..], &["--checkpoint-log", "64MiB"]].concat();
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let mut server = Server::spawn(program, &dir.path().join("data"), &flags).unwrap();
    let mut clients: Vec<Client> = (0..4).map(|_| server.connect().unwrap()).collect();
    clients[0].call(&[b"SET", b"first", b"-"]).unwrap();
    let idle = peak_bytes(&server);
    let length = |n: u32, round: u32| {
        let mixed = (n * 3 + round).wrapping_mul(0x9e37_79b9) % LARGEST;
        mixed.max(1000) as usize
    };
    let value = |n: u32, round: u32| vec![(n % 251) as u8; length(n, round)];
    let ok = Reply::Simple("OK".into());
    for n in 0..VALUES {
        let client = &mut clients[(n % 4) as usize];
        expect(client, &[b"SET", &key(n), &value(n, 0)], &ok);
    }
    for n in (0..VALUES).map(|n| n * 7 % VALUES) {
        let client = &mut clients[(n % 3) as usize];
        expect(client, &[b"GET", &key(n)], &Reply::Bulk(Some(value(n, 0))));
        if n % 2 == 0 {
            expect(client, &[b"SET", &key(n), &value(n, 1)], &ok);
            expect(client, &[b"SET", &key(n), &value(n, 0)], &ok);
        }
    }
    let peak = peak_bytes(&server);
    println!("{idle} bytes when idle, {peak} at most");
    let allowed = LARGE_BUDGET + LARGE_BUDGET / 10 + BESIDES;
    assert!(peak < allowed, "{peak} bytes, {idle} when idle");
    assert!(peak > LARGE_BUDGET, "all of it is in use");
}

/// Rows of a B-tree fill the memory; then rows in memory take their part of it, and no more.
#[test]
fn a_server_keeps_to_its_memory_with_keyspaces_of_both_kinds() {
    const BOTH: u64 = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let created = std::process::Command::new(program)
        .args(["keyspace", "create", "db1", "--index", "masstree", "--data"])
        .arg(&data)
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
    let flags = ["--index", "btree", "--memory", "64MiB", "--workers", "2"];
    let flags = [&flags[..], &["--checkpoint-log", "1GiB"]].concat();
    let mut server = Server::spawn(program, &data, &flags).unwrap();
    let mut client = server.connect().unwrap();
    let ok = Reply::Simple("OK".into());
    set(&mut client, 0..120_000);
    // But for what the pool keeps free and for its books.
    assert!(peak_bytes(&server) > BOTH / 8 * 7, "all of it is in use");
    expect(&mut client, &[b"SELECT", b"1"], &ok);
    let mut stored = 0;
    let refused = loop {
        match client
            .call(&[b"SET", &key(stored), &value(stored)])
            .unwrap()
        {
            Reply::Error(why) => break why,
            reply => assert_eq!(reply, ok),
        }
        stored += 1;
        assert!(stored < 100_000, "the limit is never reached");
    };
    for words in ["OOM ", "keyspaces in memory", "B-trees", "--memory"] {
        assert!(refused.contains(words), "{refused}");
    }
    let least = BOTH / 2 / value(0).len() as u64;
    assert!(u64::from(stored) > least, "{stored}");
    get(&mut client, 0..1_000);
    expect(&mut client, &[b"SELECT", b"0"], &ok);
    set(&mut client, 120_000..130_000);
    get(&mut client, (0..1_000).map(|n| n * 100));
    let peak = peak_bytes(&server);
    println!("{stored} rows in memory, {peak} bytes at most");
    let allowed = BOTH + BOTH / 10 + BESIDES;
    assert!(peak < allowed, "{peak} bytes");
}

/// Numbers of rows, far apart from each other.
fn scattered(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|n| n.wrapping_mul(0x9e37_79b9) % ROWS)
}

#[test]
fn a_server_keeps_to_its_memory_and_gives_its_disk_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = start(&data);
    let mut client = server.connect().unwrap();
    client.call(&[b"SET", b"first", b"-"]).unwrap();
    let idle = peak_bytes(&server);
    set(&mut client, 0..ROWS);
    get(&mut client, scattered(5_000));
    set(&mut client, scattered(5_000));
    let allowed = BUDGET + BUDGET / 10 + BESIDES;
    let peak = peak_bytes(&server);
    println!("{idle} bytes when idle, {peak} at most");
    assert!(peak < allowed, "{peak} bytes, {idle} when idle");
    assert!(peak > BUDGET, "all of it is in use");
    drop((client, server));

    // What was not in a checkpoint comes back, in no more memory.
    let mut server = start(&data);
    let mut client = server.connect().unwrap();
    let peak = peak_bytes(&server);
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
    (0..4).for_each(|_| save(&mut server));
    let mut client = server.connect().unwrap();
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
    let peak = peak_bytes(&server);
    assert!(peak < allowed, "{peak} bytes to the end, {idle} when idle");
}

/// A number of `hedgerow stats --json`.
fn statistic(stats: &str, name: &str) -> u64 {
    let (_, rest) = stats.split_once(&format!("\"{name}\":")).expect(name);
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().expect(name)
}

/// Commands that only look at a database which was killed replay its logs into their own memory,
/// and must keep to that, however long the logs are.
#[test]
fn a_killed_database_is_looked_at_in_little_memory() {
    const FEW: u32 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
    let flags = ["--index", "btree", "--memory", "16MiB", "--workers", "2"];
    let flags = [&flags[..], &["--checkpoint-log", "0"]].concat();
    let mut server = Server::spawn(program, &data, &flags).unwrap();
    let mut client = server.connect().unwrap();
    set(&mut client, 0..FEW);
    server.kill().unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(program);
        let command = command.args(words).arg("--data").arg(&data);
        let output = command.args(["--memory", "2MiB"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let before = std::fs::read(data.join("pages.hdg")).unwrap();
    assert_eq!(run(&["count"]), format!("{FEW}\n"));
    assert!(run(&["check"]).contains("whole"));
    let stats = run(&["stats", "--json"]);
    let resident = statistic(&stats, "pages_resident") * 4096;
    let evicted = statistic(&stats, "pages_written_total");
    println!("{resident} bytes of pages in memory, {evicted} pages written aside");
    assert!(resident <= 2 << 20, "{resident} bytes of pages");
    assert!(evicted > 2_000, "{evicted} pages went to the scratch file");
    assert!(std::fs::read(data.join("pages.hdg")).unwrap() == before);
}
