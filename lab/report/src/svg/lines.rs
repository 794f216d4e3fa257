//! A panel of lines over a horizontal axis.
//!
//! Each contender is a line through its medians with a marker at each; the spread of the rounds
//! is a band behind it or, where many bands would hide one another, a whisker at each point. A
//! point without a result interrupts its line.

use std::fmt::Write;

use crate::escape::xml;
use crate::number;
use crate::plot::{Axis, Line, Mark, Panel, PanelContent, Plot};
use crate::svg::drawn::{Drawn, Interval, Point, values};
use crate::svg::look;
use crate::svg::scale::{Scale, labelled};
use crate::svg::text::{self, Anchor};

/// The height of the area of the lines.
const AREA: f64 = 210.0;
/// The most lines whose bands can be told apart.
const MOST_BANDS: usize = 4;
/// The distance between labels at the ends of lines.
const LABEL_STEP: f64 = 15.0;
/// The widest such label.
const WIDEST_LABEL: f64 = 150.0;

/// Everything that is needed to place a point.
struct Area {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Draws a panel `width` pixels wide; with `labels`, each line's name stands at its end.
pub(crate) fn panel(
    plot: &Plot<'_>,
    panel: &Panel,
    axis: &Axis,
    width: f64,
    labels: bool,
) -> Drawn {
    let PanelContent::Lines(lines) = &panel.content else {
        return Drawn::default();
    };
    let mut svg = String::new();
    let mut top = 4.0;
    for line in text::wrap(&panel.title, width / 1.2, 3) {
        top += 15.0;
        svg += &text::element(Point::new(0.0, top), Anchor::Start, "b", &line, &line);
    }
    top += 17.0;
    let area = area(plot, panel, lines, Point::new(width, top), labels);
    svg += &frame(plot, axis, &area, width);
    let banded = lines.len() <= MOST_BANDS;
    // Ours last, so that peers do not cover it.
    let mut order: Vec<_> = lines.iter().collect();
    order.sort_by_key(|(i, _)| ours(plot, *i));
    for (i, points) in order {
        svg += &line(plot, *i, points, &area, banded);
    }
    if labels {
        svg += &end_labels(plot, lines, &area);
    }
    Drawn {
        svg,
        width,
        height: area.bottom + if axis.label.is_empty() { 22.0 } else { 40.0 },
        title: panel.title.clone(),
        description: description(plot, lines, axis),
    }
}

fn ours(plot: &Plot<'_>, series: usize) -> bool {
    plot.series[series].contender.role == crate::arrange::Role::Ours
}

/// The area from the left edge to `corner`, its top right corner.
fn area(plot: &Plot<'_>, panel: &Panel, lines: &[Line], corner: Point, labels: bool) -> Area {
    let Point { x: width, y: top } = corner;
    let (top, bottom) = (top + 10.0, top + 10.0 + AREA);
    let y = Scale::of_values(values(plot, panel), plot.wide, Interval::new(bottom, top));
    let widest = y
        .ticks
        .iter()
        .map(|tick| text::width(&number::short(*tick)));
    let left = widest.fold(20.0, f64::max) + 8.0;
    let names = lines
        .iter()
        .map(|(i, _)| text::bold_width(&label(plot, *i)));
    let right = if labels {
        width - names.fold(0.0, f64::max) - 44.0
    } else {
        width - 14.0
    };
    let mut positions: Vec<f64> = Vec::new();
    for (x, _) in lines.iter().flat_map(|(_, points)| points) {
        if !positions.contains(x) {
            positions.push(*x);
        }
    }
    positions.sort_by(f64::total_cmp);
    Area {
        x: Scale::of_positions(
            &positions,
            plot.axis.as_ref().is_some_and(|axis| axis.logarithmic),
            Interval::new(left + 10.0, right - 6.0),
        ),
        y,
        left,
        right,
        top,
        bottom,
    }
}

fn label(plot: &Plot<'_>, series: usize) -> String {
    text::cut(plot.series[series].contender.name, WIDEST_LABEL)
}

/// Grid, axes, ticks and what they mean.
fn frame(plot: &Plot<'_>, axis: &Axis, area: &Area, width: f64) -> String {
    let mut svg = String::new();
    let mut unit = format!("{} {}", plot.column.unit, plot.column.arrow());
    if area.y.is_logarithmic() {
        unit += " (logarithmic)";
    }
    let unit_cut = text::cut(unit.trim(), width - 10.0);
    svg += &text::element(
        Point::new(0.0, area.top - 12.0),
        Anchor::Start,
        "m",
        &unit_cut,
        unit.trim(),
    );
    let (left, right, bottom) = (area.left, area.right, area.bottom);
    for &tick in &area.y.ticks {
        let y = area.y.at(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"
        );
        let name = number::short(tick);
        svg += &text::element(
            Point::new(left - 6.0, y + 4.0),
            Anchor::End,
            "m",
            &name,
            &name,
        );
    }
    let labelled = labelled(&area.x, |tick| text::width(&number::short(tick)));
    for &tick in &area.x.ticks {
        let x = area.x.at(tick);
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>");
        if labelled.contains(&tick) {
            let name = number::short(tick);
            svg += &text::element(
                Point::new(x, bottom + 17.0),
                Anchor::Middle,
                "m",
                &name,
                &name,
            );
        }
    }
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>"
    );
    if !axis.label.is_empty() {
        let name = text::cut(&axis.label, width - left - 10.0);
        // Under the axis, but never beyond the panel.
        let half = text::width(&name) / 2.0;
        let x = f64::midpoint(left, right)
            .clamp(half.min(width / 2.0), (width - half).max(width / 2.0));
        svg += &text::element(
            Point::new(x, bottom + 34.0),
            Anchor::Middle,
            "m",
            &name,
            &axis.label,
        );
    }
    svg
}

