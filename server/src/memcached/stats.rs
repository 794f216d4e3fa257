//! `stats` and its groups, under the names that memcached's tools look for.
//!
//! The rows belong to memcached and Redis clients alike. So does what is counted of them:
//! `get_hits` counts every key that was read in a batch and found, whoever asked.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::items;
use super::outcome::{Done, Failure, Outcome};
use super::request::Words;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::monitoring::index_statistics;
use crate::monitoring::process;
use crate::shared::{Shared, now_ms};
use hedgerow::backend::{Backend, BackendKeyspace};

/// The one slab class: there are no slabs, but tools look for classes.
const CLASS: u32 = 1;

/// Counts a request that the workers do not batch.
pub(super) fn count_classic<B: Backend>(shared: &Shared<B>, command: &[u8]) {
    let counters = &shared.metrics.memcached;
    let counter = match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => &counters.stores,
        b"touch" | b"gat" | b"gats" => &counters.touches,
        b"flush_all" => &counters.flushes,
        _ => return,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts a meta command.
pub(super) fn count_meta<B: Backend>(shared: &Shared<B>) {
    let counters = &shared.metrics.memcached;
    counters.meta.fetch_add(1, Ordering::Relaxed);
}

/// `stats [group]`
pub(super) fn run<B: Backend>(
    shared: &Shared<B>,
    words: Words<'_>,
    out: &mut ReplyBuffer,
) -> Outcome {
    let end: &[u8] = match words.get(1) {
        Some(b"reset") => {
            shared.stats_reset.set(&shared.metrics, &*shared.db);
            b"RESET\r\n"
        }
        Some(b"detail") => b"OK\r\n",
        group => {
            let mut stat = |name: &str, value: &dyn std::fmt::Display| {
                out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
            };
            match group {
                None => general(shared, &mut stat)?,
                Some(b"settings") => settings(shared, &mut stat),
                Some(b"items") => item_classes(shared, &mut stat)?,
                Some(b"slabs") => slabs(shared, &mut stat)?,
                Some(b"conns") => listeners(shared, &mut stat),
                Some(b"sizes") => stat("sizes_status", &"disabled"),
                Some(b"index") => indexes(shared, &mut stat),
                Some(_) => return Err(Failure::Line("ERROR")),
            }
            b"END\r\n"
        }
    };
    out.extend_from_slice(end);
    Ok(Done::Nothing)
}

type Stat<'a> = &'a mut dyn FnMut(&str, &dyn std::fmt::Display);

fn general<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) -> Result<(), Failure> {
    let totals = shared.stats_reset.since(&shared.metrics, &*shared.db);
    let statistics = shared.db.statistics();
    let number = |name: &str| statistics.get(name).unwrap_or(0.0) as u64;
    let process = process::now();
    stat("pid", &std::process::id());
    stat("uptime", &shared.started.elapsed().as_secs());
    stat("time", &(now_ms() / 1000));
    stat("version", &env!("CARGO_PKG_VERSION"));
    stat("pointer_size", &usize::BITS);
    stat("rusage_user", &format!("{:.6}", process.user_s));
    stat("rusage_system", &format!("{:.6}", process.system_s));
    let sets = totals.batched_puts + totals.stores;
    for (name, value) in [
        ("max_connections", shared.settings.max_connections() as u64),
        (
            "curr_connections",
            shared.connections.load(Ordering::Relaxed) as u64,
        ),
        ("total_connections", totals.accepted),
        ("rejected_connections", totals.refused),
        ("cmd_get", totals.hits + totals.misses),
        ("cmd_set", sets),
        ("cmd_flush", totals.flushes),
        ("cmd_touch", totals.touches),
        ("cmd_meta", totals.meta),
        ("get_hits", totals.hits),
        ("get_misses", totals.misses),
        ("bytes_read", totals.received_bytes),
        ("bytes_written", totals.sent_bytes),
        ("limit_maxbytes", number("memory_limit_bytes")),
        ("accepting_conns", 1),
        ("listen_disabled_num", totals.refused),
        ("threads", shared.options.workers as u64),
        ("bytes", number("memory_live_bytes")),
        ("curr_items", items::keyspace(shared)?.row_count()),
        ("total_items", sets),
        // Nothing is ever evicted.
        ("evictions", 0),
        ("reclaimed", totals.expired_rows),
    ] {
        stat(name, &value);
    }
    for entry in statistics.iter() {
        stat(entry.name, &entry.value);
    }
    Ok(())
}

