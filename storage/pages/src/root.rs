//! The root of a page file: where its page table begins, in two slots of which one counts.
//!
//! ```text
//!  0      8        12          16       24     32     36      40      44        48       52   56
//! ┌──────┬────────┬───────────┬────────┬──────┬──────┬───────┬───────┬─────────┬────────┬────┐
//! │magic │format 2│page bytes │database│epoch │pages │blocks │levels │owner len│entries │crc │
//! └──────┴────────┴───────────┴────────┴──────┴──────┴───────┴───────┴─────────┴────────┴────┘
//!  64: 512 bytes of the owner · 576: entries of the table's top level, 8 bytes each
//! ```
//!
//! The magic is "HDGPAGES"; integers are little-endian, 8 bytes each to offset 8 and from 16 to 32,
//! else 4. The CRC-32C is that of the whole block with zeros in its own place; the rest of the
//! block is zeros. *Pages* is one more than the largest page number that may be in use, *blocks*
//! the length of the file, *levels* how many the page table has below the root, *entries* how
//! many the root has of it. [`crate::table`] says what an entry is.
//!
//! The slots are blocks 0 and 1; the newest whole root counts. A root is written and synced after
//! all that it refers to, and to the slot that does *not* have the root that counts, whatever their
//! epochs are: checkpoints that are abandoned use epochs up. So if a crash tears the new root, the
//! last one is whole, and so is what it refers to. Opening writes the root that counts once more,
//! to its slot, and syncs it: if a sync failed before, that root may be in the system's cache
//! alone.

use std::path::Path;

use crate::error::Error;

const MAGIC: &[u8; 8] = b"HDGPAGES";
/// The layout of the file and of what trees put into its pages. Files of format 1 have other
/// records of long values.
const FORMAT: u32 = 2;
/// Bytes of a root for its owner.
pub(crate) const OWNER_BYTES: usize = 512;
/// Bytes of an entry of the table.
const ENTRY_BYTES: usize = size_of::<u64>();

// Where each field begins: behind the one before, but for the owner's bytes.
const FORMAT_AT: usize = MAGIC.len();
const PAGE_BYTES_AT: usize = FORMAT_AT + size_of::<u32>();
const DATABASE_AT: usize = PAGE_BYTES_AT + size_of::<u32>();
const EPOCH_AT: usize = DATABASE_AT + size_of::<u64>();
const PAGES_AT: usize = EPOCH_AT + size_of::<u64>();
const BLOCKS_AT: usize = PAGES_AT + size_of::<u32>();
const LEVELS_AT: usize = BLOCKS_AT + size_of::<u32>();
const OWNER_LEN_AT: usize = LEVELS_AT + size_of::<u32>();
const ENTRY_COUNT_AT: usize = OWNER_LEN_AT + size_of::<u32>();
const CRC_AT: usize = ENTRY_COUNT_AT + size_of::<u32>();
const OWNER_AT: usize = 64;
const ENTRIES_AT: usize = OWNER_AT + OWNER_BYTES;

// The root as it is drawn above.
const _: () = {
    assert!(FORMAT_AT == 8 && PAGE_BYTES_AT == 12 && DATABASE_AT == 16 && EPOCH_AT == 24);
    assert!(PAGES_AT == 32 && BLOCKS_AT == 36 && LEVELS_AT == 40 && OWNER_LEN_AT == 44);
    assert!(ENTRY_COUNT_AT == 48 && CRC_AT == 52 && CRC_AT + size_of::<u32>() == 56);
    assert!(ENTRIES_AT == 576 && ENTRY_BYTES == 8);
};

/// How many entries the top level of a table may have.
pub(crate) const fn top_entries(page_bytes: usize) -> usize {
    (page_bytes - ENTRIES_AT) / ENTRY_BYTES
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Root {
    pub(crate) database: u64,
    pub(crate) epoch: u64,
    /// Pages with a number below this one may be in use.
    pub(crate) pages: u32,
    /// Length of the file in blocks.
    pub(crate) blocks: u32,
    /// Levels of the table below the root.
    pub(crate) levels: u32,
    pub(crate) owner: Vec<u8>,
    pub(crate) top: Vec<u64>,
}

/// One of the two blocks for roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    /// Both slots.
    pub(crate) const BOTH: [Slot; 2] = [Slot(0), Slot(1)];

    /// The slot of the next root, while this slot has the one that counts.
    pub(crate) fn other(self) -> Slot {
        Slot(1 - self.0)
    }

    /// Where it is in the file.
    pub(crate) fn offset<const PAGE: usize>(self) -> u64 {
        (self.0 * PAGE) as u64
    }
}

