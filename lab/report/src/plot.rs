//! Plots of figures, before anyone draws them.
//!
//! There is one plot per measured column of an experiment, with a panel for each set of
//! parameters. Numbers on the horizontal axis become lines; categories become groups of bars;
//! and where there is no axis, each panel is one group of bars, a bar for each contender.

use crate::arrange::{Arrangement, Column, Contender, Role, Set};
use crate::escape::unique_slug;
use crate::record::{Better, Figure, X};

/// Values beyond these are drawn at them: the arithmetic of scales needs room.
const DRAWABLE: f64 = 1e300;

/// A plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plot<'a> {
    /// A name for its file and anchors.
    pub slug: String,
    /// The experiment's title and what was measured.
    pub title: String,
    pub column: Column<'a>,
    /// The baseline's name.
    pub baseline: &'a str,
    /// Everyone drawn in it, each with the look it has in all panels.
    pub series: Vec<Series<'a>>,
    pub panels: Vec<Panel>,
    /// What the horizontal axis shows, in plots of lines.
    pub axis: Option<Axis>,
    /// Whether panels share the scale of values.
    pub shared_scale: bool,
    /// Whether the groups of a panel share it too.
    pub groups_share_scale: bool,
    /// Whether its values differ so much that lines need a logarithmic scale.
    pub wide: bool,
}

/// A plot's horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub label: String,
    pub logarithmic: bool,
}

/// A contender in a plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Series<'a> {
    pub contender: Contender<'a>,
    /// Which colour, marker and dash it has; differs from every other series of the plot.
    pub look: usize,
}

/// A panel of a plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    /// The parameters in which it differs; may be empty.
    pub title: String,
    pub content: PanelContent,
}

/// A series (by its index) and its points from left to right; a point without a mark is a gap.
pub(crate) type Line = (usize, Vec<(f64, Option<Mark>)>);

/// What a panel draws.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PanelContent {
    /// A line for each series.
    Lines(Vec<Line>),
    /// Groups of bars.
    Bars(Vec<Group>),
}

/// Bars under one heading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    /// The category; empty where the panel has only one group.
    pub heading: String,
    /// For each series (by its index) its bar or the number of errors.
    pub bars: Vec<(usize, Result<Mark, u64>)>,
}

/// A value to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub ratio: Option<f64>,
}

impl Mark {
    fn of(figure: &Figure) -> Option<Self> {
        let drawable = |value: f64| {
            if value.abs() < 1.0 / DRAWABLE {
                0.0
            } else {
                value.clamp(-DRAWABLE, DRAWABLE)
            }
        };
        let median = drawable(figure.median.filter(|_| figure.errors == 0)?);
        let bound = |bound: Option<f64>| bound.map_or(median, drawable);
        Some(Self {
            median,
            min: bound(figure.min).min(median),
            max: bound(figure.max).max(median),
            ratio: figure.ratio,
        })
    }
}

impl Group {
    /// Every value drawn in it.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.bars.iter().filter_map(|(_, bar)| bar.ok()).collect()
    }
}

impl Panel {
    /// Every value drawn in it.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        match &self.content {
            PanelContent::Lines(lines) => {
                let points = lines.iter().flat_map(|(_, points)| points);
                points.filter_map(|(_, mark)| *mark).collect()
            }
            PanelContent::Bars(groups) => groups.iter().flat_map(Group::marks).collect(),
        }
    }
}

impl Plot<'_> {
    /// Every value drawn in any panel.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.panels.iter().flat_map(Panel::marks).collect()
    }
}

/// How figures are positioned, which decides how they are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Numbers,
    Categories,
    Nowhere,
}

fn kind(figure: &Figure) -> Kind {
    match figure.x {
        Some(X::Number(_)) => Kind::Numbers,
        Some(X::Category(_)) => Kind::Categories,
        None => Kind::Nowhere,
    }
}

/// All plots of an experiment. `taken` holds the slugs of earlier ones.
pub(crate) fn plots<'a>(arrangement: &Arrangement<'a>, taken: &mut Vec<String>) -> Vec<Plot<'a>> {
    let mut plots = Vec::new();
    for column in &arrangement.columns {
        for kind in [Kind::Numbers, Kind::Categories, Kind::Nowhere] {
            plots.extend(plot(arrangement, column, kind, taken));
        }
    }
    plots
}

