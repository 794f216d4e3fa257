//! From rounds to figures: medians, spread, and ratios paired by round.
//!
//! The lab writes what each contender answered as soon as it is there ([`Round`]), and the
//! figures when an experiment is over. Both are made here, so a run that was cut comes to the
//! same figures as one that was not, of the rounds that it had.

use crate::record::{Better, Figure, Measured, Round, X};

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

impl FromIterator<f64> for Rounds {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

/// A column of this name over an axis of numbers is shown in two more forms: by how much it falls
/// as the number grows (scaling), and how much the rounds differ (their standard deviation).
pub const EXECUTION_TIME: &str = "execution time";

/// The figures that the rounds of one experiment come to, places and contenders in the order
/// in which they first appear. Ratios are to `baseline`, each within its round.
///
/// [`EXECUTION_TIME`] comes with its scaling and its standard deviation. Each figure at another
/// place than `compared_to`, a category of the axis, comes with its ratio to the same contender's
/// there, within a round.
#[must_use]
pub fn figures(rounds: &[Round], baseline: &str, compared_to: Option<&str>) -> Vec<Figure> {
    let mut rounds = with_scaling(rounds);
    if let Some(place) = compared_to {
        rounds = with_ratios_to(place, &rounds);
    }
    let rounds = &rounds;
    let figures = measured(rounds, baseline).into_iter();
    let figures = figures.flat_map(|figure| {
        let deviation = deviation(&figure);
        [Some(figure), deviation]
    });
    figures.flatten().collect()
}

/// Adds to each round that has an [`EXECUTION_TIME`] what percentage that is of the same
/// contender's in the same round at the least number of the axis.
fn with_scaling(rounds: &[Round]) -> Vec<Round> {
    let same = |a: &Round, b: &Round| {
        (a.round, &a.contender, &a.parameters) == (b.round, &b.contender, &b.parameters)
    };
    let at = |round: &Round| match round.x {
        Some(X::Number(x)) => Some(x),
        _ => None,
    };
    let scaled = rounds.iter().map(|round| {
        let mut with = round.clone();
        let others = rounds.iter().filter(|other| same(round, other));
        let others = others.filter_map(|other| Some((at(other)?, other)));
        let others: Vec<(f64, &Round)> = others.collect();
        let Some((least, first)) = others.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return with;
        };
        let is_alone = others.iter().all(|(x, _)| x == least);
        if let (false, Some(own), Some(first)) = (is_alone, time_of(round), time_of(first)) {
            with.figures.push(Measured {
                column: format!("{EXECUTION_TIME}, scaling"),
                unit: format!("% of that at {least}"),
                better: Better::Lower,
                figure: significant(100.0 * own / first),
            });
        }
        with
    });
    scaled.collect()
}

/// Adds to each round at another place the ratios of its figures to those at `place`, in the same
/// round of the same contender.
fn with_ratios_to(place: &str, rounds: &[Round]) -> Vec<Round> {
    let at_place = |round: &&Round| round.x == Some(X::Category(place.to_owned()));
    let bases: Vec<&Round> = rounds.iter().filter(at_place).collect();
    let compared = rounds.iter().map(|round| {
        let mut with = round.clone();
        let same = |base: &&&Round| {
            (base.round, &base.contender, &base.parameters)
                == (round.round, &round.contender, &round.parameters)
        };
        if let Some(base) = bases.iter().find(same).filter(|base| base.x != round.x) {
            let ratios = round.figures.iter().filter_map(|own| {
                let base = in_round(base, own).filter(|base| *base != 0.0)?;
                Some(Measured {
                    column: format!("{} ÷ {place}", own.column),
                    unit: "×".to_owned(),
                    better: own.better,
                    figure: significant(own.figure / base),
                })
            });
            with.figures.extend(ratios);
        }
        with
    });
    compared.collect()
}

fn time_of(round: &Round) -> Option<f64> {
    let mut figures = round.figures.iter();
    let time = figures.find(|figure| figure.column == EXECUTION_TIME)?;
    (time.figure > 0.0).then_some(time.figure)
}

