//! What a list of keys is like: the facts that decide which structure suits it.
//!
//! Long keys that share prefixes reward a trie or prefix truncation; integers of one width a
//! structure that compares registers; a dense range arrays in leaves. [`Description`] collects
//! such facts from a user's own keys in one sort.

use std::fmt;

use crate::Keys;

/// Facts about a list of keys. Lengths are in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Keys, repeats counted.
    pub keys: u64,
    /// Different keys. All other figures are about these.
    pub distinct: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// The shortest.
    pub shortest: usize,
    /// The longest.
    pub longest: usize,
    /// The mean length.
    pub mean: f64,
    /// The lengths that half, 90 %, 99 % and 99.9 % of the keys do not exceed.
    pub percentiles: [usize; 4],
    /// How many bytes a key shares with the one before it in order, on average over all but
    /// the first.
    pub mean_shared_prefix: f64,
    /// How many bytes all keys share.
    pub common_prefix: usize,
    /// The share of keys that differ from all others within their first 8 bytes: these a trie
    /// of 8-byte slices tells apart in its first layer.
    pub distinguished_by_8: f64,
    /// Whether all keys consist of decimal digits only.
    pub decimal: bool,
    /// 4 or 8 where all keys have this length.
    pub fixed_bytes: Option<usize>,
    /// Of keys of one such length, read as big-endian integers: their number over the number
    /// of integers from the least to the greatest. 1 is a range without gaps.
    pub density: Option<f64>,
    /// The share of keys with a NUL byte, which strings of C cannot hold.
    pub with_nul: f64,
    /// The share of keys that were given in ascending order, each after the one before it: 1
    /// for a sorted list, about half for a random one.
    pub ascending: f64,
}

