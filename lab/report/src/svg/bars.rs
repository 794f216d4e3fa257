//! A panel of bars: a row for each contender, in groups where there are categories.
//!
//! Bars lie, so that every name is readable without turning one's head, and each carries its
//! figure, so that no axis is needed. Ours are dark and peers pale; a dotted line marks the
//! baseline.

use std::fmt::Write;

use crate::arrange::Role;
use crate::escape::xml;
use crate::number;
use crate::plot::{Group, Mark, Panel, PanelContent, Plot};
use crate::svg::drawn::{Drawn, Interval, Point, range, values};
use crate::svg::scale::Scale;
use crate::svg::text::{self, Anchor};

/// The height of a row and of the bar in it.
const ROW: f64 = 21.0;
const BAR: f64 = 13.0;
/// The widest name of a contender.
const WIDEST_NAME: f64 = 190.0;

/// Where names end and bars lie.
struct Columns {
    names: f64,
    scale: Scale,
}

/// Draws a panel `width` pixels wide.
pub(crate) fn panel(plot: &Plot<'_>, panel: &Panel, width: f64) -> Drawn {
    let PanelContent::Bars(groups) = &panel.content else {
        return Drawn::default();
    };
    let mut svg = String::new();
    let mut top = 4.0;
    for line in text::wrap(&panel.title, width / 1.2, 3) {
        top += 15.0;
        svg += &text::element(Point::new(0.0, top), Anchor::Start, "b", &line, &line);
    }
    top += 17.0;
    let unit = format!("{} {}", plot.column.unit, plot.column.arrow());
    let cut = text::cut(unit.trim(), width - 10.0);
    svg += &text::element(Point::new(0.0, top), Anchor::Start, "m", &cut, unit.trim());
    top += 6.0;
    for group in groups {
        let values = if plot.groups_share_scale {
            values(plot, panel)
        } else {
            range(&group.marks())
        };
        let columns = columns(plot, groups, values, width);
        if !group.heading.is_empty() {
            top += 21.0;
            let heading = text::cut_bold(&group.heading, width);
            svg += &text::element(
                Point::new(0.0, top - 3.0),
                Anchor::Start,
                "b",
                &heading,
                &group.heading,
            );
        }
        svg += &rows(plot, group, &columns, top);
        top += ROW * group.bars.len() as f64;
        top += 6.0;
    }
    Drawn {
        svg,
        width,
        height: top + 2.0,
        title: panel.title.clone(),
        description: description(plot, groups),
    }
}

/// The names take the same room in all groups of a panel, and so do the figures.
fn columns(plot: &Plot<'_>, groups: &[Group], values: Interval, width: f64) -> Columns {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let names = bars().map(|(i, _)| name(plot, *i).1);
    let names = names.fold(0.0, f64::max) + 8.0;
    let figures = bars().map(|(_, bar)| text::width(&figure(bar)) + 16.0);
    let figures = figures.fold(0.0, f64::max);
    // Bars reach to the largest value itself: there is no tick to be hit.
    let pixels = Interval::new(names, (width - figures).max(names + 20.0));
    let with_zero = Interval::new(values.from.min(0.0), values.to.max(0.0));
    Columns {
        names,
        scale: Scale::between(with_zero, pixels),
    }
}

/// A contender's name as far as it fits, and its width.
fn name(plot: &Plot<'_>, series: usize) -> (String, f64) {
    let contender = &plot.series[series].contender;
    if contender.role == Role::Ours {
        let name = text::cut_bold(contender.name, WIDEST_NAME);
        let width = text::bold_width(&name);
        (name, width)
    } else {
        let name = text::cut(contender.name, WIDEST_NAME);
        let width = text::width(&name);
        (name, width)
    }
}

/// What stands behind a bar.
fn figure(bar: &Result<Mark, u64>) -> String {
    match bar {
        Ok(Mark {
            median,
            ratio: Some(ratio),
            ..
        }) => format!("{}  {}", number::figure(*median), number::ratio(*ratio)),
        Ok(mark) => number::figure(mark.median),
        Err(1) => "1 error".to_owned(),
        Err(errors) => format!("{} errors", number::plain(*errors as f64)),
    }
}

