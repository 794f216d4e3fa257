//! Which records transactions take: drawn evenly, or by Zipf, so that many take the same few.

use hedgerow_lab_data::random::Random;
use hedgerow_lab_data::{Distribution, Sampler};

/// Zipf's exponent: no, little and high contention.
pub const EXPONENTS: [f64; 3] = [0.0, 0.9, 1.2];

/// The records of so many transactions one after the other, `of_each` of each transaction and
/// distinct within it. There must be that many records.
pub fn draw(
    exponent: f64,
    records: u64,
    of_each: usize,
    transactions: usize,
    random: &mut Random,
) -> Vec<u64> {
    let distribution = match exponent {
        0.0 => Distribution::Uniform,
        alpha => Distribution::Zipf { alpha },
    };
    let mut sampler = Sampler::new(distribution, records);
    let mut all = Vec::with_capacity(transactions * of_each);
    for _ in 0..transactions {
        let begin = all.len();
        while all.len() < begin + of_each {
            let record = sampler.draw(random);
            if !all[begin..].contains(&record) {
                all.push(record);
            }
        }
    }
    all
}
