//! Drawing plots as SVG.
//!
//! SVG is written by hand: rectangles, paths and text are all it takes. A plot is drawn in two
//! ways from the same panels: as a file of its own with title, legend and style, and as panels
//! for a page that arranges them by its width and keeps their text readable on a small screen.
//! Colours come from `plot.css`, which follows the reader's light or dark setting.

mod bars;
mod drawn;
mod lines;
mod look;
mod scale;
pub(crate) mod strip;
mod text;

use std::fmt::Write;

use crate::arrange::Role;
use crate::escape::xml;
use crate::plot::Plot;
use drawn::{Drawn, Point};
use text::Anchor;

/// The style of all plots.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// The width of a panel beside others, and of a panel alone with labels in it.
const PANEL: f64 = 440.0;
const ALONE: f64 = 600.0;
/// The space between panels and around a file's content.
const GAP: f64 = 28.0;
const MARGIN: f64 = 18.0;
/// Lines that can be labelled at their ends within a panel's height.
const MOST_LABELS: usize = 14;

/// Whether lines can carry their names at their ends. Otherwise, and on narrow screens, the
/// plot needs a legend.
pub(crate) fn labels_at_ends(plot: &Plot<'_>) -> bool {
    plot.axis.is_some() && plot.panels.len() == 1 && plot.series.len() <= MOST_LABELS
}

fn draw(plot: &Plot<'_>, labels: bool) -> Vec<Drawn> {
    let panels = plot.panels.iter().map(|panel| match &plot.axis {
        Some(axis) => {
            let width = if labels { ALONE } else { PANEL };
            lines::panel(plot, panel, axis, width, labels)
        }
        None => bars::panel(plot, panel, PANEL),
    });
    panels.collect()
}

/// What an SVG element says to those who do not see it. Ids begin with `id`.
fn spoken(id: &str, title: &str, description: &str) -> (String, String) {
    let attributes =
        format!("role=\"img\" aria-labelledby=\"{id}-title\" aria-describedby=\"{id}-desc\"");
    let elements = format!(
        "<title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n",
        xml(title),
        xml(description)
    );
    (attributes, elements)
}

fn joined(title: &str, panel: &str) -> String {
    if panel.is_empty() {
        title.to_owned()
    } else {
        format!("{title} · {panel}")
    }
}

/// The panels of a plot as elements for a page, without style; with `labels`, lines carry
/// their names.
pub(crate) fn panels(plot: &Plot<'_>, labels: bool) -> Vec<String> {
    let drawn = draw(plot, labels);
    let form = if labels { "wide-" } else { "" };
    let panels = drawn.iter().enumerate().map(|(i, panel)| {
        let id = format!("{}-{form}{}", plot.slug, i + 1);
        let title = joined(&plot.title, &panel.title);
        let (attributes, spoken) = spoken(&id, &title, &panel.description);
        format!(
            "<svg class=\"hl\" viewBox=\"0 0 {:.0} {:.0}\" {attributes}>\n{spoken}{}</svg>\n",
            panel.width, panel.height, panel.svg
        )
    });
    panels.collect()
}

/// A contender in the legend of a plot of lines.
pub(crate) struct LegendEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) ours: bool,
    /// An element for a page.
    pub(crate) swatch: String,
}

/// The legend of a plot of lines; nothing for others.
pub(crate) fn legend<'a>(plot: &Plot<'a>) -> Vec<LegendEntry<'a>> {
    if plot.axis.is_none() {
        return Vec::new();
    }
    let entries = plot.series.iter().map(|series| {
        let ours = series.contender.role == Role::Ours;
        let swatch = look::swatch(series.look, ours, Point::new(0.0, 0.0));
        let swatch = format!(
            "<svg class=\"hl\" width=\"28\" height=\"12\" viewBox=\"0 0 28 12\" \
             aria-hidden=\"true\">{}</svg>",
            swatch.trim_end()
        );
        LegendEntry {
            name: series.contender.name,
            ours,
            swatch,
        }
    });
    entries.collect()
}

