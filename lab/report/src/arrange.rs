//! Putting an experiment's figures in order.
//!
//! Figures come from the lab in the order of measuring. Tables and plots need them by set of
//! parameters, by column, by contender and by position on the horizontal axis, and they need
//! to know who is ours, who is a peer and who is only there to show the harness's own cost.

use serde_json::Value;

use crate::parameters::describe;
use crate::read::{ExperimentResults, RunResults};
use crate::record::{Better, Figure, Participant, Skipped, X};

/// The name of the contender that does nothing: its figures are the harness's own cost, and no
/// comparison counts it.
pub const HARNESS: &str = "(harness)";

/// The origin of contenders that are Hedgerow's product. What the lab has only to compare with,
/// such as a hash table, has another one, or it would count as ours.
pub const OURS: &str = "Hedgerow";

/// Whose work a contender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of Hedgerow.
    Ours,
    /// Someone else's.
    Peer,
    /// The harness's own cost.
    Overhead,
}

impl Role {
    /// Of a contender by name, as its run describes it.
    pub(crate) fn of(name: &str, participants: &[Participant]) -> Self {
        let origin = participants.iter().find(|p| p.name == name);
        if name == HARNESS {
            Self::Overhead
        } else if origin.map_or_else(
            || name.to_lowercase().starts_with("hedgerow"),
            |p| p.origin == OURS,
        ) {
            Self::Ours
        } else {
            Self::Peer
        }
    }
}

/// A contender within an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Contender<'a> {
    pub name: &'a str,
    pub role: Role,
    /// Whether ratios are taken to it.
    pub baseline: bool,
    /// Its place among all contenders of its run, ours first; its colour and marker follow it.
    pub place: usize,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column<'a> {
    pub name: &'a str,
    pub unit: &'a str,
    pub better: Better,
}

impl Column<'_> {
    /// The arrow that says which way is better.
    pub(crate) fn arrow(&self) -> &'static str {
        match self.better {
            Better::Higher => "↑",
            Better::Lower => "↓",
        }
    }

    /// The same in words.
    pub(crate) fn direction(&self) -> &'static str {
        match self.better {
            Better::Higher => "more is better",
            Better::Lower => "less is better",
        }
    }
}

/// The figures measured under one set of parameters.
#[derive(Debug, Clone)]
pub(crate) struct Set<'a> {
    /// The parameters in which it differs from the experiment's other sets; may be empty.
    pub title: String,
    pub figures: Vec<&'a Figure>,
}

impl<'a> Set<'a> {
    /// The figure of a contender in a column, at a position if there is one.
    pub(crate) fn find(
        &self,
        contender: &str,
        column: &Column<'_>,
        x: Option<&X>,
    ) -> Option<&'a Figure> {
        self.figures.iter().copied().find(|figure| {
            figure.contender == contender
                && figure.column == column.name
                && figure.unit == column.unit
                && figure.x.as_ref() == x
        })
    }

    /// The positions at which `column` was measured: numbers ascending, then categories as
    /// they came.
    pub(crate) fn positions(&self, column: &Column<'_>) -> Vec<&'a X> {
        let mut positions: Vec<&X> = Vec::new();
        let measured = self
            .figures
            .iter()
            .filter(|f| f.column == column.name && f.unit == column.unit);
        for x in measured.filter_map(|figure| figure.x.as_ref()) {
            if !positions.contains(&x) {
                positions.push(x);
            }
        }
        positions.sort_by(|a, b| match (a, b) {
            (X::Number(a), X::Number(b)) => a.total_cmp(b),
            (X::Number(_), X::Category(_)) => std::cmp::Ordering::Less,
            (X::Category(_), X::Number(_)) => std::cmp::Ordering::Greater,
            (X::Category(_), X::Category(_)) => std::cmp::Ordering::Equal,
        });
        positions
    }

    /// The columns measured here, with (`true`) or without a position.
    pub(crate) fn columns(&self, with_position: bool) -> Vec<Column<'a>> {
        columns(
            self.figures
                .iter()
                .copied()
                .filter(|f| f.x.is_some() == with_position),
        )
    }
}

