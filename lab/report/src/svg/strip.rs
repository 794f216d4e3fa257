//! A strip for the summary: where the ratios of one experiment lie.
//!
//! A line from the worst to the best and a dot at the median, on a logarithmic axis that all
//! strips of a report share, with a mark at ×1. The figures themselves stand beside it.

use crate::finding::Spread;

/// A strip's size in pixels.
const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 16.0;

/// The end of the axis of all strips, as a factor: a power of two, at least 2. The axis begins at
/// its reciprocal.
pub(crate) fn axis_end(gains: impl Iterator<Item = Spread>) -> f64 {
    let farthest = gains
        .flat_map(|gains| [gains.least, gains.most])
        .map(|g| g.log2().abs());
    let farthest = farthest.filter(|f| f.is_finite()).fold(1.0, f64::max);
    farthest.ceil().min(900.0).exp2()
}

/// Draws the worst, the median and the best as an element for a page.
pub(crate) fn strip(gains: Spread, axis_end: f64) -> String {
    let at = |gain: f64| {
        let share = (gain.ln() / axis_end.ln()).clamp(-1.0, 1.0);
        WIDTH / 2.0 + share * (WIDTH / 2.0 - 6.0)
    };
    let (from, to, dot) = (at(gains.least), at(gains.most), at(gains.median));
    let (one, middle) = (WIDTH / 2.0, HEIGHT / 2.0);
    format!(
        "<svg class=\"hl strip\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} \
         {HEIGHT}\" aria-hidden=\"true\"><path class=\"grid\" d=\"M0 {middle}H{WIDTH}\"/>\
         <path class=\"axis\" d=\"M{one} 1V15\"/><g class=\"c0\"><path class=\"line\" \
         d=\"M{from:.1} {middle}H{to:.1}\"/><circle class=\"mark\" cx=\"{dot:.1}\" \
         cy=\"{middle}\" r=\"3.2\"/></g></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_holds_every_ratio() {
        let spread = |least, most| Spread {
            least,
            median: 1.0,
            most,
        };
        assert_eq!(axis_end([].into_iter()), 2.0);
        assert_eq!(axis_end([spread(0.3, 1.5)].into_iter()), 4.0);
        assert!(axis_end([spread(1e-300, 1e300)].into_iter()).is_finite());
        assert!(!strip(spread(0.0, 1e300), 2.0).contains("NaN"));
    }
}
