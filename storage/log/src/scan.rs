//! Reads a log file block by block, and distinguishes a torn tail from damage. The blocks of a file
//! are valid up to some point. Behind it is either a *torn tail* (writes that a crash interrupted:
//! expected, cut off) or *damage* (bytes that were once durable and no longer read back: an error).
//! Other blocks decide which: every block says what was durable when it was written, for its own
//! file and, if it closes an epoch, for all. A bad place before such a durable offset is damage. So
//! blocks behind a bad place are evidence, and [`FileScan`] searches for them.
//!
//! Zeros to the end of a file are neither: they were written ahead of blocks that never came
//! (`segment`), and the file is taken to end before them. Whether it ends too early is decided as
//! above.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use hedgerow_vfs::{OpenMode, Vfs, VfsFile, read_exact_at, read_up_to_at};

use crate::block::{self, BlockHeader, Closing, HEADER_BYTES, Identity};
use crate::error::{Error, Problem, Result};
use crate::prefix_checksums::PrefixChecksums;
use crate::read_buffer::resized;
use crate::record::Commit;
use crate::segment::{self, FILE_HEADER_BYTES, HeaderFault, LOG_VERSION};
use crate::timestamp::Timestamp;

/// Reads the blocks of one log file in order.
pub(crate) struct BlockReader {
    file: Box<dyn VfsFile>,
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    /// Where the next block begins: everything before is valid.
    pub(crate) offset: u64,
    /// Where reading stops.
    pub(crate) end: u64,
    sequence: u64,
    bytes: Vec<u8>,
}

/// What stands at [`BlockReader::offset`].
pub(crate) enum Next {
    /// A valid block: its header, and where its records are in [`BlockReader::bytes`].
    Block(BlockHeader, std::ops::Range<usize>),
    /// Nothing: the file ends.
    End,
    /// Something that is not a valid block, for this reason.
    Bad(String),
}

