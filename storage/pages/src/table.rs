//! The page table: where in the file each page is, and the checksum of its bytes there.
//!
//! An entry is 8 bytes, little-endian: the CRC-32C of the page (the low 32 bits) and a block number
//! (the high 32 bits); zero is a page that is not in the file. The checksum stands here and not in
//! the page, so a page has all its bytes for itself, and what is read is proven to be what was
//! written *last*: a flipped bit, a page of another place, zeros, or an old version left behind by
//! a write that was lost are all found.
//!
//! In the file the table is a radix tree of blocks full of entries. Level 0 refers to pages, each
//! level above to the blocks of the one below, and the root to the top level. A checkpoint writes
//! the blocks whose entries changed, to new places like any page.
//!
//! In memory level 0 is an array of words, backed by the kernel as it is touched.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::Mapping;
use hedgerow_sync::word::Word;
use hedgerow_vfs::{ReadAt, VfsFile};

use crate::block::{self, Block};
use crate::error::Error;
use crate::page_id::PageId;
use crate::root::Root;
use crate::space::{Blocks, ROOTS};

/// Bits of an entry below the block number.
const CRC_BITS: u32 = 32;

/// Where a page is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// Not in the file.
    pub(crate) const NONE: Entry = Entry(0);
    /// In the file, but the part of the table that said where is damaged.
    pub(crate) const LOST: Entry = Entry(1 << CRC_BITS);

    pub(crate) fn new(block: u32, crc: u32) -> Self {
        Self(u64::from(block) << CRC_BITS | u64::from(crc))
    }

    pub(crate) const fn block(self) -> u32 {
        (self.0 >> CRC_BITS) as u32
    }

    pub(crate) fn crc(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn is_none(self) -> bool {
        self == Entry::NONE
    }
}

// An entry as it is described above.
const _: () = {
    assert!(size_of::<Entry>() == 8 && CRC_BITS == u32::BITS);
    assert!(Entry::LOST.block() == 1 && Entry::NONE.block() == 0);
};

/// The word of an entry. Written under the pool's mutex, read under its page's latch.
#[repr(transparent)]
pub(crate) struct EntryWord<W: Word = AtomicU64>(W);

impl<W: Word> EntryWord<W> {
    #[cfg(test)]
    pub(crate) fn new(entry: Entry) -> Self {
        Self(W::new(entry.0))
    }