/// How to read a plot, in a sentence or two.
pub(crate) fn reading(plot: &Plot<'_>) -> String {
    let mut text = format!("Median of the rounds, {};", plot.column.direction());
    if plot.axis.is_none() {
        text += " whiskers from the smallest to the largest.";
        if plot.series.iter().any(|series| series.contender.baseline) {
            let _ = write!(text, " Dotted and ×1: {}.", plot.baseline);
        }
    } else {
        text += " bands or whiskers from the smallest to the largest.";
    }
    if !plot.groups_share_scale {
        text += " Each group has its own scale.";
    } else if plot.panels.len() > 1 && !plot.shared_scale {
        text += " Scales differ between panels.";
    }
    text
}

/// A plot as a file of its own.
pub(crate) fn file(plot: &Plot<'_>, shared: &str) -> String {
    let drawn = draw(plot, labels_at_ends(plot));
    let across = if drawn.len() > 1 { 2 } else { 1 };
    let panel_width = drawn.iter().map(|panel| panel.width).fold(0.0, f64::max);
    let inner = panel_width * across as f64 + GAP * (across - 1) as f64;
    let mut y = MARGIN;
    let mut body = heading(plot, shared, inner, &mut y);
    for row in drawn.chunks(across) {
        for (i, panel) in row.iter().enumerate() {
            let x = MARGIN + i as f64 * (panel_width + GAP);
            let _ = writeln!(
                body,
                "<g transform=\"translate({x:.1} {y:.1})\">\n{}</g>",
                panel.svg
            );
        }
        y += row.iter().map(|panel| panel.height).fold(0.0, f64::max) + 14.0;
    }
    for line in text::wrap(&reading(plot), inner, 3) {
        y += 15.0;
        body += &text::element(Point::new(MARGIN, y), Anchor::Start, "m", &line, &line);
    }
    let (width, height) = (inner + 2.0 * MARGIN, y + MARGIN);
    let descriptions: Vec<String> = drawn
        .iter()
        .map(|panel| joined(&panel.title, &panel.description))
        .collect();
    let title = joined(&plot.title, shared);
    let (attributes, spoken) = spoken(&plot.slug, &title, &descriptions.join(" "));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hl\" width=\"{width:.0}\" \
         height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" {attributes}>\n{spoken}\
         <style>\n{STYLE}</style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
         {body}</svg>\n"
    )
}

/// Title, shared parameters and legend of a file; moves `y` below them.
fn heading(plot: &Plot<'_>, shared: &str, inner: f64, y: &mut f64) -> String {
    let mut svg = String::new();
    // Titles are larger and bolder than the text that widths are estimated for.
    for line in text::wrap(&plot.title, inner / 1.3, 3) {
        *y += 16.0;
        svg += &text::element(Point::new(MARGIN, *y), Anchor::Start, "t", &line, &line);
        *y += 2.0;
    }
    for line in text::wrap(shared, inner, 3) {
        *y += 15.0;
        svg += &text::element(Point::new(MARGIN, *y), Anchor::Start, "m", &line, &line);
    }
    *y += 10.0;
    let mut x = MARGIN;
    let needs_legend = plot.axis.is_some() && !labels_at_ends(plot);
    let entries = if needs_legend { &plot.series[..] } else { &[] };
    for series in entries {
        let name = text::cut(series.contender.name, 220.0);
        let needed = 28.0 + 8.0 + text::width(&name);
        if x > MARGIN && x + needed > MARGIN + inner {
            x = MARGIN;
            *y += 19.0;
        }
        let ours = series.contender.role == Role::Ours;
        svg += &look::swatch(series.look, ours, Point::new(x, *y));
        let class = if ours { "b" } else { "" };
        let at = Point::new(x + 36.0, *y + 10.0);
        svg += &text::element(at, Anchor::Start, class, &name, series.contender.name);
        x += needed + 18.0;
    }
    if !entries.is_empty() {
        *y += 26.0;
    }
    svg
}
