//! What an experiment found, in sentences.
//!
//! A report puts its own finding beside the source's claim. The sentences are computed, so that
//! nobody can word them more kindly than the figures are: how often the best of ours is ahead
//! of the best peer, by how much at best and at worst, and everyone against the baseline. Where
//! that would take more words than anyone reads, it becomes a table, the overview.

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
    pub gains: Spread,
}

/// Where some ratios lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// Everyone's ratios to the baseline, over all places of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Overview<'a> {
    pub columns: Vec<Column<'a>>,
    /// Each contender with a cell per column.
    pub rows: Vec<(Contender<'a>, Vec<Option<Spread>>)>,
}

/// What an experiment found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding<'a> {
    /// None where none of ours met a peer.
    pub verdict: Option<Verdict>,
    /// The finding in sentences, the verdict first.
    pub sentences: Vec<String>,
    /// Everyone against the baseline, where that is too much for sentences and no table of one
    /// place shows it anyway.
    pub overview: Option<Overview<'a>>,
}

/// The most ratios that sentences tell.
const MOST_IN_WORDS: usize = 4;

/// Works out what an experiment found.
pub(crate) fn finding<'a>(arrangement: &Arrangement<'a>) -> Finding<'a> {
    let verdict = verdict(arrangement);
    let mut sentences = Vec::new();
    if let Some(verdict) = &verdict {
        sentences.push(words(verdict));
    }
    let overview = overview(arrangement);
    let told = in_words(&overview, &arrangement.results.about.baseline);
    let short = told.len() * overview.columns.len() <= MOST_IN_WORDS;
    let one_place = arrangement.sets.len() == 1 && arrangement.sets[0].columns(true).is_empty();
    if short {
        sentences.extend(told);
    }
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
    if sentences.is_empty() {
        let baseline = &arrangement.results.about.baseline;
        sentences.push(format!(
            "None of ours met a peer; the tables hold the ratios to {baseline}."
        ));
    }
    let wanted = !one_place && !short && !overview.rows.is_empty();
    Finding {
        verdict,
        sentences,
        overview: wanted.then_some(overview),
    }
}

fn words(verdict: &Verdict) -> String {
    let Verdict {
        places,
        ahead,
        gains: Spread {
            least,
            median,
            most,
        },
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
fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some(Spread {
        least,
        median,
        most,
    })
}

/// Everyone's ratios to the baseline, over all places of an experiment.
fn overview<'a>(arrangement: &Arrangement<'a>) -> Overview<'a> {
    let others = arrangement
        .contenders
        .iter()
        .filter(|contender| !contender.baseline && contender.role != Role::Overhead);
    let rows = others
        .map(|contender| {
            let columns = arrangement.columns.iter();
            let cells = columns.map(|column| ratios(arrangement, contender, column));
            (*contender, cells.collect())
        })
        .filter(|(_, cells): &(_, Vec<_>)| cells.iter().any(Option::is_some));
    Overview {
        columns: arrangement.columns.clone(),
        rows: rows.collect(),
    }
}

fn ratios(
    arrangement: &Arrangement<'_>,
    contender: &Contender<'_>,
    column: &Column<'_>,
) -> Option<Spread> {
    let own = arrangement.results.figures.iter().filter(|figure| {
        figure.contender == contender.name
            && figure.column == column.name
            && figure.unit == column.unit
            && figure.errors == 0
    });
    spread(own.filter_map(|figure| figure.ratio).collect())
}

/// An overview short enough for words: ours or, where ours is the baseline or absent, everyone.
fn in_words(overview: &Overview<'_>, baseline: &str) -> Vec<String> {
    let has_ours = overview.rows.iter().any(|(who, _)| who.role == Role::Ours);
    let rows = overview.rows.iter();
    let told = rows.filter(|(who, _)| who.role == Role::Ours || !has_ours);
    told.map(|(who, cells)| {
        let parts: Vec<String> = overview
            .columns
            .iter()
            .zip(cells)
            .filter_map(|(column, cell)| Some(ratio_in_words(column, (*cell)?)))
            .collect();
        format!("{} to {baseline}: {}.", who.name, parts.join(", "))
    })
    .collect()
}

fn ratio_in_words(column: &Column<'_>, spread: Spread) -> String {
    let Spread {
        least,
        median,
        most,
    } = spread;
    let lower = match column.better {
        Better::Higher => "",
        Better::Lower => " ↓",
    };
    let mut text = format!("{}{lower} {}", column.name, number::ratio(median));
    if least < most {
        text += &format!(" ({}–{})", number::ratio(least), number::ratio(most));
    }
    text
}
