//! What an experiment found, in sentences.
//!
//! A report puts its own finding beside the source's claim. The sentences are computed, so that
//! nobody can word them more kindly than the figures are: how often the best of ours is ahead
//! of the best peer, by how much at best and at worst, and each of ours against the baseline.

use crate::arrange::{Arrangement, Column, Contender, Role};
use crate::number;
use crate::record::{Better, Figure};

/// The best of ours against the best peer, over all places where both were measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// Places where both were measured: a place is a set of parameters, a column, a position.
    pub places: usize,
    /// Those where ours has the better median.
    pub ahead: usize,
    /// How many times better ours is: at worst, in the median, at best.
    pub gains: (f64, f64, f64),
}

/// What an experiment found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// None where none of ours met a peer.
    pub verdict: Option<Verdict>,
    /// The finding in sentences, the verdict first.
    pub sentences: Vec<String>,
}

/// Works out what an experiment found.
pub(crate) fn finding(arrangement: &Arrangement<'_>) -> Finding {
    let verdict = verdict(arrangement);
    let mut sentences = Vec::new();
    if let Some(verdict) = &verdict {
        sentences.push(words(verdict));
    }
    sentences.extend(to_baseline(arrangement));
    let failed = arrangement
        .results
        .figures
        .iter()
        .filter(|f| f.errors > 0)
        .count();
    if failed > 0 {
        let figures = if failed == 1 { "figure" } else { "figures" };
        sentences.push(format!(
            "{failed} {figures} had errors and therefore no result."
        ));
    }
    if arrangement.results.figures.is_empty() {
        sentences.push("Nothing was measured.".to_owned());
    }
    Finding { verdict, sentences }
}

fn words(verdict: &Verdict) -> String {
    let Verdict {
        places,
        ahead,
        gains: (least, median, most),
    } = verdict;
    if *places == 1 {
        let standing = if *ahead == 1 {
            "ahead of"
        } else {
            "not ahead of"
        };
        return format!(
            "The best of ours is {standing} the best peer: {} of it.",
            number::ratio(*median)
        );
    }
    format!(
        "The best of ours is ahead of the best peer in {ahead} of {places} places: {} of it in \
         the median, from {} to {}.",
        number::ratio(*median),
        number::ratio(*least),
        number::ratio(*most)
    )
}

fn verdict(arrangement: &Arrangement<'_>) -> Option<Verdict> {
    let mut gains = Vec::new();
    for set in &arrangement.sets {
        for column in set.columns(true) {
            for x in set.positions(&column) {
                let figures = at(arrangement, |name| set.find(name, &column, Some(x)));
                gains.extend(gain(&figures, column.better));
            }
        }
        for column in set.columns(false) {
            let figures = at(arrangement, |name| set.find(name, &column, None));
            gains.extend(gain(&figures, column.better));
        }
    }
    Some(Verdict {
        places: gains.len(),
        ahead: gains.iter().filter(|gain| **gain > 1.0).count(),
        gains: spread(gains)?,
    })
}

fn at<'a>(
    arrangement: &Arrangement<'a>,
    find: impl Fn(&str) -> Option<&'a Figure>,
) -> Vec<(Role, f64)> {
    let measured = arrangement.contenders.iter().filter_map(|contender| {
        let figure = find(contender.name)?;
        let median = figure.median.filter(|m| figure.errors == 0 && *m > 0.0)?;
        Some((contender.role, median))
    });
    measured.collect()
}

/// How many times better the best of ours is than the best peer.
fn gain(figures: &[(Role, f64)], better: Better) -> Option<f64> {
    let best = |role| {
        let medians = figures
            .iter()
            .filter(|(r, _)| *r == role)
            .map(|(_, median)| *median);
        medians.reduce(match better {
            Better::Higher => f64::max,
            Better::Lower => f64::min,
        })
    };
    let (ours, peer) = (best(Role::Ours)?, best(Role::Peer)?);
    Some(match better {
        Better::Higher => ours / peer,
        Better::Lower => peer / ours,
    })
}

/// The smallest, the median and the largest.
fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some((first, median, last))
}

/// Ours against the baseline; where ours is the baseline or absent, everyone against it.
fn to_baseline(arrangement: &Arrangement<'_>) -> Vec<String> {
    let others: Vec<&Contender<'_>> = arrangement
        .contenders
        .iter()
        .filter(|c| !c.baseline && c.role != Role::Overhead)
        .collect();
    let mut subjects = others.clone();
    subjects.retain(|c| c.role == Role::Ours);
    if subjects.is_empty() {
        subjects = others;
    }
    let sentences = subjects.iter().filter_map(|contender| {
        let parts: Vec<String> = arrangement
            .columns
            .iter()
            .filter_map(|column| column_to_baseline(arrangement, contender, column))
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "{} to {}: {}.",
                contender.name,
                arrangement.results.about.baseline,
                parts.join(", ")
            )
        })
    });
    sentences.collect()
}

fn column_to_baseline(
    arrangement: &Arrangement<'_>,
    contender: &Contender<'_>,
    column: &Column<'_>,
) -> Option<String> {
    let own = arrangement.results.figures.iter().filter(|figure| {
        figure.contender == contender.name
            && figure.column == column.name
            && figure.unit == column.unit
            && figure.errors == 0
    });
    let ratios: Vec<f64> = own.filter_map(|figure| figure.ratio).collect();
    let several = ratios.len() > 1;
    let (least, median, most) = spread(ratios)?;
    let lower = match column.better {
        Better::Higher => "",
        Better::Lower => " ↓",
    };
    let mut text = format!("{}{lower} {}", column.name, number::ratio(median));
    if several {
        text += &format!(" ({}–{})", number::ratio(least), number::ratio(most));
    }
    Some(text)
}
