//! Tables of figures, before anyone renders them.
//!
//! Without a horizontal axis a table holds one set of parameters: contenders as rows, what was
//! measured as columns. With one, a table holds one measured thing under one set of parameters,
//! and the positions are its columns; unless more things were measured than there are positions,
//! when it is the other way round. Wide tables are cut into bands that fit a page.

use crate::arrange::{Arrangement, Column, Contender, Role, Set};
use crate::number;
use crate::record::{Better, Figure, X};

/// The most columns that fit on a page beside the contender's name.
const MOST_COLUMNS: usize = 7;

/// A table: contenders as rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table<'a> {
    /// What distinguishes it from the experiment's other tables; may be empty.
    pub caption: String,
    pub columns: Vec<Heading>,
    pub rows: Vec<Row<'a>>,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    /// What was measured, or the position.
    pub title: String,
    /// Its unit and direction, where they differ by column.
    pub unit: String,
}

/// One contender.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row<'a> {
    pub contender: Contender<'a>,
    pub content: Content,
}

/// What a row shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// A cell per column.
    Cells(Vec<Cell>),
    /// Why the contender did not take part.
    Skipped(String),
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Not measured.
    Missing,
    /// So many wrong or refused operations, and therefore nothing else.
    Errors(u64),
    /// A measurement.
    Measured {
        median: f64,
        /// The smallest and largest of the rounds, where there were several.
        range: Option<(f64, f64)>,
        /// To the baseline, in the same rounds.
        ratio: Option<f64>,
        /// Whether no other contender's median is better.
        best: bool,
    },
}

/// All tables of an experiment.
pub(crate) fn tables<'a>(arrangement: &Arrangement<'a>) -> Vec<Table<'a>> {
    let mut tables = Vec::new();
    for column in &arrangement.columns {
        for set in arrangement
            .sets
            .iter()
            .filter(|set| !has_few_positions(set))
        {
            let positions = set.positions(column);
            for band in bands(&positions).filter(|band| !band.is_empty()) {
                tables.push(by_position(arrangement, set, column, band));
            }
        }
    }
    for set in &arrangement.sets {
        let mut places: Vec<Option<&X>> = vec![None];
        if has_few_positions(set) {
            places.extend(positions(set).into_iter().map(Some));
        }
        for place in places {
            let columns = set.columns(place.is_some());
            for band in bands(&columns).filter(|band| !band.is_empty()) {
                tables.push(by_column(arrangement, set, band, place));
            }
        }
    }
    tables
}

/// The positions of a set, whatever was measured there.
fn positions<'a>(set: &Set<'a>) -> Vec<&'a X> {
    let mut positions: Vec<&X> = Vec::new();
    for x in set
        .columns(true)
        .iter()
        .flat_map(|column| set.positions(column))
    {
        if !positions.contains(&x) {
            positions.push(x);
        }
    }
    positions
}

/// Whether more was measured at each position than there are positions.
fn has_few_positions(set: &Set<'_>) -> bool {
    set.columns(true).len() > positions(set).len()
}

/// Cuts columns into bands of nearly equal width.
pub(crate) fn bands<T>(columns: &[T]) -> impl Iterator<Item = &[T]> {
    let bands = columns.len().div_ceil(MOST_COLUMNS).max(1);
    columns.chunks(columns.len().div_ceil(bands).max(1))
}

fn by_position<'a>(
    arrangement: &Arrangement<'a>,
    set: &Set<'a>,
    column: &Column<'a>,
    positions: &[&X],
) -> Table<'a> {
    let cells = |contender: &Contender<'_>| {
        let figures = positions
            .iter()
            .map(|x| set.find(contender.name, column, Some(x)));
        figures.map(cell).collect()
    };
    let axis = arrangement.results.about.x_label.as_deref();
    let mut caption = format!("{}, {} {}", column.name, column.unit, column.arrow());
    if let Some(axis) = axis {
        caption += &format!(", by {axis}");
    }
    finish(
        arrangement,
        join(&caption, &set.title),
        positions
            .iter()
            .map(|x| Heading {
                title: heading(x),
                unit: String::new(),
            })
            .collect(),
        &vec![column.better; positions.len()],
        cells,
    )
}