/// A measured point of a line.
struct Measured {
    /// Its position on the axis, and in pixels.
    position: f64,
    x: f64,
    mark: Mark,
}

/// One contender's line, spread and markers.
fn line(
    plot: &Plot<'_>,
    i: usize,
    points: &[(f64, Option<Mark>)],
    area: &Area,
    band: bool,
) -> String {
    let series = &plot.series[i];
    let class = if ours(plot, i) { " ours" } else { "" };
    let mut svg = format!("<g class=\"{}{class}\">\n", look::colour(series.look));
    for run in points.split(|(_, mark)| mark.is_none()) {
        let measured = run.iter().filter_map(|&(position, mark)| {
            let (x, mark) = (area.x.at(position), mark?);
            Some(Measured { position, x, mark })
        });
        let placed: Vec<Measured> = measured.collect();
        if band && placed.len() > 1 {
            svg += &spread(&placed, area);
        } else {
            for Measured { x, mark, .. } in &placed {
                svg += &whisker(*x, mark, area);
            }
        }
        let mut path = String::new();
        for (i, Measured { x, mark, .. }) in placed.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{x:.1} {:.1}", area.y.at(mark.median));
        }
        if placed.len() > 1 {
            let dash = look::dash(series.look);
            let _ = writeln!(svg, "<path class=\"line\"{dash} d=\"{path}\"/>");
        }
        for Measured { position, x, mark } in &placed {
            let tip = format!("<title>{}</title>", xml(&tip(plot, i, *position, mark)));
            let at = Point::new(*x, area.y.at(mark.median));
            svg += &look::marker(series.look, at, &tip);
            svg.push('\n');
        }
    }
    svg + "</g>\n"
}

/// The band from the smallest to the largest round.
fn spread(placed: &[Measured], area: &Area) -> String {
    let mut path = String::new();
    for (i, Measured { x, mark, .. }) in placed.iter().enumerate() {
        let command = if i == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {:.1}", area.y.at(mark.max));
    }
    for Measured { x, mark, .. } in placed.iter().rev() {
        let _ = write!(path, "L{x:.1} {:.1}", area.y.at(mark.min));
    }
    format!("<path class=\"band\" d=\"{path}Z\"/>\n")
}

fn whisker(x: f64, mark: &Mark, area: &Area) -> String {
    let (low, high) = (area.y.at(mark.min), area.y.at(mark.max));
    if low - high < 1.0 {
        return String::new();
    }
    let (from, to) = (x - 2.5, x + 2.5);
    format!(
        "<path class=\"whisker\" d=\"M{x:.1} {low:.1}V{high:.1}M{from:.1} {low:.1}H{to:.1}\
         M{from:.1} {high:.1}H{to:.1}\"/>\n"
    )
}

