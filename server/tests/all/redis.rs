//! The same random commands against this server and a real redis-server: the same replies.
//!
//! Skipped where redis-server is not installed.

use crate::support::redis_process::Redis;
use crate::support::{Client, Started, Value, one_worker, request};
use hedgerow_testkit::seed::seed;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Replies whose order or wording is not promised, made comparable.
fn comparable(words: &[Vec<u8>], value: Value) -> Value {
    let name = words[0].to_ascii_uppercase();
    let sort = |items: &mut Vec<Value>| items.sort_by_key(|item| format!("{item:?}"));
    match (name.as_slice(), value) {
        (b"KEYS" | b"HKEYS" | b"HVALS" | b"HRANDFIELD" | b"COMMAND", Value::Array(mut items)) => {
            sort(&mut items);
            Value::Array(items)
        }
        (b"HGETALL", Value::Array(items)) => {
            let mut pairs: Vec<Value> = items
                .chunks(2)
                .map(|pair| Value::Array(pair.to_vec()))
                .collect();
            sort(&mut pairs);
            Value::Array(pairs)
        }
        (b"HGETALL", Value::Map(mut pairs)) => {
            pairs.sort_by_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        // Replies of a transaction are compared in kind: those commands may be among them.
        (b"EXEC", Value::Array(items)) => Value::Array(items.into_iter().map(kind).collect()),
        (_, value) => value,
    }
}

/// Whether two replies are the same, up to the time that passes between the two servers: that may
/// be much on a busy machine, and is little beside the shortest expiry, a thousand seconds.
fn same(words: &[Vec<u8>], ours: &Value, theirs: &Value) -> bool {
    let tolerance = match words[0].as_slice() {
        b"TTL" => 300,
        b"PTTL" => 300_000,
        _ => 0,
    };
    match (ours, theirs) {
        (Value::Integer(ours), Value::Integer(theirs)) if *ours > 0 && *theirs > 0 => {
            ours.abs_diff(*theirs) <= tolerance
        }
        _ => ours == theirs,
    }
}

/// A reply without what may differ.
fn kind(value: Value) -> Value {
    match value {
        Value::Integer(n) if n > 100 => Value::Integer(100),
        Value::Array(items) => Value::Integer(items.len() as i64),
        value => value,
    }
}

const WORDS: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "10",
    "3.5",
    "abc",
    "9223372036854775807",
    " 1",
    "01",
    "1e3",
];

/// Draws commands. Over a backend whose transactions have one row, it leaves out what needs
/// several, and lets a transaction have the row that is watched.
struct Commands {
    random: StdRng,
    has_several_rows: bool,
    /// The key of the transaction that is queued, if it may have one alone.
    queued: Option<&'static str>,
    is_watching: bool,
}

impl Commands {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.random_range(0..from.len())]
    }

    fn key(&mut self) -> &'static str {
        if let Some(key) = self.queued {
            return key;
        }
        self.pick(&["a", "b", "c", "h1", "h2", "n"])
    }

    fn number(&mut self) -> String {
        match self.random.random_range(0..10) {
            0 => self
                .pick(&[
                    "x",
                    "",
                    "1.5",
                    "99999999999999999999",
                    "-9223372036854775808",
                ])
                .into(),
            _ => self.random.random_range(-20..20).to_string(),
        }
    }

    /// A template whose command needs no more rows than the backend has in a transaction.
    fn template(&mut self) -> &'static str {
        loop {
            let template = self.pick(TEMPLATES);
            let fits = |word| match word {
                "COPY" | "MOVE" | "MSETNX" | "RENAME" | "RENAMENX" => false,
                // Rows of other keys, or of other databases.
                "KEYS" | "DBSIZE" | "SCAN" | "FLUSHDB" | "q" | "w" | "nosuchkey" => {
                    self.queued.is_none()
                }
                "SELECT" => self.queued.is_none() && !self.is_watching,
                _ => true,
            };
            if self.has_several_rows || template.split(' ').all(fits) || template == WATCH {
                self.follow(template);
                return template;
            }
        }
    }

    /// Keeps in mind whether a transaction is queued, and whether a key is watched.
    fn follow(&mut self, template: &str) {
        match template {
            "MULTI" if !self.has_several_rows && self.queued.is_none() => {
                let key = self.key();
                self.queued = Some(if self.is_watching { "w" } else { key });
            }
            WATCH => self.is_watching |= self.queued.is_none(),
            "UNWATCH" => self.is_watching &= self.queued.is_some(),
            "EXEC" | "DISCARD" if self.queued.is_some() => {
                (self.queued, self.is_watching) = (None, false);
            }
            _ => {}
        }
    }

    /// A command from one of the [`TEMPLATES`].
    fn next(&mut self) -> Vec<Vec<u8>> {
        let template = self.template();
        let mut words: Vec<Vec<u8>> = Vec::new();
        for (i, word) in template.split(' ').enumerate() {
            let word = match word {
                _ if i == 0 => word.to_owned(),
                "k" => self.key().to_owned(),
                "f" => self.pick(&["f", "g", "h", ""]).to_owned(),
                "v" => self.pick(WORDS).to_owned(),
                "i" => self.number(),
                "o" => self
                    .pick(&[
                        "0",
                        "1",
                        "7",
                        "8",
                        "12",
                        "100",
                        "-1",
                        "x",
                        "4294967296",
                        "+1",
                    ])
                    .to_owned(),
                "b" => self.pick(&["0", "1", "0", "1", "2", "x"]).to_owned(),
                // Sums that the long doubles of Redis hold exactly, as our decimals do.
                "x" => self
                    .pick(&["0.5", "-0.25", "3", "1e3", "x", "", "+inf", "-Infinity"])
                    .to_owned(),
                "s" => match self.random.random_range(0..6) {
                    0 => self.pick(&["0", "-5", "x"]).to_owned(),
                    // No two are equal: whether they are would hang on milliseconds.
                    _ => self.random.random_range(1_000_000..9_000_000).to_string(),
                },
                word => word.to_owned(),
            };
            words.push(word.into_bytes());
        }
        words
    }
}

