//! What was measured, in the lab's own form of results: for machines, and for the same page and
//! plots that experiments have.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow_lab_report::{
    Better, Experiment, Measured as Column, Participant, Record, Round as Answered, Run, SCHEMA,
    figures,
};

use super::arguments::AdviseArguments;
use super::verdict::{Figures, Measured};
use crate::registry::Registry;
use crate::{LabError, Result, machine};

/// The name under which results stand.
const NAME: &str = "advise/keys";

/// Writes all rounds as lines of results.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write(
    file: &Path,
    arguments: &AdviseArguments,
    maps: &[Measured],
    ranked: &[Figures],
    advice: &str,
) -> Result<()> {
    let mut records = vec![
        Record::Run(run(maps)),
        Record::Experiment(Experiment {
            name: NAME.to_owned(),
            title: format!("Maps for the keys of {}", arguments.keys),
            source: "hedgerow-lab advise".to_owned(),
            claim: advice.to_owned(),
            x_label: None,
            x_log: false,
            here: None,
            compared_to: None,
            baseline: ranked
                .first()
                .map(|best| best.name.clone())
                .unwrap_or_default(),
        }),
    ];
    let answers: Vec<Answered> = maps
        .iter()
        .flat_map(|map| answers(map, arguments))
        .collect();
    let baseline = ranked.first().map_or("", |best| best.name.as_str());
    records.extend(
        figures(&answers, baseline, None)
            .into_iter()
            .map(Record::Figure),
    );
    let mut lines = String::new();
    for record in &records {
        lines += &serde_json::to_string(record).map_err(LabError::from_display)?;
        lines.push('\n');
    }
    std::fs::write(file, lines)
        .map_err(|error| LabError::Usage(format!("cannot write {}: {error}", file.display())))
}

fn run(maps: &[Measured]) -> Run {
    let registry = Registry::new();
    let entries = maps.iter().filter_map(|map| registry.map(&map.name));
    let words: Vec<_> = std::env::args().skip(1).collect();
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Run {
        schema: SCHEMA,
        command: format!("hedgerow-lab {}", words.join(" ")),
        started: since_1970.map_or(0, |time| time.as_secs()),
        scale: "advise".to_owned(),
        machine: machine::describe(),
        contenders: entries
            .map(|map| Participant {
                name: map.entry.name.to_owned(),
                version: map.entry.version.clone(),
                origin: map.entry.origin.to_owned(),
            })
            .collect(),
    }
}

/// A map's rounds: the mix first, which the recommendation goes by.
fn answers(map: &Measured, arguments: &AdviseArguments) -> Vec<Answered> {
    let pointed_to = arguments.pointed_to_bytes();
    let parameters: BTreeMap<_, _> = [
        ("mix".to_owned(), arguments.mix_text().into()),
        (
            "distribution".to_owned(),
            arguments.distribution.clone().into(),
        ),
    ]
    .into();
    let column = |name: &str, unit: &str, better, figure| Column {
        column: name.to_owned(),
        unit: unit.to_owned(),
        better,
        figure,
    };
    let rounds = (0..).zip(&map.rounds).map(|(nth, round)| {
        let mops = |operations: u64, seconds: f64| operations as f64 / seconds / 1e6;
        let mix = mops(round.operations, round.mix_seconds);
        let load = mops(round.loaded, round.load_seconds);
        let mut columns = vec![
            column("mix", "Mops/s", Better::Higher, mix),
            column("load", "Mops/s", Better::Higher, load),
        ];
        let singles = round.single_ns.iter();
        columns.extend(singles.map(|(kind, ns)| column(kind, "ns", Better::Lower, *ns)));
        if let Some(bytes) = round.bytes_per_key {
            let bytes = bytes + pointed_to as f64;
            columns.push(column("memory", "bytes/key", Better::Lower, bytes));
        }
        Answered {
            experiment: NAME.to_owned(),
            round: nth,
            parameters: parameters.clone(),
            x: None,
            contender: map.name.clone(),
            figures: columns,
            errors: 0,
        }
    });
    rounds.collect()
}
