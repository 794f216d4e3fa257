//! Views: a page's bytes as a tree reads and writes them.
//!
//! Code that searches a page is written once, against [`View`], and compiled for each kind of
//! access: a plain reference to bytes that nobody changes meanwhile ([`Image`]), or the words of
//! a page that another thread may be changing ([`Frame`](crate::Frame)). In the latter, nothing
//! that was read is true before the page's version was validated, so an offset found in the page
//! may point anywhere: a load out of bounds is then an ordinary [`Restart`].
//!
//! All integers are little-endian, and any offset may be unaligned.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use hedgerow_memory::prefetch_line;

use crate::Restart;

/// A page's bytes, to be read.
pub trait View: Copy {
    /// Whether bytes are loaded a word at a time at most, as others may be changing them: many that
    /// lie together cost as many loads then, where plain bytes take one vector's.
    const BY_WORDS: bool = false;

    /// The page's size in bytes.
    fn page_bytes(self) -> usize;

    /// `N` bytes at `at`.
    ///
    /// # Errors
    ///
    /// [`Restart`] when they are not within the page and the page may be changing. On a page that
    /// cannot be changing that is a broken invariant of the caller: a panic, as with a slice. The
    /// same goes for all methods.
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Restart>;

    /// Asks for the cache line at `at`, which will be read soon. A hint: an offset beyond the page
    /// does no harm.
    #[inline(always)]
    fn prefetch(self, at: usize) {
        let _ = at;
    }

    /// The byte at `at`.
    #[inline(always)]
    fn u8(self, at: usize) -> Result<u8, Restart> {
        Ok(self.array::<1>(at)?[0])
    }

    /// The two-byte integer at `at`.
    #[inline(always)]
    fn u16(self, at: usize) -> Result<u16, Restart> {
        Ok(u16::from_le_bytes(self.array(at)?))
    }

    /// The four-byte integer at `at`.
    #[inline(always)]
    fn u32(self, at: usize) -> Result<u32, Restart> {
        Ok(u32::from_le_bytes(self.array(at)?))
    }

