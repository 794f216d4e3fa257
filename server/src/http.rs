//! The HTTP port: `/metrics` for Prometheus and `/healthz` for whoever restarts servers. It runs
//! in a thread of its own, so that a scrape never delays a request.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tiny_http::{Header, Method, Request, Response};

use crate::shared::Shared;

/// Answers until [`tiny_http::Server::unblock`].
pub(crate) fn run(shared: &Shared, server: &Arc<tiny_http::Server>) {
    while !shared.is_stopping() {
        match server.recv() {
            Ok(request) => answer(shared, request),
            Err(_) if shared.is_stopping() => return,
            // One connection's failure.
            Err(_) => std::thread::yield_now(),
        }
    }
}

fn answer(shared: &Shared, request: Request) {
    let path = request
        .url()
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    let (status, kind, body) = match (request.method(), path.as_str()) {
        (Method::Get | Method::Head, "/metrics") => (
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            metrics(shared),
        ),
        (Method::Get | Method::Head, "/healthz") => match shared.failure() {
            None => (200, "text/plain; charset=utf-8", "ok\n".to_owned()),
            Some(failure) => (503, "text/plain; charset=utf-8", format!("{failure}\n")),
        },
        (Method::Get | Method::Head, "/") => {
            let body = "Hedgerow: see /metrics and /healthz\n".to_owned();
            (200, "text/plain; charset=utf-8", body)
        }
        (Method::Get | Method::Head, _) => (
            404,
            "text/plain; charset=utf-8",
            "not found; try /metrics or /healthz\n".to_owned(),
        ),
        _ => (
            405,
            "text/plain; charset=utf-8",
            "only GET and HEAD are known here\n".to_owned(),
        ),
    };
    let mut response = Response::from_string(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response = response.with_header(header);
    }
    // The client is gone if this fails.
    let _ = request.respond(response);
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
