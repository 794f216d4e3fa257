//! What a running server tells of itself: `INFO`, `/metrics` and memcached's `stats`, under the
//! names that their tools look for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hedgerow::{Db, IndexKind};
use hedgerow_server::ServerOptions;

use crate::failing_disk::INDEXES;
use crate::support::*;

pub fn options() -> ServerOptions {
    let any: Option<SocketAddr> = Some("127.0.0.1:0".parse().unwrap());
    ServerOptions {
        http: any,
        memcached: any,
        ..one_worker()
    }
}

fn over(index: IndexKind) -> Started {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder().index(index);
    // A budget of pages. What indexes in memory take is counted over the whole process, and so over
    // the tests beside this one.
    let builder = match index {
        IndexKind::BTree => builder.memory_limit(Some(16 << 20)),
        _ => builder,
    };
    let db = Arc::new(builder.open(dir.path()).unwrap());
    let server = start(Arc::clone(&db), options()).unwrap();
    Started { server, db, dir }
}

pub fn metrics(started: &Started) -> String {
    let address = started.server.addresses().http.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

pub fn info(client: &mut Client, sections: &str) -> String {
    match client.run(&format!("INFO {sections}")) {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("INFO is text, not {other:?}"),
    }
}

pub fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

#[track_caller]
pub fn number(info: &str, name: &str) -> f64 {
    let field = field(info, name).unwrap_or_else(|| panic!("no {name} in {info}"));
    field.parse().unwrap_or_else(|_| panic!("{name}:{field}"))
}

/// `stats [group]` as a map.
pub fn stats(started: &Started, group: &str) -> BTreeMap<String, String> {
    let address = started.server.addresses().memcached.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{}\r\nquit\r\n", format!("stats {group}").trim_end());
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.strip_suffix("END\r\n").expect("ends with END");
    let mut all = BTreeMap::new();
    for line in body.lines() {
        let rest = line.strip_prefix("STAT ").expect("STAT name value");
        let (name, value) = rest.split_once(' ').expect("STAT name value");
        let known = all.insert(name.to_owned(), value.to_owned());
        assert_eq!(known, None, "{name} twice");
    }
    all
}

/// A family of samples in Prometheus' text format.
#[derive(Default)]
pub struct Family {
    kind: String,
    /// With their labels as they stand.
    pub samples: BTreeMap<(String, String), f64>,
}

fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

/// Parses `name="value",…`, as strictly as the format is.
fn check_labels(labels: &str) {
    let mut rest = labels;
    let mut names = BTreeSet::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").expect("name=\"");
        assert!(is_name(name) && !name.contains(':'), "label {name}");
        assert!(names.insert(name), "label {name} twice");
        let mut escaped = false;
        let end = behind.find(|c| {
            let ends = c == '"' && !escaped;
            assert!(!escaped || matches!(c, '\\' | '"' | 'n'), "escape {c}");
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &behind[end.expect("a closing quote") + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// Parses Prometheus' text format, version 0.0.4, and refuses what its rules refuse: each family
/// has one `HELP` and one `TYPE` before its samples, which stand together, no sample twice,
/// counters end in `_total`, histograms are cumulative and whole.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("HELP name text");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(!families.contains_key(name), "{name} comes twice");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("TYPE name kind");
            assert_eq!(name, helped, "TYPE follows HELP");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let family = Family {
                kind: kind.to_owned(),
                ..Family::default()
            };
            assert!(families.insert(name.to_owned(), family).is_none(), "{line}");
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("series value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("value of {line}"));
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}').expect("}")),
                None => (series, ""),
            };
            assert!(is_name(name), "{line}");
            check_labels(labels);
            let family = families.get_mut(&current).expect("a family before samples");
            let suffix = name.strip_prefix(current.as_str()).expect("of this family");
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line} in {current}");
            assert!(family.kind == "gauge" || value >= 0.0, "{line}");
            let key = (name.to_owned(), labels.to_owned());
            assert!(family.samples.insert(key, value).is_none(), "{line} twice");
        }
    }
    families
}