/// The standard deviation of an [`EXECUTION_TIME`], in percent of the mean: that of the rounds as a
/// sample. What each round adds is how far it is from the mean.
fn deviation(figure: &Figure) -> Option<Figure> {
    let rounds = &figure.rounds;
    let is_sample = figure.column == EXECUTION_TIME && figure.median.is_some() && rounds.len() > 1;
    let mean = rounds.iter().sum::<f64>() / rounds.len().max(1) as f64;
    if !is_sample || mean <= 0.0 {
        return None;
    }
    let apart = rounds.iter().map(|time| 100.0 * (time - mean).abs() / mean);
    let apart: Vec<f64> = apart.map(significant).collect();
    let squares: f64 = apart.iter().map(|apart| apart * apart).sum();
    let deviation = significant((squares / (rounds.len() - 1) as f64).sqrt());
    Some(Figure {
        column: format!("{EXECUTION_TIME}, standard deviation"),
        unit: "% of the mean".to_owned(),
        median: Some(deviation),
        min: apart.iter().copied().min_by(f64::total_cmp),
        max: apart.iter().copied().max_by(f64::total_cmp),
        rounds: apart,
        ratio: None,
        ..figure.clone()
    })
}

/// The figures of what was measured.
fn measured(rounds: &[Round], baseline: &str) -> Vec<Figure> {
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
        let figures = figures(&rounds, "a", None);
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
    fn places_are_compared_within_a_round() {
        let mut rounds = Vec::new();
        for (nth, (merged, segregated)) in [(4.0, 2.0), (10.0, 9.0), (8.0, 2.0)].iter().enumerate()
        {
            for (place, figure) in [("merged", merged), ("segregated", segregated)] {
                rounds.push(Round {
                    x: Some(X::Category(place.to_owned())),
                    ..round("a", nth as u32, 0.0, *figure)
                });
            }
        }
        let figures = super::figures(&rounds, "a", Some("merged"));
        assert_eq!(figures.len(), 3);
        let compared = figures
            .iter()
            .find(|f| f.column == "get ÷ merged")
            .expect("a ratio");
        assert_eq!(compared.x, Some(X::Category("segregated".to_owned())));
        assert_eq!(
            (compared.rounds.as_slice(), compared.median),
            (&[0.5, 0.9, 0.25][..], Some(0.5))
        );
        assert_eq!(super::figures(&rounds, "a", None).len(), 2);
    }

    #[test]
    fn a_contender_with_errors_has_no_median() {
        let mut rounds = [round("a", 0, 1.0, 5.0), round("a", 1, 1.0, 6.0)];
        rounds[1].errors = 2;
        let figures = figures(&rounds, "a", None);
        assert_eq!((figures[0].errors, figures[0].median), (2, None));
        assert_eq!((figures[0].ratio, figures[0].rounds.len()), (None, 2));
    }

    #[test]
    fn execution_times_come_with_their_scaling_and_standard_deviation() {
        let mut rounds = Vec::new();
        for (nth, (one, eight)) in [(10.0, 5.0), (20.0, 6.0), (30.0, 15.0)].iter().enumerate() {
            rounds.push(round("a", nth as u32, 8.0, *eight));
            rounds.push(round("a", nth as u32, 1.0, *one));
        }
        rounds.push(round("b", 0, 1.0, 7.0));
        for round in &mut rounds {
            round.figures[0].column = EXECUTION_TIME.to_owned();
        }
        let figures = figures(&rounds, "a", None);
        let of = |contender: &str, x: f64, form: &str| {
            let column = format!("{EXECUTION_TIME}, {form}");
            let mut figures = figures.iter().filter(|f| f.contender == contender);
            figures.find(|f| f.x == Some(X::Number(x)) && f.column == column)
        };
        let scaling = of("a", 8.0, "scaling").expect("two numbers");
        assert_eq!(scaling.rounds, [50.0, 30.0, 50.0]);
        assert_eq!(
            (scaling.median, &*scaling.unit),
            (Some(50.0), "% of that at 1")
        );
        let least = of("a", 1.0, "scaling").expect("two numbers");
        assert_eq!(least.rounds, [100.0; 3]);
        let deviation = of("a", 1.0, "standard deviation").expect("three rounds");
        assert_eq!((deviation.median, deviation.max), (Some(50.0), Some(50.0)));
        assert_eq!(deviation.rounds, [50.0, 0.0, 50.0]);
        for form in ["scaling", "standard deviation"] {
            assert!(
                of("b", 1.0, form).is_none(),
                "one number, one round: {form}"
            );
        }
        let others = [round("a", 0, 1.0, 3.0), round("a", 0, 2.0, 4.0)];
        assert_eq!(
            super::figures(&others, "a", None).len(),
            2,
            "no other column"
        );
    }

    #[test]
    fn figures_keep_five_digits() {
        assert_eq!(significant(123_456.7), 123_460.0);
        assert_eq!(significant(0.001_234_567), 0.001_234_6);
        assert_eq!(significant(0.0), 0.0);
    }
}
