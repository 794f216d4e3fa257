//! What one machine was measured to take for an operation: the figures of `scale/hbase`.

use std::path::Path;

use hedgerow_lab_data::workload::{Kind, Workload};
use hedgerow_lab_report::{Figure, Results, X, read_files};

use crate::experiments::scale::{JAVA, ON_HBASE, WORKLOADS};
use crate::{LabError, Result};

/// What was measured of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    /// The workload's letter.
    pub workload: String,
    /// Each way to a region server.
    pub routes: Vec<Route>,
}

/// A way to a region server, and what a mean operation of the workload takes on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Who was measured.
    pub contender: &'static str,
    /// Processor time of Hedgerow in microseconds; 0 where it is not on the way.
    pub server_us: f64,
    /// Of gateways.
    pub gateway_us: f64,
    /// Of region servers.
    pub region_server_us: f64,
    /// The mean time of an operation of one client, all processes on one machine.
    pub one_client_us: f64,
    /// Exchanges of a request and a reply between machines, one after the other.
    pub exchanges: f64,
    /// Entries of the region server's log for which the operation waits.
    pub logged: f64,
}

impl Constants {
    /// Those of the last run in a file; workloads that it lacks are left out.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or without any of them.
    pub fn read(file: &Path) -> Result<Vec<Self>> {
        let results = read_files(&[file]).map_err(LabError::from_display)?;
        let all: Vec<_> = WORKLOADS
            .iter()
            .filter_map(|name| Self::of(&results, name))
            .collect();
        match all.is_empty() {
            false => Ok(all),
            true => Err(LabError::Usage(format!(
                "{} has no figures of {ON_HBASE} in scale/hbase",
                file.display()
            ))),
        }
    }

    fn of(results: &Results, workload: &str) -> Option<Self> {
        let mix = Workload::named(&format!("ycsb/{workload}")).ok()?.mix;
        let runs = results.runs.iter().rev();
        let experiments = runs.flat_map(|run| &run.experiments);
        let mut experiments = experiments.filter(|one| one.about.name == "scale/hbase");
        let figures = &experiments.next()?.figures;
        let routes = [ON_HBASE, JAVA].into_iter().filter_map(|contender| {
            let of = |column| median(figures, contender, workload, column);
            let mean = |each: fn(Kind, bool) -> f64| {
                let shares = mix.shares().into_iter();
                shares
                    .map(|(kind, share)| share * each(kind, contender == ON_HBASE))
                    .sum()
            };
            Some(Route {
                contender,
                server_us: of("processor time, server").unwrap_or(0.0),
                gateway_us: of("processor time, gateways").unwrap_or(0.0),
                region_server_us: of("processor time, region servers")?,
                one_client_us: of("one client: mean")?,
                exchanges: mean(exchanges),
                logged: mean(|kind, _| f64::from(writes(kind))),
            })
        });
        let routes: Vec<_> = routes.collect();
        let workload = workload.to_uppercase();
        (!routes.is_empty()).then_some(Self { workload, routes })
    }
}

/// A figure at a workload's place.
fn median(figures: &[Figure], contender: &str, workload: &str, column: &str) -> Option<f64> {
    let place = Some(X::Category(workload.to_uppercase()));
    let mut figures = figures.iter();
    let figure = figures.find(|figure| {
        figure.contender == contender && figure.column == column && figure.x == place
    })?;
    figure.median
}

fn writes(kind: Kind) -> bool {
    !matches!(kind, Kind::Read | Kind::Scan)
}

/// Exchanges between machines, one after the other. Through Hedgerow each call of its own costs two
/// (to the gateway, and from there to a region server) behind one from the client: a read is one
/// call; a write reads the header and writes if that is still so; a scan of 1 to 100 rows is a page
/// of up to 64 and, for 36 of 100 lengths, another.
fn exchanges(kind: Kind, through_hedgerow: bool) -> f64 {
    match (kind, through_hedgerow) {
        (Kind::Read, true) => 3.0,
        (Kind::ReadModifyWrite, true) => 8.0,
        (Kind::Scan, true) => 3.72,
        (_, true) => 5.0,
        (Kind::ReadModifyWrite, false) => 2.0,
        (_, false) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = concat!(
        r#"{"kind":"run","schema":2,"command":"","started":1,"scale":"small","machine":{"cpu":"","#,
        r#""cores":2,"simd":[],"last_cache":"","memory_gib":1,"kernel":"","superpages":"","#,
        r#""allocator":"","commit":""},"contenders":[]}"#,
        "\n",
        r#"{"kind":"experiment","name":"scale/hbase","title":"","source":"","claim":"","#,
        r#""x_label":null,"x_log":false,"baseline":""}"#,
        "\n",
    );

    fn figure(contender: &str, column: &str, median: f64) -> String {
        let record = serde_json::json!({
            "kind": "figure", "experiment": "scale/hbase", "parameters": {}, "x": "A",
            "contender": contender, "column": column, "unit": "", "better": "lower",
            "median": median, "min": null, "max": null, "rounds": [], "ratio": null, "errors": 0
        });
        format!("{record}\n")
    }

    #[test]
    fn constants_are_medians_of_the_workload_and_exchanges_those_of_its_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("results");
        let lines = [
            figure(ON_HBASE, "processor time, server", 30.0),
            figure(ON_HBASE, "processor time, gateways", 200.0),
            figure(ON_HBASE, "processor time, region servers", 150.0),
            figure(ON_HBASE, "one client: mean", 900.0),
            figure(JAVA, "processor time, region servers", 100.0),
            figure(JAVA, "one client: mean", 400.0),
        ];
        std::fs::write(&file, RESULTS.to_owned() + &lines.concat()).expect("written");
        let all = Constants::read(&file).expect("constants");
        assert_eq!((all.len(), all[0].workload.as_str()), (1, "A"));
        let [hedgerow, java] = &all[0].routes[..] else {
            panic!("two routes: {all:?}");
        };
        assert_eq!((hedgerow.server_us, hedgerow.gateway_us), (30.0, 200.0));
        assert_eq!((java.server_us, java.gateway_us), (0.0, 0.0));
        assert_eq!((java.region_server_us, java.one_client_us), (100.0, 400.0));
        // Half reads, half updates.
        assert_eq!((hedgerow.exchanges, hedgerow.logged), (4.0, 0.5));
        assert_eq!((java.exchanges, java.logged), (1.0, 0.5));
        std::fs::write(&file, RESULTS).expect("written");
        assert!(Constants::read(&file).is_err());
    }
}
