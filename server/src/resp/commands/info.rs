//! `INFO`: the server in sections, under the names that Redis' tools look for.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::monitoring::index_statistics;
use crate::monitoring::metrics::CommandTotal;
use crate::monitoring::process;
use crate::resp::command::Call;
use crate::resp::failure::Outcome;
use crate::shared::{Shared, now_us};
use hedgerow::backend::{Backend, BackendKeyspace, Capability};

/// The version of Redis whose behaviour this server follows.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

/// A section's name, whether `INFO` shows it without being asked, and what writes it.
type Section<B> = (&'static str, bool, fn(&Shared<B>, &mut String));

const fn sections<B: Backend>() -> [Section<B>; 13] {
    [
        ("Server", true, server),
        ("Clients", true, clients),
        ("Memory", true, memory),
        ("Backend", true, backend),
        ("Persistence", true, persistence),
        ("Stats", true, stats),
        ("Replication", true, replication),
        ("CPU", true, processor),
        ("Commandstats", false, command_stats),
        ("Errorstats", true, error_stats),
        ("Cluster", true, |_, text| line(text, "cluster_enabled", 0)),
        ("Index", true, index),
        ("Keyspace", true, keyspace),
    ]
}

/// `INFO [section …]`
pub(crate) fn info<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let wanted: Vec<String> = call
        .arguments
        .iter()
        .map(|name| String::from_utf8_lossy(name).to_lowercase())
        .collect();
    let names = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let all = names("all") || names("everything");
    let default = wanted.is_empty() || names("default");
    let mut text = String::new();
    for (name, by_default, write) in sections::<B>() {
        if all || (default && by_default) || names(&name.to_lowercase()) {
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

fn server<B: Backend>(shared: &Shared<B>, text: &mut String) {
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "hedgerow_version", env!("CARGO_PKG_VERSION"));
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "multiplexing_api", shared.event_loop().name());
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
    line(text, "server_time_usec", now_us());
    line(text, "worker_threads", shared.options.workers);
}

fn clients<B: Backend>(shared: &Shared<B>, text: &mut String) {
    line(
        text,
        "connected_clients",
        shared.connections.load(Ordering::Relaxed),
    );
    line(text, "maxclients", shared.settings.max_connections());
    let memory = &shared.client_memory;
    line(text, "client_memory_bytes", memory.used_bytes());
    line(text, "client_memory_limit_bytes", memory.limit_bytes());
}

fn memory<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let statistics = shared.db.statistics();
    let get = |name| statistics.get(name).unwrap_or(0.0) as u64;
    line(text, "used_memory", get("memory_live_bytes"));
    let process = process::now();
    line(text, "used_memory_rss", process.resident_bytes);
    line(text, "used_memory_peak", process.peak_resident_bytes);
    line(text, "used_memory_reserved", get("memory_reserved_bytes"));
    line(text, "used_memory_lua", 0);
    // Rows that live elsewhere take no memory here, of which a ratio could be.
    let ratio = match get("memory_live_bytes") {
        0 => 0.0,
        live => process.resident_bytes as f64 / live as f64,
    };
    line(text, "mem_fragmentation_ratio", format!("{ratio:.2}"));
    line(text, "maxmemory", get("memory_limit_bytes"));
    line(text, "maxmemory_policy", "noeviction");
    if let Some(oldest) = shared.db.oldest_snapshot() {
        line(text, "oldest_snapshot", oldest.name.escape_debug());
    }
    let shown = [
        "pages_",
        "version",
        "snapshots",
        "oldest_snapshot_",
        "open_transactions",
    ];
    for statistic in statistics.iter() {
        if shown.iter().any(|begin| statistic.name.starts_with(begin)) {
            line(text, statistic.name, statistic.value);
        }
    }
}

fn persistence<B: Backend>(shared: &Shared<B>, text: &mut String) {
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
    let failures = shared.db.statistics().get("checkpoint_failures_total");
    let saved = if failures.unwrap_or(0.0) > 0.0 {
        "err"
    } else {
        "ok"
    };
    line(text, "rdb_last_bgsave_status", saved);
    let under_way = shared.backups.under_way();
    line(text, "backup_in_progress", u8::from(under_way.is_some()));
    if let Some(last) = shared.backups.last() {
        line(text, "last_backup_name", &last.name);
        line(text, "last_backup_time", last.ended_s);
        match last.outcome {
            Ok(report) => {
                line(text, "last_backup_status", "ok");
                line(text, "last_backup_bytes", report.size_bytes);
            }
            Err(why) => line(
                text,
                "last_backup_status",
                format!("err: {}", why.escape_debug()),
            ),
        }
    }
    line(text, "aof_enabled", u8::from(!shared.db.is_volatile()));
    line(text, "aof_rewrite_in_progress", 0);
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
    let log_dirs = shared.db.log_dirs();
    let shown = log_dirs.iter();
    let shown: Vec<String> = shown.map(|dir| dir.display().to_string()).collect();
    line(text, "log_dirs", shown.join(",").escape_debug());
    for statistic in shared.db.statistics().iter() {
        if statistic.name.starts_with("log_") || statistic.name.starts_with("checkpoint") {
            line(text, statistic.name, statistic.value);
        }
    }
}

