//! What a running server tells of itself: `INFO`, `/metrics` and memcached's `stats`, under the
//! names that their tools look for.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::monitoring::{field, info, metrics, number, options, parse, stats};
use crate::support::*;

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
        ("evictions", "0"),
    ] {
        assert_eq!(general[name], value, "{name}");
    }
    let counts = lacking::counts_rows(&started);
    assert_eq!(general["curr_items"], if counts { "2" } else { "0" });
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
    let items = stats(&started, "items");
    let number = items.get("items:1:number").map(String::as_str);
    assert_eq!(number, counts.then_some("2"));
    assert_eq!(stats(&started, "slabs")["active_slabs"], "1");
    assert!(stats(&started, "conns").contains_key("memcached:addr"));
}