fn by_column<'a>(
    arrangement: &Arrangement<'a>,
    set: &Set<'a>,
    columns: &[Column<'a>],
    x: Option<&X>,
) -> Table<'a> {
    let axis = arrangement
        .results
        .about
        .x_label
        .as_deref()
        .unwrap_or_default();
    let place = x.map(|x| format!("{axis} {}", heading(x)));
    let cells = |contender: &Contender<'_>| {
        let figures = columns
            .iter()
            .map(|column| set.find(contender.name, column, x));
        figures.map(cell).collect()
    };
    finish(
        arrangement,
        join(place.unwrap_or_default().trim(), &set.title),
        columns
            .iter()
            .map(|column| Heading {
                title: column.name.to_owned(),
                unit: format!("{} {}", column.unit, column.arrow()),
            })
            .collect(),
        &columns.iter().map(|c| c.better).collect::<Vec<_>>(),
        cells,
    )
}

fn finish<'a>(
    arrangement: &Arrangement<'a>,
    caption: String,
    columns: Vec<Heading>,
    better: &[Better],
    cells: impl Fn(&Contender<'_>) -> Vec<Cell>,
) -> Table<'a> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for contender in &arrangement.contenders {
        let cells = cells(contender);
        if cells.iter().any(|cell| *cell != Cell::Missing) {
            rows.push(Row {
                contender: *contender,
                content: Content::Cells(cells),
            });
        }
    }
    mark_best(&mut rows, better);
    let present: Vec<&str> = rows.iter().map(|row| row.contender.name).collect();
    rows.extend(skipped_rows(arrangement, &present));
    Table {
        caption,
        columns,
        rows,
    }
}

/// A row for each contender that was skipped and has figures elsewhere, but none in the table.
fn skipped_rows<'a>(arrangement: &Arrangement<'a>, present: &[&str]) -> Vec<Row<'a>> {
    let elsewhere = |name| arrangement.contenders.iter().any(|c| c.name == name);
    let rows = arrangement
        .skipped
        .iter()
        .filter(|(contender, _)| elsewhere(contender.name) && !present.contains(&contender.name));
    rows.map(|(contender, why)| Row {
        contender: *contender,
        content: Content::Skipped(why.clone()),
    })
    .collect()
}

/// Those who have no figure in the whole experiment, by the reason.
pub(crate) fn absent<'a>(arrangement: &Arrangement<'a>) -> Vec<(String, Vec<&'a str>)> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (contender, why) in &arrangement.skipped {
        if arrangement
            .contenders
            .iter()
            .any(|c| c.name == contender.name)
        {
            continue;
        }
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(contender.name),
            None => reasons.push((why.clone(), vec![contender.name])),
        }
    }
    reasons
}

fn cell(figure: Option<&Figure>) -> Cell {
    let Some(figure) = figure else {
        return Cell::Missing;
    };
    match (figure.errors, figure.median) {
        (0, None) => Cell::Missing,
        (0, Some(median)) => Cell::Measured {
            median,
            range: figure
                .min
                .zip(figure.max)
                .filter(|_| figure.rounds.len() != 1),
            ratio: figure.ratio,
            best: false,
        },
        (errors, _) => Cell::Errors(errors),
    }
}

/// Marks the best median of each column that at least two contenders share; the harness's own
/// cost does not compete.
fn mark_best(rows: &mut [Row<'_>], better: &[Better]) {
    for (i, better) in better.iter().enumerate() {
        let median = |row: &Row<'_>| match &row.content {
            Content::Cells(cells) if row.contender.role != Role::Overhead => match cells[i] {
                Cell::Measured { median, .. } => Some(median),
                _ => None,
            },
            _ => None,
        };
        let medians: Vec<f64> = rows.iter().filter_map(median).collect();
        if medians.len() < 2 {
            continue;
        }
        let best = match better {
            Better::Higher => medians.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Better::Lower => medians.iter().copied().fold(f64::INFINITY, f64::min),
        };
        for row in rows.iter_mut() {
            let is_best = median(row) == Some(best);
            if let (true, Content::Cells(cells)) = (is_best, &mut row.content)
                && let Cell::Measured { best, .. } = &mut cells[i]
            {
                *best = true;
            }
        }
    }
}

/// A position above a column: in full, because neighbours may differ by little.
fn heading(x: &X) -> String {
    match x {
        X::Number(number) => number::plain(*number),
        X::Category(name) => name.clone(),
    }
}

fn join(first: &str, second: &str) -> String {
    let parts = [first, second].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}
