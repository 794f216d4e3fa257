//! The hash of a key that spreads keys over commit stripes and over the threads of recovery.
//!
//! Its key is 128 random bits of the process. Without a secret a client could compute any number of
//! keys that share one stripe, or one thread of recovery. Nothing that is stored depends on the
//! hash, and nothing relies on two keys having different ones.
//!
//! The hash is foldhash's, which costs as much as one without a secret for keys of eight bytes and
//! less for longer ones; std's SipHash would take up to three times as long in every write. SipHash
//! also withstands an attacker who sees hashes; no answer of a database shows them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// The secrets come from the operating system, through the standard library's.
static SHARED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(random()));
static PROCESS: LazyLock<SeedableRandomState> =
    LazyLock::new(|| SeedableRandomState::with_seed(random(), &SHARED));

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The hash of a key of a keyspace: the same during the life of a process, and another in the next.
#[inline]
pub(crate) fn key_hash(keyspace: u32, key: &[u8]) -> u64 {
    let mut hasher = PROCESS.build_hasher();
    hasher.write_u32(keyspace);
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::stripes::{STRIPES, stripe_of};

    #[test]
    fn hashes_spread_and_depend_on_everything() {
        let mut used = vec![0u32; STRIPES];
        for i in 0..40_960u64 {
            used[stripe_of(0, &i.to_be_bytes()) as usize] += 1;
        }
        assert!(used.iter().all(|&n| n < 40), "about ten each");
        assert!(used.iter().filter(|&&n| n == 0).count() < 10);
        assert_ne!(key_hash(0, b"a"), key_hash(1, b"a"));
        assert_ne!(key_hash(0, b"a"), key_hash(0, b"a\0"));
        assert_ne!(key_hash(0, b"12345678"), key_hash(0, b"12345678\0"));
        assert_eq!(key_hash(7, b"a key"), key_hash(7, b"a key"));
    }

    /// A multiplication folded with public constants can be run backwards: whatever the first word,
    /// a second one leads to the same state. Here such keys fill one stripe of such a hash.
    #[test]
    fn keys_made_to_collide_without_the_secret_do_not() {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |a: u64, b: u64| {
            let wide = u128::from(a) * u128::from(b);
            (wide as u64) ^ (wide >> 64) as u64
        };
        let start = fold(1 ^ K, 16 ^ 0xa076_1d64_78bd_642f);
        let made = (0..1000u64).map(|first| {
            let second = fold(start ^ first, K);
            [first.to_le_bytes(), second.to_le_bytes()].concat()
        });
        let stripes: std::collections::BTreeSet<u32> = made.map(|key| stripe_of(1, &key)).collect();
        assert!(stripes.len() > 500, "{} stripes", stripes.len());
    }
}
