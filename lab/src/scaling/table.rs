//! The model's result as text.

use std::fmt::Write as _;

use super::constants::{Constants, Route};
use super::model::{Assumptions, Cluster, Projection};

/// The line of a table: its name, and a number for each size of the cluster.
type Line<'a> = (&'a str, Vec<f64>);

/// What the model assumes, and for how many servers.
pub fn assumptions(assumptions: &Assumptions) -> String {
    let Assumptions {
        cores,
        utilisation,
        round_trip_us,
        log_exchanges,
        row_bytes,
        recovery_s,
        ..
    } = assumptions;
    format!(
        "a computation, no measurement. Assumed: {cores} cores a machine, of which {:.0} % are \
         used; {round_trip_us} µs for an exchange between machines; {log_exchanges} exchanges for \
         a log entry; rows of {row_bytes} bytes, equally many on each server; {recovery_s} s to \
         recover a server (--help has all)\n",
        100.0 * utilisation
    )
}

/// The tables of a workload.
pub fn of(constants: &Constants, assumptions: &Assumptions, servers: &[u32]) -> String {
    let clusters: Vec<_> = servers
        .iter()
        .map(|count| Cluster::new(f64::from(*count), assumptions))
        .collect();
    let mut text = format!("\nworkload {}\n", constants.workload);
    for route in &constants.routes {
        measured(&mut text, route);
    }
    lines(&mut text, &of_cluster(&clusters, assumptions));
    for route in &constants.routes {
        let projections: Vec<_> = clusters
            .iter()
            .map(|cluster| Projection::new(route, cluster, assumptions))
            .collect();
        let _ = writeln!(text, "  {}", route.contender);
        lines(&mut text, &of_route(route, &projections));
    }
    text
}

fn measured(text: &mut String, route: &Route) {
    let _ = writeln!(
        text,
        "  {}: processor time of an operation, measured: Hedgerow {}, gateways {}, region servers \
         {} µs; one client waits {} µs; {} exchanges",
        route.contender,
        shown(route.server_us),
        shown(route.gateway_us),
        shown(route.region_server_us),
        shown(route.one_client_us),
        shown(route.exchanges),
    );
}

fn of_cluster(clusters: &[Cluster], assumptions: &Assumptions) -> Vec<Line<'static>> {
    let each = |of: fn(&Cluster) -> f64| clusters.iter().map(of).collect::<Vec<_>>();
    let bytes = clusters
        .iter()
        .map(|cluster| cluster.rows * assumptions.row_bytes / 1e12);
    vec![
        ("region servers", each(|cluster| cluster.servers)),
        ("regions", each(|cluster| cluster.regions)),
        ("rows, million", each(|cluster| cluster.rows / 1e6)),
        ("data, TB, without replicas", bytes.collect()),
        (
            "hottest row, % of operations",
            each(|cluster| 100.0 * cluster.hottest_row),
        ),
        (
            "failures of region servers a day",
            each(|cluster| cluster.failures_a_day),
        ),
        (
            "rows that wait meanwhile, %",
            each(|cluster| 100.0 * cluster.one_server),
        ),
        (
            "servers that a batch asks",
            each(|cluster| cluster.servers_of_batch),
        ),
    ]
}

fn of_route(route: &Route, projections: &[Projection]) -> Vec<Line<'static>> {
    let each = |of: fn(&Projection) -> f64| projections.iter().map(of).collect::<Vec<_>>();
    let mut lines = vec![
        (
            "thousand operations a second, uniform",
            each(|one| one.uniform / 1e3),
        ),
        ("… under YCSB's Zipf", each(|one| one.skewed / 1e3)),
        ("latency, ms", each(|one| one.latency_us / 1e3)),
        ("operations under way", each(|one| one.under_way)),
    ];
    if route.gateway_us > 0.0 {
        lines.extend([
            (
                "machines for Hedgerow",
                each(|one| one.hedgerow_machines.ceil()),
            ),
            (
                "machines for gateways",
                each(|one| one.gateway_machines.ceil()),
            ),
            (
                "connections of a gateway, if all name it",
                each(|one| one.connections),
            ),
            (
                "gateways that a server may name",
                each(|one| one.gateways_of_server.floor()),
            ),
            ("sessions of ZooKeeper", each(|one| one.sessions.ceil())),
            ("gateways learn all regions, s", each(|one| one.warm_up_s)),
        ]);
    }
    lines
}

fn lines(text: &mut String, lines: &[Line<'_>]) {
    for (name, numbers) in lines {
        let _ = write!(text, "    {name:<40}");
        for number in numbers {
            let _ = write!(text, "{:>12}", shown(*number));
        }
        text.push('\n');
    }
}

/// Three digits are as many as the model is good for.
fn shown(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_has_its_lines_with_a_number_for_each_size() {
        use clap::Parser;
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            assumptions: Assumptions,
        }
        let assumptions = Defaults::parse_from(["model"]).assumptions;
        let route = |contender, gateway_us| Route {
            contender,
            server_us: gateway_us / 10.0,
            gateway_us,
            region_server_us: 100.0,
            one_client_us: 1000.0,
            exchanges: 4.0,
            logged: 0.5,
        };
        let constants = Constants {
            workload: "A".to_owned(),
            routes: vec![route("through", 200.0), route("directly", 0.0)],
        };
        let text = of(&constants, &assumptions, &[3, 1000]);
        let of_name = |name: &str| -> Vec<String> {
            let found = text
                .lines()
                .filter(|line| line.trim_start().starts_with(name));
            let numbers = found.map(|line| {
                let words: Vec<_> = line.split_whitespace().rev().take(2).collect();
                format!("{} {}", words[1], words[0])
            });
            numbers.collect()
        };
        assert_eq!(of_name("region servers"), ["3.00 1000"]);
        // 8 cores' time, at 100 µs: 80,000 a server, by both routes.
        let uniform = "240 80000";
        assert_eq!(of_name("thousand operations"), [uniform, uniform]);
        assert_eq!(
            of_name("machines for gateways"),
            ["6.00 2000"],
            "of one route alone"
        );
    }
}