impl BlockReader {
    /// Opens a log file and verifies its header.
    ///
    /// # Errors
    /// A missing file and a bad header are damage: files are complete before anything counts on
    /// them.
    pub(crate) fn open(vfs: &dyn Vfs, dir: &Path, identity: Identity) -> Result<BlockReader> {
        let path = segment::path(dir, &identity);
        let lost = |what: &str| {
            let affected = format!("all commits of shard {} in this file", identity.shard);
            Error::from(problem(&path, 0, what, &affected))
        };
        let file = match vfs.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(lost("the file is missing, though MANIFEST names it"));
            }
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut header = [0; FILE_HEADER_BYTES];
        let read =
            read_up_to_at(&*file, 0, &mut header).map_err(|e| Error::io("read", &path, e))?;
        match segment::check_file_header(&header[..read], &identity) {
            Ok(()) => {}
            Err(HeaderFault::Bad(what)) => return Err(lost(what)),
            Err(HeaderFault::Newer(found)) => {
                return Err(Error::NewerFormat {
                    file: path,
                    found,
                    supported: LOG_VERSION,
                });
            }
        }
        let end = file
            .len()
            .map_err(|e| Error::io("get the length of", &path, e))?;
        let offset = FILE_HEADER_BYTES as u64;
        Ok(BlockReader {
            file,
            path,
            identity,
            offset,
            end,
            sequence: 0,
            bytes: Vec::new(),
        })
    }

    /// The bytes of the block that [`Self::next`] returned.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads and verifies the block at `offset`, and moves behind it if it is valid.
    pub(crate) fn next(&mut self) -> Result<Next> {
        if self.offset == self.end {
            return Ok(Next::End);
        }
        match self.read(self.offset)? {
            Ok((header, _)) if header.sequence != self.sequence => Ok(Next::Bad(
                "a block stands here that belongs elsewhere in the file".into(),
            )),
            Ok((header, records)) => {
                self.offset += header.length;
                self.sequence += 1;
                Ok(Next::Block(header, records))
            }
            Err(what) => Ok(Next::Bad(what)),
        }
    }

    /// How many bytes the longest of the blocks from `offset` on has, by what their headers say, up
    /// to the first that is none. Reads no more of a long block than its header's surroundings.
    pub(crate) fn longest_block(&self) -> Result<u64> {
        const WINDOW: u64 = 1 << 16;
        let mut window = Vec::new();
        let mut window_start = self.offset;
        let (mut offset, mut longest) = (self.offset, 0);
        while self.end - offset >= HEADER_BYTES as u64 {
            let mut at = (offset - window_start) as usize;
            if window.len() < at + HEADER_BYTES {
                window.resize((self.end - offset).min(WINDOW) as usize, 0);
                self.fill(offset, &mut window)?;
                (window_start, at) = (offset, 0);
            }
            let Some(header) = window[at..].first_chunk() else {
                break;
            };
            match block::claimed_length(header) {
                Some(length) if length <= self.end - offset => {
                    longest = longest.max(length);
                    offset += length;
                }
                _ => break,
            }
        }
        Ok(longest)
    }

    /// Writes the blocks between two places of the file again, with the bytes that they have. Each
    /// is verified as it is written: a system that serves what it never wrote may stop doing so at
    /// any time.
    pub(crate) fn rewrite(
        &mut self,
        blocks: std::ops::Range<u64>,
        file: &dyn VfsFile,
    ) -> Result<()> {
        let mut offset = blocks.start;
        while offset < blocks.end {
            let header = match self.read(offset)? {
                Ok((header, _)) => header,
                Err(what) => {
                    let what = format!("{what}, though it was there a moment ago");
                    let affected = "the last commits of this file";
                    return Err(problem(&self.path, offset, &what, affected).into());
                }
            };
            file.write_at(offset, &self.bytes)
                .map_err(|e| Error::io("write", &self.path, e))?;
            offset += header.length;
        }
        Ok(())
    }

    /// Whether nothing but zeros stands from `offset` on, some at least.
    pub(crate) fn is_unused(&self) -> Result<bool> {
        Ok(self.offset < self.end && self.used_end()? == self.offset)
    }

    /// Where the zeros at the end of the file begin, from `offset` on.
    fn used_end(&self) -> Result<u64> {
        const WINDOW: u64 = 1 << 16;
        let mut window = vec![0; WINDOW as usize];
        let mut end = self.end;
        while end > self.offset {
            let start = self.offset.max(end.saturating_sub(WINDOW));
            let window = &mut window[..(end - start) as usize];
            self.fill(start, window)?;
            if let Some(last) = window.iter().rposition(|&byte| byte != 0) {
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
        Ok(end)
    }

    /// Reads and verifies whatever stands at `offset`.
    fn read(
        &mut self,
        offset: u64,
    ) -> Result<std::result::Result<(BlockHeader, std::ops::Range<usize>), String>> {
        let left = self.end - offset;
        if left < HEADER_BYTES as u64 {
            return Ok(Err("the file ends inside a block header".into()));
        }
        let mut header = [0; HEADER_BYTES];
        self.fill(offset, &mut header)?;
        let Some(length) = block::claimed_length(&header) else {
            return Ok(Err("there is no block where one should begin".into()));
        };
        if length > left {
            return Ok(Err("the file ends inside a block".into()));
        }
        // Bounded by the length of the file, whatever the bytes say.
        let mut bytes = resized(std::mem::take(&mut self.bytes), length as usize);
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        self.fill(offset + HEADER_BYTES as u64, &mut bytes[HEADER_BYTES..])?;
        self.bytes = bytes;
        Ok(
            block::open(&self.bytes, &self.identity).map(|(header, records)| {
                let range = HEADER_BYTES..HEADER_BYTES + records.len();
                (header, range)
            }),
        )
    }

    /// The next valid block that begins at or behind `from`, whatever stands before it; its
    /// offset and header. `sums` has the checksums of this file.
    fn find_block(
        &mut self,
        from: u64,
        sums: &mut PrefixChecksums,
    ) -> Result<Option<(u64, BlockHeader)>> {
        const WINDOW: usize = 1 << 20;
        let magic = block::MAGIC.to_le_bytes();
        let mut start = from;
        let mut window = vec![0; WINDOW];
        while start + HEADER_BYTES as u64 <= self.end {
            let length = (self.end - start).min(WINDOW as u64) as usize;
            self.fill(start, &mut window[..length])?;
            let mut at = 0;
            while let Some(found) = find(&window[at..length], &magic) {
                at += found;
                let offset = start + at as u64;
                // A look at the header first: bytes that merely resemble the magic are cheap.
                let mut header = [0; HEADER_BYTES];
                let whole = self.end - offset >= HEADER_BYTES as u64;
                if whole {
                    self.fill(offset, &mut header)?;
                }
                if whole
                    && block::names(&header, &self.identity)
                    && self.is_as_summed(offset, &header, sums)?
                    && let Ok((header, _)) = self.read(offset)?
                {
                    return Ok(Some((offset, header)));
                }
                at += 1;
            }
            // The magic may stand across the border of two windows.
            start += (length - (magic.len() - 1)) as u64;
        }
        Ok(None)
    }

    /// Whether the bytes behind a header have the checksum that it claims. Most headers may be none
    /// that the log wrote, so this reads a few kilobytes for each, and the file once for all.
    fn is_as_summed(
        &self,
        offset: u64,
        header: &[u8; HEADER_BYTES],
        sums: &mut PrefixChecksums,
    ) -> Result<bool> {
        let length = block::claimed_length(header).filter(|length| *length <= self.end - offset);
        let Some(length) = length else {
            return Ok(false);
        };
        let summed = offset + block::CHECKSUMMED_AT as u64..offset + length;
        let sum = sums.checksum(&*self.file, summed, self.identity.checksum_seed());
        let sum = sum.map_err(|e| Error::io("read", &self.path, e))?;
        Ok(sum == block::claimed_checksum(header))
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&*self.file, offset, buffer).map_err(|e| Error::io("read", &self.path, e))
    }
}