#[test]
fn the_parser_refuses_what_prometheus_refuses() {
    let good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"y\\\"\",z=\"\"} 1\n";
    parse(good);
    for bad in [
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a A.\n# TYPE a gauge\na one\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a gauge\nb 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1\n",
        "# HELP a A.\n# TYPE a gauge\na{x=1} 1\n",
        "# HELP a A.\n# TYPE a gauge\na{x=\"1} 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# TYPE a gauge\na 1\n",
    ] {
        assert!(std::panic::catch_unwind(|| parse(bad)).is_err(), "{bad}");
    }
}

#[test]
fn metrics_are_what_prometheus_takes_and_tell_all_of_every_index() {
    for kind in INDEXES {
        let started = over(kind);
        let mut client = started.client();
        for i in 0..2000 {
            client.run(&format!("SET key{i:05} value"));
        }
        client.run("GET key00001");
        client.run("INCR key00001");
        client.run("SELECT 3");
        client.run("SET number_1 b");
        let awkward = started.db.keyspace("qu\"o\\te").unwrap();
        awkward.put(b"some key", b"v").unwrap();
        // What a tick did is counted at its end, behind its replies: the next tick comes later.
        client.run("PING");
        let families = parse(&metrics(&started));
        let labels = |keyspace: &str| format!("keyspace=\"{keyspace}\",index=\"{}\"", kind.name());
        let of = |name: &str, labels: &str| {
            let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
            let key = (name.to_owned(), labels.to_owned());
            *family
                .samples
                .get(&key)
                .unwrap_or_else(|| panic!("no {key:?}"))
        };
        assert_eq!(of("hedgerow_index_rows", &labels("default")), 2000.0);
        let default = format!("index=\"{}\"", kind.name());
        assert_eq!(of("hedgerow_default_index", &default), 1.0);
        assert_eq!(of("hedgerow_index_rows", &labels("db3")), 1.0);
        assert_eq!(of("hedgerow_index_rows", &labels("qu\\\"o\\\\te")), 1.0);
        let keyspace = started.db.keyspace("default").unwrap();
        let counters = keyspace.index_counters().unwrap();
        assert!(counters.iter().count() >= 4, "{}", kind.name());
        for counter in counters.iter() {
            of(
                &format!("hedgerow_index_{}_total", counter.name),
                &labels("default"),
            );
        }
        let shape = keyspace.index_statistics_in_memory().unwrap();
        assert!(shape.is_some(), "all pages are in memory");
        for number in shape.iter().flat_map(|shape| shape.iter()) {
            if counters.get(number.name).is_none() {
                of(
                    &format!("hedgerow_index_{}", number.name),
                    &labels("default"),
                );
            }
        }
        for statistic in started.db.statistics().iter() {
            of(&format!("hedgerow_engine_{}", statistic.name), "");
        }
        assert_eq!(of("hedgerow_commands_total", "command=\"set\""), 2001.0);
        assert_eq!(of("hedgerow_commands_total", "command=\"get\""), 1.0);
        assert_eq!(of("hedgerow_error_replies_total", "code=\"ERR\""), 1.0);
        assert!(of("process_resident_memory_bytes", "") > 1e6);
        // The same in INFO and in memcached's terms.
        let section = info(&mut client, "index");
        let line = field(&section, "index_default").unwrap_or_else(|| panic!("{section}"));
        let start = format!("index={},rows=2000,", kind.name());
        assert!(line.starts_with(&start), "{line}");
        let shape = shape.iter().flat_map(|shape| shape.iter());
        for number in counters.iter().chain(shape) {
            assert!(line.contains(&format!(",{}=", number.name)), "{line}");
        }
        let stats = stats(&started, "index");
        assert_eq!(stats["default:index"], kind.name());
        assert_eq!(stats["default:rows"], "2000");
    }
}

