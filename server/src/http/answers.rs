//! What the HTTP port answers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::connection::Answer;
use super::request::HttpRequest;
use crate::monitoring::index_statistics::{self, IndexState};
use crate::monitoring::metrics::CommandTotal;
use crate::monitoring::process;
use crate::monitoring::totals::Totals;
use crate::protocol::password;
use crate::protocol::port::PortProtocol;
use crate::shared::Shared;
use hedgerow::backend::{Backend, BackendKeyspace, Capability};

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn plain(status: u16, content_type: &'static str, body: String) -> Answer {
    Answer {
        status,
        content_type,
        body,
        challenge: false,
    }
}

/// Answers a `GET` or `HEAD`. `/healthz` needs no password, all else does.
pub(super) fn answer<B: Backend>(shared: &Shared<B>, request: &HttpRequest) -> Answer {
    if request.path == "/healthz" {
        return match shared.failure() {
            None => plain(200, TEXT, "ok\n".to_owned()),
            Some(failure) => plain(503, TEXT, format!("{failure}\n")),
        };
    }
    let expected = shared.settings.password();
    let given = request.bearer.as_deref().unwrap_or_default();
    if !password::is_right(expected.as_deref(), given) {
        if request.bearer.is_some() {
            shared.events.wrong_password(PortProtocol::Http, None);
        }
        let text = "the password is needed, as in: Authorization: Bearer PASSWORD\n";
        return Answer {
            challenge: true,
            ..plain(401, TEXT, text.to_owned())
        };
    }
    match request.path.as_str() {
        "/metrics" => plain(200, PROMETHEUS, metrics(shared)),
        "/" => plain(
            200,
            TEXT,
            "Hedgerow: see /metrics and /healthz\n".to_owned(),
        ),
        _ => plain(
            404,
            TEXT,
            "not found; try /metrics or /healthz\n".to_owned(),
        ),
    }
}

fn metrics<B: Backend>(shared: &Shared<B>) -> String {
    let mut text = String::new();
    shared.metrics.write_prometheus(&mut text);
    let mut gauge = |name: &str, help: &str, value: u64| {
        let _ = writeln!(
            text,
            "# HELP hedgerow_{name} {help}\n# TYPE hedgerow_{name} gauge"
        );
        let _ = writeln!(text, "hedgerow_{name} {value}");
    };
    let connections = shared.connections.load(Ordering::Relaxed) as u64;
    gauge("connections", "Open connections.", connections);
    gauge(
        "client_memory_bytes",
        "Held by connections: requests, replies, queued commands.",
        shared.client_memory.used_bytes() as u64,
    );
    gauge(
        "uptime_seconds",
        "Since the server's start.",
        shared.started.elapsed().as_secs(),
    );
    gauge(
        "healthy",
        "1 if writes are accepted.",
        u64::from(shared.failure().is_none()),
    );
    gauge(
        "durable_epoch",
        "The last epoch that is durable.",
        shared.db.durable_epoch(),
    );
    backend_metrics(shared, &mut text);
    if shared.db.lacks(Capability::Counts).is_none() {
        let databases = shared.known_databases();
        let rows = databases.iter().map(|(_, keyspace)| keyspace.row_count());
        let rows: u64 = rows.sum();
        let name = "hedgerow_rows";
        family(&mut text, name, "gauge", "Rows in the numbered databases.");
        let _ = writeln!(text, "{name} {rows}");
    }
    for statistic in shared.db.statistics().iter() {
        let kind = if statistic.name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let name = format!("hedgerow_engine_{}", statistic.name);
        let _ = writeln!(
            text,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            statistic.help
        );
        let _ = writeln!(text, "{name} {}", statistic.value);
    }
    process_metrics(&mut text);
    command_metrics(shared, &mut text);
    index_metrics(shared, &mut text);
    text
}

/// Under the names that Prometheus' own clients give them.
fn process_metrics(text: &mut String) {
    let process = process::now();
    let bytes = process.resident_bytes;
    let seconds = process.user_s + process.system_s;
    for (name, kind, help, value) in [
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            bytes.to_string(),
        ),
        (
            "process_cpu_seconds_total",
            "counter",
            "Processor time, user and system.",
            seconds.to_string(),
        ),
    ] {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
}

