//! A copy of a page file as its newest root describes it, each block verified on its way.
//!
//! Only what the root refers to is copied, to the same offsets; the gaps between take no space
//! where the file system has holes. A block without its checksum ends the copy: a copy of damage
//! might replace a good one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_vfs::{OpenMode, ReadAt, Vfs, VfsFile, WriteAt};

use crate::block::{self, Block};
use crate::error::Error;
use crate::open::{OpenFile, file_and_root};
use crate::options::Options;
use crate::page_id::PageId;
use crate::root::Root;
use crate::table::{Entry, fan};

/// Blocks that are read and written together.
const TOGETHER: usize = 64;

/// Copies the page file of a database to a new file, and syncs that: the length of the copy in
/// bytes. No checkpoint may be published meanwhile. Reads every page that is in use.
///
/// # Errors
///
/// [`Error::CorruptPage`] or [`Error::CorruptTable`]: the first block that is not what was written;
/// [`Error::PageRead`] and [`Error::Io`] are what the file layer says. What was copied until then
/// is no page file, as its root is written last.
pub fn copy_file<const PAGE: usize>(
    vfs: &Arc<dyn Vfs>,
    from: &Path,
    to: &Path,
    database: u64,
) -> Result<u64, Error> {
    let options = Options {
        database,
        read_only: true,
        ..Options::new(0)
    };
    let OpenFile {
        file: source,
        root,
        slot,
    } = file_and_root::<PAGE>(vfs, from, &options)?;
    let target = vfs.open(to, OpenMode::CreateNew);
    let target = target.map_err(|source| io("create", to, source))?;
    let copy = Copy::<PAGE> {
        source,
        from: from.to_path_buf(),
        target,
        to: to.to_path_buf(),
    };
    copy.level(&root.top, root.levels, 0)?;
    copy.finish(&root, slot.offset::<PAGE>())
}

fn io(operation: &'static str, file: &Path, source: std::io::Error) -> Error {
    let file = file.to_path_buf();
    Error::Io {
        operation,
        file,
        source,
    }
}

struct Copy<const PAGE: usize> {
    source: Box<dyn VfsFile>,
    from: PathBuf,
    target: Box<dyn VfsFile>,
    to: PathBuf,
}

impl<const PAGE: usize> Copy<PAGE> {
    /// Copies what some entries refer to: pages, if there are no levels below, or blocks of the
    /// table and what they refer to. `first` is the first page that is reached from the first
    /// entry.
    fn level(&self, entries: &[u64], levels: u32, first: u64) -> Result<(), Error> {
        // How many pages one entry stands for.
        let span = (fan(PAGE) as u64).pow(levels);
        for (group, entries) in entries.chunks(TOGETHER).enumerate() {
            let first = first + (group * TOGETHER) as u64 * span;
            let blocks = self.group(entries, levels, first)?;
            if levels == 0 {
                continue;
            }
            for (index, block) in blocks {
                let (chunks, _) = block.0.as_chunks::<8>();
                let below: Vec<u64> = chunks.iter().map(|c| u64::from_le_bytes(*c)).collect();
                self.level(&below, levels - 1, first + index as u64 * span)?;
            }
        }
        Ok(())
    }

    /// Copies the blocks of some entries, and returns each with the index of its entry.
    fn group(
        &self,
        entries: &[u64],
        levels: u32,
        first: u64,
    ) -> Result<Vec<(usize, Block<PAGE>)>, Error> {
        let present = entries.iter().map(|&word| Entry(word)).enumerate();
        let mut present: Vec<(usize, Entry)> =
            present.filter(|(_, entry)| !entry.is_none()).collect();
        // In the order of the file.
        present.sort_unstable_by_key(|(_, entry)| entry.block());
        let mut blocks = Block::<PAGE>::several(present.len());
        let mut reads: Vec<ReadAt<'_>> = present
            .iter()
            .zip(blocks.iter_mut())
            .map(|((_, entry), block)| {
                ReadAt::new(block::offset::<PAGE>(entry.block()), &mut block.0)
            })
            .collect();
        self.source.read_many(&mut reads);
        let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
        for ((&(index, entry), block), result) in present.iter().zip(&blocks).zip(results) {
            self.verify(entry, block, result, levels, first, index)?;
        }
        let mut writes: Vec<WriteAt<'_>> = present
            .iter()
            .zip(&blocks)
            .map(|((_, entry), block)| WriteAt::new(block::offset::<PAGE>(entry.block()), &block.0))
            .collect();
        self.target.write_many(&mut writes);
        for write in writes {
            write
                .result
                .map_err(|error| io("write to", &self.to, error))?;
        }
        let indices = present.into_iter().map(|(index, _)| index);
        Ok(indices.zip(blocks).collect())
    }

    /// Whether a block that was read is what its entry says.
    fn verify(
        &self,
        entry: Entry,
        block: &Block<PAGE>,
        read: std::io::Result<usize>,
        levels: u32,
        first: u64,
        index: usize,
    ) -> Result<(), Error> {
        let span = (fan(PAGE) as u64).pow(levels);
        let page = |number: u64| PageId(u32::try_from(number).unwrap_or(u32::MAX));
        let number = first + index as u64 * span;
        let (file, offset) = (self.from.clone(), block::offset::<PAGE>(entry.block()));
        let what = match read {
            Ok(bytes) => match block.fault(bytes, entry.crc()) {
                None => return Ok(()),
                Some(what) => what,
            },
            Err(source) if levels == 0 => {
                return Err(Error::PageRead {
                    file,
                    page: page(number),
                    offset,
                    source,
                });
            }
            Err(source) => return Err(io("read the page table of", &self.from, source)),
        };
        Err(match levels {
            0 => Error::CorruptPage {
                file,
                page: page(number),
                offset,
                what,
            },
            _ => Error::CorruptTable {
                file,
                offset,
                what,
                pages: page(number)..=page(number + span - 1),
            },
        })
    }

    /// Makes the copy durable, and then a page file: its root is written last.
    fn finish(&self, root: &Root, root_at: u64) -> Result<u64, Error> {
        let sync = || {
            let synced = self.target.sync();
            synced.map_err(|error| io("sync", &self.to, error))
        };
        let length = block::offset::<PAGE>(root.blocks);
        let stretched = self.target.truncate(length);
        stretched.map_err(|error| io("set the length of", &self.to, error))?;
        sync()?;
        let mut block = Block::<PAGE>::zeroed();
        root.encode(&mut block.0);
        let mut write = WriteAt::new(root_at, &block.0);
        self.target.write_many(std::slice::from_mut(&mut write));
        write
            .result
            .map_err(|error| io("write to", &self.to, error))?;
        sync()?;
        Ok(length)
    }
}