    pub(crate) fn get(&self) -> Entry {
        Entry(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn set(&self, entry: Entry) {
        self.0.store(entry.0, Ordering::Release);
    }
}

/// Entries in a block.
pub(crate) const fn fan(page_bytes: usize) -> usize {
    page_bytes / size_of::<Entry>()
}

/// Level 0 in memory.
pub(crate) struct Entries {
    words: Mapping,
    room: usize,
}

impl Entries {
    pub(crate) fn reserve(room: u32) -> std::io::Result<Self> {
        let room = room as usize;
        let words = Mapping::reserve(room * 8)?;
        Ok(Self { words, room })
    }

    pub(crate) fn word(&self, page: PageId) -> &EntryWord {
        assert!((page.0 as usize) < self.room);
        // SAFETY: within the mapping of `room` words, aligned, and only used as such words.
        unsafe {
            &*self
                .words
                .start()
                .as_ptr()
                .cast::<EntryWord>()
                .add(page.0 as usize)
        }
    }

    pub(crate) fn get(&self, page: PageId) -> Entry {
        self.word(page).get()
    }

    pub(crate) fn set(&self, page: PageId, entry: Entry) {
        self.word(page).set(entry);
    }
}

/// A table read from a file.
pub(crate) struct Loaded {
    /// The levels of blocks, each in order; the last is what the root holds.
    pub(crate) levels: Vec<Vec<u64>>,
    pub(crate) blocks: Blocks,
    /// Pages below the root's bound that are not in the file: free numbers.
    pub(crate) free: Vec<PageId>,
}

/// Reads the table that a root refers to into `entries`. With `salvage`, damaged parts make their
/// pages [`Entry::LOST`] instead of failing.
pub(crate) fn load<const PAGE: usize>(
    file: &dyn VfsFile,
    path: &Path,
    root: &Root,
    entries: &Entries,
    salvage: bool,
) -> Result<Loaded, Error> {
    let fan = fan(PAGE);
    let mut levels = vec![root.top.clone()];
    // How many pages an entry of the level that is read next stands for.
    for level in (0..root.levels).rev() {
        let above = levels.last().expect("the root's");
        let span = fan.pow(level);
        let mut below = Vec::new();
        for (group, chunk) in above.chunks(64).enumerate() {
            let first = group * 64;
            let words = read_blocks::<PAGE>(
                file,
                path,
                chunk,
                |index| {
                    let page = ((first + index) * span * fan) as u32;
                    let last = page
                        .saturating_add((span * fan) as u32 - 1)
                        .min(root.pages.max(1) - 1);
                    PageId(page)..=PageId(last)
                },
                salvage,
            )?;
            below.extend(words);
        }
        levels.push(below);
    }
    let bottom = levels.pop().expect("level 0");
    levels.reverse();
    let mut blocks = Blocks::new(root.blocks);
    let tables = levels.iter().flatten().map(|&word| Entry(word));
    let pages = bottom
        .iter()
        .take(root.pages as usize)
        .map(|&word| Entry(word));
    for entry in tables.chain(pages) {
        if entry.block() >= ROOTS {
            blocks.current.set(entry.block());
        }
    }
    blocks.published = blocks.current.clone();
    blocks.count_backed();
    let mut free = Vec::new();
    for page in (0..root.pages).rev() {
        let entry = Entry(bottom.get(page as usize).copied().unwrap_or(0));
        if entry.is_none() {
            free.push(PageId(page));
        } else {
            entries.set(PageId(page), entry);
        }
    }
    Ok(Loaded {
        levels,
        blocks,
        free,
    })
}

/// Reads some blocks of the table at once and returns all their entries.
fn read_blocks<const PAGE: usize>(
    file: &dyn VfsFile,
    path: &Path,
    entries: &[u64],
    covers: impl Fn(usize) -> RangeInclusive<PageId>,
    salvage: bool,
) -> Result<Vec<u64>, Error> {
    let mut blocks = Block::<PAGE>::several(entries.len());
    let mut reads: Vec<ReadAt<'_>> = entries
        .iter()
        .zip(blocks.iter_mut())
        .map(|(&word, block)| ReadAt::new(block::offset::<PAGE>(Entry(word).block()), &mut block.0))
        .collect();
    file.read_many(&mut reads);
    let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
    let mut words = Vec::with_capacity(entries.len() * fan(PAGE));
    for (index, result) in results.into_iter().enumerate() {
        let entry = Entry(entries[index]);
        let fault = if entry.is_none() {
            // A part of the table that was never written: none of its pages are in the file.
            words.resize(words.len() + fan(PAGE), 0);
            continue;
        } else if entry == Entry::LOST {
            Some("was not found".to_owned())
        } else {
            match result {
                Ok(bytes) => blocks[index].fault(bytes, entry.crc()),
                Err(error) if salvage => Some(format!("could not be read ({error})")),
                Err(source) => {
                    return Err(Error::Io {
                        operation: "read the page table of",
                        file: path.to_path_buf(),
                        source,
                    });
                }
            }
        };
        match fault {
            None => {
                let (chunks, _) = blocks[index].0.as_chunks::<8>();
                words.extend(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)));
            }
            Some(_) if salvage => words.resize(words.len() + fan(PAGE), Entry::LOST.0),
            Some(what) => {
                return Err(Error::CorruptTable {
                    file: path.to_path_buf(),
                    offset: block::offset::<PAGE>(entry.block()),
                    what,
                    pages: covers(index),
                });
            }
        }
    }
    Ok(words)
}
