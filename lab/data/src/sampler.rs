//! Which record an operation goes to.
//!
//! A [`Distribution`] is the name and its parameters (`zipf:0.99`, `hot:0.8:0.2`); a
//! [`Sampler`] draws positions of records from it. Position 0 is the record inserted first.

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, fnv64};
use crate::zipf::Zipf;

/// How popular each record is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// One after the other in the order of insertion, over and over.
    Sequential,
    /// A share of the operations goes to the first records, the rest to the others; uniform
    /// within each (YCSB's hot spot).
    Hot {
        /// The share of the operations, 0 to 1.
        operations: f64,
        /// The share of the records that they go to, 0 to 1.
        records: f64,
    },
    /// The record inserted k-th has probability ∝ 1 / k^α (B-Trees Are Back, §4: α = 0.99).
    Zipf {
        /// The exponent, at least 0.
        alpha: f64,
    },
    /// Zipf over ten thousand million ranks, each hashed to a record: as skewed, but the
    /// popular records lie anywhere (YCSB's default, its `ScrambledZipfianGenerator`).
    ScrambledZipf {
        /// The exponent, at least 0.
        alpha: f64,
    },
    /// Zipf counted back from the record inserted last (YCSB's `SkewedLatestGenerator`).
    Latest {
        /// The exponent, at least 0.
        alpha: f64,
    },
}

/// The exponent that YCSB uses, and the default where none is given.
pub const YCSB_ALPHA: f64 = 0.99;

/// Exponents above this are taken for a slip: the first record would get all operations.
const STEEPEST_ALPHA: f64 = 20.0;

/// The ranks of YCSB's scrambled Zipfian, whatever the number of records.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;

/// A name that is no distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no distribution is called '{0}'; there are uniform, sequential, hot:OPERATIONS:RECORDS \
     (shares from 0 to 1), zipf:ALPHA, scrambled-zipf:ALPHA and latest:ALPHA (0 to 20)"
)]
pub struct UnknownDistribution(String);

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
            Self::Hot {
                operations,
                records,
            } => write!(f, "hot:{operations}:{records}"),
            Self::Zipf { alpha } => write!(f, "zipf:{alpha}"),
            Self::ScrambledZipf { alpha } => write!(f, "scrambled-zipf:{alpha}"),
            Self::Latest { alpha } => write!(f, "latest:{alpha}"),
        }
    }
}

impl FromStr for Distribution {
    type Err = UnknownDistribution;

    fn from_str(name: &str) -> Result<Self, UnknownDistribution> {
        let unknown = || UnknownDistribution(name.to_owned());
        let number = |text: &str, most: f64| match text.parse::<f64>() {
            Ok(number) if (0.0..=most).contains(&number) => Ok(number),
            _ => Err(unknown()),
        };
        let parts: Vec<&str> = name.split(':').collect();
        Ok(match parts[..] {
            ["uniform"] => Self::Uniform,
            ["sequential"] => Self::Sequential,
            ["hot", operations, records] => Self::Hot {
                operations: number(operations, 1.0)?,
                records: number(records, 1.0)?,
            },
            ["zipf"] => Self::Zipf { alpha: YCSB_ALPHA },
            ["zipf", alpha] => Self::Zipf {
                alpha: number(alpha, STEEPEST_ALPHA)?,
            },
            ["scrambled-zipf"] => Self::ScrambledZipf { alpha: YCSB_ALPHA },
            ["scrambled-zipf", alpha] => Self::ScrambledZipf {
                alpha: number(alpha, STEEPEST_ALPHA)?,
            },
            ["latest"] => Self::Latest { alpha: YCSB_ALPHA },
            ["latest", alpha] => Self::Latest {
                alpha: number(alpha, STEEPEST_ALPHA)?,
            },
            _ => return Err(unknown()),
        })
    }
}

/// Draws records from a distribution.
#[derive(Debug, Clone)]
pub struct Sampler {
    distribution: Distribution,
    records: u64,
    zipf: Option<Zipf>,
    next: u64,
}

impl Sampler {
    /// A sampler of `records` records. One that goes sequentially begins with the first.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(distribution: Distribution, records: u64) -> Self {
        assert!(records > 0, "no records to draw from");
        let zipf = match distribution {
            Distribution::Zipf { alpha } | Distribution::Latest { alpha } => {
                Some(Zipf::new(records, alpha))
            }
            Distribution::ScrambledZipf { alpha } => Some(Zipf::new(SCRAMBLED_RANKS, alpha)),
            _ => None,
        };
        Self {
            distribution,
            records,
            zipf,
            next: 0,
        }
    }

    /// Lets a sequential sampler go on at this record: threads that share the work begin at
    /// different ones.
    #[must_use]
    pub fn starting_at(mut self, record: u64) -> Self {
        self.next = record % self.records;
        self
    }

    /// Goes on over another number of records.
    ///
    /// # Panics
    ///
    /// If it is 0.
    pub fn resize(&mut self, records: u64) {
        assert!(records > 0, "no records to draw from");
        self.records = records;
        if let (Some(zipf), Distribution::Zipf { .. } | Distribution::Latest { .. }) =
            (&mut self.zipf, self.distribution)
        {
            zipf.resize(records);
        }
    }

    /// Draws a record: a number below how many there are.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        let rank = |random: &mut Random| self.zipf.as_ref().map_or(0, |zipf| zipf.rank(random));
        match self.distribution {
            Distribution::Uniform => random.below(self.records),
            Distribution::Sequential => {
                let record = self.next % self.records;
                self.next = record + 1;
                record
            }
            Distribution::Hot {
                operations,
                records,
            } => hot(random, self.records, operations, records),
            Distribution::Zipf { .. } => rank(random),
            Distribution::Latest { .. } => self.records - 1 - rank(random),
            Distribution::ScrambledZipf { .. } => {
                // As YCSB computes it: the hash is read as signed and made positive.
                let hash = fnv64(&rank(random).to_le_bytes()) as i64;
                hash.unsigned_abs() % self.records
            }
        }
    }
}

