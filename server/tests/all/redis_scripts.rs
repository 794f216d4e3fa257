//! Scripts of requests that get the same bytes of this server and of a real redis-server: options
//! that repeat or contradict each other, arguments that are wrong, and which of several errors is
//! told.
//!
//! Skipped where redis-server is not installed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::redis_process::Redis;
use crate::support::{Started, TIMEOUT, one_worker, request};
use crate::tested::KEY_BYTES;

/// Requests of one connection, one a line. `''` stands for an empty argument; a line that begins
/// with `>` is sent as it is, an inline command.
type Script = &'static str;

/// What is asked behind each request, so that the end of its reply is known.
const MARK: &[u8] = b"end-of-reply";

/// A connection whose replies are compared byte by byte.
struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    fn connect(address: SocketAddr) -> RawClient {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        RawClient { stream }
    }

    /// The bytes of the reply to a line of a script; those up to the end if the server closes.
    fn reply(&mut self, line: &str) -> String {
        let mut bytes = encoded(line);
        bytes.extend_from_slice(&request(&[b"ECHO", MARK]));
        if let Err(error) = self.stream.write_all(&bytes) {
            return format!("closed: {:?}", error.kind());
        }
        let mark = [b"$12\r\n", MARK, b"\r\n"].concat();
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        while !received.ends_with(&mark) {
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => received.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("no reply to {line:?}: {error}"),
            }
        }
        without_id(&String::from_utf8_lossy(&received))
    }

    /// The bytes of the replies to a script that is sent at once, up to the end of the connection.
    fn replies(mut self, script: Script) -> String {
        let lines = script.lines().map(str::trim).chain(["QUIT"]);
        let requests: Vec<u8> = lines.flat_map(encoded).collect();
        self.stream.write_all(&requests).unwrap();
        let mut received = Vec::new();
        self.stream.read_to_end(&mut received).unwrap();
        String::from_utf8_lossy(&received).into_owned()
    }
}

/// A line of a script as a client sends it.
fn encoded(line: &str) -> Vec<u8> {
    if let Some(inline) = line.strip_prefix('>') {
        return format!("{inline}\r\n").into_bytes();
    }
    let words = line.split(' ');
    let words = words.map(|word| if word == "''" { "" } else { word });
    request(&words.map(str::as_bytes).collect::<Vec<_>>())
}