fn command_metrics<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let totals = Totals::now(&shared.metrics, &*shared.db);
    let commands: Vec<_> = totals
        .named_commands(&shared.metrics.command_names)
        .collect();
    let mut counts = |metric: &str, help: &str, count: fn(&CommandTotal) -> u64| {
        family(text, metric, "counter", help);
        for (name, total) in &commands {
            let (name, count) = (name.to_lowercase(), count(total));
            let _ = writeln!(text, "{metric}{{command=\"{name}\"}} {count}");
        }
    };
    let metric = "hedgerow_commands_total";
    counts(metric, "RESP commands run.", |total| total.calls);
    let metric = "hedgerow_commands_failed_total";
    let help = "Of the RESP commands run, those that replied an error.";
    counts(metric, help, |total| total.failed);
    let metric = "hedgerow_commands_rejected_total";
    let help = "RESP commands refused before they ran.";
    counts(metric, help, |total| total.rejected);
    let metric = "hedgerow_command_seconds_total";
    let help = "Time of the ticks in which they ran, shared equally by all commands of a tick.";
    family(text, metric, "counter", help);
    for (name, total) in &commands {
        let (name, seconds) = (name.to_lowercase(), total.duration_ns as f64 / 1e9);
        let _ = writeln!(text, "{metric}{{command=\"{name}\"}} {seconds}");
    }
    let metric = "hedgerow_error_replies_total";
    family(
        text,
        metric,
        "counter",
        "RESP error replies, by their first word.",
    );
    for (code, count) in &totals.errors {
        let _ = writeln!(text, "{metric}{{code=\"{code}\"}} {count}");
    }
}

/// Where the rows live, and what cannot be done there.
fn backend_metrics<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let name = "hedgerow_backend";
    family(text, name, "gauge", "Where the rows live.");
    let _ = writeln!(text, "{name}{{backend=\"{}\"}} 1", shared.db.name());
    let name = "hedgerow_backend_lacks";
    family(text, name, "gauge", "1 for what the backend cannot do.");
    for capability in Capability::ALL {
        let lacks = u8::from(shared.db.lacks(capability).is_some());
        let _ = writeln!(
            text,
            "{name}{{capability=\"{}\"}} {lacks}",
            capability.name()
        );
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// What the indexes are, what they count, and their shapes. The samples of one metric stand
/// together, as the format demands.
fn index_metrics<B: Backend>(shared: &Shared<B>, text: &mut String) {
    let indexes = index_statistics::indexes(&*shared.db, &shared.index_walks);
    let labels = |index: &IndexState| {
        let keyspace = escaped(&index.keyspace);
        format!("keyspace=\"{keyspace}\",index=\"{}\"", index.kind)
    };
    let mut families: BTreeMap<String, (&str, &str, Vec<String>)> = BTreeMap::new();
    let mut sample = |name: String, kind, help, labels: &str, value: f64| {
        let line = format!("{name}{{{labels}}} {value}");
        let family = families.entry(name).or_insert((kind, help, Vec::new()));
        family.2.push(line);
    };
    sample(
        "hedgerow_default_index".to_owned(),
        "gauge",
        "The index of keyspaces that are made without naming one.",
        &format!("index=\"{}\"", shared.db.default_index()),
        1.0,
    );
    for index in &indexes {
        let labels = labels(index);
        let name = |name: &str| format!("hedgerow_index_{name}");
        if let Some(rows) = index.rows {
            let help = "Rows of a keyspace, by its index.";
            sample(name("rows"), "gauge", help, &labels, rows as f64);
        }
        if let Some((_, age_s)) = &index.shape {
            let help = "Seconds since the index was last walked, of which its shape is.";
            sample(
                name("walked_seconds"),
                "gauge",
                help,
                &labels,
                *age_s as f64,
            );
        }
        for number in index.counters.iter() {
            let name = name(&format!("{}_total", number.name));
            sample(name, "counter", number.help, &labels, number.value);
        }
        for number in index_statistics::shape_alone(index) {
            sample(
                name(number.name),
                "gauge",
                number.help,
                &labels,
                number.value,
            );
        }
    }
    for (name, (kind, help, samples)) in families {
        family(text, &name, kind, help);
        for line in samples {
            let _ = writeln!(text, "{line}");
        }
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
