//! Key shapes that make ordered trees take their rare paths.
//!
//! Masstree slices keys into 8 bytes, other trees truncate prefixes or compare heads; what
//! breaks them is never random bytes but keys that agree for a while, that differ in length
//! only, or that hold NULs where a padded slice holds none.

use std::collections::BTreeSet;

use rand::Rng;
use rand::seq::IndexedRandom;

/// A family of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// 0 to 12 uniform bytes.
    Random,
    /// A shared prefix of exactly this many bytes, then 1 to 9 bytes from a small alphabet.
    SharedPrefix(usize),
    /// The same byte repeated 0 to 40 times: keys differ in length only.
    LengthOnly,
    /// 0 to 20 bytes that are mostly NUL.
    Nuls,
    /// NULs, mostly up to 60 and at most 600, of which one in sixteen ends in another byte: a slice
    /// that is padded with NULs is that of many of them, in layer after layer.
    Zeros,
    /// A decimal number below 2³¹ in 1 to 10 digits, as in Masstree's evaluation.
    Decimal,
    /// `name.number@host.tld`.
    Email,
    /// A path of 1 to 7 components from a small vocabulary.
    Path,
    /// Few distinct keys whose lengths straddle slice boundaries (7, 8, 9, 16, 17 … bytes),
    /// so that inserting and removing them makes and empties trie layers all the time.
    Layers,
}

const NAMES: &[&str] = &[
    "ada", "barbara", "donald", "edsger", "grace", "leslie", "tony",
];
const HOSTS: &[&str] = &[
    "example",
    "hedge",
    "mail",
    "post",
    "a-rather-long-host-name",
];
const TLDS: &[&str] = &["com", "org", "net", "co.uk"];
const COMPONENTS: &[&str] = &[
    "usr",
    "lib",
    "share",
    "x86_64-linux-gnu",
    "doc",
    "python3",
    "locale",
    "LC_MESSAGES",
    "a",
    "include",
    "README",
    "libc.so.6",
];

impl KeyShape {
    /// Every shape, with prefixes around each multiple of the slice width up to 64.
    pub fn all() -> Vec<KeyShape> {
        let mut shapes = vec![
            KeyShape::Random,
            KeyShape::LengthOnly,
            KeyShape::Nuls,
            KeyShape::Zeros,
            KeyShape::Decimal,
            KeyShape::Email,
            KeyShape::Path,
            KeyShape::Layers,
        ];
        shapes.extend([0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64].map(KeyShape::SharedPrefix));
        shapes
    }

    /// One key; shapes with few keys repeat themselves.
    pub fn key(self, rng: &mut impl Rng) -> Vec<u8> {
        match self {
            KeyShape::Random => {
                let len = rng.random_range(0..=12);
                (0..len).map(|_| rng.random()).collect()
            }
            KeyShape::SharedPrefix(prefix) => {
                let mut key: Vec<u8> = (0..prefix).map(|i| b'a' + (i % 26) as u8).collect();
                let tail = rng.random_range(1..=9);
                key.extend((0..tail).map(|_| rng.random_range(b'x'..=b'z')));
                key
            }
            KeyShape::LengthOnly => vec![b'k'; rng.random_range(0..=40)],
            KeyShape::Nuls => {
                let len = rng.random_range(0..=20);
                (0..len).map(|_| u8::from(rng.random_ratio(1, 8))).collect()
            }
            KeyShape::Zeros => {
                const LONGEST: &[usize] = &[20, 40, 60, 200, 600];
                let longest = *LONGEST.choose(rng).expect("the list is not empty");
                let mut key = vec![0; rng.random_range(0..=longest)];
                if let Some(last) = key.last_mut()
                    && rng.random_ratio(1, 16)
                {
                    *last = rng.random_range(1..=3);
                }
                key
            }
            KeyShape::Decimal => rng.random_range(0..1u32 << 31).to_string().into_bytes(),
            KeyShape::Email => {
                let (name, host, tld) = (pick(NAMES, rng), pick(HOSTS, rng), pick(TLDS, rng));
                let number = rng.random_range(0..10_000);
                format!("{name}.{number}@{host}.{tld}").into_bytes()
            }
            KeyShape::Path => {
                let mut path = String::new();
                for _ in 0..rng.random_range(1..=7) {
                    path.push('/');
                    path.push_str(pick(COMPONENTS, rng));
                }
                path.into_bytes()
            }
            KeyShape::Layers => {
                const LENGTHS: &[usize] = &[0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 32];
                let len = *LENGTHS.choose(rng).expect("the list is not empty");
                let mut key = vec![b'L'; len];
                if let Some(last) = key.last_mut() {
                    *last = rng.random_range(b'L'..=b'N');
                }
                key
            }
        }
    }

    /// Up to `count` distinct keys in random order; fewer where the shape has fewer.
    pub fn distinct(self, count: usize, rng: &mut impl Rng) -> Vec<Vec<u8>> {
        let mut seen = BTreeSet::new();
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count.saturating_mul(20) {
            if keys.len() == count {
                break;
            }
            let key = self.key(rng);
            if seen.insert(key.clone()) {
                keys.push(key);
            }
        }
        keys
    }
}

fn pick<'a>(words: &[&'a str], rng: &mut impl Rng) -> &'a str {
    words.choose(rng).expect("word lists are not empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn shapes_are_what_they_say() {
        let mut rng = StdRng::seed_from_u64(1);
        for shape in KeyShape::all() {
            let keys = shape.distinct(30, &mut rng);
            assert!(
                keys.len() >= 20,
                "{shape:?} yields only {} keys",
                keys.len()
            );
            let distinct: BTreeSet<_> = keys.iter().collect();
            assert_eq!(distinct.len(), keys.len(), "{shape:?} repeats a key");
            for key in &keys {
                let fits = match shape {
                    KeyShape::SharedPrefix(n) => key.len() > n && key[..n] == keys[0][..n],
                    KeyShape::LengthOnly => key.iter().all(|&b| b == b'k'),
                    KeyShape::Decimal => {
                        (1..=10).contains(&key.len()) && key.iter().all(u8::is_ascii_digit)
                    }
                    KeyShape::Zeros => {
                        key.len() <= 600 && key.iter().rev().skip(1).all(|&b| b == 0)
                    }
                    KeyShape::Email => key.contains(&b'@'),
                    KeyShape::Path => key[0] == b'/',
                    _ => key.len() <= 40,
                };
                assert!(fits, "{shape:?} made {key:?}");
            }
        }
    }
}
