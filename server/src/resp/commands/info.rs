//! `INFO`: the server in sections, under the names that Redis' tools look for.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::resp::call::{Call, Outcome};
use crate::shared::Shared;

/// The version of Redis whose behaviour this server follows.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// A section's name, and what writes it.
type Section = (&'static str, fn(&Shared, &mut String));

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", |_, _| {}),
    ("Keyspace", keyspace),
];

/// `INFO [section …]`
pub(crate) fn info(call: &mut Call<'_, '_, '_>) -> Outcome {
    let wanted: Vec<String> = call
        .arguments
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_lowercase())
        .collect();
    let all = ["all", "default", "everything"];
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let is_wanted =
            |wanted: &String| *wanted == name.to_lowercase() || all.contains(&wanted.as_str());
        if wanted.is_empty() || wanted.iter().any(is_wanted) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            write(call.shared, &mut text);
        }
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(shared: &Shared, text: &mut String) {
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "hedgerow_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "process_id", std::process::id());
    line(text, "run_id", &shared.run_id);
    line(
        text,
        "tcp_port",
        shared.options.resp.map_or(0, |address| address.port()),
    );
    let uptime_s = shared.started.elapsed().as_secs();
    line(text, "uptime_in_seconds", uptime_s);
    line(text, "uptime_in_days", uptime_s / 86_400);
    line(text, "worker_threads", shared.options.workers);
}

fn clients(shared: &Shared, text: &mut String) {
    line(
        text,
        "connected_clients",
        shared.connections.load(Ordering::Relaxed),
    );
    line(text, "maxclients", shared.settings.max_connections());
}

fn memory(shared: &Shared, text: &mut String) {
    let statistics = shared.db.statistics();
    let get = |name| statistics.get(name).unwrap_or(0.0) as u64;
    line(text, "used_memory", get("memory_live_bytes"));
    line(text, "used_memory_rss", get("memory_reserved_bytes"));
    line(text, "maxmemory", get("memory_limit_bytes"));
    line(text, "maxmemory_policy", "noeviction");
    for statistic in statistics.iter() {
        if statistic.name.starts_with("pages_") {
            line(text, statistic.name, statistic.value);
        }
    }
}

fn persistence(shared: &Shared, text: &mut String) {
    line(text, "loading", 0);
    line(
        text,
        "rdb_bgsave_in_progress",
        u8::from(shared.saving.load(Ordering::Relaxed)),
    );
    line(
        text,
        "rdb_last_save_time",
        shared.last_save_s.load(Ordering::Relaxed),
    );
    line(text, "aof_enabled", 1);
    let healthy = shared.failure().is_none();
    line(
        text,
        "aof_last_write_status",
        if healthy { "ok" } else { "err" },
    );
    line(
        text,
        "durability",
        format!("{:?}", shared.settings.durability()).to_lowercase(),
    );
    for statistic in shared.db.statistics().iter() {
        if statistic.name.starts_with("log_") || statistic.name.starts_with("checkpoint") {
            line(text, statistic.name, statistic.value);
        }
    }
}

fn stats(shared: &Shared, text: &mut String) {
    let metrics = &shared.metrics;
    line(
        text,
        "total_connections_received",
        metrics.accepted.load(Ordering::Relaxed),
    );
    line(
        text,
        "total_commands_processed",
        metrics.sum(|worker| &worker.requests),
    );
    line(
        text,
        "rejected_connections",
        metrics.refused.load(Ordering::Relaxed),
    );
    line(
        text,
        "total_net_input_bytes",
        metrics.sum(|worker| &worker.received_bytes),
    );
    line(
        text,
        "total_net_output_bytes",
        metrics.sum(|worker| &worker.sent_bytes),
    );
    let expired = shared.db.statistics().get("expired_rows_total");
    line(text, "expired_keys", expired.unwrap_or(0.0) as u64);
    line(text, "evicted_keys", 0);
    line(text, "keyspace_hits", metrics.sum(|worker| &worker.hits));
    line(
        text,
        "keyspace_misses",
        metrics.sum(|worker| &worker.misses),
    );
    line(
        text,
        "batched_reads",
        metrics.sum(|worker| &worker.batched_reads),
    );
    line(
        text,
        "read_batches",
        metrics.sum(|worker| &worker.read_batches),
    );
    line(
        text,
        "batched_puts",
        metrics.sum(|worker| &worker.batched_puts),
    );
}

fn replication(_: &Shared, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
}

fn keyspace(shared: &Shared, text: &mut String) {
    for (number, keyspace) in shared.used_databases() {
        let keys = keyspace.len();
        if keys > 0 {
            line(
                text,
                &format!("db{number}"),
                format!("keys={keys},expires={},avg_ttl=0", keyspace.expiring()),
            );
        }
    }
}