#[test]
fn a_large_index_is_walked_by_a_thread_beside() {
    let started = over(IndexKind::Masstree);
    let keyspace = started.db.keyspace("default").unwrap();
    for i in 0..20_000u32 {
        keyspace.put(&i.to_be_bytes(), b"v").unwrap();
    }
    let mut client = started.client();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let section = info(&mut client, "index");
        let line = field(&section, "index_default").unwrap();
        assert!(line.starts_with("index=masstree,rows=20000"), "{line}");
        if line.contains(",keys=20000,") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{line}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// What exporters read from `INFO`.
const IN_INFO: &[&str] = &[
    "redis_version",
    "redis_mode",
    "os",
    "arch_bits",
    "process_id",
    "run_id",
    "tcp_port",
    "uptime_in_seconds",
    "uptime_in_days",
    "connected_clients",
    "maxclients",
    "used_memory",
    "used_memory_rss",
    "used_memory_peak",
    "maxmemory",
    "maxmemory_policy",
    "mem_fragmentation_ratio",
    "loading",
    "rdb_bgsave_in_progress",
    "rdb_last_save_time",
    "rdb_last_bgsave_status",
    "aof_enabled",
    "aof_last_write_status",
    "total_connections_received",
    "total_commands_processed",
    "rejected_connections",
    "total_net_input_bytes",
    "total_net_output_bytes",
    "expired_keys",
    "evicted_keys",
    "keyspace_hits",
    "keyspace_misses",
    "total_error_replies",
    "role",
    "connected_slaves",
    "used_cpu_sys",
    "used_cpu_user",
    "cluster_enabled",
];

#[test]
fn info_has_what_exporters_read() {
    let started = Started::new(options());
    let mut client = started.client();
    client.run("SET a 1");
    client.run("GET a");
    client.run("GET none");
    client.run("LPUSH a b");
    client.run("HSET a b c");
    client.run("HSET h b c");
    let all = info(&mut client, "everything");
    for name in IN_INFO {
        let times = all.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(':'))
        });
        assert_eq!(times.count(), 1, "{name} in {all}");
    }
    // Not what trees and pages have reserved, but what the system says.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if status.contains("VmRSS:") {
        assert!(number(&all, "used_memory_rss") > 4e6, "{all}");
        assert!(number(&all, "used_memory_peak") >= number(&all, "used_memory_rss"));
    }
    let get = field(&all, "cmdstat_get").unwrap();
    assert!(get.starts_with("calls=2,usec="), "{get}");
    assert!(get.contains(",usec_per_call="), "{get}");
    assert!(
        field(&all, "cmdstat_lpush").is_none(),
        "there is no such command"
    );
    assert_eq!(field(&all, "errorstat_ERR"), Some("count=1"));
    assert_eq!(field(&all, "errorstat_WRONGTYPE"), Some("count=1"));
    let default = info(&mut client, "");
    assert!(!default.contains("cmdstat_") && default.contains("# Index\r\n"));
}

#[test]
fn checkpoints_of_other_processes_are_not_counted() {
    let started = Started::new(options());
    let mut client = started.client();
    client.run("SET a 1");
    let all = info(&mut client, "everything");
    // A checkpoint that another process took is none of this one's.
    assert_eq!(number(&all, "checkpoints_total"), 0.0);
    assert_eq!(number(&all, "checkpoint_bytes"), 0.0);
    client.run("SAVE");
    let persistence = info(&mut client, "persistence");
    assert_eq!(number(&persistence, "checkpoints_total"), 1.0);
    assert!(number(&persistence, "checkpoint_bytes") > 0.0);
    started.server.shutdown();
    started.db.close().unwrap();
    let db = Arc::new(Db::open(started.dir.path()).unwrap());
    let server = start(Arc::clone(&db), options()).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let persistence = info(&mut client, "persistence");
    assert_eq!(number(&persistence, "checkpoints_total"), 0.0);
    assert_eq!(number(&persistence, "checkpoint_bytes"), 0.0);
}

#[test]
fn malformed_requests_are_counted() {
    let started = Started::new(options());
    let mut client = started.client();
    client.send(b"*1\r\n!\r\n");
    assert!(matches!(client.reply(), Value::Error(_)));
    let mut memcached = TcpStream::connect(started.server.addresses().memcached.unwrap()).unwrap();
    memcached
        .write_all(format!("get {}\r\nquit\r\n", "x".repeat(300)).as_bytes())
        .unwrap();
    let mut said = String::new();
    memcached.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("CLIENT_ERROR"), "{said}");
    // What a tick did is counted at its end, behind its replies: the next tick comes later.
    started.client().run("PING");
    let text = metrics(&started);
    assert!(
        text.contains("\nhedgerow_protocol_errors_total 2\n"),
        "{text}"
    );
}

