//! Checksums of many stretches of a file that overlap, at the cost of one pass over it. The
//! checksum of a stretch follows from those of the file's beginnings up to where it begins and up
//! to where it ends. Of these, one is remembered for every few kilobytes.
//!
//! Whoever looks for blocks needs it: bytes that clients wrote may look like the header of a block
//! again and again, each of which would end far behind the next.

use std::io;
use std::ops::Range;

use hedgerow_vfs::{VfsFile, read_exact_at};

/// Bytes between beginnings whose checksums are remembered.
const STEP: usize = 4 << 10;
/// Bytes that are read at once.
const WINDOW: usize = 16 * STEP;

/// The checksums of a file's beginnings, from an offset on.
pub(crate) struct PrefixChecksums {
    start: u64,
    /// That of the first `n` steps at `n`, as far as the file was read.
    sums: Vec<u32>,
}

impl PrefixChecksums {
    /// Of stretches that begin at or behind an offset.
    pub(crate) fn new(start: u64) -> PrefixChecksums {
        let sums = vec![crc32c::crc32c(&[])];
        PrefixChecksums { start, sums }
    }

    /// The crc32c of a stretch of the file, which is not empty, seeded by `seed`. Reads what was
    /// not read yet of the file up to the stretch's end, and about a step more.
    ///
    /// # Errors
    /// As for reading the file.
    pub(crate) fn checksum(
        &mut self,
        file: &dyn VfsFile,
        stretch: Range<u64>,
        seed: u32,
    ) -> io::Result<u32> {
        debug_assert!(stretch.start < stretch.end && stretch.start >= self.start);
        let before = self.until(file, stretch.start)?;
        let whole = self.until(file, stretch.end)?;
        let length = stretch.end - stretch.start;
        // What combining does to its first checksum is linear.
        Ok(crc32c::crc32c_combine(
            seed ^ before,
            whole,
            length as usize,
        ))
    }

    /// The crc32c of the file from the first offset to `end`.
    fn until(&mut self, file: &dyn VfsFile, end: u64) -> io::Result<u32> {
        let steps = ((end - self.start) / STEP as u64) as usize;
        let mut window = Vec::new();
        while self.sums.len() <= steps {
            let known = self.sums.len() - 1;
            window.resize(((steps - known) * STEP).min(WINDOW), 0);
            read_exact_at(file, self.offset_of(known), &mut window)?;
            let mut sum = self.sums[known];
            for step in window.chunks_exact(STEP) {
                sum = crc32c::crc32c_append(sum, step);
                self.sums.push(sum);
            }
        }
        let from = self.offset_of(steps);
        let mut rest = [0; STEP];
        let rest = &mut rest[..(end - from) as usize];
        read_exact_at(file, from, rest)?;
        Ok(crc32c::crc32c_append(self.sums[steps], rest))
    }

    fn offset_of(&self, steps: usize) -> u64 {
        self.start + (steps * STEP) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A file that counts what is read of it.
    struct CountedFile {
        bytes: Vec<u8>,
        read: AtomicUsize,
    }

    impl VfsFile for CountedFile {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.bytes[self.bytes.len().min(offset as usize)..];
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            self.read.fetch_add(length, Ordering::Relaxed);
            Ok(length)
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
    }

    fn file(bytes: usize) -> CountedFile {
        let mixed = |n: usize| (n.wrapping_mul(2_654_435_761) >> 7) as u8;
        CountedFile {
            bytes: (0..bytes).map(mixed).collect(),
            read: AtomicUsize::new(0),
        }
    }

    #[test]
    fn each_stretch_has_the_checksum_of_its_bytes() {
        let file = file(5 * WINDOW + 123);
        let end = file.bytes.len();
        let edges = [0, 1, STEP - 1, STEP, STEP + 1, WINDOW, 3 * WINDOW + 77, end];
        let start = 40;
        let mut sums = PrefixChecksums::new(start);
        for from in edges.map(|edge| edge.max(start as usize)) {
            for to in edges.into_iter().filter(|to| *to > from) {
                let expected = crc32c::crc32c_append(from as u32, &file.bytes[from..to]);
                let stretch = from as u64..to as u64;
                let found = sums.checksum(&file, stretch, from as u32).unwrap();
                assert_eq!(found, expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn stretches_that_overlap_cost_one_pass() {
        const STRETCHES: usize = 1_000;
        let file = file(4 << 20);
        let end = file.bytes.len() as u64;
        let mut sums = PrefixChecksums::new(0);
        for n in 0..STRETCHES as u64 {
            sums.checksum(&file, 64 * n..end - n, 7).unwrap();
        }
        let read = file.read.into_inner();
        assert!(read <= file.bytes.len() + STRETCHES * 2 * STEP, "{read}");
    }
}
