//! What the HTTP port answers.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::connection::Answer;
use super::request::Request;
use crate::password;
use crate::shared::Shared;

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

/// Answers a `GET` or `HEAD`. Whether the server is well is told to everybody, all else to those
/// who know the password.
pub(super) fn answer(shared: &Shared, request: &Request) -> Answer {
    if request.path == "/healthz" {
        return match shared.failure() {
            None => plain(200, TEXT, "ok\n".to_owned()),
            Some(failure) => plain(503, TEXT, format!("{failure}\n")),
        };
    }
    let expected = shared.settings.password();
    let given = request.bearer.as_deref().unwrap_or_default();
    if !password::is_right(expected.as_deref(), given) {
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

fn metrics(shared: &Shared) -> String {
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
    let rows: u64 = shared
        .used_databases()
        .iter()
        .map(|(_, keyspace)| keyspace.len())
        .sum();
    gauge("rows", "Rows in the numbered databases.", rows);
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
    text
}