    /// The eight-byte integer at `at`.
    #[inline(always)]
    fn u64(self, at: usize) -> Result<u64, Restart> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }

    /// The two-byte integer at `at`, a multiple of two.
    #[inline(always)]
    fn aligned_u16(self, at: usize) -> Result<u16, Restart> {
        self.u16(at)
    }

    /// The four-byte integer at `at`, a multiple of four.
    #[inline(always)]
    fn aligned_u32(self, at: usize) -> Result<u32, Restart> {
        self.u32(at)
    }

    /// `N` eight-byte integers from `at` on, a multiple of eight.
    #[inline(always)]
    fn words<const N: usize>(self, at: usize) -> Result<[u64; N], Restart> {
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = self.u64(at + 8 * index)?;
        }
        Ok(words)
    }

    /// The words of a page that others may be changing, from `at` on, a multiple of eight; `None`
    /// of plain bytes.
    #[inline(always)]
    fn shared_words<'a, const N: usize>(
        self,
        at: usize,
    ) -> Result<Option<&'a [AtomicU64; N]>, Restart>
    where
        Self: 'a,
    {
        let _ = at;
        Ok(None)
    }

    /// Fills `into` with the bytes from `at` on.
    fn copy(self, at: usize, into: &mut [u8]) -> Result<(), Restart>;

    /// Fills the start of `into` with `len` bytes from `at` on, and maybe some beyond them with
    /// whatever: quicker than [`copy`](Self::copy) for a few. `len` is no more than `into` has.
    #[inline(always)]
    fn copy_few<const N: usize>(
        self,
        at: usize,
        len: usize,
        into: &mut [u8; N],
    ) -> Result<(), Restart> {
        self.copy(at, &mut into[..len])
    }

    /// Appends a range of the page to `into`.
    #[inline]
    fn append(self, range: Range<usize>, into: &mut Vec<u8>) -> Result<(), Restart> {
        if range.start > range.end || range.end > self.page_bytes() {
            return Err(Restart);
        }
        let before = into.len();
        into.resize(before + range.len(), 0);
        self.copy(range.start, &mut into[before..])
    }

    /// Compares a range of the page with `other`, as byte strings.
    fn compare(self, range: Range<usize>, other: &[u8]) -> Result<Ordering, Restart>;
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Whether two lines are the same. The comparison of arrays of this length is a call.
#[inline(always)]
fn same(one: &[u8; LINE], other: &[u8; LINE]) -> bool {
    let ((one, _), (other, _)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let differing =
        |(one, other): (&[u8; 8], &[u8; 8])| u64::from_ne_bytes(*one) ^ u64::from_ne_bytes(*other);
    one.iter()
        .zip(other)
        .map(differing)
        .fold(0, std::ops::BitOr::bitor)
        == 0
}

/// A page's bytes, to be read and written by the one thread that may.
pub trait ViewMut<const PAGE: usize> {
    /// Writes bytes from `at` on.
    ///
    /// # Panics
    ///
    /// When they would not lie within the page: the writer has the page for itself, so its
    /// offsets are true. The same goes for all methods.
    fn put(&mut self, at: usize, bytes: &[u8]);

    /// Writes a byte.
    #[inline(always)]
    fn put_u8(&mut self, at: usize, value: u8) {
        self.put(at, &[value]);
    }

    /// Writes a two-byte integer.
    #[inline(always)]
    fn put_u16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    /// Writes a four-byte integer.
    #[inline(always)]
    fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    /// Writes an eight-byte integer.
    #[inline(always)]
    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    /// Fills a range with one byte.
    fn fill(&mut self, range: Range<usize>, byte: u8);

    /// Moves a range of the page to `to`; the two may overlap.
    fn shift(&mut self, range: Range<usize>, to: usize);

    /// Moves a range of the page upwards by so many bytes. Compiled with its caller, for a distance
    /// that is a constant there.
    #[inline(always)]
    fn shift_up(&mut self, range: Range<usize>, by: usize) {
        let to = range.start + by;
        self.shift(range, to);
    }

    /// Writes a line, which begins at a multiple of its length.
    #[inline(always)]
    fn put_line(&mut self, at: usize, line: &[u8; LINE]) {
        self.put(at, line);
    }

    /// Makes the lines that a range touches those of another page. Only lines that differ are
    /// written: optimistic readers keep the others in their caches.
    #[inline]
    fn take_lines(&mut self, range: Range<usize>, from: &Image<PAGE>) {
        if range.is_empty() {
            return;
        }
        for at in (range.start / LINE * LINE..range.end).step_by(LINE) {
            let line: &[u8; LINE] = from.bytes()[at..].first_chunk().expect("whole lines");
            let old: &[u8; LINE] = self.image().bytes()[at..]
                .first_chunk()
                .expect("whole lines");
            if !same(old, line) {
                self.put_line(at, line);
            }
        }
    }

    /// The page as it is now, for the writer's own reading.
    fn image(&self) -> &Image<PAGE>;
}

/// The bytes of one page that nobody changes while they are borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Image<const PAGE: usize>([u8; PAGE]);

impl<const PAGE: usize> Image<PAGE> {
    /// A page of zeros.
    #[must_use]
    pub const fn zeroed() -> Self {
        Self([0; PAGE])
    }

    /// The bytes.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self) -> &[u8; PAGE] {
        &self.0
    }

    /// The bytes, to be changed.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE] {
        &mut self.0
    }
}

impl<const PAGE: usize> View for &Image<PAGE> {
    #[inline(always)]
    fn page_bytes(self) -> usize {
        PAGE
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Restart> {
        Ok(*self.0[at..].first_chunk().expect("an offset in the page"))
    }

    #[inline(always)]
    fn prefetch(self, at: usize) {
        prefetch_line(self.0.as_ptr().wrapping_add(at));
    }

    #[inline(always)]
    fn copy(self, at: usize, into: &mut [u8]) -> Result<(), Restart> {
        into.copy_from_slice(&self.0[at..at + into.len()]);
        Ok(())
    }

    #[inline(always)]
    fn compare(self, range: Range<usize>, other: &[u8]) -> Result<Ordering, Restart> {
        Ok(self.0[range].cmp(other))
    }
}

impl<const PAGE: usize> ViewMut<PAGE> for &mut Image<PAGE> {
    #[inline(always)]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline(always)]
    fn fill(&mut self, range: Range<usize>, byte: u8) {
        self.0[range].fill(byte);
    }

    #[inline(always)]
    fn shift(&mut self, range: Range<usize>, to: usize) {
        self.0.copy_within(range, to);
    }

    /// Copies whole lines: nobody else reads the page, so none need be compared first.
    #[inline]
    fn take_lines(&mut self, range: Range<usize>, from: &Image<PAGE>) {
        if !range.is_empty() {
            let lines = range.start / LINE * LINE..range.end.next_multiple_of(LINE);
            self.0[lines.clone()].copy_from_slice(&from.0[lines]);
        }
    }

    #[inline(always)]
    fn image(&self) -> &Image<PAGE> {
        self
    }
}
