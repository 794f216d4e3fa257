//! A page in shared memory, as the atomic words it is made of.
//!
//! An optimistic reader reads bytes that a writer may be changing. In Rust (as in C++) that is a
//! data race unless both sides use atomics, and atomics of one size: so a frame is an array of
//! 64-bit words, and every access of either side, whatever its size and place, is a relaxed load
//! or store of whole words. On the processor these are plain loads and shifts; a value of two bytes
//! and more costs two loads, unless its place is one where it cannot lie across two words. This is
//! the one place where bytes that may be changing are read, and where bytes that may be being read
//! are written.
//!
//! What a load returns may be torn. It is a fact only after [`StateWord::validate`] said so, which
//! has the fences that relaxed loads lack.
//!
//! [`StateWord::validate`]: crate::state::StateWord::validate

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hedgerow_memory::prefetch_line;

use crate::view::{LINE, View, ViewMut};
use crate::{Image, Restart};

const WORD: usize = 8;

/// A page that others may be changing.
#[derive(Clone, Copy)]
pub struct Frame<'a, const PAGE: usize>(&'a [AtomicU64]);

impl<'a, const PAGE: usize> Frame<'a, PAGE> {
    /// A frame of `PAGE / 8` words.
    ///
    /// # Panics
    ///
    /// With any other number of words.
    #[inline(always)]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() * WORD == PAGE);
        Self(words)
    }

    /// The word at an index within the page.
    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    /// Up to eight bytes at an offset, in the low bytes of the result; what is above them is
    /// anything. They lie within the page.
    #[inline(always)]
    fn load(self, at: usize, size: usize) -> u64 {
        let (index, shift) = (at / WORD, at % WORD * 8);
        let low = self.word(index) >> shift;
        if size == 1 {
            return low;
        }
        // Whether the bytes lie across two words is as good as random: no branch on it. Those at
        // the end of the page do not. In two steps, since there is no shift by 64.
        let next = (index + 1).min(PAGE / WORD - 1);
        low | self.word(next) << 1 << (63 - shift)
    }

    /// The bytes at an offset up to the end of their word, in the low bytes of the result.
    #[inline(always)]
    fn within_word(self, at: usize) -> Result<u64, Restart> {
        let word = self.0.get(at / WORD).ok_or(Restart)?;
        Ok(word.load(Relaxed) >> (at % WORD * 8))
    }

    /// The whole page, copied word by word.
    pub fn read(self, into: &mut [u8; PAGE]) {
        let (chunks, _) = into.as_chunks_mut::<WORD>();
        for (word, chunk) in self.0.iter().zip(chunks) {
            *chunk = word.load(Relaxed).to_le_bytes();
        }
    }

    /// Overwrites the whole page, word by word. The caller has the page for itself.
    pub fn write(self, from: &[u8; PAGE]) {
        let (chunks, _) = from.as_chunks::<WORD>();
        for (word, chunk) in self.0.iter().zip(chunks) {
            word.store(u64::from_le_bytes(*chunk), Relaxed);
        }
    }

    #[inline(always)]
    fn check(self, at: usize, bytes: usize) -> Result<(), Restart> {
        // No overflow: a slice is never longer than half of the address space.
        if at <= PAGE && bytes <= PAGE - at {
            Ok(())
        } else {
            Err(Restart)
        }
    }
}