fn settings<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) {
    let limit = shared.db.statistics().get("memory_limit_bytes");
    let address = shared.options.memcached;
    let timeout = shared.settings.idle_timeout();
    let yes = |set: bool| if set { "yes" } else { "no" };
    stat("maxbytes", &(limit.unwrap_or(0.0) as u64));
    stat("maxconns", &shared.settings.max_connections());
    stat("tcpport", &address.map_or(0, |address| address.port()));
    let udp = shared.options.memcached_udp;
    stat("udpport", &udp.map_or(0, |address| address.port()));
    stat(
        "inter",
        &address.map_or_else(String::new, |address| address.ip().to_string()),
    );
    let path = shared.options.unix.memcached.as_deref();
    stat("domain_socket", &path.map_or("NULL".into(), shown_path));
    stat("evictions", &"off");
    stat("num_threads", &shared.options.workers);
    stat("cas_enabled", &"yes");
    stat("auth_enabled_sasl", &"no");
    stat("auth_enabled_ascii", &yes(shared.settings.has_password()));
    stat("item_size_max", &shared.settings.max_bulk_bytes());
    stat("flush_enabled", &"yes");
    stat("binding_protocol", &"ascii");
    stat(
        "idle_timeout",
        &timeout.map_or(0, |timeout| timeout.as_secs()),
    );
    let durability = format!("{:?}", shared.settings.durability());
    stat("durability", &durability.to_lowercase());
}

fn item_classes<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) -> Result<(), Failure> {
    let rows = items::keyspace(shared)?.row_count();
    if rows > 0 {
        for (name, value) in [("number", rows), ("evicted", 0), ("outofmemory", 0)] {
            stat(&format!("items:{CLASS}:{name}"), &value);
        }
    }
    Ok(())
}

fn slabs<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) -> Result<(), Failure> {
    let statistics = shared.db.statistics();
    let number = |name: &str| statistics.get(name).unwrap_or(0.0) as u64;
    let rows = items::keyspace(shared)?.row_count();
    stat(&format!("{CLASS}:used_chunks"), &rows);
    stat(
        &format!("{CLASS}:mem_requested"),
        &number("memory_live_bytes"),
    );
    stat("active_slabs", &1);
    stat("total_malloced", &number("memory_reserved_bytes"));
    Ok(())
}

/// The listening sockets; connections themselves are not listed.
fn listeners<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) {
    let (options, unix) = (&shared.options, &shared.options.unix);
    for (protocol, address, path) in [
        ("memcached", options.memcached, &unix.memcached),
        ("resp", options.resp, &unix.resp),
    ] {
        if let Some(address) = address {
            stat(&format!("{protocol}:addr"), &format!("tcp:{address}"));
            stat(&format!("{protocol}:state"), &"conn_listening");
        }
        if let Some(path) = path {
            let path = shown_path(path);
            stat(&format!("{protocol}-unix:addr"), &format!("unix:{path}"));
            stat(&format!("{protocol}-unix:state"), &"conn_listening");
        }
    }
    if let Some(address) = options.memcached_udp {
        stat("memcached-udp:addr", &format!("udp:{address}"));
        stat("memcached-udp:state", &"conn_read");
    }
}

/// A path on one line.
fn shown_path(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, "?")
}

/// Of this server's own: what the index of each keyspace is, and its numbers.
fn indexes<B: Backend>(shared: &Shared<B>, stat: Stat<'_>) {
    for index in index_statistics::indexes(&*shared.db, &shared.index_walks) {
        let is_blank = |c: char| c.is_whitespace() || c.is_control();
        let name = index.keyspace.replace(is_blank, "_");
        stat(&format!("{name}:index"), &index.kind);
        if let Some(rows) = index.rows {
            stat(&format!("{name}:rows"), &rows);
        }
        for number in index
            .counters
            .iter()
            .chain(index_statistics::shape_alone(&index))
        {
            stat(&format!("{name}:{}", number.name), &number.value);
        }
    }
}