fn plot<'a>(
    arrangement: &Arrangement<'a>,
    column: &Column<'a>,
    wanted: Kind,
    taken: &mut Vec<String>,
) -> Option<Plot<'a>> {
    let about = &arrangement.results.about;
    let drawn = |figure: &&&Figure| {
        figure.column == column.name && figure.unit == column.unit && kind(figure) == wanted
    };
    let in_plot = |contender: &&Contender<'_>| {
        // Beside doing nothing, everything that is better when higher would look flat.
        if contender.role == Role::Overhead && column.better == Better::Higher {
            return false;
        }
        let mut figures = arrangement
            .sets
            .iter()
            .flat_map(|set| &set.figures)
            .filter(drawn);
        figures.any(|figure| figure.contender == contender.name)
    };
    let contenders: Vec<Contender<'a>> = arrangement
        .contenders
        .iter()
        .filter(in_plot)
        .copied()
        .collect();
    let series = looks(&contenders);
    let sets = arrangement
        .sets
        .iter()
        .filter(|set| set.figures.iter().any(|f| drawn(&f)));
    let panels: Vec<Panel> = sets
        .map(|set| Panel {
            title: set.title.clone(),
            content: match wanted {
                Kind::Numbers => PanelContent::Lines(lines(set, column, &series)),
                Kind::Categories => PanelContent::Bars(groups(set, column, &series)),
                Kind::Nowhere => PanelContent::Bars(vec![group(set, column, &series, None)]),
            },
        })
        .collect();
    if panels.iter().all(|panel| panel.marks().is_empty()) {
        return None;
    }
    let name = if about.title.is_empty() {
        &about.name
    } else {
        &about.title
    };
    let label = about.x_label.clone().unwrap_or_default();
    Some(Plot {
        slug: unique_slug(&format!("{} {}", about.name, column.name), taken),
        title: format!("{name}: {}", column.name),
        column: *column,
        baseline: &about.baseline,
        axis: (wanted == Kind::Numbers).then_some(Axis {
            label,
            logarithmic: about.x_log,
        }),
        shared_scale: similar(panels.iter().map(Panel::marks)),
        groups_share_scale: panels.iter().all(groups_similar),
        wide: wide(&panels),
        series,
        panels,
    })
}

/// Gives each contender its look: the one of its place if no other has it, so that it looks the
/// same in all plots of a run as long as that is possible.
fn looks<'a>(contenders: &[Contender<'a>]) -> Vec<Series<'a>> {
    let mut taken = Vec::new();
    let mut by_place: Vec<&Contender<'a>> = contenders.iter().collect();
    by_place.sort_by_key(|contender| contender.place);
    for contender in by_place {
        let preferred = contender.place % 12;
        let free = |look: &usize| !taken.iter().any(|(_, other)| other == look);
        let look = std::iter::once(preferred).chain(0..).find(free);
        taken.push((contender.place, look.unwrap_or(preferred)));
    }
    let of = |place| {
        taken
            .iter()
            .find(|(p, _)| *p == place)
            .map_or(0, |(_, look)| *look)
    };
    contenders
        .iter()
        .map(|contender| Series {
            contender: *contender,
            look: of(contender.place),
        })
        .collect()
}

/// Panels, and groups within them, share a scale unless that would flatten one of them.
fn similar(parts: impl Iterator<Item = Vec<Mark>>) -> bool {
    let highest = parts.filter_map(|marks| {
        let sizes = marks.iter().map(|mark| mark.max.abs().max(mark.min.abs()));
        sizes.reduce(f64::max)
    });
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for highest in highest {
        least = least.min(highest);
        most = most.max(highest);
    }
    most <= least * 5.0
}

fn groups_similar(panel: &Panel) -> bool {
    match &panel.content {
        PanelContent::Lines(_) => true,
        PanelContent::Bars(groups) => similar(groups.iter().map(Group::marks)),
    }
}

/// Whether lines differ by more than a factor of 20 at one position or of 200 in all, so that
/// the lower ones would lie flat on a scale from zero.
fn wide(panels: &[Panel]) -> bool {
    panels.iter().any(|panel| {
        let PanelContent::Lines(lines) = &panel.content else {
            return false;
        };
        let points = || lines.iter().flat_map(|(_, points)| points);
        let factor = |at: Option<f64>| {
            let marks = points().filter(|(x, _)| at.is_none_or(|at| *x == at));
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            for mark in marks.filter_map(|(_, mark)| *mark) {
                least = least.min(mark.median);
                most = most.max(mark.median);
            }
            if least > 0.0 { most / least } else { 1.0 }
        };
        factor(None) > 200.0 || points().any(|(x, _)| factor(Some(*x)) > 20.0)
    })
}

fn lines(set: &Set<'_>, column: &Column<'_>, series: &[Series<'_>]) -> Vec<Line> {
    let positions = set.positions(column);
    let mut lines = Vec::new();
    for (i, each) in series.iter().enumerate() {
        let mut line = Vec::new();
        for x in &positions {
            if let X::Number(number) = x
                && let Some(figure) = set.find(each.contender.name, column, Some(x))
            {
                line.push((number.clamp(-DRAWABLE, DRAWABLE), Mark::of(figure)));
            }
        }
        if !line.is_empty() {
            lines.push((i, line));
        }
    }
    lines
}

fn groups(set: &Set<'_>, column: &Column<'_>, series: &[Series<'_>]) -> Vec<Group> {
    let positions = set.positions(column).into_iter();
    let categories = positions.filter(|x| matches!(x, X::Category(_)));
    categories
        .map(|x| group(set, column, series, Some(x)))
        .collect()
}

fn group(set: &Set<'_>, column: &Column<'_>, series: &[Series<'_>], x: Option<&X>) -> Group {
    let bars = series.iter().enumerate().filter_map(|(i, each)| {
        let figure = set.find(each.contender.name, column, x)?;
        let bar = match Mark::of(figure) {
            Some(mark) => Ok(mark),
            None if figure.errors > 0 => Err(figure.errors),
            None => return None,
        };
        Some((i, bar))
    });
    Group {
        heading: match x {
            Some(X::Category(name)) => name.clone(),
            _ => String::new(),
        },
        bars: bars.collect(),
    }
}