impl Description {
    /// Describes a list; `None` if it is empty. Takes a sort's time, and 16 bytes per key for it.
    #[must_use]
    pub fn of(keys: &Keys) -> Option<Self> {
        let mut order: Vec<&[u8]> = keys.iter().collect();
        let pairs = order.len().saturating_sub(1);
        let ascents = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        order.sort_unstable();
        order.dedup();
        let (first, last) = (*order.first()?, *order.last()?);
        let count = order.len() as f64;

        let mut lengths: Vec<usize> = order.iter().map(|key| key.len()).collect();
        lengths.sort_unstable();
        let bytes: u64 = lengths.iter().map(|length| *length as u64).sum();
        let percentile = |of_thousand: usize| {
            let rank = (lengths.len() * of_thousand).div_ceil(1000);
            lengths[rank.max(1) - 1]
        };
        let (shortest, longest) = (lengths[0], lengths[lengths.len() - 1]);

        let shared: Vec<usize> = order
            .windows(2)
            .map(|pair| shared_prefix(pair[0], pair[1]))
            .collect();
        let share_of = |count_of: usize| count_of as f64 / count;
        let fixed_bytes = (shortest == longest && matches!(longest, 4 | 8)).then_some(longest);
        Some(Self {
            keys: keys.len() as u64,
            distinct: order.len() as u64,
            bytes,
            shortest,
            longest,
            mean: bytes as f64 / count,
            percentiles: [500, 900, 990, 999].map(percentile),
            mean_shared_prefix: mean(&shared),
            // In order, what the first and the last share, all share.
            common_prefix: shared_prefix(first, last),
            distinguished_by_8: share_of(distinguished(&order, &shared)),
            decimal: order
                .iter()
                .all(|key| !key.is_empty() && key.iter().all(u8::is_ascii_digit)),
            fixed_bytes,
            density: fixed_bytes.map(|_| {
                let span = u128::from(number(last)) - u128::from(number(first)) + 1;
                count / span as f64
            }),
            with_nul: share_of(order.iter().filter(|key| key.contains(&0)).count()),
            ascending: match pairs {
                0 => 1.0,
                pairs => ascents as f64 / pairs as f64,
            },
        })
    }
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn mean(numbers: &[usize]) -> f64 {
    numbers.iter().sum::<usize>() as f64 / numbers.len().max(1) as f64
}

fn number(key: &[u8]) -> u64 {
    key.iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// How many keys share less than 8 bytes with both neighbours, or end within them (a key of up
/// to 8 bytes is told apart by its length as well).
fn distinguished(order: &[&[u8]], shared: &[usize]) -> usize {
    (0..order.len())
        .filter(|&index| {
            let before = index.checked_sub(1).map_or(0, |before| shared[before]);
            let after = shared.get(index).copied().unwrap_or(0);
            order[index].len() <= 8 || before.max(after) < 8
        })
        .count()
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        let [p50, p90, p99, p999] = self.percentiles;
        writeln!(
            f,
            "keys             {} ({} distinct)",
            self.keys, self.distinct
        )?;
        writeln!(
            f,
            "length           {} to {} bytes, mean {:.1}; p50 {p50}, p90 {p90}, p99 {p99}, p99.9 \
             {p999}",
            self.shortest, self.longest, self.mean
        )?;
        writeln!(
            f,
            "shared prefix    {:.1} bytes with the key before in order; {} bytes by all keys",
            self.mean_shared_prefix, self.common_prefix
        )?;
        writeln!(
            f,
            "first 8 bytes    tell {:.1} % of the keys apart",
            percent(self.distinguished_by_8)
        )?;
        let kind = match (self.decimal, self.fixed_bytes) {
            (true, Some(bytes)) => format!("decimal digits, always {bytes}"),
            (true, None) => "decimal digits".to_owned(),
            (false, Some(bytes)) => format!("always {bytes} bytes"),
            (false, None) => "bytes of varying length".to_owned(),
        };
        writeln!(f, "kind             {kind}")?;
        if let Some(density) = self.density {
            writeln!(
                f,
                "density          {:.6} keys for each integer of their range",
                density
            )?;
        }
        if self.with_nul > 0.0 {
            writeln!(
                f,
                "NUL bytes        in {:.1} % of the keys",
                percent(self.with_nul)
            )?;
        }
        write!(
            f,
            "order            {:.1} % follow a smaller key",
            percent(self.ascending)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeySet;

    fn described(set: &str) -> Description {
        let set: KeySet = set.parse().expect("a set");
        Description::of(&set.keys(10_000).expect("keys")).expect("not empty")
    }

    #[test]
    fn a_few_keys_are_described_as_one_would_by_hand() {
        let keys: Keys = ["abc", "abd", "abcdefghij", "abc", "ab\0"].iter().collect();
        let description = Description::of(&keys).expect("not empty");
        assert_eq!(
            (description.keys, description.distinct, description.bytes),
            (5, 4, 19)
        );
        assert_eq!((description.shortest, description.longest), (3, 10));
        assert_eq!(description.percentiles, [3, 10, 10, 10]);
        // In order: ab\0, abc, abcdefghij, abd.
        assert!((description.mean_shared_prefix - 7.0 / 3.0).abs() < 1e-9);
        assert_eq!(
            (description.common_prefix, description.fixed_bytes),
            (2, None)
        );
        assert_eq!(
            (description.with_nul, description.distinguished_by_8),
            (0.25, 1.0)
        );
        assert_eq!((description.decimal, description.ascending), (false, 0.25));
        assert_eq!(Description::of(&Keys::new()), None);
    }

    #[test]
    fn sets_are_described_as_what_they_are() {
        let dense = described("dense-u64");
        assert_eq!((dense.fixed_bytes, dense.density), (Some(8), Some(1.0)));
        assert!((0.45..0.55).contains(&dense.ascending));
        let sparse = described("sparse-u32");
        assert_eq!(sparse.fixed_bytes, Some(4));
        assert!(sparse.density.expect("integers") < 1e-5);
        let decimal = described("decimal");
        assert!(decimal.decimal && decimal.density.is_none() && decimal.longest == 10);
        let prefixed = described("prefixed-decimal:24");
        assert_eq!((prefixed.common_prefix, prefixed.shortest), (24, 32));
        assert!(prefixed.distinguished_by_8 == 0.0 && prefixed.mean_shared_prefix > 26.0);
        assert_eq!(described("monotone-u32").ascending, 1.0);
        let one = Description::of(&["x"].iter().collect()).expect("not empty");
        assert_eq!(
            (one.mean_shared_prefix, one.common_prefix, one.ascending),
            (0.0, 1, 1.0)
        );
        let extremes: Keys = [0, u64::MAX]
            .iter()
            .map(|n: &u64| n.to_be_bytes())
            .collect();
        assert!(
            Description::of(&extremes)
                .expect("keys")
                .density
                .expect("integers")
                < 1e-18
        );
    }

    #[test]
    fn the_printed_form_says_it_all_in_a_line_each() {
        let text = described("dense-u32").to_string();
        for part in [
            "keys             10000 (10000 distinct)",
            "length           4 to 4 bytes, mean 4.0; p50 4,",
            "kind             always 4 bytes",
            "density          1.000000 keys for each",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
