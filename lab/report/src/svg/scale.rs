//! Scales: from values to pixels, with ticks at round numbers.

use crate::svg::drawn::Interval;

/// A scale from values to pixels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    pixels: Interval,
    /// Values to label, ascending.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// The pixel of a value.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.pixels.from + share.clamp(0.0, 1.0) * (self.pixels.to - self.pixels.from)
    }

    /// Whether equal distances are equal ratios.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// A scale for measured values. It begins at zero, so that heights can be compared, unless
    /// it is to be logarithmic and the values allow it.
    pub(super) fn of_values(values: Interval, logarithmic: bool, pixels: Interval) -> Self {
        if logarithmic && values.from > 0.0 {
            return Self::logarithmic(values, pixels, true);
        }
        let (low, high) = (values.from.min(0.0), values.to.max(0.0));
        let high = if high > low { high } else { low + 1.0 };
        let step = step(high - low, 5.0);
        let low = (low / step).floor() * step;
        let count = ((high - low) / step * (1.0 - 1e-12))
            .ceil()
            .clamp(1.0, 12.0) as u32;
        let ticks: Vec<f64> = (0..=count).map(|i| low + f64::from(i) * step).collect();
        Self {
            low,
            high: ticks[ticks.len() - 1],
            logarithmic: false,
            pixels,
            ticks,
        }
    }

    /// A scale between two values, without ticks.
    pub(super) fn between(values: Interval, pixels: Interval) -> Self {
        let (low, high) = (values.from, values.to);
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            logarithmic: false,
            pixels,
            ticks: Vec::new(),
        }
    }

    /// A scale for positions. Its ticks are the positions themselves where they are few.
    pub(super) fn of_positions(positions: &[f64], logarithmic: bool, pixels: Interval) -> Self {
        let least = positions.iter().copied().fold(f64::INFINITY, f64::min);
        let most = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if logarithmic && least > 0.0 && most > least {
            let mut scale = Self::logarithmic(Interval::new(least, most), pixels, false);
            if positions.len() <= 10 {
                scale.ticks = positions.to_vec();
            }
            return scale;
        }
        let (low, high) = if most > least {
            (least, most)
        } else {
            // One position stands in the middle.
            let around = least.abs().max(1.0) * 0.5;
            (least - around, least + around)
        };
        let ticks = if positions.len() <= 10 {
            positions.to_vec()
        } else {
            let step = step(high - low, 6.0);
            let first = (low / step).ceil();
            let ticks = (0..20).map(|i| (first + f64::from(i)) * step);
            ticks.take_while(|tick| *tick <= high).collect()
        };
        Self {
            low,
            high,
            logarithmic: false,
            pixels,
            ticks,
        }
    }

    fn logarithmic(values: Interval, pixels: Interval, widen: bool) -> Self {
        let (least, most) = (values.from, values.to);
        let decades = |value: f64, up: bool| {
            let exponent = value.log10();
            if up {
                (exponent - 1e-9).ceil()
            } else {
                (exponent + 1e-9).floor()
            }
        };
        let (from, to) = (decades(least, false), decades(most, true));
        let mut ticks = Vec::new();
        let every = ((to - from) / 6.0).ceil().max(1.0);
        let mut exponent = from;
        while exponent <= to {
            let power = 10_f64.powf(exponent);
            ticks.push(power);
            if to - from <= 3.0 {
                ticks.extend([2.0 * power, 5.0 * power]);
            }
            exponent += every;
        }
        let (low, high) = if widen {
            // Down and up to the ticks around the values.
            let below = ticks
                .iter()
                .copied()
                .filter(|t| *t <= least)
                .fold(ticks[0], f64::max);
            let above = ticks.iter().copied().filter(|t| *t >= most);
            (below.min(least), above.fold(f64::INFINITY, f64::min))
        } else {
            (least, most)
        };
        let high = if high.is_finite() { high } else { most };
        ticks.retain(|tick| (low..=high).contains(tick));
        if ticks.len() > 7 {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        }
        Self {
            low,
            high,
            logarithmic: true,
            pixels,
            ticks,
        }
    }
}

