//! Accesses by relaxed loads and stores of whole words, for any processor.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Accesses, WORD, are_within, word_of};

/// By relaxed loads and stores of whole words.
pub(crate) enum Words {}

impl Accesses for Words {
    #[inline(always)]
    fn load(words: &[AtomicU64], at: usize, size: usize) -> u64 {
        assert!(are_within(words, at, size), "a read beyond the words");
        let (index, shift) = (at / WORD, at % WORD * 8);
        let low = word(words, index.min(words.len() - 1)) >> shift;
        if size == 1 {
            return low;
        }
        // Whether the bytes lie across two words is as good as random: no branch on it. Those
        // at the end of the words do not. In two steps, since there is no shift by 64.
        let next = (index + 1).min(words.len() - 1);
        low | word(words, next) << 1 << (63 - shift)
    }

    #[inline(always)]
    fn load_within_word(words: &[AtomicU64], at: usize, size: usize) -> u64 {
        debug_assert!(at % WORD + size <= WORD);
        word(words, at / WORD) >> (at % WORD * 8)
    }

    #[inline(always)]
    fn read(words: &[AtomicU64], at: usize, into: &mut [u8]) {
        assert!(are_within(words, at, into.len()), "a read beyond the words");
        let (chunks, rest) = into.as_chunks_mut::<WORD>();
        let (index, shift) = (at / WORD, at % WORD * 8);
        // With a shift the last of them goes on in one more word.
        let end = index + chunks.len() + usize::from(shift > 0 && !chunks.is_empty());
        let from = &words[index..end];
        if shift == 0 {
            for (chunk, from) in chunks.iter_mut().zip(from) {
                *chunk = from.load(Relaxed).to_le_bytes();
            }
        } else if let Some((first, from)) = from.split_first() {
            let mut low = first.load(Relaxed);
            for (chunk, from) in chunks.iter_mut().zip(from) {
                let high = from.load(Relaxed);
                *chunk = (low >> shift | high << (64 - shift)).to_le_bytes();
                low = high;
            }
        }
        if !rest.is_empty() {
            let from = at + chunks.len() * WORD;
            put_word(Self::load(words, from, rest.len()), rest);
        }
    }

    #[inline(always)]
    fn read_few<const N: usize>(words: &[AtomicU64], at: usize, len: usize, into: &mut [u8; N]) {
        assert!(are_within(words, at, len), "a read beyond the words");
        let (mut index, shift) = (at / WORD, at % WORD * 8);
        let word = |index: usize| words.get(index).map_or(0, |word| word.load(Relaxed));
        let mut low = word(index);
        for into in &mut into.as_chunks_mut::<WORD>().0[..len.div_ceil(WORD)] {
            index += 1;
            let high = word(index);
            // In two steps, since there is no shift by 64.
            *into = (low >> shift | high << 1 << (63 - shift)).to_le_bytes();
            low = high;
        }
    }

    #[inline(always)]
    fn write(words: &[AtomicU64], at: usize, bytes: &[u8]) {
        assert!(
            are_within(words, at, bytes.len()),
            "a write beyond the words"
        );
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let (mut index, shift) = (at / WORD, at % WORD * 8);
        if shift == 0 {
            for (word, bytes) in words[index..].iter().zip(whole) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
        } else if !whole.is_empty() {
            // What a word gets from the bytes before it, or has.
            let below = !(u64::MAX << shift);
            let mut kept = word(words, index) & below;
            for bytes in whole {
                let bytes = u64::from_le_bytes(*bytes);
                words[index].store(kept | bytes << shift, Relaxed);
                kept = bytes >> (64 - shift);
                index += 1;
            }
            let last = word(words, index) & !below;
            words[index].store(kept | last, Relaxed);
        }
        if !rest.is_empty() {
            let at = at + bytes.len() - rest.len();
            let (value, size) = (word_of(rest), rest.len());
            let first = (WORD - at % WORD).min(size);
            store(words, at, value, first);
            if first < size {
                store(words, at + first, value >> (8 * first), size - first);
            }
        }
    }

    #[inline(always)]
    fn shift(words: &[AtomicU64], from: usize, len: usize, to: usize) {
        assert!(are_within(words, from, len), "a read beyond the words");
        assert!(are_within(words, to, len), "a write beyond the words");
        if len == 0 {
            return;
        }
        if to > from {
            shift_up(words, from, len, to);
        } else if to < from {
            shift_down(words, from, len, to);
        }
    }
}

/// The word at an index.
#[inline(always)]
fn word(words: &[AtomicU64], index: usize) -> u64 {
    words[index].load(Relaxed)
}

