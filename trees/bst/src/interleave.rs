//! Lookups that wait for their cache misses together.
//!
//! A lookup in a binary tree is a chain of cache misses. `get_many` keeps several lookups under
//! way: each goes one node down, prefetches the next, and the next lookup goes on meanwhile.

use std::array;

use hedgerow_memory::prefetch_line;

/// How many lookups are under way at once: about as many misses as a core waits for together.
const UNDER_WAY: usize = 16;

/// What a step of a lookup led to.
pub(crate) enum Step {
    /// The next node is being prefetched.
    Pending,
    /// The key has this word, or is absent.
    Found(Option<u64>),
}

/// Asks for the line or the two lines of the fields `S` at an address, for nodes that are not
/// aligned to what their fields take.
#[inline(always)]
pub(crate) fn prefetch_fields<S>(address: usize) {
    prefetch_line(address as *const u8);
    prefetch_line((address + size_of::<S>() - 1) as *const u8);
}

/// Looks up all `keys`: `start` begins the lookup of one, `step` takes it one node further; `read`
/// gets the answers with the keys' places, in no particular order.
#[inline]
pub(crate) fn interleave<K: Copy, L>(
    keys: &[K],
    mut start: impl FnMut(K) -> L,
    mut step: impl FnMut(&mut L) -> Step,
    mut read: impl FnMut(usize, Option<u64>),
) {
    let mut waiting = keys.iter().copied().enumerate();
    let mut next = || waiting.next().map(|(at, key)| (at, start(key)));
    let mut lookups: [Option<(usize, L)>; UNDER_WAY] = array::from_fn(|_| next());
    let mut left = lookups.iter().flatten().count();
    while left > 0 {
        for slot in &mut lookups {
            let Some((at, lookup)) = slot else { continue };
            if let Step::Found(word) = step(lookup) {
                read(*at, word);
                *slot = next();
                left -= usize::from(slot.is_none());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_answered_once() {
        for count in [0, 1, 15, 16, 17, 100] {
            let keys: Vec<u64> = (0..count).collect();
            let mut answers = vec![Vec::new(); keys.len()];
            let step = |left: &mut (u64, u64)| match left.1 {
                0 => Step::Found((!left.0.is_multiple_of(3)).then_some(left.0)),
                _ => {
                    left.1 -= 1;
                    Step::Pending
                }
            };
            let read = |at: usize, word| answers[at].push(word);
            interleave(&keys, |key| (key, key % 7), step, read);
            for (at, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer, [(!at.is_multiple_of(3)).then_some(at as u64)]);
            }
        }
    }
}