/// An experiment's figures in order.
#[derive(Debug, Clone)]
pub(crate) struct Arrangement<'a> {
    pub results: &'a ExperimentResults,
    /// Everyone with a figure, in the order of the run's list.
    pub contenders: Vec<Contender<'a>>,
    /// Everyone who was skipped, and why.
    pub skipped: Vec<(Contender<'a>, String)>,
    pub columns: Vec<Column<'a>>,
    /// The parameters that all sets share, such as `keys 10,000,000`; may be empty.
    pub shared: String,
    pub sets: Vec<Set<'a>>,
}

impl<'a> Arrangement<'a> {
    /// Arranges an experiment of a run.
    pub(crate) fn of(run: &'a RunResults, results: &'a ExperimentResults) -> Self {
        let figures = &results.figures;
        let shared = |name: &str, value: &Value| {
            figures
                .iter()
                .all(|f| f.parameters.get(name) == Some(value))
        };
        let mut sets: Vec<Set<'a>> = Vec::new();
        for figure in figures {
            let same = sets
                .iter_mut()
                .find(|set| set.figures[0].parameters == figure.parameters);
            if let Some(set) = same {
                set.figures.push(figure);
                continue;
            }
            let own = figure.parameters.iter().filter(|(n, v)| !shared(n, v));
            sets.push(Set {
                title: describe(own),
                figures: vec![figure],
            });
        }
        let common = figures
            .first()
            .map(|figure| describe(figure.parameters.iter().filter(|(n, v)| shared(n, v))));
        Self {
            results,
            contenders: contenders(run, results),
            skipped: skipped(run, results),
            columns: columns(figures.iter()),
            shared: common.unwrap_or_default(),
            sets,
        }
    }
}

/// Those who were skipped, each once, with every reason that was given.
fn skipped<'a>(
    run: &'a RunResults,
    results: &'a ExperimentResults,
) -> Vec<(Contender<'a>, String)> {
    let mut skipped: Vec<(Contender<'a>, Vec<&str>)> = Vec::new();
    for Skipped { contender, why, .. } in &results.skipped {
        let known = skipped
            .iter_mut()
            .find(|(known, _)| known.name == contender);
        match known {
            Some((_, reasons)) if reasons.contains(&why.as_str()) => {}
            Some((_, reasons)) => reasons.push(why),
            None => {
                let contender = Contender {
                    name: contender,
                    role: Role::of(contender, &run.run.contenders),
                    baseline: *contender == results.about.baseline,
                    place: 0,
                };
                skipped.push((contender, vec![why]));
            }
        }
    }
    let joined = skipped
        .into_iter()
        .map(|(who, reasons)| (who, reasons.join("; ")));
    joined.collect()
}

fn contenders<'a>(run: &'a RunResults, results: &'a ExperimentResults) -> Vec<Contender<'a>> {
    // Every name of the run, so that a contender looks the same in all its experiments.
    let listed = run.run.contenders.iter().map(|p| p.name.as_str());
    let measured = run.experiments.iter().flat_map(|e| &e.figures);
    let mut all: Vec<&str> = Vec::new();
    for name in listed.chain(measured.map(|f| f.contender.as_str())) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let role = |name: &str| Role::of(name, &run.run.contenders);
    let mut places = all.clone();
    places.sort_by_key(|name| role(name) != Role::Ours);
    all.retain(|name| results.figures.iter().any(|f| f.contender == *name));
    let contenders = all.into_iter().map(|name| Contender {
        name,
        role: role(name),
        baseline: name == results.about.baseline,
        place: places
            .iter()
            .position(|other| *other == name)
            .unwrap_or_default(),
    });
    contenders.collect()
}

fn columns<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<Column<'a>> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    for figure in figures {
        let (name, unit) = (figure.column.as_str(), figure.unit.as_str());
        if !columns.iter().any(|c| c.name == name && c.unit == unit) {
            columns.push(Column {
                name,
                unit,
                better: figure.better,
            });
        }
    }
    columns
}
