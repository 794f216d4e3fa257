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

/// The least and the largest value that a panel's scale must hold.
pub(super) fn values(plot: &Plot<'_>, panel: &Panel) -> (f64, f64) {
    let marks = if plot.shared_scale {
        plot.marks()
    } else {
        panel.marks()
    };
    range(&marks)
}

/// The least and the largest value of `marks`.
pub(super) fn range(marks: &[Mark]) -> (f64, f64) {
    if marks.is_empty() {
        return (0.0, 1.0);
    }
    let least = marks
        .iter()
        .map(|mark| mark.min)
        .fold(f64::INFINITY, f64::min);
    let most = marks
        .iter()
        .map(|mark| mark.max)
        .fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}