/// A reply to `HELLO` without the number of the connection, which no two servers share.
fn without_id(reply: &str) -> String {
    let Some((before, behind)) = reply.split_once("$2\r\nid\r\n:") else {
        return reply.to_owned();
    };
    before.to_owned() + behind.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Whether a backend refused a command that it lacks.
fn is_refused(started: &Started, line: &str, reply: &str) -> bool {
    reply.starts_with("-UNSUPPORTED ") && !started.serves(line)
}

/// Runs scripts on both servers, each on a connection of its own, and compares all replies.
#[track_caller]
fn assert_same(scripts: &[Script]) {
    let Some(redis) = Redis::start() else { return };
    let started = Started::new(one_worker());
    let mut differences = String::new();
    for script in scripts {
        let mut clients = [started.resp(), redis.address].map(RawClient::connect);
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let [ours, theirs] = clients.each_mut().map(|client| client.reply(line));
            if ours != theirs && !is_refused(&started, line, &ours) {
                differences += &format!("{line}\n    ours  {ours:?}\n    Redis {theirs:?}\n");
            }
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn options_of_strings_that_repeat_or_contradict_each_other() {
    assert_same(&["SET k v EX 10 EX 20
         TTL k
         SET k v EX 10 PX 20
         SET k v EX abc EX 20
         SET k v EX 10 EX abc
         SET k v EX 10 EX
         SET k v KEEPTTL KEEPTTL
         SET k v KEEPTTL EX 1
         SET k v EX 1 KEEPTTL
         SET k v NX NX
         SET k v XX XX GET
         SET k v NX XX
         SET k v EX 0 NX
         SET k v EX EX
         SET k v PERSIST
         SET k v EX 9223372036854775807
         GETEX k PERSIST PERSIST
         GETEX k EX 10 EX 20
         TTL k
         GETEX k EX 10 PX 10
         GETEX k EX abc EX 30
         TTL k
         GETEX k EX 10 PERSIST
         GETEX k PERSIST EX 10
         GETEX k PERSIST x
         GETEX k EX
         GETEX k EX abc
         GETEX k KEEPTTL
         GETEX k NX
         GETEX missing EX abc
         GETEX missing EX 0
         GETEX missing FOO
         HSET h f v
         GETEX h EX abc
         GETEX h FOO
         SET h v EX abc GET
         SET h v GET
         SET h v GET NX
         SETEX h abc v
         PSETEX h 0 v
         MSET a b c
         MSETNX a b c
         APPEND h v
         STRLEN h
         SETRANGE h -1 v
         SETRANGE h 999999999999 v
         SETRANGE missing 999999999999 ''
         SETRANGE missing 5 ''
         SETRANGE missing abc v
         SETRANGE k 536870912 v
         GETRANGE h 0 abc
         GETRANGE missing 0 abc
         SETBIT h abc 1
         SETBIT h 1 2
         GETBIT h 0
         BITCOUNT missing 0
         BITCOUNT missing 0 abc
         BITCOUNT k 0 1 FOO
         INCRBY h abc
         INCRBY k 9223372036854775808
         DECRBY k -9223372036854775808
         DECRBY h -9223372036854775808"]);
}

#[test]
fn options_of_expiry_and_copies() {
    assert_same(&["SET k v
         EXPIRE k 10 NX NX
         EXPIRE k abc NX XX
         EXPIRE k abc FOO
         EXPIRE k 10 GT LT
         EXPIRE k 10 NX GT
         EXPIRE k 1000 XX GT
         EXPIRE k 10 XX LT
         EXPIRE missing abc
         EXPIRE missing 10 FOO
         EXPIRE k 10 FOO BAR
         EXPIRE k 9223372036854775807
         EXPIRE missing 9223372036854775807
         PEXPIRE k 9223372036854775807
         EXPIREAT k 9223372036854775807
         EXPIRE k -9223372036854775808
         EXISTS k
         COPY k k
         COPY k k REPLACE REPLACE
         COPY k c DB 1 DB 2
         COPY k c DB 1 REPLACE DB 0 REPLACE
         COPY k c DB abc
         COPY missing c DB abc
         COPY missing c FOO
         COPY missing missing
         COPY k c DB 99
         MOVE k 0
         MOVE k 99
         MOVE k abc
         MOVE missing 0
         RENAME missing missing
         RENAMENX missing missing
         RENAMENX k k
         OBJECT ENCODING missing
         OBJECT FREQ missing
         OBJECT FREQ k
         OBJECT HELP x
         MEMORY USAGE missing SAMPLES -1
         MEMORY USAGE missing SAMPLES abc
         MEMORY USAGE missing FOO 1
         MEMORY USAGE missing SAMPLES 1 SAMPLES 2
         MEMORY USAGE missing SAMPLES
         FLUSHDB ASYNC SYNC
         FLUSHALL FOO
         SELECT abc
         SELECT 16
         SELECT -1
         SELECT 99999999999"]);
}

#[test]
fn options_of_scans() {
    assert_same(&["HSCAN missing 0 COUNT
         HSCAN missing 0 COUNT 0
         HSCAN missing 0 COUNT abc
         HSCAN missing 0 FOO
         HSCAN missing 0 MATCH a FOO
         HSCAN missing abc
         SCAN 0 COUNT
         SCAN 0 COUNT 0
         SCAN 0 COUNT -1
         SCAN 0 COUNT abc
         SCAN 0 COUNT abc FOO
         SCAN 0 FOO 1
         SCAN abc
         SCAN 99999999999999999999
         SCAN 0 TYPE
         SCAN 0 TYPE nosuch
         SCAN 0 TYPE string TYPE hash
         SCAN 0 COUNT 1 COUNT 2 MATCH a MATCH b
         SET k v
         SCAN +0
         SCAN 00
         SCAN 0x0
         SCAN ''
         HSET h f v
         HSCAN h ''
         HSCAN k 0
         HSCAN k abc
         HSCAN k 0 COUNT
         HSCAN h 0 COUNT
         HSCAN h 0 COUNT 0
         HSCAN h 0 COUNT abc
         HSCAN h 0 TYPE hash
         HSCAN h 0 NOVALUES
         HSCAN h 0 MATCH f COUNT
         HSCAN h 0 MATCH x MATCH f
         HSCAN h abc COUNT"]);
}

#[test]
fn arguments_of_hashes() {
    assert_same(&["HSET h f v
         SET k v
         HSET h f
         HSET k f
         HMSET h f
         HMSET k f
         HINCRBY k f abc
         HINCRBY k f 1
         HINCRBY h f 1
         HINCRBYFLOAT k f abc
         HINCRBYFLOAT h f 1
         HINCRBYFLOAT h new abc
         HINCRBYFLOAT h new inf
         HINCRBYFLOAT h new nan
         HINCRBYFLOAT h new ''
         HRANDFIELD missing abc
         HRANDFIELD missing 1 FOO
         HRANDFIELD missing 1 WITHVALUES
         HRANDFIELD missing 1 WITHVALUES x
         HRANDFIELD k abc
         HRANDFIELD k 1
         HRANDFIELD h 0 WITHVALUES
         HGET k f
         HMGET k f
         HDEL k f
         HLEN k
         HSETNX k f v
         HSTRLEN k f
         HGETALL k
         HELLO 3 FOO
         HELLO 4
         HELLO abc
         HELLO 3 SETNAME
         HELLO 2 AUTH default
         HELLO 2 AUTH default x
         AUTH x
         AUTH x y
         AUTH x y z
         HMGET missing a b
         HGETALL missing
         HGETALL h
         HRANDFIELD h 1 WITHVALUES
         HRANDFIELD missing"]);
}

#[test]
fn quotes_in_inline_commands() {
    let scripts = [
        ">SET a\"b c\" d",
        ">GET \"ab c\"",
        ">SET a\"b c\"",
        ">SET a'b c' d",
        ">GET a\"b c'd\"",
        ">SET \"ab\"c d",
        ">SET \"ab",
        ">SET a\"b",
        ">SET a' c",
        ">SET ''a c",
        ">ECHO \"\\x4\"",
        ">ECHO \"\\xzz\"",
        ">ECHO \"a\\",
        ">ECHO a\\\"b",
        ">ECHO a\\\"b\"",
        ">ECHO a\u{b}x",
        ">ECHO a\u{c}x",
        ">ECHO\u{c}x",
        ">ECHO \u{c}x",
        ">ECHO \u{b}x",
        ">ECHO \u{b}'x'",
        ">ECHO 'x'\u{b}",
        ">ECHO a\u{1c}x",
        ">ECHO a\rb",
        ">ECHO 'a'\t",
        ">ECHO 'a\\'b\\n'",
        ">ECHO \"a\"\"b\"",
        ">ECHO \"\\n\\r\\t\\b\\a\\\\\\\"\"",
        ">\"ECHO",
        ">\t \u{b}ECHO x",
        ">nosuch \"a b\" 'c'",
    ];
    assert_same(&scripts);
    if KEY_BYTES.contains(&0) {
        assert_same(&[">SET '' c\n>GET \"\""]);
    }
}

#[test]
fn arguments_of_client() {
    assert_same(&["CLIENT LIST ID abc
         CLIENT LIST ID 0
         CLIENT LIST ID -1
         CLIENT LIST ID 999999 abc
         CLIENT LIST ID 99999999999999999999
         CLIENT LIST ID
         CLIENT LIST TYPE
         CLIENT LIST TYPE foo
         CLIENT LIST TYPE normal x
         CLIENT LIST FOO
         CLIENT LIST TYPE normal ID 1
         CLIENT LIST ID 999999
         CLIENT KILL ID abc
         CLIENT KILL ID 0
         CLIENT KILL ID 99999999999999999999
         CLIENT KILL ID
         CLIENT KILL foo
         CLIENT KILL FOO bar
         CLIENT KILL ID 999999 FOO
         CLIENT KILL TYPE foo
         CLIENT KILL USER foo
         CLIENT KILL ID 999999 ID 999998
         CLIENT KILL SKIPME foo
         CLIENT KILL SKIPME yes SKIPME no ID 999999
         CLIENT KILL USER default ID 999999
         CLIENT KILL ADDR x
         CLIENT KILL TYPE slave TYPE normal ID 999999
         CLIENT PAUSE abc
         CLIENT PAUSE -1
         CLIENT PAUSE 1 FOO
         CLIENT PAUSE abc FOO
         CLIENT PAUSE 0 WRITE x
         CLIENT PAUSE 0 ALL
         CLIENT PAUSE 99999999999999999999
         CLIENT UNPAUSE
         CLIENT REPLY FOO
         CLIENT SETNAME a\u{1}b
         CLIENT SETNAME ''
         CLIENT GETNAME
         CLIENT NO-EVICT foo
         CLIENT GETREDIR
         CLIENT FOO
         CLIENT
         CLIENT ID x
         HELLO 3 SETNAME a\u{1}b
         PING a b
         ECHO
         RESET x
         QUIT x"]);
}

#[test]
fn descriptions_of_commands_and_settings() {
    assert_same(&["COMMAND INFO nosuch
         COMMAND INFO config|nosuch nosuch|get
         COMMAND DOCS nosuch
         COMMAND LIST FILTERBY MODULE x
         COMMAND LIST FILTERBY FOO x
         COMMAND LIST FILTERBY PATTERN ge[t]
         COMMAND LIST x
         COMMAND COUNT x
         COMMAND GETKEYS nosuch a
         COMMAND GETKEYS get a b
         COMMAND GETKEYS ping a
         COMMAND GETKEYS object encoding a
         COMMAND GETKEYS
         COMMAND GETKEYS mset a b c d
         CONFIG GET TIMEOUT
         CONFIG GET timeout TIMEOUT
         CONFIG GET TIMEOUT timeout
         CONFIG GET TIME*
         CONFIG GET TIMEOUT time*
         CONFIG GET TIME* TIMEOUT
         CONFIG GET [T]imeout
         CONFIG GET nosuch
         CONFIG SET TIMEOUT 0
         CONFIG SET TIMEOUT abc
         CONFIG SET NoSuch 1
         CONFIG SET timeout 0 NoSuch 1
         CONFIG SET timeout 0 TIMEOUT 0
         CONFIG SET timeout
         CONFIG SET timeout 1 x
         CONFIG SET maxclients abc
         CONFIG SET maxclients 0 timeout abc
         CONFIG SET DATABASES 17
         CONFIG RESETSTAT x
         INFO nosuch
         TIME x
         LASTSAVE x
         HELLO 3
         COMMAND INFO nosuch
         COMMAND DOCS nosuch
         COMMAND LIST FILTERBY MODULE x
         COMMAND LIST FILTERBY PATTERN ge[t]
         COMMAND GETKEYS mset a b c d
         CONFIG GET TIMEOUT
         GET missing
         MGET missing
         SET missing v XX
         GETEX missing"]);
}

#[test]
fn commands_that_may_not_be_queued_and_errors_of_transactions() {
    assert_same(&["EXEC
         DISCARD
         MULTI x
         WATCH
         SAVE x
         BGSAVE x
         BGSAVE SCHEDULE x
         BGSAVE x y
         SHUTDOWN FOO
         SHUTDOWN SAVE NOSAVE
         SHUTDOWN ABORT
         SHUTDOWN ABORT NOW
         SHUTDOWN NOW NOW FOO
         SHUTDOWN SAVE SAVE FOO"]);
}

#[test]
fn queued_commands_and_their_errors() {
    let Some(redis) = Redis::start() else { return };
    let started = Started::new(one_worker());
    for script in [
        "MULTI
         BGSAVE
         BGSAVE FOO
         SELECT abc
         EXEC",
        "MULTI
         EXEC x
         EXEC",
        "MULTI
         SAVE
         EXEC
         GET k",
        "MULTI
         SHUTDOWN NOSAVE
         EXEC",
        "MULTI
         MULTI
         WATCH k
         GET
         DISCARD
         EXEC",
        "SET k v
         MULTI
         HGET k f
         INCR k
         NOSUCH
         EXEC
         MULTI
         HGET k f
         INCR k
         SET k 1 EX 10 EX 20
         EXEC
         TTL k",
    ] {
        let [ours, theirs] = [started.resp(), redis.address]
            .map(|address| RawClient::connect(address).replies(script));
        // A transaction with what the backend lacks is refused as a whole.
        if script.contains("BGSAVE") && !started.serves("BGSAVE") {
            assert!(ours.contains("\r\n-UNSUPPORTED SAVE"), "{ours}");
            continue;
        }
        assert_eq!(ours, theirs, "{script}");
    }
}

#[test]
fn sums_of_fractions() {
    // Those that a long double holds, and what is refused.
    assert_same(&["SET k 0.5
         INCRBYFLOAT k 1e1
         INCRBYFLOAT k -2.5E+0
         SET k 0.12345678901234567
         INCRBYFLOAT k 0.00000000000000001
         SET k 1.
         INCRBYFLOAT k .5
         SET k 1e18
         INCRBYFLOAT k 0.5
         SET k 99999999999999999999
         INCRBYFLOAT k 1
         SET k -0
         INCRBYFLOAT k 0
         INCRBYFLOAT k nan
         INCRBYFLOAT k 1e5000
         INCRBYFLOAT k 1e-5000
         INCRBYFLOAT k 0e9999
         INCRBYFLOAT k 1e
         INCRBYFLOAT k .
         INCRBYFLOAT k ''
         INCRBYFLOAT k inf
         SET k inf
         INCRBYFLOAT k 1
         SET k 1e5000
         INCRBYFLOAT k 1
         SET k ''
         INCRBYFLOAT k 1
         INCRBYFLOAT missing inf
         EXISTS missing
         HSET h f inf
         INCRBYFLOAT h abc
         HINCRBYFLOAT h f 1
         HSET h f 1e5000
         HINCRBYFLOAT h f 1
         HINCRBYFLOAT h f 1e5000
         HSET h f ''
         HINCRBYFLOAT h f 1"]);
}
