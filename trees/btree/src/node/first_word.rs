//! The first bytes of a key as a number that compares as they do.
//!
//! Heads, digests and comparisons of short tails are made of such numbers. Keys lie at any address
//! and end where other memory begins, so none of these reads beyond a key: of a short one they read
//! its first bytes and its last, which overlap, and shift those to their places.

/// The first eight bytes of a key, padded with zeros, as a number that compares as they do.
#[inline(always)]
pub(crate) fn first_word(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => short_word(key),
    }
}

/// What [`first_word`] says of a key without its first `at` bytes, of which it has that many.
#[inline(always)]
pub(crate) fn first_word_from(key: &[u8], at: usize) -> u64 {
    debug_assert!(at <= key.len());
    let Some(last) = key.len().checked_sub(8) else {
        return short_word(&key[at..]);
    };
    // Whether eight bytes are left is as good as random, so no branch depends on it.
    let from = at.min(last);
    let bytes = key[from..].first_chunk().expect("eight bytes at the last");
    // In two steps, since there is no shift by 64.
    let half = 4 * (at - from);
    u64::from_be_bytes(*bytes) << half << half
}

/// Up to seven bytes, padded with zeros, by two loads that may overlap.
#[inline(always)]
fn short_word(key: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let high = u64::from(u32::from_be_bytes(*first)) << 32;
        let low = u64::from(u32::from_be_bytes(*last)) << 32;
        return high | low >> (8 * (key.len() - 4));
    }
    if let (Some(first), Some(last)) = (key.first_chunk::<2>(), key.last_chunk::<2>()) {
        let high = u64::from(u16::from_be_bytes(*first)) << 48;
        let low = u64::from(u16::from_be_bytes(*last)) << 48;
        return high | low >> (8 * (key.len() - 2));
    }
    key.first().map_or(0, |&byte| u64::from(byte) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_first_bytes_and_then_zeros() {
        let key: Vec<u8> = (1..=20).collect();
        for len in 0..=key.len() {
            for at in 0..=len {
                let mut expected = [0; 8];
                let most = (len - at).min(8);
                expected[..most].copy_from_slice(&key[at..at + most]);
                let expected = u64::from_be_bytes(expected);
                assert_eq!(first_word(&key[at..len]), expected, "{at}..{len}");
                assert_eq!(first_word_from(&key[..len], at), expected, "{at}..{len}");
            }
        }
    }
}
