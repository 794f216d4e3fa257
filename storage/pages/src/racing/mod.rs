//! Bytes that another thread may be writing, or reading, at any offset of some words.
//!
//! In Rust (as in C++) to read what a writer may be changing is a data race unless both sides use
//! atomics, and atomics of one size. [`words`] does that: every access, whatever its size and
//! place, is a relaxed load or store of whole words, and a value that lies across two of them costs
//! two loads and shifts.
//!
//! The processor needs none of that: its loads and stores take any offset. On x86-64 the accesses
//! are therefore inline assembly, which the language treats as opaque: one instruction for up to
//! 16 bytes, and where many move upwards a loop of moves of 32, see [`unaligned`]. Assembly keeps
//! its order with fences and with other assembly, and x86-64 that of loads with loads and of stores
//! with stores, so that what validates and publishes versions orders these accesses as it does
//! relaxed ones.
//!
//! What a load returns may be torn in either case, between any two bytes, and is a fact only after
//! a version was validated.
//!
//! Miri and the sanitizers do not see into assembly. They run on words, as do other processors:
//! where `hedgerow_words` is set the crate is compiled for those.

#[cfg(all(target_arch = "x86_64", not(miri), any(not(hedgerow_words), test)))]
mod unaligned;
#[cfg(any(not(target_arch = "x86_64"), miri, hedgerow_words, test))]
mod words;

#[cfg(all(target_arch = "x86_64", not(miri), not(hedgerow_words)))]
pub(crate) use unaligned::Unaligned as Here;
#[cfg(any(not(target_arch = "x86_64"), miri, hedgerow_words))]
pub(crate) use words::Words as Here;

use std::sync::atomic::AtomicU64;

/// How such bytes are accessed. All panic where bytes do not lie within the words. Who writes has
/// the words for itself, but for readers.
pub(crate) trait Accesses {
    /// Up to eight bytes at an offset, in the low bytes of the result; what is above them is
    /// anything.
    fn load(words: &[AtomicU64], at: usize, size: usize) -> u64;

    /// The same of bytes that lie within one word.
    #[inline(always)]
    fn load_within_word(words: &[AtomicU64], at: usize, size: usize) -> u64 {
        Self::load(words, at, size)
    }

    /// Fills `into` with the bytes from an offset on.
    fn read(words: &[AtomicU64], at: usize, into: &mut [u8]);

    /// Fills the start of `into` with `len` bytes from an offset on, and maybe some beyond them
    /// with whatever.
    fn read_few<const N: usize>(words: &[AtomicU64], at: usize, len: usize, into: &mut [u8; N]);

    /// Writes bytes from an offset on.
    fn write(words: &[AtomicU64], at: usize, bytes: &[u8]);

    /// Moves `len` bytes, whose places before and after may overlap.
    fn shift(words: &[AtomicU64], from: usize, len: usize, to: usize);
}

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<AtomicU64>();

/// Whether some bytes from an offset on lie within words. No sum overflows: a slice is never longer
/// than half of the address space.
#[inline(always)]
pub(crate) fn are_within(words: &[AtomicU64], at: usize, bytes: usize) -> bool {
    let end = words.len() * WORD;
    at <= end && bytes <= end - at
}

/// One to eight bytes as the low bytes of a word; no call to copy them.
#[inline(always)]
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    if let Ok(word) = <[u8; WORD]>::try_from(bytes) {
        return u64::from_le_bytes(word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
        return high | u64::from(u32::from_le_bytes(*first));
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |&byte| u64::from(byte) << (8 * at));
    byte(0) | byte(1) | byte(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: usize = 24;
    const BYTES: usize = WORDS * WORD;

    /// A range of the words, often one that ends with them.
    fn range() -> impl Strategy<Value = (usize, usize)> {
        let some = (0..=BYTES, 0..=BYTES).prop_map(|(at, len)| (at, len.min(BYTES - at)));
        let few = (0..=BYTES, 0..=40_usize).prop_map(|(at, len)| (at, len.min(BYTES - at)));
        let last = (0..=40_usize).prop_map(|len| (BYTES - len, len));
        prop_oneof![some, few, last]
    }

    fn words_of(bytes: &[u8]) -> Vec<AtomicU64> {
        let (words, _) = bytes.as_chunks::<WORD>();
        words
            .iter()
            .map(|word| u64::from_le_bytes(*word).into())
            .collect()
    }

    fn bytes_of(words: &[AtomicU64]) -> Vec<u8> {
        let bytes = |word: &AtomicU64| word.load(std::sync::atomic::Ordering::Relaxed);
        words
            .iter()
            .flat_map(|word| bytes(word).to_le_bytes())
            .collect()
    }

    /// Tests that accesses are those of plain bytes.
    macro_rules! are_those_of_bytes {
        ($name:ident $accesses:ty) => {
            proptest! {
                #[test]
                fn $name(
                    bytes in prop::collection::vec(any::<u8>(), BYTES),
                    (at, len) in range(),
                    other in 0..=BYTES,
                    new in prop::collection::vec(any::<u8>(), BYTES),
                ) {
                    let words = words_of(&bytes);
                    let expected = &bytes[at..at + len];
                    let mut read = vec![0; len];
                    <$accesses>::read(&words, at, &mut read);
                    prop_assert_eq!(&read, expected);
                    if len <= 40 {
                        let mut few = [0; 40];
                        <$accesses>::read_few(&words, at, len, &mut few);
                        prop_assert_eq!(&few[..len], expected);
                    }
                    if (1..=WORD).contains(&len) {
                        let low = |word: u64| word.to_le_bytes()[..len].to_vec();
                        prop_assert_eq!(&low(<$accesses>::load(&words, at, len)), expected);
                        if at % WORD + len <= WORD {
                            let word = <$accesses>::load_within_word(&words, at, len);
                            prop_assert_eq!(&low(word), expected);
                        }
                        prop_assert_eq!(&low(word_of(expected)), expected);
                    }
                    let to = other.min(BYTES - len);
                    let mut moved = bytes.clone();
                    <$accesses>::shift(&words, at, len, to);
                    moved.copy_within(at..at + len, to);
                    prop_assert_eq!(bytes_of(&words), &*moved);
                    <$accesses>::write(&words, at, &new[..len]);
                    moved[at..at + len].copy_from_slice(&new[..len]);
                    prop_assert_eq!(bytes_of(&words), &*moved);
                }
            }
        };
    }

    are_those_of_bytes!(words_are_bytes words::Words);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    are_those_of_bytes!(assembly_accesses_bytes unaligned::Unaligned);
}
