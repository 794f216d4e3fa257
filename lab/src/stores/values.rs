//! The values of records: no two alike, incompressible, and to be told right from wrong.
//!
//! The first 8 bytes depend on the key alone, so that every read can be checked however threads
//! interleave; the next 8 differ from write to write; the rest comes from anywhere in a mebibyte
//! of random bytes, so that engines that compress gain nothing that others do not.

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::random::Random;

/// The smallest value: the two words.
pub(super) const LEAST_BYTES: usize = 16;

const POOL_BYTES: usize = 1 << 20;

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
        let start = word.wrapping_add(write.wrapping_mul(4099)) as usize % POOL_BYTES;
        value.clear();
        value.extend_from_slice(&word.to_le_bytes());
        value.extend_from_slice(&write.to_le_bytes());
        value.extend_from_slice(&self.pool[start..start + self.bytes - LEAST_BYTES]);
    }

    /// Whether a value may stand under a key.
    pub(super) fn is_right(&self, key: &[u8], value: &[u8]) -> bool {
        value.len() == self.bytes && value.starts_with(&value_of(key).to_le_bytes())
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
    }
}
