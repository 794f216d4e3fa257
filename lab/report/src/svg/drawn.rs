//! A panel as it was drawn, and the values that its scale must hold.

use crate::plot::{Mark, Panel, Plot};

/// A panel drawn at the origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Drawn {
    pub(super) svg: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: String,
    pub(super) description: String,
}

/// A point, in pixels from the top left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// An interval of values or, from the first to the last, of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Interval {
    pub(super) const fn new(from: f64, to: f64) -> Self {
        Self { from, to }
    }
}

impl Point {
    pub(super) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// The values that a panel's scale must hold.
pub(super) fn values(plot: &Plot<'_>, panel: &Panel) -> Interval {
    let marks = if plot.shared_scale {
        plot.marks()
    } else {
        panel.marks()
    };
    range(&marks)
}

/// From the least to the largest value of `marks`.
pub(super) fn range(marks: &[Mark]) -> Interval {
    if marks.is_empty() {
        return Interval::new(0.0, 1.0);
    }
    let least = marks
        .iter()
        .map(|mark| mark.min)
        .fold(f64::INFINITY, f64::min);
    let most = marks
        .iter()
        .map(|mark| mark.max)
        .fold(f64::NEG_INFINITY, f64::max);
    Interval::new(least, most)
}