/// What exporters read from `stats`.
const IN_STATS: &[&str] = &[
    "pid",
    "uptime",
    "time",
    "version",
    "pointer_size",
    "rusage_user",
    "rusage_system",
    "curr_connections",
    "total_connections",
    "max_connections",
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "get_hits",
    "get_misses",
    "bytes_read",
    "bytes_written",
    "limit_maxbytes",
    "threads",
    "bytes",
    "curr_items",
    "total_items",
    "evictions",
];

#[test]
fn memcached_stats_have_what_exporters_read() {
    let started = Started::new(options());
    let address = started.server.addresses().memcached.unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(
            b"set a 0 0 1\r\n1\r\nadd b 0 0 1\r\n1\r\nget a\r\nget c\r\ntouch a \
            0\r\nmn\r\nquit\r\n",
        )
        .unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("TOUCHED\r\nMN\r\n"), "{said}");
    let general = stats(&started, "");
    for &name in IN_STATS {
        let value = general.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert!(
            value.parse::<f64>().is_ok() || name == "version",
            "{name} {value}"
        );
    }
    for (name, value) in [
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "1"),
        ("cmd_set", "2"),
        ("cmd_touch", "1"),
        ("cmd_meta", "1"),
        ("curr_items", "2"),
        ("evictions", "0"),
    ] {
        assert_eq!(general[name], value, "{name}");
    }
    let settings = stats(&started, "settings");
    for name in [
        "maxbytes",
        "maxconns",
        "tcpport",
        "num_threads",
        "item_size_max",
        "evictions",
    ] {
        assert!(settings.contains_key(name), "{name} in {settings:?}");
    }
    assert_eq!(settings["tcpport"], address.port().to_string());
    assert_eq!(stats(&started, "items")["items:1:number"], "2");
    assert_eq!(stats(&started, "slabs")["active_slabs"], "1");
    assert!(stats(&started, "conns").contains_key("memcached:addr"));
}

/// Ends threads that look at it, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn indexes_are_walked_beside_writers() {
    for kind in INDEXES {
        let started = over(kind);
        let keyspace = started.db.keyspace("default").unwrap();
        // A key of this name, cut or filled up if all keys have one width.
        let key_of = |name: String| {
            let mut key = name.into_bytes();
            key.resize(kind.key_bytes().unwrap_or(key.len()), 0);
            key
        };
        // These stay; others of all lengths come and go between them.
        for i in 0..1000 {
            keyspace.put(&key_of(format!("{i:06}")), b"v").unwrap();
        }
        let stop = AtomicBool::new(false);
        let rounds = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for (thread, rounds) in rounds.iter().enumerate() {
                let (keyspace, stop) = (&keyspace, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let round = rounds.fetch_add(1, Ordering::Relaxed);
                        for i in 0..200usize {
                            let tail = "x".repeat(i % 40);
                            let key = key_of(format!("{:06}{tail}{thread}", i * 5));
                            match round % 2 {
                                0 => drop(keyspace.put(&key, b"w").unwrap()),
                                _ => drop(keyspace.remove(&key).unwrap()),
                            }
                        }
                    }
                });
            }
            let _stop = Stop(&stop);
            let (mut walks, mut far) = (0, 0);
            while walks < 50
                || rounds
                    .iter()
                    .any(|rounds| rounds.load(Ordering::Relaxed) < 4)
            {
                let shape = keyspace
                    .index_statistics_in_memory()
                    .unwrap()
                    .expect("all is in memory");
                // A walk may meet a key twice, or miss what moves; it is near all the same, unless
                // its thread waited for the processor while writers replaced what it had found.
                // That of a B-tree may find none of the tree's shape beside writers.
                let keys = shape.get("keys");
                far += i32::from(keys.is_some_and(|keys| !(200.0..6000.0).contains(&keys)));
                walks += 1;
            }
            assert!(4 * far < walks, "{}: {far} of {walks}", kind.name());
        });
        started.db.verify().unwrap();
    }
}