fn tip(plot: &Plot<'_>, series: usize, x: f64, mark: &Mark) -> String {
    let axis = plot.axis.as_ref().map_or("", |axis| axis.label.as_str());
    format!(
        "{}, {axis} {}: {} {} ({}–{})",
        plot.series[series].contender.name,
        number::short(x),
        number::figure(mark.median),
        plot.column.unit,
        number::figure(mark.min),
        number::figure(mark.max)
    )
}

/// The name of each line at its end, moved apart where ends are close.
fn end_labels(plot: &Plot<'_>, lines: &[Line], area: &Area) -> String {
    // Each line's series, and where it ends.
    let mut ends: Vec<(usize, Point)> = Vec::new();
    for (i, points) in lines {
        if let Some((x, mark)) = points
            .iter()
            .rev()
            .find_map(|(x, mark)| Some((x, (*mark)?)))
        {
            ends.push((*i, Point::new(area.x.at(*x), area.y.at(mark.median))));
        }
    }
    ends.sort_by(|(_, a), (_, b)| a.y.total_cmp(&b.y));
    let wanted: Vec<f64> = ends.iter().map(|(_, end)| end.y).collect();
    let placed = apart(&wanted, LABEL_STEP, Interval::new(area.top, area.bottom));
    let mut svg = String::new();
    for ((i, Point { x, y }), at) in ends.iter().zip(placed) {
        let series = &plot.series[*i];
        let (from, to) = (x + 6.0, area.right + 12.0);
        let bend = (area.right + 2.0).max(from);
        let _ = writeln!(
            svg,
            "<g class=\"{}\"><path class=\"leader\" d=\"M{from:.1} {y:.1}H{bend:.1}L{to:.1} \
             {at:.1}\"/>{}</g>",
            look::colour(series.look),
            look::marker(series.look, Point::new(area.right + 20.0, at), "")
        );
        let class = if ours(plot, *i) { "b" } else { "" };
        let name = series.contender.name;
        let at = Point::new(area.right + 30.0, at + 4.0);
        svg += &text::element(at, Anchor::Start, class, &label(plot, *i), name);
    }
    svg
}

/// Moves ascending positions apart to at least `step`, as little as that takes, within an interval
/// as far as they fit.
fn apart(wanted: &[f64], step: f64, within: Interval) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::new();
    for &y in wanted {
        let least = placed.last().map_or(within.from, |before| before + step);
        placed.push(y.max(least));
    }
    let mut most = within.to;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - step;
    }
    placed
}

/// The plot in words: who stands where at the last position.
fn description(plot: &Plot<'_>, lines: &[Line], axis: &Axis) -> String {
    let last = lines.iter().flat_map(|(_, points)| points).map(|(x, _)| *x);
    let last = last.fold(f64::NEG_INFINITY, f64::max);
    let mut ends: Vec<(&str, f64)> = lines
        .iter()
        .filter_map(|(i, points)| {
            let (x, mark) = points.last()?;
            (*x == last).then_some((plot.series[*i].contender.name, (*mark)?.median))
        })
        .collect();
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ends: Vec<String> = ends
        .iter()
        .map(|(name, median)| format!("{name} {}", number::figure(*median)))
        .collect();
    format!(
        "Lines of {} over {}, in {}, {}. At {}: {}.",
        plot.column.name,
        axis.label,
        plot.column.unit,
        plot.column.direction(),
        number::short(last),
        ends.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_stay_inside() {
        let within = Interval::new(0.0, 200.0);
        assert_eq!(apart(&[50.0, 52.0, 53.0], 15.0, within), [50.0, 65.0, 80.0]);
        assert_eq!(
            apart(&[190.0, 195.0, 200.0], 15.0, within),
            [170.0, 185.0, 200.0]
        );
        assert_eq!(apart(&[], 15.0, within), Vec::<f64>::new());
        let twelve = apart(&[100.0; 12], 15.0, Interval::new(0.0, 210.0));
        assert!(
            twelve
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= 15.0 - 1e-9)
        );
        assert!(twelve[0] >= 0.0 && twelve[11] <= 210.0);
    }
}
