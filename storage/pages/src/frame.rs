//! A page in shared memory, made of atomic words.
//!
//! An optimistic reader reads bytes that a writer may be changing, and [`racing`] says how either
//! does it. Only here, and in the kernels that [`View::shared_words`] hands words to, are bytes
//! read that may be changing, and only here are bytes written that may be being read.
//!
//! What a load returns may be torn. It is a fact only after [`StateWord::validate`] said so, which
//! has the fences that these loads lack.
//!
//! [`racing`]: crate::racing
//! [`StateWord::validate`]: crate::state::StateWord::validate

use std::cmp::Ordering;
use std::hint::assert_unchecked;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hedgerow_memory::prefetch_line;

use crate::racing::{Accesses, Here, WORD, are_within, word_of};
use crate::view::{LINE, View, ViewMut};
use crate::{Image, Restart};

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

    /// The words, of which the compiler knows how many there are.
    #[inline(always)]
    fn all(self) -> &'a [AtomicU64] {
        // SAFETY: `new` asserted it.
        unsafe { assert_unchecked(self.0.len() == PAGE / WORD) };
        self.0
    }

    /// Up to eight bytes at an offset, in the low bytes of the result; what is above them is
    /// anything.
    #[inline(always)]
    fn load(self, at: usize, size: usize) -> Result<u64, Restart> {
        self.check(at, size)?;
        Ok(Here::load(self.all(), at, size))
    }

    /// The words from an offset on, a multiple of eight.
    #[inline(always)]
    fn some_words<const N: usize>(self, at: usize) -> Result<&'a [AtomicU64; N], Restart> {
        let rest = self.all().get(at / WORD..).ok_or(Restart)?;
        rest.first_chunk().ok_or(Restart)
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
        if are_within(self.all(), at, bytes) {
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
        Here::read(self.all(), at, &mut array);
        Ok(array)
    }

    #[inline(always)]
    fn u8(self, at: usize) -> Result<u8, Restart> {
        self.load(at, 1).map(|word| word as u8)
    }

    #[inline(always)]
    fn u16(self, at: usize) -> Result<u16, Restart> {
        self.load(at, 2).map(|word| word as u16)
    }

    #[inline(always)]
    fn u32(self, at: usize) -> Result<u32, Restart> {
        self.load(at, 4).map(|word| word as u32)
    }

    #[inline(always)]
    fn u64(self, at: usize) -> Result<u64, Restart> {
        self.load(at, 8)
    }

    #[inline(always)]
    fn aligned_u16(self, at: usize) -> Result<u16, Restart> {
        debug_assert!(at.is_multiple_of(2));
        self.check(at, 2)?;
        Ok(Here::load_within_word(self.all(), at, 2) as u16)
    }

    #[inline(always)]
    fn aligned_u32(self, at: usize) -> Result<u32, Restart> {
        debug_assert!(at.is_multiple_of(4));
        self.check(at, 4)?;
        Ok(Here::load_within_word(self.all(), at, 4) as u32)
    }

    #[inline(always)]
    fn words<const N: usize>(self, at: usize) -> Result<[u64; N], Restart> {
        debug_assert!(at.is_multiple_of(WORD));
        let words = self.some_words::<N>(at)?;
        Ok(std::array::from_fn(|index| words[index].load(Relaxed)))
    }

    #[inline(always)]
    fn shared_words<'w, const N: usize>(
        self,
        at: usize,
    ) -> Result<Option<&'w [AtomicU64; N]>, Restart>
    where
        Self: 'w,
    {
        debug_assert!(at.is_multiple_of(WORD));
        self.some_words(at).map(Some)
    }

    #[inline]
    fn copy(self, at: usize, into: &mut [u8]) -> Result<(), Restart> {
        self.check(at, into.len())?;
        Here::read(self.all(), at, into);
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
        Here::read_few(self.all(), at, len, into);
        Ok(())
    }

    #[inline]
    fn compare(self, range: Range<usize>, other: &[u8]) -> Result<Ordering, Restart> {
        let len = range.end.checked_sub(range.start).ok_or(Restart)?;
        self.check(range.start, len)?;
        let (mut at, common) = (range.start, len.min(other.len()));
        let (words, rest) = other[..common].as_chunks::<WORD>();
        for word in words {
            let (mine, theirs) = (self.load(at, WORD)?, u64::from_le_bytes(*word));
            if mine != theirs {
                return Ok(mine.swap_bytes().cmp(&theirs.swap_bytes()));
            }
            at += WORD;
        }
        if !rest.is_empty() {
            let mine = self.load(at, rest.len())? & !(u64::MAX << (8 * rest.len()));
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
}

impl<const PAGE: usize> ViewMut<PAGE> for FrameMut<'_, PAGE> {
    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        Here::write(self.0.all(), at, bytes);
    }

    #[inline(always)]
    fn put_line(&mut self, at: usize, line: &[u8; LINE]) {
        let words = &self.0.all()[at / WORD..][..LINE / WORD];
        for (word, bytes) in words.iter().zip(line.as_chunks::<WORD>().0) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
    }

    #[inline]
    fn fill(&mut self, range: Range<usize>, byte: u8) {
        assert!(range.end <= PAGE, "a write beyond the page");
        let line = [byte; LINE];
        for at in range.clone().step_by(LINE) {
            self.put(at, &line[..LINE.min(range.end - at)]);
        }
    }

    #[inline]
    fn shift(&mut self, range: Range<usize>, to: usize) {
        Here::shift(self.0.all(), range.start, range.len(), to);
    }

    #[inline(always)]
    fn shift_up(&mut self, range: Range<usize>, by: usize) {
        let to = range.start.saturating_add(by);
        Here::shift(self.0.all(), range.start, range.len(), to);
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
