//! Target for what commands do: a running server gets the input from one connection and must answer
//! and end it, and serve others as before.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hedgerow::Db;
use hedgerow_server::{Server, ServerOptions};

/// Commands and their options, keys and names that the seeds use, and numbers at bounds.
pub(super) const WORDS: &[&str] = &[
    "SNAPSHOT",
    "NAME",
    "TTL",
    "RELEASE",
    "LIST",
    "WITH",
    "BEGIN",
    "SERIALIZABLE",
    "COMMIT",
    "ROLLBACK",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "RESET",
    "SELECT",
    "HELLO",
    "GET",
    "SET",
    "DEL",
    "INCR",
    "APPEND",
    "SETRANGE",
    "GETRANGE",
    "MSET",
    "MSETNX",
    "MGET",
    "HSET",
    "HGETALL",
    "HINCRBY",
    "HDEL",
    "HSCAN",
    "RANGE",
    "PREFIX",
    "COUNTRANGE",
    "DELRANGE",
    "SCAN",
    "KEYS",
    "REV",
    "LIMIT",
    "COLUMNS",
    "COUNT",
    "MATCH",
    "DBSIZE",
    "FLUSHDB",
    "RENAME",
    "COPY",
    "MOVE",
    "DB",
    "REPLACE",
    "EXPIRE",
    "PERSIST",
    "EX",
    "PX",
    "NX",
    "XX",
    "KEEPTTL",
    "WAITAOF",
    "CLIENT",
    "REPLY",
    "SKIP",
    "OFF",
    "ON",
    "INFO",
    "COMMAND",
    "OBJECT",
    "ENCODING",
    "MEMORY",
    "USAGE",
    "RANDOMKEY",
    "PING",
    "QUIT",
    "report",
    "own",
    "key",
    "hash",
    "field",
    "-",
    "+",
    "(key",
    "[key",
    "*",
    "0",
    "1",
    "-1",
    "3",
    "1000",
    "3600000",
    "3600001",
    "9223372036854775807",
    "9223372036854775808",
    "00000000000000000000000000000000",
    "0123456789abcdef0123456789abcdef",
];

/// What would change the server for the inputs that follow.
const LASTING: [&str; 3] = ["PAUSE", "CONFIG", "KILL"];

/// How long the server may take for an input: only a hang takes longer.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(120));

fn server() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let builder = Db::builder()
            .memory_limit(Some(64 << 20))
            .version_memory(Some(1 << 20))
            .max_value_bytes(1 << 20)
            .max_commit_bytes(8 << 20);
        let db = builder.open_in_memory().expect("a database in memory");
        let options = ServerOptions {
            workers: 1,
            client_memory_bytes: 16 << 20,
            max_bulk_bytes: 1 << 20,
            max_frame_bytes: 2 << 20,
            max_shared_snapshots: 4,
            ..ServerOptions::default()
        };
        Server::start(Arc::new(db), options).expect("a server on a free port")
    });
    server.addresses().resp.expect("it serves Redis clients")
}

/// Sends a client's bytes, and reads until the server closes.
fn exchange(bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server()).expect("the server listens");
    stream.set_read_timeout(TIMEOUT).expect("a timeout");
    stream.set_write_timeout(TIMEOUT).expect("a timeout");
    let mut replies = Vec::new();
    // It may close in the middle, because of what it reads; it may not stop reading.
    let sent = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let read = stream.read_to_end(&mut replies);
    for outcome in [sent, read.map(drop)] {
        let waits = |kind| kind == ErrorKind::WouldBlock || kind == ErrorKind::TimedOut;
        assert!(
            !outcome.is_err_and(|error| waits(error.kind())),
            "the server neither answers nor closes"
        );
    }
    replies
}

/// Runs the commands of one connection, and looks whether another one is served and sees nothing of
/// a transaction that the input left open.
pub(super) fn run(data: &[u8]) {
    let upper = data.to_ascii_uppercase();
    let has = |word: &str| {
        upper
            .windows(word.len())
            .any(|part| part == word.as_bytes())
    };
    if LASTING.iter().any(|word| has(word)) {
        return;
    }
    exchange(b"FLUSHALL\r\n");
    exchange(data);
    exchange(b"BEGIN\r\nSET left-open 1\r\n");
    let after = exchange(b"EXISTS left-open\r\nBEGIN\r\nROLLBACK\r\nPING\r\n");
    assert!(
        after == b":0\r\n+OK\r\n+OK\r\n+PONG\r\n",
        "{}",
        after.escape_ascii()
    );
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "SET key 1\r\nSNAPSHOT NAME report TTL 1000\r\nSNAPSHOT NAME own\r\nSET key 2\r\n\
         WITH report GET key\r\nWITH own RANGE - + LIMIT 3 REV\r\nSNAPSHOT LIST\r\n\
         SNAPSHOT RELEASE report\r\n",
        "BEGIN\r\nSET key 1\r\nINCR key\r\nHSET hash field 1\r\nRANGE - + COLUMNS field\r\n\
         DELRANGE - +\r\nCOMMIT\r\nDBSIZE\r\n",
        "BEGIN SNAPSHOT\r\nMSET key 1 own 2\r\nSELECT 3\r\nCOPY key own DB 1\r\nSCAN 0 COUNT 1\r\n\
         ROLLBACK\r\nMULTI\r\nSET key 1\r\nBEGIN\r\nEXEC\r\n",
        "HELLO 3\r\nSNAPSHOT NAME own TTL 5\r\nSNAPSHOT LIST\r\nBEGIN SERIALIZABLE\r\nGET key\r\n\
         WITH own GET key\r\nRESET\r\nWATCH key\r\nBEGIN\r\nUNWATCH\r\nBEGIN\r\nAPPEND key x\r\n\
         COMMIT\r\nWAITAOF 1 0 1\r\n",
        "*2\r\n$5\r\nBEGIN\r\n$8\r\nSNAPSHOT\r\n*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1\r\n1\r\n*1\r\n\
         $6\r\nCOMMIT\r\n*4\r\n$4\r\nWITH\r\n$3\r\nown\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
}
