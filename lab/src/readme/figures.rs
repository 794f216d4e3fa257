//! The figures of a row among results.

use hedgerow_lab_report::{Better, Figure, OURS, Results, RunResults, X};
use serde_json::Value;

use super::table::{At, Peers, Place, Row};

/// A row's figures.
#[derive(Debug, Clone, Copy)]
pub struct Picked<'a> {
    /// The run that they are of.
    pub run: &'a RunResults,
    /// The best of ours, and what the row calls it.
    pub ours: (&'a Figure, &'static str),
    /// The best of others; none where every one of them failed.
    pub peer: Option<&'a Figure>,
}

impl Picked<'_> {
    /// How many times as good ours is.
    pub fn ratio(&self) -> Option<f64> {
        let (ours, peer) = (self.ours.0, self.peer?);
        let (ours, other) = (ours.median?, peer.median?);
        Some(match self.ours.0.better {
            Better::Higher => ours / other,
            Better::Lower => other / ours,
        })
    }

    /// How many rounds both have.
    pub fn rounds(&self) -> usize {
        let ours = self.ours.0.rounds.len();
        self.peer.map_or(ours, |peer| ours.min(peer.rounds.len()))
    }
}

/// A row's figures: those of the run with the most rounds in which both sides have any, of equals
/// the latest.
///
/// # Errors
///
/// What is missing, with its experiment and contender.
pub fn pick<'a>(results: &'a Results, row: &Row, alone: bool) -> Result<Picked<'a>, String> {
    let mut best: Option<Picked<'_>> = None;
    let mut problem = format!("no run of {}", row.place.experiment);
    for run in &results.runs {
        let mut experiments = run.experiments.iter();
        if !experiments.any(|one| one.about.name == row.place.experiment) {
            continue;
        }
        match of_run(run, row) {
            Ok(picked) if picked.peer.is_none() && !alone => {
                problem = match row.peers {
                    Peers::Only((name, _)) => lacking(row, name),
                    Peers::Best => lacking(row, "any peer"),
                };
            }
            Ok(picked) => {
                let rank = |picked: &Picked<'_>| (picked.peer.is_some(), picked.rounds());
                if best.is_none_or(|best| rank(&picked) >= rank(&best)) {
                    best = Some(picked);
                }
            }
            Err(missing) => problem = missing,
        }
    }
    best.ok_or(problem)
}

fn of_run<'a>(run: &'a RunResults, row: &Row) -> Result<Picked<'a>, String> {
    let experiments = run.experiments.iter();
    let of_row = experiments.filter(|one| one.about.name == row.place.experiment);
    let figures: Vec<&Figure> = of_row
        .flat_map(|one| &one.figures)
        .filter(|figure| figure.column == row.column && is_at(figure, &row.place))
        .filter(|figure| figure.median.is_some())
        .collect();
    let mut ours = Vec::new();
    for (name, shown) in row.ours {
        let mut of_name = figures.iter().filter(|figure| figure.contender == *name);
        let figure = of_name.next().ok_or_else(|| lacking(row, name))?;
        if of_name.next().is_some() {
            return Err(format!("more than one figure: {}", lacking(row, name)));
        }
        ours.push((*figure, *shown));
    }
    let ours = ours
        .into_iter()
        .reduce(|a, b| if is_better(b.0, a.0) { b } else { a });
    let peers = figures.iter().copied().filter(|figure| match row.peers {
        Peers::Best => is_peer(run, &figure.contender),
        Peers::Only((name, _)) => figure.contender == name,
    });
    Ok(Picked {
        run,
        ours: ours.ok_or("a row without anyone of ours")?,
        peer: peers.reduce(|a, b| if is_better(b, a) { b } else { a }),
    })
}

fn is_better(a: &Figure, b: &Figure) -> bool {
    let (a_median, b_median) = (a.median.unwrap_or(0.0), b.median.unwrap_or(0.0));
    match a.better {
        Better::Higher => a_median > b_median,
        Better::Lower => a_median < b_median,
    }
}

fn is_peer(run: &RunResults, name: &str) -> bool {
    let mut participants = run.run.contenders.iter();
    let who = participants.find(|who| who.name == name);
    who.is_some_and(|who| who.origin != OURS && !who.origin.starts_with("the lab"))
}

fn is_at(figure: &Figure, place: &Place) -> bool {
    let same = |(name, at): &(&str, At)| match (figure.parameters.get(*name), at) {
        (Some(Value::Number(is)), At::Number(at)) => is.as_f64() == Some(*at),
        (Some(Value::String(is)), At::Word(at)) => is == at,
        _ => false,
    };
    let x = match &figure.x {
        Some(X::Category(x)) => Some(x.as_str()),
        _ => None,
    };
    place.at.iter().all(same) && (place.x.is_none() || place.x == x)
}

fn lacking(row: &Row, contender: &str) -> String {
    let at = row.place.at.iter().map(|(name, at)| match at {
        At::Number(number) => format!("{name} {number}"),
        At::Word(word) => format!("{name} {word}"),
    });
    let at: Vec<String> = at.chain(row.place.x.map(str::to_owned)).collect();
    format!(
        "{} has no `{}` of {contender} (at {})",
        row.place.experiment,
        row.column,
        at.join(", ")
    )
}