fn hot(random: &mut Random, records: u64, operations: f64, share: f64) -> u64 {
    // At least one record is hot, and at least one is not where there are two.
    let most = (records - 1).max(1);
    let hot = ((records as f64 * share).round() as u64).clamp(1, most);
    let cold = records - hot;
    if random.unit() < operations || cold == 0 {
        random.below(hot)
    } else {
        hot + random.below(cold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: &str, records: u64, draws: u64) -> Vec<u64> {
        let distribution = distribution.parse().expect("a distribution");
        let mut sampler = Sampler::new(distribution, records);
        let mut random = Random::new(11);
        let mut counts = vec![0; records as usize];
        (0..draws).for_each(|_| counts[sampler.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn names_are_parsed_and_printed_alike() {
        for name in [
            "uniform",
            "sequential",
            "hot:0.8:0.2",
            "zipf:1.5",
            "scrambled-zipf:0.99",
            "latest:0",
        ] {
            assert_eq!(name.parse::<Distribution>().expect(name).to_string(), name);
        }
        assert_eq!("zipf".parse(), Ok(Distribution::Zipf { alpha: 0.99 }));
        for wrong in [
            "",
            "zipfian",
            "zipf:-1",
            "zipf:x",
            "zipf:NaN",
            "zipf:21",
            "hot:2:0.1",
            "hot:0.5",
            "uniform:1",
        ] {
            let error = wrong.parse::<Distribution>().expect_err(wrong).to_string();
            assert!(
                error.starts_with(&format!("no distribution is called '{wrong}'")),
                "{error}"
            );
        }
    }

    #[test]
    fn uniform_and_hot_sets_divide_operations_as_told() {
        let even = counts("uniform", 10, 100_000);
        assert!(
            even.iter().all(|count| (9600..10_400).contains(count)),
            "{even:?}"
        );
        let hot = counts("hot:0.8:0.2", 10, 100_000);
        assert!(
            hot[..2]
                .iter()
                .all(|count| (39_000..41_000).contains(count)),
            "{hot:?}"
        );
        assert!(
            hot[2..].iter().all(|count| (2300..2700).contains(count)),
            "{hot:?}"
        );
        assert_eq!(counts("hot:0.5:0.5", 1, 10), [10]);
        assert!(
            counts("hot:1:0", 3, 10)[1..]
                .iter()
                .all(|count| *count == 0)
        );
    }

    #[test]
    fn sequential_goes_round_from_where_it_is_told() {
        let mut random = Random::new(0);
        let mut sampler = Sampler::new(Distribution::Sequential, 5).starting_at(3);
        let drawn: Vec<u64> = (0..7).map(|_| sampler.draw(&mut random)).collect();
        assert_eq!(drawn, [3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_latest_record_is_the_most_popular_as_records_are_added() {
        let mut sampler = Sampler::new(Distribution::Latest { alpha: YCSB_ALPHA }, 1);
        let mut random = Random::new(2);
        for records in [1_u64, 10, 1000] {
            sampler.resize(records);
            let last = (0..10_000)
                .filter(|_| sampler.draw(&mut random) == records - 1)
                .count();
            let harmonic: f64 = (1..=records).map(|k| (k as f64).powf(-YCSB_ALPHA)).sum();
            let expected = 10_000.0 / harmonic;
            assert!(
                (last as f64 - expected).abs() < 0.1 * expected,
                "{last} of {expected}"
            );
        }
    }

    #[test]
    fn scrambling_keeps_the_skew_and_spreads_the_popular() {
        let records = 1000;
        let scrambled = counts("scrambled-zipf:0.99", records, 200_000);
        // YCSB's constant for the sum over all ranks is 26.469…: the first rank gets 1 of it.
        let first = (fnv64(&0_u64.to_le_bytes()) as i64).unsigned_abs() % records;
        let top = scrambled.iter().max().expect("counts");
        assert_eq!(scrambled[first as usize], *top);
        let share = *top as f64 / 200_000.0;
        assert!((share - 1.0 / 26.469).abs() < 0.004, "{share}");
        let plain = counts("zipf:0.99", records, 200_000);
        assert!(plain[0] > plain[10] && plain[10] > plain[500]);
        let popular: Vec<usize> = (0..1000).filter(|n| scrambled[*n] > 2000).collect();
        assert!(
            popular.len() > 2 && popular[popular.len() - 1] > 200,
            "{popular:?}"
        );
    }
}