/// Where the rows live, what an acknowledged write is worth there, and what cannot be done there.
fn backend<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let db = &shared.db;
    line(text, "backend", db.name());
    line(
        text,
        "backend_promise",
        db.promise(shared.settings.durability()),
    );
    for capability in Capability::ALL {
        if let Some(because) = db.lacks(capability) {
            line(
                text,
                &format!("backend_lacks_{}", capability.name()),
                because,
            );
        }
    }
    if B::IS_REMOTE {
        for statistic in db.statistics().iter() {
            line(text, statistic.name, statistic.value);
        }
    }
}

/// All of this counts from the last `CONFIG RESETSTAT`.
fn stats<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let totals = shared.info_reset.since(&shared.metrics, &*shared.db);
    for (name, value) in [
        ("total_connections_received", totals.accepted),
        ("total_commands_processed", totals.requests),
        ("total_error_replies", totals.errors.values().sum()),
        ("protocol_errors", totals.protocol_errors),
        ("rejected_connections", totals.refused),
        ("total_net_input_bytes", totals.received_bytes),
        ("total_net_output_bytes", totals.sent_bytes),
        ("expired_keys", totals.expired_rows),
        ("evicted_keys", 0),
        ("keyspace_hits", totals.hits),
        ("keyspace_misses", totals.misses),
        ("batched_reads", totals.batched_reads),
        ("read_batches", totals.read_batches),
        ("batched_puts", totals.batched_puts),
    ] {
        line(text, name, value);
    }
}

fn replication<B: Backend>(_: &Shared<B>, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "master_repl_offset", 0);
}

fn processor<B: Backend>(_: &Shared<B>, text: &mut String) {
    let process = process::now();
    line(text, "used_cpu_sys", format!("{:.6}", process.system_s));
    line(text, "used_cpu_user", format!("{:.6}", process.user_s));
    line(text, "used_cpu_sys_children", "0.000000");
    line(text, "used_cpu_user_children", "0.000000");
}

/// Commands that ran in one tick of an event loop share its time equally.
fn command_stats<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let totals = shared.info_reset.since(&shared.metrics, &*shared.db);
    for (name, total) in totals.named_commands(&shared.metrics.command_names) {
        let CommandTotal {
            calls,
            duration_ns,
            rejected,
            failed,
        } = total;
        let usec = duration_ns / 1000;
        let each = duration_ns as f64 / 1000.0 / calls.max(1) as f64;
        line(
            text,
            &format!("cmdstat_{}", name.to_lowercase()),
            format!(
                "calls={calls},usec={usec},usec_per_call={each:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

fn error_stats<B: Backend>(shared: &Shared<B>, text: &mut String) {
    for (code, count) in shared.info_reset.since(&shared.metrics, &*shared.db).errors {
        line(text, &format!("errorstat_{code}"), format!("count={count}"));
    }
}

/// What the index of each keyspace is, and all that it tells of itself: its shape as of the last
/// walk (`walked_s` seconds ago), and what it counts.
fn index<B: Backend>(shared: &Shared<B>, text: &mut String) {
    line(text, "default_index", shared.db.default_index());
    for index in index_statistics::indexes(&*shared.db, &shared.index_walks) {
        let mut value = format!("index={}", index.kind);
        if let Some(rows) = index.rows {
            let _ = write!(value, ",rows={rows}");
        }
        if let Some((_, age_s)) = &index.shape {
            let _ = write!(value, ",walked_s={age_s}");
        }
        for number in index_statistics::shape_alone(&index).chain(index.counters.iter()) {
            let _ = write!(value, ",{}={}", number.name, number.value);
        }
        let is_control = |c: char| c.is_control() || c == ':';
        let name = index.keyspace.replace(is_control, "_");
        line(text, &format!("index_{name}"), value);
    }
}

fn keyspace<B: Backend>(shared: &Shared<B>, text: &mut String) {
    for (number, keyspace) in shared.known_databases() {
        let keys = keyspace.row_count();
        if keys > 0 {
            line(
                text,
                &format!("db{number}"),
                format!("keys={keys},expires={},avg_ttl=0", keyspace.expiring()),
            );
        }
    }
}