/// Writes some bytes that lie within one word.
#[inline(always)]
fn store(words: &[AtomicU64], at: usize, value: u64, size: usize) {
    let shift = at % WORD * 8;
    let mask = u64::MAX >> (64 - 8 * size) << shift;
    store_masked(words, at / WORD, value << shift, mask);
}

/// Stores those bits of a word that a mask has.
#[inline(always)]
fn store_masked(words: &[AtomicU64], index: usize, value: u64, mask: u64) {
    let word = &words[index];
    let kept = word.load(Relaxed) & !mask;
    word.store(kept | value & mask, Relaxed);
}

/// Moves `len` bytes upwards: the last first, so that each is read before it is overwritten.
///
/// Where the bytes begin and end within their words is as good as random: so the first word
/// and the last are always written in part, and no branch depends on more than how many words
/// there are. Each word is loaded once, and goes to the two that its bytes move to.
#[inline(always)]
fn shift_up(words: &[AtomicU64], from: usize, len: usize, to: usize) {
    let (apart, shift) = ((to - from) / WORD, (to - from) % WORD * 8);
    let (first, end) = (to / WORD, (to + len).div_ceil(WORD));
    if first <= apart {
        return shift_slowly(words, from, len, to);
    }
    // No shift is one by 64 bits, which there is not.
    let moved = |low: u64, high: u64| match shift {
        0 => high,
        _ => high << shift | low >> (64 - shift),
    };
    let (below, beyond) = parts(to, to + len);
    let (last, source) = (end - 1, first - apart);
    let mut high = word(words, last - apart);
    let low = word(words, last - apart - 1);
    if first == last {
        return store_masked(words, first, moved(low, high), below & beyond);
    }
    store_masked(words, last, moved(low, high), beyond);
    high = low;
    let between = &words[first + 1..last];
    let sources = &words[source..][..between.len()];
    for (word, source) in between.iter().zip(sources).rev() {
        let low = source.load(Relaxed);
        word.store(moved(low, high), Relaxed);
        high = low;
    }
    let low = word(words, source - 1);
    store_masked(words, first, moved(low, high), below);
}

/// Moves `len` bytes downwards, the first first, as [`shift_up`] does.
#[inline(always)]
fn shift_down(words: &[AtomicU64], from: usize, len: usize, to: usize) {
    let (apart, shift) = ((from - to) / WORD, (from - to) % WORD * 8);
    let (first, end) = (to / WORD, (to + len).div_ceil(WORD));
    if end + apart >= words.len() {
        return shift_slowly(words, from, len, to);
    }
    let moved = |low: u64, high: u64| match shift {
        0 => low,
        _ => low >> shift | high << (64 - shift),
    };
    let (below, beyond) = parts(to, to + len);
    let (last, source) = (end - 1, first + apart);
    let mut low = word(words, source);
    let high = word(words, source + 1);
    if first == last {
        return store_masked(words, first, moved(low, high), below & beyond);
    }
    store_masked(words, first, moved(low, high), below);
    low = high;
    let between = &words[first + 1..last];
    let sources = &words[source + 2..][..between.len()];
    for (word, source) in between.iter().zip(sources) {
        let high = source.load(Relaxed);
        word.store(moved(low, high), Relaxed);
        low = high;
    }
    let high = word(words, last + apart + 1);
    store_masked(words, last, moved(low, high), beyond);
}

/// Moves bytes at the ends of the words, where whole words cannot be read around them: by a copy.
#[cold]
fn shift_slowly(words: &[AtomicU64], from: usize, len: usize, to: usize) {
    let mut copy = vec![0; len];
    Words::read(words, from, &mut copy);
    Words::write(words, to, &copy);
}

/// Of the words in which bytes begin and end, the part that is theirs.
#[inline(always)]
fn parts(start: usize, end: usize) -> (u64, u64) {
    let before_start = start % WORD * 8;
    let behind_end = (WORD - end % WORD) % WORD * 8;
    (u64::MAX << before_start, u64::MAX >> behind_end)
}

/// Makes one to seven bytes the low bytes of a word; no call to copy them.
#[inline(always)]
fn put_word(word: u64, into: &mut [u8]) {
    if into.len() >= 4 {
        let beyond = 8 * (into.len() - 4);
        if let Some(first) = into.first_chunk_mut::<4>() {
            *first = (word as u32).to_le_bytes();
        }
        if let Some(last) = into.last_chunk_mut::<4>() {
            *last = ((word >> beyond) as u32).to_le_bytes();
        }
        return;
    }
    for (byte, from) in into.iter_mut().zip(word.to_le_bytes()) {
        *byte = from;
    }
}
