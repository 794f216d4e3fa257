//! How a contender looks in plots of lines.
//!
//! Colour alone distinguishes nothing for many readers and on many printers. A look is a
//! colour, a marker and a dash pattern together; the markers of any twelve looks in a row
//! differ, and so do the pairs of colour and marker of any twenty-four.

use crate::svg::drawn::Point;

/// Colours are classes of `plot.css`, one set for light and one for dark pages.
const COLOURS: usize = 8;

/// Dash patterns, solid first.
const DASHES: [&str; 4] = ["", "7 3", "2 2.5", "9 3 2 3"];

/// Markers around the origin, about 8 pixels wide, and whether they enclose an area that is
/// filled, left as paper, or there is none.
const MARKERS: [(&str, &str); 12] = [
    ("M3.6 0A3.6 3.6 0 1 1-3.6 0A3.6 3.6 0 1 1 3.6 0Z", ""),
    ("M-3.2-3.2H3.2V3.2H-3.2Z", ""),
    ("M0-4.2L4 2.8H-4Z", ""),
    ("M0-4.6L4.6 0L0 4.6L-4.6 0Z", ""),
    ("M0 4.2L4-2.8H-4Z", ""),
    ("M3.6 0A3.6 3.6 0 1 1-3.6 0A3.6 3.6 0 1 1 3.6 0Z", " hollow"),
    ("M-3.2-3.2H3.2V3.2H-3.2Z", " hollow"),
    ("M-3.4-3.4L3.4 3.4M-3.4 3.4L3.4-3.4", " open"),
    ("M0-4.2L4 2.8H-4Z", " hollow"),
    ("M0-4.2V4.2M-4.2 0H4.2", " open"),
    ("M0-4.6L4.6 0L0 4.6L-4.6 0Z", " hollow"),
    ("M0-4.2V4.2M-3.7-2.1L3.7 2.1M-3.7 2.1L3.7-2.1", " open"),
];

/// The class that sets the colour of look `look`.
pub(crate) fn colour(look: usize) -> String {
    format!("c{}", look % COLOURS)
}

/// The attribute that dashes a line, with a space before it, or nothing.
pub(crate) fn dash(look: usize) -> String {
    let dash = DASHES[(look + look / COLOURS) % DASHES.len()];
    if dash.is_empty() {
        return String::new();
    }
    format!(" stroke-dasharray=\"{dash}\"")
}

/// The marker at a point; `inside` is what the element holds, such as a tooltip.
pub(super) fn marker(look: usize, at: Point, inside: &str) -> String {
    let Point { x, y } = at;
    let (path, class) = MARKERS[look % MARKERS.len()];
    format!(
        "<path class=\"mark{class}\" d=\"{path}\" transform=\"translate({x:.1} {y:.1})\">\
         {inside}</path>"
    )
}

/// Line and marker, 28 by 12 pixels with the top left corner at the given point.
pub(super) fn swatch(look: usize, ours: bool, at: Point) -> String {
    let Point { x, y } = at;
    let class = if ours { " ours" } else { "" };
    let middle = y + 6.0;
    format!(
        "<g class=\"{}{class}\"><path class=\"line\"{} d=\"M{x:.1} {middle:.1}h28\"/>{}</g>\n",
        colour(look),
        dash(look),
        marker(look, Point::new(x + 14.0, middle), "")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_four_looks_differ_and_twelve_differ_without_colour() {
        let pair = |look| (look % COLOURS, look % MARKERS.len());
        for a in 0..24 {
            for b in 0..a {
                assert_ne!(pair(a), pair(b), "{a} and {b}");
            }
        }
        for (i, marker) in MARKERS.iter().enumerate() {
            assert!(!MARKERS[..i].contains(marker), "marker {i}");
        }
    }
}
