//! Deterministic key sets without duplicates, made by permuting a counter.
//!
//! The n-th key of a set is a function of n, so a set of any size needs no memory of what was
//! drawn before, and two contenders always see the same keys in the same order.

/// The longest key of any set, in bytes.
const LONGEST_BYTES: usize = 15;

/// A short key, stored inline so that walking an array of them costs no extra cache miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; LONGEST_BYTES],
    len: u8,
}

impl Key {
    /// A key of these bytes.
    ///
    /// # Panics
    ///
    /// If there are more than 15.
    #[must_use]
    pub fn new(from: &[u8]) -> Self {
        let mut bytes = [0; LONGEST_BYTES];
        bytes[..from.len()].copy_from_slice(from);
        Self {
            bytes,
            len: from.len() as u8,
        }
    }

    /// The key's bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bytes padded with zeros: of the keys of one set, ordered as the keys are.
    #[inline]
    #[must_use]
    pub fn padded(&self) -> [u8; LONGEST_BYTES] {
        self.bytes
    }

    /// The value that experiments store under this key: any 8 bytes that depend on it.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        let low = u64::from_le_bytes(self.bytes[..8].try_into().expect("8 bytes"));
        low.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(self.bytes[9])
    }
}

/// A family of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KeySet {
    /// Random 64-bit integers, big-endian: always one 8-byte slice.
    RandomU64,
    /// Random integers below 2^31 in decimal, 1 to 10 bytes: the paper's set (§6.1).
    Decimal,
    /// Integers counting up, 8 bytes big-endian.
    Sequential,
}

impl KeySet {
    /// The name used on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RandomU64 => "random-u64",
            Self::Decimal => "decimal",
            Self::Sequential => "sequential",
        }
    }

    /// The `n`-th key of the set; distinct for distinct `n` below 2^31.
    #[must_use]
    pub fn key(self, n: u64) -> Key {
        match self {
            Self::RandomU64 => Key::new(&mix64(n).to_be_bytes()),
            Self::Sequential => Key::new(&n.to_be_bytes()),
            Self::Decimal => {
                let mut digits = [0; 10];
                let mut rest = mix31(n);
                let mut start = digits.len();
                loop {
                    start -= 1;
                    digits[start] = b'0' + (rest % 10) as u8;
                    rest /= 10;
                    if rest == 0 {
                        return Key::new(&digits[start..]);
                    }
                }
            }
        }
    }

    /// The first `count` keys, in the order of the set (random but for `Sequential`).
    #[must_use]
    pub fn keys(self, count: usize) -> Vec<Key> {
        (0..count as u64).map(|n| self.key(n)).collect()
    }

    /// `sample` of the first `count` keys, in an order unrelated to that of insertion.
    #[must_use]
    pub fn sample(self, count: usize, sample: usize) -> Vec<Key> {
        let mut shuffle = Shuffle::new(count as u64);
        (0..sample.min(count))
            .map(|_| self.key(shuffle.next_index()))
            .collect()
    }
}

/// Visits the numbers below a bound once each in a random-looking order, by cycle walking.
struct Shuffle {
    bound: u64,
    bits: u32,
    counter: u64,
}

impl Shuffle {
    fn new(bound: u64) -> Self {
        Self {
            bound,
            bits: 64 - bound.saturating_sub(1).leading_zeros().min(63),
            counter: 0,
        }
    }

    fn next_index(&mut self) -> u64 {
        loop {
            let n = mix_bits(self.counter ^ 0x5A5A, self.bits);
            self.counter += 1;
            if n < self.bound {
                return n;
            }
        }
    }
}

/// A permutation of 64-bit integers (the finaliser of splitmix64).
fn mix64(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A permutation of 31-bit integers.
fn mix31(n: u64) -> u64 {
    mix_bits(n, 31)
}

/// A permutation of `bits`-bit integers: multiplication by odd numbers and folded shifts are
/// invertible modulo a power of two.
fn mix_bits(n: u64, bits: u32) -> u64 {
    let mask = (1 << bits) - 1;
    let shift = bits.div_ceil(2);
    let mut z = n & mask;
    for multiplier in [
        0x2545_F491_4F6C_DD1D,
        0x9E37_79B9_7F4A_7C15,
        0xD6E8_FEB8_6659_FD93_u64,
    ] {
        z = z.wrapping_mul(multiplier) & mask;
        z ^= z >> shift;
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_of_the_promised_shape() {
        for set in [KeySet::RandomU64, KeySet::Decimal, KeySet::Sequential] {
            let keys = set.keys(50_000);
            let distinct: HashSet<_> = keys.iter().map(|key| key.as_slice().to_vec()).collect();
            assert_eq!(distinct.len(), keys.len(), "{}", set.name());
            let expected = if set == KeySet::Decimal {
                1..=10
            } else {
                8..=8
            };
            assert!(
                keys.iter()
                    .all(|key| expected.contains(&key.as_slice().len()))
            );
        }
        assert!(
            KeySet::Decimal
                .keys(1000)
                .iter()
                .any(|key| key.as_slice().len() == 10)
        );
    }

    #[test]
    fn a_sample_holds_keys_of_the_set_once_each() {
        for count in [1, 2, 3, 1000, 4096] {
            let all: HashSet<_> = KeySet::Decimal
                .keys(count)
                .iter()
                .map(Key::padded)
                .collect();
            let sample: HashSet<_> = KeySet::Decimal
                .sample(count, count)
                .iter()
                .map(Key::padded)
                .collect();
            assert_eq!(sample, all, "{count} keys");
        }
    }

    #[test]
    fn padded_decimals_sort_as_their_bytes_do() {
        let mut keys = KeySet::Decimal.keys(2000);
        keys.sort_by_key(Key::padded);
        assert!(
            keys.windows(2)
                .all(|pair| pair[0].as_slice() < pair[1].as_slice())
        );
    }
}
