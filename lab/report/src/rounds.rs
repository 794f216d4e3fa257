//! From rounds to figures: medians, spread, and ratios paired by round.
//!
//! The lab writes what each contender answered as soon as it is there ([`Round`]), and the
//! figures when an experiment is over. Both are made here, so a run that was cut comes to the
//! same figures as one that was not, of the rounds that it had.

use crate::record::{Figure, Measured, Round};

/// The same figure measured in several rounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds one round's figure.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// All figures in the order measured.
    #[must_use]
    pub fn figures(&self) -> &[f64] {
        &self.0
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median; 0 when nothing was measured.
    #[must_use]
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            len if len % 2 == 1 => sorted[len / 2],
            len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
        }
    }

    /// The smallest figure; 0 when nothing was measured.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The largest figure; 0 when nothing was measured.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.iter().copied().max_by(f64::total_cmp).unwrap_or(0.0)
    }
}

/// The figures that the rounds of one experiment come to, places and contenders in the order
/// in which they first appear. Ratios are to `baseline`, each within its round.
#[must_use]
pub fn figures(rounds: &[Round], baseline: &str) -> Vec<Figure> {
    let mut places: Vec<Vec<&Round>> = Vec::new();
    for round in rounds {
        let place = places.iter_mut().find(|place| {
            let first = place[0];
            first.parameters == round.parameters && first.x == round.x
        });
        match place {
            Some(place) => place.push(round),
            None => places.push(vec![round]),
        }
    }
    let figures = places.iter().flat_map(|place| {
        let mut contenders: Vec<&str> = Vec::new();
        for round in place {
            if !contenders.contains(&round.contender.as_str()) {
                contenders.push(&round.contender);
            }
        }
        let contenders = contenders.into_iter();
        contenders.flat_map(|contender| at_one_place(place, contender, baseline))
    });
    figures.collect()
}

/// The figures of a contender at one place.
fn at_one_place(place: &[&Round], contender: &str, baseline: &str) -> Vec<Figure> {
    let of = |name: &str| {
        let rounds = place.iter().filter(|round| round.contender == name);
        rounds.copied().collect::<Vec<_>>()
    };
    let (own, others) = (of(contender), of(baseline));
    let errors: u64 = own.iter().map(|round| round.errors).sum();
    let first = own.iter().find(|round| !round.figures.is_empty());
    let columns = first.into_iter().flat_map(|round| &round.figures);
    let figures = columns.map(|column| {
        let mut rounds = Rounds::default();
        let measured = own.iter().filter_map(|round| in_round(round, column));
        measured.for_each(|figure| rounds.push(significant(figure)));
        let right = (errors == 0 && !rounds.is_empty()).then_some(&rounds);
        let ratio = right.and_then(|_| ratio(&own, &others, column));
        Figure {
            experiment: own[0].experiment.clone(),
            parameters: own[0].parameters.clone(),
            x: own[0].x.clone(),
            contender: contender.to_owned(),
            column: column.column.clone(),
            unit: column.unit.clone(),
            better: column.better,
            median: right.map(|rounds| significant(rounds.median())),
            min: right.map(|rounds| significant(rounds.min())),
            max: right.map(|rounds| significant(rounds.max())),
            rounds: rounds.figures().to_vec(),
            ratio: ratio.map(significant),
            errors,
        }
    });
    figures.collect()
}

fn in_round(round: &Round, column: &Measured) -> Option<f64> {
    let mut figures = round.figures.iter();
    let same = figures.find(|figure| figure.column == column.column && figure.unit == column.unit);
    same.map(|figure| figure.figure)
}

/// The median over rounds of the ratio to the baseline's figure of the same round.
fn ratio(own: &[&Round], baseline: &[&Round], column: &Measured) -> Option<f64> {
    let mut ratios = Rounds::default();
    for round in own {
        let other = baseline.iter().find(|other| other.round == round.round);
        let other = other.and_then(|other| in_round(other, column));
        if let (Some(own), Some(other)) = (in_round(round, column), other)
            && other != 0.0
        {
            ratios.push(own / other);
        }
    }
    (!ratios.is_empty()).then(|| ratios.median())
}

/// Five significant digits: more would be noise.
#[must_use]
pub fn significant(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powf(4.0 - figure.abs().log10().floor());
    (figure * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, X};

    fn round(contender: &str, round: u32, x: f64, figure: f64) -> Round {
        Round {
            experiment: "demo".into(),
            round,
            parameters: [("keys".to_owned(), 10.into())].into(),
            x: Some(X::Number(x)),
            contender: contender.into(),
            figures: vec![Measured {
                column: "get".into(),
                unit: "ns".into(),
                better: Better::Lower,
                figure,
            }],
            errors: 0,
        }
    }

    #[test]
    fn median_and_spread() {
        let mut rounds = Rounds::default();
        let all = |rounds: &Rounds| (rounds.median(), rounds.min(), rounds.max());
        assert_eq!(all(&rounds), (0.0, 0.0, 0.0));
        for figure in [5.0, 1.0, 9.0] {
            rounds.push(figure);
        }
        assert_eq!(all(&rounds), (5.0, 1.0, 9.0));
        rounds.push(7.0);
        assert_eq!(rounds.median(), 6.0);
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let mut rounds = Vec::new();
        for (nth, (a, b)) in [(1.0, 2.0), (10.0, 20.0), (100.0, 300.0)]
            .iter()
            .enumerate()
        {
            rounds.push(round("a", nth as u32, 1.0, *a));
            rounds.push(round("b", nth as u32, 1.0, *b));
        }
        // A round in which the baseline has no figure is in the median, not in the ratio.
        rounds.push(round("b", 3, 1.0, 1.0));
        rounds.push(round("b", 0, 2.0, 7.0));
        let figures = figures(&rounds, "a");
        let of = |contender: &str, x: f64| {
            let mut figures = figures.iter();
            figures.find(|f| f.contender == contender && f.x == Some(X::Number(x)))
        };
        let b = of("b", 1.0).expect("b at 1");
        assert_eq!((b.ratio, b.median), (Some(2.0), Some(11.0)));
        assert_eq!(b.rounds, [2.0, 20.0, 300.0, 1.0]);
        assert_eq!(of("a", 1.0).expect("a at 1").ratio, Some(1.0));
        let alone = of("b", 2.0).expect("b at 2");
        assert_eq!((alone.ratio, alone.median), (None, Some(7.0)));
        assert_eq!(figures.len(), 3);
    }

    #[test]
    fn a_contender_with_errors_has_no_median() {
        let mut rounds = [round("a", 0, 1.0, 5.0), round("a", 1, 1.0, 6.0)];
        rounds[1].errors = 2;
        let figures = figures(&rounds, "a");
        assert_eq!((figures[0].errors, figures[0].median), (2, None));
        assert_eq!((figures[0].ratio, figures[0].rounds.len()), (None, 2));
    }

    #[test]
    fn figures_keep_five_digits() {
        assert_eq!(significant(123_456.7), 123_460.0);
        assert_eq!(significant(0.001_234_567), 0.001_234_6);
        assert_eq!(significant(0.0), 0.0);
    }
}