fn find(bytes: &[u8], magic: &[u8; 4]) -> Option<usize> {
    bytes
        .windows(magic.len())
        .position(|window| window == magic)
}

/// What a whole pass over one log file found.
pub(crate) struct FileScan {
    pub(crate) path: PathBuf,
    pub(crate) shard: u16,
    /// Bytes of valid blocks at the front of the file.
    pub(crate) valid: u64,
    /// Bytes of the file, but for zeros at its end.
    pub(crate) length: u64,
    /// Whether the valid blocks end with one that seals the file.
    pub(crate) sealed: bool,
    /// What stands behind the valid blocks, if anything does.
    pub(crate) bad: Option<String>,
    /// Whether nothing but zeros stands there: room that was written ahead.
    pub(crate) unused: bool,
    /// Valid blocks behind the bad place.
    pub(crate) strays: Vec<std::ops::Range<u64>>,
    /// The closings among the valid blocks, from the last one that a later one here proves to be
    /// durable: older ones cannot be needed.
    pub(crate) closings: VecDeque<Closing>,
    /// For every shard, the bytes that some block here says were durable.
    pub(crate) durable: Vec<u64>,
    /// The newest manifest that a block names, by its sequence; 0 if none does.
    pub(crate) manifest: u64,
    /// The largest timestamp and epoch seen anywhere.
    pub(crate) newest: Timestamp,
    pub(crate) newest_epoch: u64,
    /// The largest timestamp among the valid blocks.
    pub(crate) last_valid: Timestamp,
    pub(crate) records: u64,
}

impl FileScan {
    /// Reads a whole file. `each` sees every valid block (its header and records).
    pub(crate) fn run(
        vfs: &dyn Vfs,
        dir: &Path,
        identity: Identity,
        mut each: impl FnMut(u64, &BlockHeader, &[u8]) -> std::result::Result<(), String>,
    ) -> Result<FileScan> {
        let mut reader = BlockReader::open(vfs, dir, identity)?;
        let mut scan = FileScan {
            path: reader.path.clone(),
            shard: identity.shard,
            valid: reader.offset,
            length: reader.end,
            sealed: false,
            bad: None,
            unused: false,
            strays: Vec::new(),
            closings: VecDeque::new(),
            durable: vec![FILE_HEADER_BYTES as u64; usize::from(identity.shards)],
            manifest: 0,
            newest: Timestamp::ZERO,
            newest_epoch: 0,
            last_valid: Timestamp::ZERO,
            records: 0,
        };
        loop {
            let start = reader.offset;
            match reader.next()? {
                Next::End => break,
                Next::Bad(_) if reader.is_unused()? => {
                    scan.length = scan.valid;
                    scan.unused = true;
                    break;
                }
                _ if scan.sealed => {
                    scan.bad = Some("something follows the block that seals the file".into());
                    break;
                }
                Next::Bad(what) => {
                    scan.bad = Some(what);
                    break;
                }
                Next::Block(header, records) => {
                    if let Err(what) = each(start, &header, &reader.bytes()[records]) {
                        scan.bad = Some(what);
                        break;
                    }
                    scan.valid = reader.offset;
                    scan.witness(&identity, &header);
                    scan.accept(header);
                }
            }
        }
        if scan.bad.is_some() {
            scan.find_strays(&mut reader)?;
            // Zeros behind it were not part of what was interrupted.
            let strays_end = scan.strays.last().map_or(0, |stray| stray.end);
            scan.length = reader.used_end()?.max(strays_end);
        }
        Ok(scan)
    }

    fn accept(&mut self, header: BlockHeader) {
        self.sealed = header.seals;
        self.records += u64::from(header.records);
        self.last_valid = self.last_valid.max(header.last_timestamp);
        if let Some(closing) = header.closing {
            let proven = |older: &Closing| {
                let lengths = older.lengths.iter().zip(&closing.lengths);
                lengths
                    .into_iter()
                    .all(|(older, newer)| older.valid <= newer.durable)
            };
            while self.closings.get(1).is_some_and(proven) {
                self.closings.pop_front();
            }
            self.closings.push_back(closing);
        }
    }