/// A round step that divides `span` into about `parts`.
fn step(span: f64, parts: f64) -> f64 {
    let rough = span / parts;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = rough / power;
    let round = [1.0, 2.0, 2.5, 5.0, 10.0];
    let factor = round.into_iter().find(|round| factor <= round * 1.0001);
    factor.unwrap_or(10.0) * power
}

/// Which of `ticks` can be labelled without overlap: the first, the last, and those between
/// that keep their distance. `width` gives a label's width in pixels.
pub(crate) fn labelled(scale: &Scale, width: impl Fn(f64) -> f64) -> Vec<f64> {
    const GAP: f64 = 8.0;
    let extent = |tick: f64| {
        let half = width(tick) / 2.0 + GAP / 2.0;
        (scale.at(tick) - half, scale.at(tick) + half)
    };
    let mut chosen: Vec<f64> = Vec::new();
    let Some(&last) = scale.ticks.last() else {
        return chosen;
    };
    let limit = extent(last).0;
    for &tick in &scale.ticks {
        let (from, to) = extent(tick);
        let free = chosen.last().is_none_or(|before| extent(*before).1 <= from);
        if free && (tick == last || to <= limit) {
            chosen.push(tick);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: Interval = Interval::new(0.0, 300.0);

    fn values(least: f64, most: f64) -> Scale {
        let pixels = Interval::new(200.0, 0.0);
        Scale::of_values(Interval::new(least, most), most / least > 50.0, pixels)
    }

    #[test]
    fn ticks_are_round_and_hold_the_values() {
        assert_eq!(values(3.0, 9.4).ticks, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            values(-3.0, 9.0).ticks,
            [-5.0, -2.5, 0.0, 2.5, 5.0, 7.5, 10.0]
        );
        assert_eq!(values(1.0, 1000.0).ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(values(0.0, 0.0).at(0.0), 200.0);
    }

    #[test]
    fn extreme_values_stay_on_the_page() {
        let cases = [
            (0.0, 1e300),
            (1e-300, 1e300),
            (-1e300, 1e300),
            (1e-300, 1e-300),
            (0.0, 1e-300),
            (5.0, 5.0),
            (-7.0, -7.0),
        ];
        for (least, most) in cases {
            let scale = values(least, most);
            for value in [least, most, 0.0, 1.0] {
                let y = scale.at(value);
                assert!((0.0..=200.0).contains(&y), "{least} {most}: {value} at {y}");
            }
            assert!((1..=16).contains(&scale.ticks.len()), "{:?}", scale.ticks);
            assert!(
                scale.ticks.iter().all(|t| t.is_finite()),
                "{:?}",
                scale.ticks
            );
        }
    }

    #[test]
    fn positions_are_their_own_ticks_where_they_are_few() {
        let threads = Scale::of_positions(&[1.0, 2.0, 4.0, 8.0], true, PIXELS);
        assert_eq!(threads.ticks, [1.0, 2.0, 4.0, 8.0]);
        assert!((threads.at(2.0) - 100.0).abs() < 1e-9);
        let alone = Scale::of_positions(&[8.0], true, PIXELS);
        assert!((alone.at(8.0) - 150.0).abs() < 1e-9);
        let many: Vec<f64> = (0..50).map(f64::from).collect();
        let many = Scale::of_positions(&many, false, PIXELS);
        assert_eq!(many.ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
    }

    #[test]
    fn labels_keep_their_distance() {
        let crowd = Scale::of_positions(&[1.0, 2.0, 3.0, 4.0, 90.0, 96.0], false, PIXELS);
        let chosen = labelled(&crowd, |_| 20.0);
        assert_eq!(chosen, [1.0, 96.0]);
    }
}
