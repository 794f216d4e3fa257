//! Search among eight or sixteen 32-bit integers that a caller has loaded by words, as from a page
//! that others may be changing: no branch that they decide, and no instruction that some x86-64
//! processor lacks, so that nobody has to enter a [`Level`](crate::Level) first.

/// A bit for each integer below `key`, the first one's lowest. Words have two integers each, the
/// first in the lower half; there are four words or eight.
#[inline(always)]
pub fn below_32<const WORDS: usize>(pairs: [u64; WORDS], key: u32) -> u32 {
    const {
        assert!(WORDS == 4 || WORDS == 8, "eight integers, or sixteen");
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{
            _mm_cmplt_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi64x,
            _mm_set1_epi32, _mm_setzero_si128, _mm_xor_si128,
        };
        // SAFETY: every x86-64 processor has SSE2.
        unsafe {
            // Lanes are compared as signed numbers, whose order that of flipped ones is.
            let flip = _mm_set1_epi32(i32::MIN);
            let key = _mm_set1_epi32((key ^ (1 << 31)) as i32);
            let four = |first: usize| {
                let lanes = _mm_set_epi64x(pairs[first + 1] as i64, pairs[first] as i64);
                _mm_cmplt_epi32(_mm_xor_si128(lanes, flip), key)
            };
            let low = _mm_packs_epi32(four(0), four(2));
            let high = if WORDS == 8 {
                _mm_packs_epi32(four(4), four(6))
            } else {
                _mm_setzero_si128()
            };
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        mask_of(pairs, |integer| integer < key)
    }
}

/// A bit for each integer that has a property.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
#[inline(always)]
fn mask_of<const WORDS: usize>(pairs: [u64; WORDS], has: impl Fn(u32) -> bool) -> u32 {
    let mut mask = 0;
    for (word, lane) in pairs.into_iter().zip((0..).step_by(2)) {
        mask |= u32::from(has(word as u32)) << lane;
        mask |= u32::from(has((word >> 32) as u32)) << (lane + 1);
    }
    mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn integer() -> impl Strategy<Value = u32> {
        prop_oneof![
            0_u32..3,
            any::<u32>(),
            (0_u32..3).prop_map(|x| u32::MAX - x),
            (0_u32..4).prop_map(|x| (1 << 31) - 2 + x),
        ]
    }

    proptest! {
        #[test]
        fn vectors_say_what_integers_one_by_one_do(
            integers in proptest::array::uniform16(integer()),
            other in integer(),
            choose in 0..16_usize,
        ) {
            let pairs: [u64; 8] = std::array::from_fn(|word| {
                u64::from(integers[2 * word]) | u64::from(integers[2 * word + 1]) << 32
            });
            for key in [other, integers[choose]] {
                prop_assert_eq!(below_32(pairs, key), mask_of(pairs, |integer| integer < key));
                let few: [u64; 4] = *pairs.first_chunk().expect("four of eight");
                prop_assert_eq!(below_32(few, key), mask_of(few, |integer| integer < key));
            }
        }
    }
}
