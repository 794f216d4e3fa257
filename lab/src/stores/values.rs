//! The values of records: no two alike, incompressible, and to be told right from wrong.
//!
//! The first 8 bytes depend on the key alone, so that every read can be checked however threads
//! interleave; the next 8 differ from write to write; the rest comes from anywhere in a mebibyte
//! of random bytes, so that engines that compress gain nothing that others do not. Where in it
//! follows from key and write: so whoever reads a value compares all of it. That is what one who
//! asked for values does, who uses them; and a value of which a part is missing, or another
//! write's, is found.

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::random::Random;

/// The smallest value: the two words.
pub(super) const LEAST_BYTES: usize = 16;

const POOL_BITS: u32 = 20;
const POOL_BYTES: usize = 1 << POOL_BITS;

/// Makes values of one size.
pub(super) struct Values {
    pool: Vec<u8>,
    bytes: usize,
}

impl Values {
    pub(super) fn new(bytes: usize) -> Self {
        let mut random = Random::new(0x7A1E);
        let words = (POOL_BYTES + bytes).div_ceil(8);
        let pool = (0..words).flat_map(|_| random.next_u64().to_le_bytes());
        Self {
            pool: pool.collect(),
            bytes: bytes.max(LEAST_BYTES),
        }
    }

    /// The value that the write of this number puts under a key.
    pub(super) fn make(&self, key: &[u8], write: u64, value: &mut Vec<u8>) {
        let word = value_of(key);
        value.clear();
        value.extend_from_slice(&word.to_le_bytes());
        value.extend_from_slice(&write.to_le_bytes());
        value.extend_from_slice(self.rest_of(word, write));
    }

    /// What comes behind a value's two words.
    fn rest_of(&self, word: u64, write: u64) -> &[u8] {
        // The uppermost bits depend on all of both.
        let mixed = word.wrapping_add(write.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let start = (mixed >> (u64::BITS - POOL_BITS)) as usize;
        &self.pool[start..start + self.bytes - LEAST_BYTES]
    }

    /// Whether a value may stand under a key: that of any write, whole.
    pub(super) fn is_right(&self, key: &[u8], value: &[u8]) -> bool {
        let Some((word, value)) = value.split_first_chunk() else {
            return false;
        };
        let Some((write, rest)) = value.split_first_chunk() else {
            return false;
        };
        let (word, write) = (u64::from_le_bytes(*word), u64::from_le_bytes(*write));
        word == value_of(key) && rest == self.rest_of(word, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_from_those_of_other_keys_and_sizes() {
        let (values, mut value, mut again) = (Values::new(100), Vec::new(), Vec::new());
        values.make(b"key", 1, &mut value);
        values.make(b"key", 2, &mut again);
        assert!(value != again && values.is_right(b"key", &value));
        assert!(values.is_right(b"key", &again) && !values.is_right(b"kez", &again));
        assert!(!values.is_right(b"key", &value[..99]));
        for at in 0..value.len() {
            let mut torn = value.clone();
            torn[at] ^= 1;
            assert!(!values.is_right(b"key", &torn), "byte {at}");
        }
    }
}