/// The template that watches a key.
const WATCH: &str = "WATCH w";

/// Commands. Of their words, `k` becomes a key, `f` a field, `v` a value, `i` an integer, `s`
/// seconds, `o` an offset, `b` a bit, `x` a number with a fraction.
const TEMPLATES: &[&str] = &[
    "GET k",
    "GET k",
    "SET k v",
    "SET k v",
    "SET k v NX",
    "SET k v XX",
    "SET k v GET",
    "SET k v NX GET",
    "SET k v EX s",
    "SET k v PX s",
    "SET k v KEEPTTL",
    "SET k v EX",
    "SET k v NX XX",
    "SET k v EX s KEEPTTL",
    "SET k v BAD",
    "SETNX k v",
    "SETEX k s v",
    "PSETEX k s v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k",
    "GETEX k EX s",
    "GETEX k PERSIST",
    "GETEX k NO",
    "MGET k k k",
    "MSET k v k v",
    "MSET k v k",
    "MSETNX k v k v",
    "APPEND k v",
    "STRLEN k",
    "GETRANGE k i i",
    "SUBSTR k i i",
    "SETRANGE k i v",
    "INCR k",
    "DECR k",
    "INCRBY k i",
    "DECRBY k i",
    "INCRBYFLOAT q x",
    "SET q x",
    "DEL q",
    "INCRBYFLOAT q x",
    "DEL k k",
    "UNLINK k",
    "EXISTS k k k",
    "TOUCH k k",
    "TYPE k",
    "EXPIRE k s",
    "EXPIRE k s NX",
    "EXPIRE k s XX",
    "EXPIRE k s GT",
    "EXPIRE k s LT",
    "EXPIRE k s NX GT",
    "EXPIRE k s GT LT",
    "EXPIRE k s BAD",
    "PEXPIRE k s",
    "TTL k",
    "PTTL k",
    "PERSIST k",
    "HSET k f v",
    "HSET k f v f v",
    "HSET k f",
    "HSETNX k f v",
    "HGET k f",
    "HMGET k f f",
    "HMSET k f v f v",
    "HGETALL k",
    "HDEL k f",
    "HDEL k f f",
    "HEXISTS k f",
    "HLEN k",
    "HKEYS k",
    "HVALS k",
    "HSTRLEN k f",
    "HINCRBY k f i",
    "HINCRBYFLOAT k q x",
    "KEYS *",
    "KEYS h?",
    "KEYS [a-b]*",
    "DBSIZE",
    "SELECT 1",
    "SELECT 0",
    "SELECT 16",
    "SELECT bad",
    "ECHO v",
    "PING",
    "PING v",
    "PING v v",
    "COMMAND COUNT v",
    "COMMAND NOSUCH",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    WATCH,
    "SET w v",
    "EXPIRE w s",
    "PERSIST w",
    "UNWATCH",
    "GET",
    "GET k k",
    "NOSUCH k v",
    "nosuch",
    "FLUSHDB",
    "FLUSHDB BAD",
    "SCAN bad",
    "HSCAN k bad",
    "CLIENT NOSUCH",
    "CLIENT GETNAME",
    "CLIENT SETNAME n",
    "CONFIG NOSUCH",
    "CONFIG GET",
    "LASTSAVE x",
    "EXPIREAT k 1",
    "EXPIRETIME nosuchkey",
    "MSETNX k v",
    "CLIENT SETNAME",
    "RENAME k k",
    "RENAME k k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "COPY k k DB 1",
    "COPY k k REPLACE DB 0",
    "COPY k k DB i",
    "COPY k k DB",
    "COPY k k BAD",
    "MOVE k 1",
    "MOVE k 0",
    "MOVE k i",
    "OBJECT REFCOUNT nosuchkey",
    "OBJECT FREQ k",
    "OBJECT NOSUCH k",
    "OBJECT ENCODING k k",
    "OBJECT ENCODING nosuchkey",
    "OBJECT",
    "MEMORY USAGE nosuchkey",
    "MEMORY USAGE k SAMPLES bad",
    "MEMORY USAGE k SAMPLES -1",
    "MEMORY USAGE k BAD",
    "MEMORY NOSUCH",
    "SETBIT k o b",
    "SETBIT k o b",
    "GETBIT k o",
    "BITCOUNT k",
    "BITCOUNT k i i",
    "BITCOUNT k i i BIT",
    "BITCOUNT k i i BYTE",
    "BITCOUNT k i i BAD",
    "BITCOUNT k i",
    "HRANDFIELD nosuchkey",
    "HRANDFIELD nosuchkey i",
    "HRANDFIELD k 1000",
    "HRANDFIELD k 1000 WITHVALUES",
    "HRANDFIELD k i BAD",
    "HRANDFIELD k 0",
    "HRANDFIELD k 5000000000000000000 WITHVALUES",
    "HRANDFIELD k -9223372036854775808",
    "SELECT +1",
    "SELECT 01",
    "SELECT 99999999999",
    "CLIENT REPLY BAD",
    "CLIENT REPLY ON",
    "CLIENT UNPAUSE",
    "CLIENT PAUSE -1",
    "CLIENT PAUSE bad",
    "CLIENT PAUSE 1 BAD",
    "CLIENT NO-EVICT BAD",
    "CLIENT HELP word",
    "COMMAND LIST BAD",
    "COMMAND LIST FILTERBY BAD word",
    "COMMAND LIST FILTERBY ACLCAT nosuch",
    "COMMAND LIST FILTERBY MODULE nosuch",
    "COMMAND LIST FILTERBY PATTERN hse[tn]*",
    "COMMAND GETKEYS COPY k k",
    "COMMAND GETKEYS PING",
    "CONFIG SET databases 3",
    "CONFIG SET nosuch 3",
    "CONFIG SET timeout bad",
    "CONFIG SET timeout -1",
    "CONFIG SET timeout 0 timeout 0",
    "CONFIG SET timeout 0 nosuch 0",
    "CONFIG SET maxclients 0",
    "CONFIG SET appendfsync maybe",
    "CONFIG SET hash-max-listpack-entries bad",
];

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn shown(words: &[Vec<u8>]) -> String {
    words
        .iter()
        .map(|word| format!("{:?} ", String::from_utf8_lossy(word)))
        .collect()
}