impl Root {
    /// Fills a block, all of it.
    pub(crate) fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        let page_bytes = block.len() as u32;
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(FORMAT_AT, &FORMAT.to_le_bytes());
        put(PAGE_BYTES_AT, &page_bytes.to_le_bytes());
        put(DATABASE_AT, &self.database.to_le_bytes());
        put(EPOCH_AT, &self.epoch.to_le_bytes());
        put(PAGES_AT, &self.pages.to_le_bytes());
        put(BLOCKS_AT, &self.blocks.to_le_bytes());
        put(LEVELS_AT, &self.levels.to_le_bytes());
        put(OWNER_LEN_AT, &(self.owner.len() as u32).to_le_bytes());
        put(ENTRY_COUNT_AT, &(self.top.len() as u32).to_le_bytes());
        put(OWNER_AT, &self.owner);
        for (i, entry) in self.top.iter().enumerate() {
            put(ENTRIES_AT + ENTRY_BYTES * i, &entry.to_le_bytes());
        }
        let crc = crc32c::crc32c(block);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a block. `Ok(None)` for one that holds no whole root.
    pub(crate) fn decode(block: &[u8], file: &Path) -> Result<Option<Root>, Error> {
        let word = |at: usize| u32::from_le_bytes(*block[at..].first_chunk().expect("a block"));
        let long = |at: usize| u64::from_le_bytes(*block[at..].first_chunk().expect("a block"));
        if !block.starts_with(MAGIC) {
            return Ok(None);
        }
        let file = || file.to_path_buf();
        if word(FORMAT_AT) > FORMAT {
            return Err(Error::NewerFormat {
                file: file(),
                found: word(FORMAT_AT),
                supported: FORMAT,
            });
        }
        let mut zeroed = block.to_vec();
        zeroed[CRC_AT..CRC_AT + 4].fill(0);
        let whole = crc32c::crc32c(&zeroed) == word(CRC_AT);
        if whole && word(FORMAT_AT) == 0 {
            return Err(Error::NotAPageFile {
                file: file(),
                what: "it has format version 0, which never was",
            });
        }
        if whole && word(FORMAT_AT) < FORMAT {
            return Err(Error::OlderFormat {
                file: file(),
                found: word(FORMAT_AT),
                supported: FORMAT,
            });
        }
        let expected = block.len() as u32;
        if word(PAGE_BYTES_AT) != expected
            && word(PAGE_BYTES_AT).is_power_of_two()
            && word(PAGE_BYTES_AT) >= 4096
        {
            return Err(Error::PageSize {
                file: file(),
                found: word(PAGE_BYTES_AT),
                expected,
            });
        }
        let (owner, entries) = (word(OWNER_LEN_AT) as usize, word(ENTRY_COUNT_AT) as usize);
        if !whole
            || word(FORMAT_AT) != FORMAT
            || owner > OWNER_BYTES
            || entries > top_entries(block.len())
        {
            return Ok(None);
        }
        let top = (0..entries)
            .map(|i| long(ENTRIES_AT + ENTRY_BYTES * i))
            .collect();
        Ok(Some(Root {
            database: long(DATABASE_AT),
            epoch: long(EPOCH_AT),
            pages: word(PAGES_AT),
            blocks: word(BLOCKS_AT),
            levels: word(LEVELS_AT),
            owner: block[OWNER_AT..OWNER_AT + owner].to_vec(),
            top,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_comes_back_and_no_flipped_bit_is_taken_for_one() {
        let root = Root {
            database: 7,
            epoch: 9,
            pages: 1000,
            blocks: 20,
            levels: 1,
            owner: b"root page 3".to_vec(),
            top: vec![5 << 32 | 1, 6 << 32 | 2],
        };
        let mut block = vec![1; 4096];
        root.encode(&mut block);
        let file = Path::new("f");
        assert_eq!(Root::decode(&block, file).unwrap(), Some(root));
        for bit in 0..4096 * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            let decoded = Root::decode(&block, file);
            assert!(!matches!(decoded, Ok(Some(_))), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let mut wide = vec![0; 16384];
        wide[..4096].copy_from_slice(&block);
        let error = Root::decode(&wide, file).unwrap_err().to_string();
        assert!(
            error.contains("pages of 4096 bytes, not of 16384"),
            "{error}"
        );
        // A whole root of another format is named; one that is not whole is none.
        block[8..12].copy_from_slice(&1_u32.to_le_bytes());
        assert_eq!(Root::decode(&block, file).unwrap(), None);
        block[CRC_AT..CRC_AT + 4].fill(0);
        let crc = crc32c::crc32c(&block);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        let error = Root::decode(&block, file).unwrap_err();
        assert!(
            matches!(error, Error::OlderFormat { found: 1, .. }),
            "{error}"
        );
    }
}
