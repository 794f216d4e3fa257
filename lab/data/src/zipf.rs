//! Zipf's law: the k-th most popular of n items is drawn with probability proportional to
//! 1 / k^α.
//!
//! Drawn by rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996): invert the
//! integral of x^-α, round, and accept nearly always. It is exact for every α ≥ 0, needs no
//! table and no sum over all items, and follows a growing n at the price of one logarithm;
//! YCSB's own method (Gray et al., SIGMOD 1994) approximates ranks beyond the second and
//! needs α < 1.

use crate::random::Random;

/// A Zipf distribution over the ranks 0 to below n.
#[derive(Debug, Clone)]
pub struct Zipf {
    alpha: f64,
    items: u64,
    /// The integral up to 1.5 less the mass of the first rank: where the inverted range ends.
    low: f64,
    /// The integral up to n + 0.5.
    high: f64,
    /// Roundings by no more than this are accepted without looking closer.
    sure: f64,
}

impl Zipf {
    /// The distribution over `items` ranks with exponent `alpha`; 0 is uniform.
    ///
    /// # Panics
    ///
    /// If there are no items, or `alpha` is negative or not a number.
    #[must_use]
    pub fn new(items: u64, alpha: f64) -> Self {
        assert!(items > 0, "no items to draw from");
        assert!(alpha >= 0.0 && alpha.is_finite(), "an exponent of {alpha}");
        let mut zipf = Self {
            alpha,
            items,
            low: 0.0,
            high: 0.0,
            sure: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(items as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.mass(2.0));
        zipf
    }

    /// How many ranks there are.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Goes on over another number of ranks.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn resize(&mut self, items: u64) {
        if items != self.items {
            assert!(items > 0, "no items to draw from");
            self.items = items;
            self.high = self.integral(items as f64 + 0.5);
        }
    }

    /// Draws a rank; 0 is the most popular.
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let k = (x + 0.5).floor().clamp(1.0, self.items as f64);
            if k - x <= self.sure || area >= self.integral(k + 0.5) - self.mass(k) {
                return (k as u64).min(self.items) - 1;
            }
        }
    }

    /// x^-α.
    fn mass(&self, x: f64) -> f64 {
        (-self.alpha * x.ln()).exp()
    }

    /// An integral of x^-α, (x^(1-α) - 1) / (1 - α), continuous through α = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.alpha) * log;
        let expm1_over_t = if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0
        };
        expm1_over_t * log
    }

    /// The inverse of [`Self::integral`].
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may lead just below the pole, where there is no logarithm.
        let t = (area * (1.0 - self.alpha)).max(-1.0);
        let log1p_over_t = if t.abs() > 1e-8 {
            t.ln_1p() / t
        } else {
            1.0 - t / 2.0
        };
        (log1p_over_t * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far observed counts are from the exact probabilities: chi-square less its mean, in
    /// standard deviations. Ranks too rare to count are thrown together.
    fn deviation(alpha: f64, items: u64, draws: u64) -> f64 {
        let zipf = Zipf::new(items, alpha);
        let mut random = Random::new(items ^ alpha.to_bits());
        let mut counts = vec![0_u64; items as usize];
        for _ in 0..draws {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=items).map(|k| (k as f64).powf(-alpha)).collect();
        let total: f64 = weights.iter().sum();
        let (mut square, mut classes) = (0.0, 0.0);
        let (mut seen, mut expected) = (0.0, 0.0);
        for (rank, weight) in weights.iter().enumerate() {
            seen += counts[rank] as f64;
            expected += draws as f64 * weight / total;
            if expected >= 10.0 || rank + 1 == weights.len() {
                square += (seen - expected).powi(2) / expected.max(1.0);
                classes += 1.0;
                (seen, expected) = (0.0, 0.0);
            }
        }
        let freedom: f64 = classes - 1.0;
        (square - freedom) / (2.0 * freedom).max(1.0).sqrt()
    }

    #[test]
    fn draws_follow_the_exact_probabilities() {
        for alpha in [0.0, 0.2, 0.5, 0.99, 0.999_999_999, 1.0, 1.01, 1.5, 2.0, 4.0] {
            for items in [1, 2, 3, 10, 1000] {
                let off = deviation(alpha, items, 200_000);
                assert!(
                    off.abs() < 4.0,
                    "α {alpha}, {items} items: {off} deviations"
                );
            }
        }
    }

    #[test]
    fn resizing_is_the_same_as_beginning_anew() {
        let mut grown = Zipf::new(10, 0.99);
        grown.resize(5000);
        let fresh = Zipf::new(5000, 0.99);
        let ranks = |zipf: &Zipf| {
            let mut random = Random::new(4);
            (0..1000)
                .map(|_| zipf.rank(&mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranks(&grown), ranks(&fresh));
        assert!(ranks(&fresh).iter().any(|rank| *rank > 1000));
    }

    #[test]
    fn very_many_items_and_large_exponents_stay_in_range() {
        let mut random = Random::new(5);
        for (items, alpha) in [(10_000_000_000, 0.99), (u64::MAX, 0.0), (1 << 53, 30.0)] {
            let zipf = Zipf::new(items, alpha);
            assert!((0..10_000).all(|_| zipf.rank(&mut random) < items));
        }
    }
}