    /// Takes what a block says was durable before it, and the epochs it knows of.
    fn witness(&mut self, identity: &Identity, header: &BlockHeader) {
        let own = usize::from(identity.shard);
        self.durable[own] = self.durable[own].max(header.durable_offset);
        self.newest = self.newest.max(header.last_timestamp);
        self.newest_epoch = self.newest_epoch.max(header.last_timestamp.epoch());
        if let Some(closing) = &header.closing {
            self.newest_epoch = self.newest_epoch.max(closing.epoch);
            self.manifest = self.manifest.max(closing.manifest.unwrap_or(0));
            for (known, length) in self.durable.iter_mut().zip(&closing.lengths) {
                *known = (*known).max(length.durable);
            }
        }
    }

    fn find_strays(&mut self, reader: &mut BlockReader) -> Result<()> {
        let mut from = self.valid + 1;
        let mut sums = PrefixChecksums::new(from);
        while let Some((offset, header)) = reader.find_block(from, &mut sums)? {
            let identity = reader.identity;
            self.witness(&identity, &header);
            from = offset + header.length;
            self.strays.push(offset..from);
        }
        Ok(())
    }

    /// The damage reports for this file, whose bytes up to `durable` were once durable: one for
    /// each stretch of bytes that is not a valid block.
    pub(crate) fn damage(&self, durable: u64) -> Vec<Problem> {
        let what = match &self.bad {
            Some(what) => what.clone(),
            None if self.unused => "only zeros stand here".to_owned(),
            None => "the file ends too early".to_owned(),
        };
        let what = format!("{what}, though what was written here was durable");
        let affected = match self.last_valid {
            Timestamp::ZERO => "all commits in this file".to_owned(),
            last => format!(
                "commits in this file after {last}, epochs {} and later",
                last.epoch()
            ),
        };
        let mut problems = vec![problem(&self.path, self.valid, &what, &affected)];
        let ends = self.strays.iter().map(|stray| stray.end);
        let next = self.strays.iter().skip(1).map(|stray| stray.start);
        for (end, next) in ends.zip(next.chain([durable.min(self.length)])) {
            if end < next {
                let what = "no valid block begins here either";
                problems.push(problem(&self.path, end, what, &affected));
            }
        }
        problems
    }
}

/// Verifies that a block's records decode, are as many as its header says, and rise in time.
pub(crate) fn check_records(
    _offset: u64,
    header: &BlockHeader,
    mut records: &[u8],
) -> std::result::Result<(), String> {
    let mut count = 0;
    let mut last = Timestamp::ZERO;
    while !records.is_empty() {
        let Some(commit) = Commit::take(&mut records) else {
            return Err("a record does not decode".into());
        };
        if commit.timestamp() <= last {
            return Err("records are not in the order of their timestamps".into());
        }
        last = commit.timestamp();
        count += 1;
    }
    if (count, last) == (header.records, header.last_timestamp) {
        Ok(())
    } else {
        Err("the block's header does not describe its records".into())
    }
}

/// A damage report about a log file.
pub(crate) fn problem(path: &Path, offset: u64, what: &str, affected: &str) -> Problem {
    Problem {
        file: path.to_path_buf(),
        offset,
        what: what.to_owned(),
        affected: affected.to_owned(),
        remedy: "restore a backup".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_vfs::MemoryVfs;

    use super::*;
    use crate::read_buffer::RETAINED_BYTES;
    use crate::record::{self, Operation, OperationKind};
    use crate::segment::{LOG_DIR, SegmentWriter};

    #[test]
    fn a_reader_frees_what_a_long_block_took() {
        let vfs = MemoryVfs::new();
        let dir = Path::new("/d");
        vfs.create_dir_all(&dir.join(LOG_DIR)).unwrap();
        let identity = Identity {
            database_id: 7,
            incarnation: 1,
            generation: 1,
            shard: 0,
            shards: 1,
        };
        let mut writer = SegmentWriter::create(&vfs, dir, identity, 0).unwrap();
        let lengths = [1, 6 << 20, 4 << 20, 1];
        for (number, length) in (1..).zip(lengths) {
            let timestamp = Timestamp::new(1, number);
            let operation = Operation {
                keyspace: 1,
                kind: OperationKind::Put,
                key: b"key",
                payload: &vec![7; length],
            };
            record::append(&mut writer.bytes, timestamp, &[operation]);
            (writer.records, writer.last_timestamp) = (1, timestamp);
            writer.finish_blocks(None, false);
            writer.write().unwrap();
        }
        let mut reader = BlockReader::open(&vfs, dir, identity).unwrap();
        for length in lengths {
            assert!(matches!(reader.next().unwrap(), Next::Block(..)));
            let most = RETAINED_BYTES.max(length + 1024);
            let capacity = reader.bytes.capacity();
            assert!(capacity <= most, "{capacity} behind a block of {length}");
        }
        assert!(matches!(reader.next().unwrap(), Next::End));
    }
}