/// The rows of a group from `top` downwards.
fn rows(plot: &Plot<'_>, group: &Group, columns: &Columns, top: f64) -> String {
    let mut svg = String::new();
    let mut texts = String::new();
    let zero = columns.scale.at(0.0);
    let bottom = top + ROW * group.bars.len() as f64;
    for (row, (i, bar)) in group.bars.iter().enumerate() {
        let contender = &plot.series[*i].contender;
        let middle = top + ROW * (row as f64 + 0.5);
        let class = if contender.role == Role::Ours {
            "b"
        } else {
            ""
        };
        let at = Point::new(columns.names - 8.0, middle + 4.0);
        svg += &text::element(at, Anchor::End, class, &name(plot, *i).0, contender.name);
        let mut end = zero;
        if let Ok(mark) = bar {
            svg += &drawn_bar(plot, *i, mark, columns, middle);
            end = columns.scale.at(mark.max).max(zero);
        }
        texts += &text_behind(bar, Point::new(end + 7.0, middle + 4.0));
    }
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{zero:.1} {top:.1}V{bottom:.1}\"/>"
    );
    let baseline = group
        .bars
        .iter()
        .find(|(i, _)| plot.series[*i].contender.baseline);
    if let (Some((_, Ok(mark))), true) = (baseline, group.bars.len() > 1) {
        let x = columns.scale.at(mark.median);
        let _ = writeln!(
            svg,
            "<path class=\"base\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>"
        );
    }
    // Over the dotted line, which their halo interrupts.
    svg + &texts
}

fn text_behind(bar: &Result<Mark, u64>, at: Point) -> String {
    let Point { x, y } = at;
    match bar {
        Ok(mark) => {
            let median = number::figure(mark.median);
            let ratio = mark.ratio.map(|ratio| {
                format!(
                    "<tspan class=\"m\" dx=\"6\">{}</tspan>",
                    number::ratio(ratio)
                )
            });
            format!(
                "<text class=\"halo\" x=\"{x:.1}\" y=\"{y:.1}\">{median}{}</text>\n",
                ratio.unwrap_or_default()
            )
        }
        Err(_) => {
            let errors = figure(bar);
            text::element(at, Anchor::Start, "e halo", &errors, &errors)
        }
    }
}

fn drawn_bar(plot: &Plot<'_>, i: usize, mark: &Mark, columns: &Columns, middle: f64) -> String {
    let contender = &plot.series[i].contender;
    let class = match contender.role {
        Role::Ours => "bar ours",
        Role::Peer => "bar",
        Role::Overhead => "bar overhead",
    };
    let (zero, end) = (columns.scale.at(0.0), columns.scale.at(mark.median));
    let (from, to) = (zero.min(end), zero.max(end));
    let tip = format!(
        "{}: {} {} ({}–{})",
        contender.name,
        number::figure(mark.median),
        plot.column.unit,
        number::figure(mark.min),
        number::figure(mark.max)
    );
    let mut svg = format!(
        "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\">\
         <title>{}</title></rect>\n",
        middle - BAR / 2.0,
        (to - from).max(0.5),
        xml(&tip)
    );
    let (low, high) = (columns.scale.at(mark.min), columns.scale.at(mark.max));
    if high - low >= 1.0 {
        let (up, down) = (middle - 3.0, middle + 3.0);
        let _ = writeln!(
            svg,
            "<path class=\"range\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {up:.1}V{down:.1}\
             M{high:.1} {up:.1}V{down:.1}\"/>"
        );
    }
    svg
}

fn description(plot: &Plot<'_>, groups: &[Group]) -> String {
    let groups: Vec<String> = groups
        .iter()
        .map(|group| {
            let bars: Vec<String> = group
                .bars
                .iter()
                .map(|(i, bar)| {
                    let figure = figure(bar).replace("  ", " ");
                    format!("{} {figure}", plot.series[*i].contender.name)
                })
                .collect();
            let bars = bars.join(", ");
            if group.heading.is_empty() {
                bars
            } else {
                format!("{}: {bars}", group.heading)
            }
        })
        .collect();
    format!(
        "Bars of {}, in {}, {}. {}.",
        plot.column.name,
        plot.column.unit,
        plot.column.direction(),
        groups.join(". ")
    )
}