#[test]
fn random_commands_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let started = Started::new(one_worker());
    let mut commands = Commands {
        random: StdRng::seed_from_u64(seed()),
        has_several_rows: started.serves("MULTI"),
        queued: None,
        is_watching: false,
    };
    let mut clients = [started.client(), Client::connect(redis.address)];
    let rounds = if started.serves("MULTI") { 300 } else { 100 };
    let mut history: Vec<String> = Vec::new();
    for round in 0..rounds {
        // Requests come in bursts: batched here, one by one there.
        let mut burst: Vec<Vec<Vec<u8>>> = Vec::new();
        while burst.len() < 40 {
            burst.push(commands.next());
            if burst.last().is_some_and(|last| last[0] == b"FLUSHDB") {
                // A watched key is never absent: there Redis counts writes, we compare.
                burst.push(words("SET w 1"));
            }
        }
        if round == 0 {
            let first = ["SET w 1", "SELECT 1", "SET w 1", "SELECT 0"];
            burst.splice(..0, first.map(words));
        }
        let bytes: Vec<u8> = burst
            .iter()
            .flat_map(|words| request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        for client in &mut clients {
            client.send(&bytes);
        }
        for words in &burst {
            history.push(shown(words));
            let [ours, theirs] = &mut clients;
            let ours = comparable(words, ours.reply());
            let theirs = comparable(words, theirs.reply());
            let past = history[history.len().saturating_sub(30)..].join("\n");
            assert!(
                same(words, &ours, &theirs),
                "{ours:?}, but Redis {theirs:?}, in round {round} after\n{past}"
            );
        }
    }
}

#[test]
fn malformed_input_gets_the_errors_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let started = Started::new(one_worker());
    for sent in [
        &b"*x\r\n"[..],
        b"*1\r\n:1\r\n",
        b"*1\r\n$x\r\n",
        b"*1\r\n$-2\r\n",
        b"*01\r\n$4\r\nPING\r\n",
        b"*+1\r\n$4\r\nPING\r\n",
        b"*1\r\n$04\r\nPING\r\n",
        b"*1\r\n$+4\r\nPING\r\n",
        b"GET \"unbalanced\r\n",
        b"\r\n\r\nPING\r\nnosuch a 'b c'\r\n*0\r\n*-1\r\nECHO \"\\x41\\n\"\r\n*x\r\n",
    ] {
        let replies = [started.resp(), redis.address].map(|address| {
            let mut client = Client::connect(address);
            client.send(sent);
            std::iter::from_fn(|| client.try_reply()).collect::<Vec<Value>>()
        });
        assert_eq!(replies[0], replies[1], "{}", sent.escape_ascii());
        assert!(!replies[0].is_empty(), "an error is told");
    }
}
