//! Random values as clauses 2.1.6, 4.3.2 and 4.3.3 want them.

use std::ops::RangeInclusive;

use hedgerow_lab_data::random::Random;

/// Last names are made of three of these (clause 4.3.2.3).
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];

/// The constants C of clause 2.1.6: one for loading names, others for runs. The first two differ by
/// 73, as clause 2.1.6.1 allows.
const C_NAME_LOAD: u64 = 100;
const C_NAME_RUN: u64 = 173;
const C_CUSTOMER: u64 = 259;
const C_ITEM: u64 = 4095;

/// What all parts of a database and its transactions draw from.
#[derive(Debug, Clone)]
pub(crate) struct Draws(Random);

impl Draws {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Random::for_thread(seed, stream))
    }

    /// A number of the range.
    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (least, most) = range.into_inner();
        least + self.0.below(most - least + 1)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// NURand(A, x, y) of clause 2.1.6 with a constant C.
    fn skewed(&mut self, a: u64, c: u64, range: RangeInclusive<u64>) -> u64 {
        let (least, most) = (*range.start(), *range.end());
        let drawn = self.within(0..=a) | self.within(range);
        (drawn + c) % (most - least + 1) + least
    }

    /// A customer of a district with so many.
    pub(crate) fn customer(&mut self, customers: u64) -> u64 {
        self.skewed(1023, C_CUSTOMER, 1..=customers)
    }

    /// An item of so many.
    pub(crate) fn item(&mut self, items: u64) -> u64 {
        self.skewed(8191, C_ITEM, 1..=items)
    }

    /// The number of a last name that a district with so many customers has.
    pub(crate) fn name(&mut self, customers: u64) -> u64 {
        self.skewed(255, C_NAME_RUN, 0..=customers.min(1000) - 1)
    }

    /// The number of a last name for a customer beyond the first thousand.
    pub(crate) fn name_to_load(&mut self) -> u64 {
        self.skewed(255, C_NAME_LOAD, 0..=999)
    }

    /// A text of letters and digits.
    pub(crate) fn text(&mut self, lengths: RangeInclusive<u64>) -> Vec<u8> {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length = self.within(lengths);
        (0..length)
            .map(|_| LETTERS[self.0.below(LETTERS.len() as u64) as usize])
            .collect()
    }

    /// A text of digits.
    pub(crate) fn digits(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| b'0' + self.0.below(10) as u8).collect()
    }

    /// A text of which one in ten has the word `ORIGINAL` somewhere.
    pub(crate) fn data(&mut self) -> Vec<u8> {
        let mut data = self.text(26..=50);
        if self.percent(10) {
            let at = self.0.below(data.len() as u64 - 7) as usize;
            data[at..at + 8].copy_from_slice(b"ORIGINAL");
        }
        data
    }

    /// The numbers from 1 to `count` in random order.
    pub(crate) fn permutation(&mut self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (1..=count).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.0.below(at as u64 + 1) as usize);
        }
        numbers
    }
}

/// The last name of a number from 0 to 999.
pub(crate) fn last_name(number: u64) -> String {
    [number / 100, number / 10 % 10, number % 10]
        .map(|digit| SYLLABLES[digit as usize])
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn draws_stay_in_their_ranges_and_reach_all_of_small_ones() {
        let mut draws = Draws::new(1, 0);
        let mut seen = [false; 30];
        for _ in 0..5000 {
            seen[draws.customer(30) as usize - 1] = true;
            assert!((1..=100_000).contains(&draws.item(100_000)));
            assert!(draws.name(30) < 30 && draws.name(3000) < 1000 && draws.name_to_load() < 1000);
        }
        assert!(seen.iter().all(|seen| *seen));
        let mut permutation = draws.permutation(50);
        permutation.sort_unstable();
        assert!(permutation.into_iter().eq(1..=50));
        let texts = (0..200).map(|_| draws.data());
        let original = |text: &Vec<u8>| text.windows(8).any(|part| part == b"ORIGINAL");
        assert!((1..100).contains(&texts.filter(original).count()));
    }
}