impl<const PAGE: usize> View for Frame<'_, PAGE> {
    const BY_WORDS: bool = true;

    #[inline(always)]
    fn page_bytes(self) -> usize {
        PAGE
    }

    #[inline(always)]
    fn prefetch(self, at: usize) {
        prefetch_line(self.0.as_ptr().wrapping_byte_add(at));
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Restart> {
        self.check(at, N)?;
        let mut array = [0; N];
        let (mut from, mut left) = (at, &mut array[..]);
        while left.len() > WORD {
            let (now, rest) = left.split_at_mut(WORD);
            now.copy_from_slice(&self.load(from, WORD).to_le_bytes());
            (from, left) = (from + WORD, rest);
        }
        let bytes = self.load(from, left.len()).to_le_bytes();
        left.copy_from_slice(&bytes[..left.len()]);
        Ok(array)
    }

    #[inline(always)]
    fn aligned_u16(self, at: usize) -> Result<u16, Restart> {
        debug_assert!(at.is_multiple_of(2));
        self.within_word(at).map(|word| word as u16)
    }

    #[inline(always)]
    fn aligned_u32(self, at: usize) -> Result<u32, Restart> {
        debug_assert!(at.is_multiple_of(4));
        self.within_word(at).map(|word| word as u32)
    }

    #[inline(always)]
    fn words<const N: usize>(self, at: usize) -> Result<[u64; N], Restart> {
        debug_assert!(at.is_multiple_of(WORD));
        let rest = self.0.get(at / WORD..).ok_or(Restart)?;
        let words: &[AtomicU64; N] = rest.first_chunk().ok_or(Restart)?;
        Ok(std::array::from_fn(|index| words[index].load(Relaxed)))
    }

    #[inline]
    fn copy(self, at: usize, into: &mut [u8]) -> Result<(), Restart> {
        self.check(at, into.len())?;
        let (words, rest) = into.as_chunks_mut::<WORD>();
        let (index, shift) = (at / WORD, at % WORD * 8);
        // With a shift the last of them goes on in one more word.
        let from =
            &self.0[index..index + words.len() + usize::from(shift > 0 && !words.is_empty())];
        if shift == 0 {
            for (word, from) in words.iter_mut().zip(from) {
                *word = from.load(Relaxed).to_le_bytes();
            }
        } else if let Some((first, from)) = from.split_first() {
            let mut low = first.load(Relaxed);
            for (word, from) in words.iter_mut().zip(from) {
                let high = from.load(Relaxed);
                *word = (low >> shift | high << (64 - shift)).to_le_bytes();
                low = high;
            }
        }
        if !rest.is_empty() {
            let from = at + words.len() * WORD;
            put_word(self.load(from, rest.len()), rest);
        }
        Ok(())
    }

    #[inline(always)]
    fn copy_few<const N: usize>(
        self,
        at: usize,
        len: usize,
        into: &mut [u8; N],
    ) -> Result<(), Restart> {
        const {
            assert!(N.is_multiple_of(WORD), "whole words");
        }
        self.check(at, len)?;
        let (words, _) = into.as_chunks_mut::<WORD>();
        let (mut index, shift) = (at / WORD, at % WORD * 8);
        let word = |index: usize| self.0.get(index).map_or(0, |word| word.load(Relaxed));
        let mut low = word(index);
        for into in &mut words[..len.div_ceil(WORD)] {
            index += 1;
            let high = word(index);
            // In two steps, since there is no shift by 64.
            *into = (low >> shift | high << 1 << (63 - shift)).to_le_bytes();
            low = high;
        }
        Ok(())
    }

    #[inline]
    fn compare(self, range: Range<usize>, other: &[u8]) -> Result<Ordering, Restart> {
        let len = range.end.checked_sub(range.start).ok_or(Restart)?;
        self.check(range.start, len)?;
        let (mut at, common) = (range.start, len.min(other.len()));
        let (words, rest) = other[..common].as_chunks::<WORD>();
        for word in words {
            let (mine, theirs) = (self.load(at, WORD), u64::from_le_bytes(*word));
            if mine != theirs {
                return Ok(mine.swap_bytes().cmp(&theirs.swap_bytes()));
            }
            at += WORD;
        }
        if !rest.is_empty() {
            let mine = self.load(at, rest.len()) & !(u64::MAX << (8 * rest.len()));
            let theirs = word_of(rest);
            if mine != theirs {
                return Ok(mine.swap_bytes().cmp(&theirs.swap_bytes()));
            }
        }
        Ok(len.cmp(&other.len()))
    }
}

/// A page that others may be reading, to be changed by the thread that has its latch.
pub struct FrameMut<'a, const PAGE: usize>(Frame<'a, PAGE>);

