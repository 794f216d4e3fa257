//! A page file opened for reading alone: changed pages are written to another file.
//!
//! Opening a database that was not closed replays its logs, which changes pages. The pool evicts
//! these like all others, so that the budget holds; but the page file must stay as it is. So blocks
//! that are written go to a [scratch file](hedgerow_vfs::Vfs::scratch), at the same offsets, and
//! are read from there afterwards; all others are read from the page file.
//!
//! ```text
//!  write block 7 ──► scratch file, bit 7 set          read block 7 ──► bit 7? ──► scratch file
//!                                                                         └─────► page file
//! ```

use std::io;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use hedgerow_vfs::{ReadAt, Vfs, VfsFile, read_up_to_at};

/// A file whose writes go elsewhere. `BLOCK` is the unit of these: writes have whole blocks.
pub(crate) struct Overlay<const BLOCK: usize> {
    vfs: Arc<dyn Vfs>,
    base: Box<dyn VfsFile>,
    /// Made when something is written.
    scratch: OnceLock<Box<dyn VfsFile>>,
    /// A bit for each block that is in the scratch file.
    written: RwLock<Vec<u64>>,
}

impl<const BLOCK: usize> Overlay<BLOCK> {
    pub(crate) fn new(vfs: &Arc<dyn Vfs>, base: Box<dyn VfsFile>) -> Overlay<BLOCK> {
        Overlay {
            vfs: Arc::clone(vfs),
            base,
            scratch: OnceLock::new(),
            written: RwLock::default(),
        }
    }

    /// Whether the block that holds this offset was written.
    fn is_written(&self, offset: u64) -> bool {
        let block = offset / BLOCK as u64;
        // A panic cannot leave the bits half changed.
        let written = self.written.read().unwrap_or_else(PoisonError::into_inner);
        let word = written.get((block / 64) as usize);
        word.is_some_and(|word| word & (1 << (block % 64)) != 0)
    }

    fn set_written(&self, blocks: std::ops::Range<u64>) {
        let mut written = self.written.write().unwrap_or_else(PoisonError::into_inner);
        let words = blocks.end.div_ceil(64) as usize;
        if written.len() < words {
            written.resize(words, 0);
        }
        for block in blocks {
            written[(block / 64) as usize] |= 1 << (block % 64);
        }
    }

    fn scratch(&self) -> io::Result<&dyn VfsFile> {
        if self.scratch.get().is_none() {
            let made = self.vfs.scratch().map_err(failed)?;
            // The file that was made first is used; the other one vanishes.
            let _ = self.scratch.set(made);
        }
        match self.scratch.get() {
            Some(scratch) => Ok(&**scratch),
            None => unreachable!("it was just made"),
        }
    }

    /// Whether a read needs nothing but the page file.
    fn is_of_base(&self, read: &ReadAt<'_>) -> bool {
        let end = read.offset + read.buffer.len() as u64;
        let mut blocks = (read.offset / BLOCK as u64)..end.div_ceil(BLOCK as u64);
        !blocks.any(|block| self.is_written(block * BLOCK as u64))
    }
}

/// An error of the scratch file, of the same kind: where the disk is full, recovery keeps pages in
/// memory ([`Pool::exceed_budget`](crate::Pool::exceed_budget)).
fn failed(error: io::Error) -> io::Error {
    let what = format!(
        "changed pages go to a scratch file in {}, as the database is opened for reading only, and \
         that failed ({error}); name a directory with more space in TMPDIR, or raise `--memory`",
        std::env::temp_dir().display()
    );
    io::Error::new(error.kind(), what)
}

impl<const BLOCK: usize> VfsFile for Overlay<BLOCK> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // Up to the end of the block: the next one may be in the other file.
        let most = BLOCK - (offset % BLOCK as u64) as usize;
        let length = buffer.len().min(most);
        let buffer = &mut buffer[..length];
        match self.scratch.get() {
            Some(scratch) if self.is_written(offset) => {
                read_up_to_at(&**scratch, offset, buffer).map_err(failed)
            }
            _ => self.base.read_at(offset, buffer),
        }
    }

    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        // Neighbours that are both in the page file are read at once.
        let both_of_base =
            |a: &ReadAt<'_>, b: &ReadAt<'_>| self.is_of_base(a) && self.is_of_base(b);
        for run in reads.chunk_by_mut(both_of_base) {
            if self.is_of_base(&run[0]) {
                self.base.read_many(run);
                continue;
            }
            for read in run {
                read.result = read_up_to_at(self, read.offset, read.buffer);
            }
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let blocks = offset / BLOCK as u64..(offset + bytes.len() as u64).div_ceil(BLOCK as u64);
        debug_assert!(offset.is_multiple_of(BLOCK as u64) && bytes.len().is_multiple_of(BLOCK));
        self.scratch()?.write_at(offset, bytes).map_err(failed)?;
        self.set_written(blocks);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Nothing of it outlives the process.
        Ok(())
    }

    fn truncate(&self, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        let scratch = self.scratch.get().map_or(Ok(0), |scratch| scratch.len());
        Ok(self.base.len()?.max(scratch?))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hedgerow_vfs::{MemoryVfs, OpenMode};

    use super::*;

    const BLOCK: usize = 1024;

    fn bytes(block: u64, round: u8) -> Vec<u8> {
        vec![block as u8 ^ round; BLOCK]
    }

    #[test]
    fn writes_are_read_back_and_the_file_stays_as_it_is() {
        let disk = MemoryVfs::new();
        let content: Vec<u8> = (0..8).flat_map(|block| bytes(block, 0)).collect();
        disk.insert_file(Path::new("/pages"), content.clone());
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let base = vfs.open(Path::new("/pages"), OpenMode::Read).unwrap();
        let overlay = Overlay::<BLOCK>::new(&vfs, base);
        assert_eq!(overlay.len().unwrap(), content.len() as u64);
        for block in [1, 2, 5, 70] {
            let at = block * BLOCK as u64;
            overlay.write_at(at, &bytes(block, 0xff)).unwrap();
        }
        let expected = |block: u64| match block {
            1 | 2 | 5 | 70 => bytes(block, 0xff),
            _ => bytes(block, 0),
        };
        let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 70];
        let mut buffers = vec![vec![0; BLOCK]; numbers.len()];
        let mut reads: Vec<_> = numbers
            .iter()
            .zip(&mut buffers)
            .map(|(block, buffer)| ReadAt::new(block * BLOCK as u64, buffer))
            .collect();
        overlay.read_many(&mut reads);
        assert!(reads.iter().all(|read| matches!(read.result, Ok(BLOCK))));
        for (block, buffer) in numbers.iter().zip(&buffers) {
            assert!(*buffer == expected(*block), "block {block}");
        }
        // Across the border of both files.
        let mut across = vec![0; 3 * BLOCK];
        let read = read_up_to_at(&overlay, BLOCK as u64 / 2, &mut across).unwrap();
        let all: Vec<u8> = (0..4).flat_map(expected).collect();
        assert_eq!(
            (read, &across[..]),
            (3 * BLOCK, &all[BLOCK / 2..][..3 * BLOCK])
        );
        assert_eq!(disk.files(), [(Path::new("/pages").to_path_buf(), content)]);
    }
}
