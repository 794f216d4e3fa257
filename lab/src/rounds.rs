//! Rounds of measurements: medians and spread.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread() {
        let mut rounds = Rounds::default();
        assert_eq!(
            (rounds.median(), rounds.min(), rounds.max()),
            (0.0, 0.0, 0.0)
        );
        for figure in [5.0, 1.0, 9.0] {
            rounds.push(figure);
        }
        assert_eq!(
            (rounds.median(), rounds.min(), rounds.max()),
            (5.0, 1.0, 9.0)
        );
        rounds.push(7.0);
        assert_eq!(rounds.median(), 6.0);
    }
}