impl<'a, const PAGE: usize> FrameMut<'a, PAGE> {
    /// The frame of a page that the caller has for itself.
    ///
    /// # Safety
    ///
    /// The words begin at a multiple of 64. While the result lives nobody else writes to them, and
    /// nobody else reads them but through a [`Frame`].
    #[inline(always)]
    pub unsafe fn new(frame: Frame<'a, PAGE>) -> Self {
        Self(frame)
    }

    /// Writes up to eight bytes that lie within one word.
    #[inline(always)]
    fn store(&mut self, at: usize, value: u64, size: usize) {
        let (word, shift) = (&self.0.0[at / WORD], at % WORD * 8);
        if size == WORD {
            return word.store(value, Relaxed);
        }
        let mask = !(u64::MAX << (size * 8));
        let kept = word.load(Relaxed) & !(mask << shift);
        word.store(kept | (value & mask) << shift, Relaxed);
    }

    /// Writes one to eight bytes, which may lie across two words.
    #[inline(always)]
    fn store_across(&mut self, at: usize, value: u64, size: usize) {
        let first = (WORD - at % WORD).min(size);
        self.store(at, value, first);
        if first < size {
            self.store(at + first, value >> (8 * first), size - first);
        }
    }

    /// Writes `len` bytes at an offset, at most a word at a time and upwards; `next(i, n)` gives
    /// the `n` bytes from the `i`-th on.
    #[inline(always)]
    fn store_up(
        &mut self,
        at: usize,
        len: usize,
        mut next: impl FnMut(Frame<'a, PAGE>, usize, usize) -> u64,
    ) {
        assert!(at <= PAGE && len <= PAGE - at, "a write beyond the page");
        let mut done = 0;
        while done < len {
            let size = (WORD - (at + done) % WORD).min(len - done);
            let value = next(self.0, done, size);
            self.store(at + done, value, size);
            done += size;
        }
    }

    /// Stores those bits of a word of the page that a mask has.
    #[inline(always)]
    fn store_masked(&mut self, index: usize, value: u64, mask: u64) {
        let word = &self.0.0[index];
        let kept = word.load(Relaxed) & !mask;
        word.store(kept | value & mask, Relaxed);
    }

    /// Moves `len` bytes upwards: the last first, so that each is read before it is overwritten.
    ///
    /// Where the bytes begin and end within their words is as good as random: so the first word
    /// and the last are always written in part, and no branch depends on more than how many words
    /// there are. Each word is loaded once, and goes to the two that its bytes move to.
    #[inline(always)]
    fn move_up(&mut self, from: usize, len: usize, to: usize) {
        let (words, shift) = ((to - from) / WORD, (to - from) % WORD * 8);
        let (first, end) = (to / WORD, (to + len).div_ceil(WORD));
        if len == 0 {
            return;
        }
        if first <= words {
            return self.move_slowly(from, len, to);
        }
        // No shift is one by 64 bits, which there is not.
        let moved = |low: u64, high: u64| match shift {
            0 => high,
            _ => high << shift | low >> (64 - shift),
        };
        let (below, beyond) = parts(to, to + len);
        let (last, source) = (end - 1, first - words);
        let mut high = self.0.word(last - words);
        let low = self.0.word(last - words - 1);
        if first == last {
            return self.store_masked(first, moved(low, high), below & beyond);
        }
        self.store_masked(last, moved(low, high), beyond);
        high = low;
        let between = &self.0.0[first + 1..last];
        let sources = &self.0.0[source..][..between.len()];
        for (word, source) in between.iter().zip(sources).rev() {
            let low = source.load(Relaxed);
            word.store(moved(low, high), Relaxed);
            high = low;
        }
        let low = self.0.word(source - 1);
        self.store_masked(first, moved(low, high), below);
    }

    /// Moves `len` bytes downwards, the first first, as [`move_up`](Self::move_up) does.
    #[inline(always)]
    fn move_down(&mut self, from: usize, len: usize, to: usize) {
        let (words, shift) = ((from - to) / WORD, (from - to) % WORD * 8);
        let (first, end) = (to / WORD, (to + len).div_ceil(WORD));
        if len == 0 {
            return;
        }
        if end + words >= PAGE / WORD {
            return self.move_slowly(from, len, to);
        }
        let moved = |low: u64, high: u64| match shift {
            0 => low,
            _ => low >> shift | high << (64 - shift),
        };
        let (below, beyond) = parts(to, to + len);
        let (last, source) = (end - 1, first + words);
        let mut low = self.0.word(source);
        let high = self.0.word(source + 1);
        if first == last {
            return self.store_masked(first, moved(low, high), below & beyond);
        }
        self.store_masked(first, moved(low, high), below);
        low = high;
        let between = &self.0.0[first + 1..last];
        let sources = &self.0.0[source + 2..][..between.len()];
        for (word, source) in between.iter().zip(sources) {
            let high = source.load(Relaxed);
            word.store(moved(low, high), Relaxed);
            low = high;
        }
        let high = self.0.word(last + words + 1);
        self.store_masked(last, moved(low, high), beyond);
    }

    /// Moves bytes at the ends of the page, where whole words cannot be read around them: by a
    /// copy.
    #[cold]
    fn move_slowly(&mut self, from: usize, len: usize, to: usize) {
        let copy = self.image().bytes()[from..from + len].to_vec();
        self.put(to, &copy);
    }
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

/// One to eight bytes as the low bytes of a word; no call to copy them.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u64 {
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

impl<const PAGE: usize> ViewMut<PAGE> for FrameMut<'_, PAGE> {
    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at <= PAGE && bytes.len() <= PAGE - at,
            "a write beyond the page"
        );
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let (mut index, shift) = (at / WORD, at % WORD * 8);
        if shift == 0 {
            for (word, bytes) in self.0.0[index..].iter().zip(whole) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
        } else if !whole.is_empty() {
            // What a word gets from the bytes before it, or has.
            let below = !(u64::MAX << shift);
            let mut kept = self.0.word(index) & below;
            for bytes in whole {
                let bytes = u64::from_le_bytes(*bytes);
                self.0.0[index].store(kept | bytes << shift, Relaxed);
                kept = bytes >> (64 - shift);
                index += 1;
            }
            let last = self.0.word(index) & !below;
            self.0.0[index].store(kept | last, Relaxed);
        }
        if !rest.is_empty() {
            self.store_across(at + bytes.len() - rest.len(), word_of(rest), rest.len());
        }
    }

    #[inline(always)]
    fn put_line(&mut self, at: usize, line: &[u8; LINE]) {
        let words = &self.0.0[at / WORD..][..LINE / WORD];
        for (word, bytes) in words.iter().zip(line.as_chunks::<WORD>().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    #[inline]
    fn fill(&mut self, range: Range<usize>, byte: u8) {
        let word = u64::from_le_bytes([byte; WORD]);
        self.store_up(range.start, range.len(), |_, _, _| word);
    }

    #[inline]
    fn shift(&mut self, range: Range<usize>, to: usize) {
        let (from, len) = (range.start, range.len());
        assert!(from <= PAGE && len <= PAGE - from, "a read beyond the page");
        assert!(to <= PAGE && len <= PAGE - to, "a write beyond the page");
        if to > from {
            self.move_up(from, len, to);
        } else if to < from {
            self.move_down(from, len, to);
        }
    }

    #[inline(always)]
    fn shift_up(&mut self, range: Range<usize>, by: usize) {
        let (from, len) = (range.start, range.len());
        assert!(from <= PAGE && len <= PAGE - from, "a read beyond the page");
        assert!(by <= PAGE - from - len, "a write beyond the page");
        if by > 0 {
            self.move_up(from, len, from + by);
        }
    }

    #[inline(always)]
    fn image(&self) -> &Image<PAGE> {
        let words: *const AtomicU64 = self.0.0.as_ptr();
        // SAFETY: the words are PAGE bytes (`Frame::new`) and aligned (`FrameMut::new`), and any
        // bytes are an image. The only writer is whoever has this `FrameMut` (`FrameMut::new`),
        // and its writes need it mutably while the result borrows it.
        unsafe { &*words.cast::<Image<PAGE>>() }
    }
}
