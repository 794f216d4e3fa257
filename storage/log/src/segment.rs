//! Log files: their names, their headers, and the writer of one.
//!
//! `log/<incarnation>-<generation>-<shard>.log`. An *incarnation* is one opening of the database;
//! it never appends to files of an earlier one. A *generation* is the files between two rotations
//! (a checkpoint rotates, so that older generations can be removed); generations are numbered on
//! across incarnations. Numbers in the name are decimal and padded with zeros, to eight digits,
//! eight and four. Behind the header stand [blocks](crate::block).
//!
//! ```text
//!  0        8         12            16           20      22       24            40      60     64
//! ┌────────┬─────────┬─────────────┬────────────┬───────┬────────┬─────────────┬───────┬──────┐
//! │"HdgrwLog"│version│ incarnation │ generation │ shard │ shards │ database id │ zeros │ crc  │
//! └────────┴─────────┴─────────────┴────────────┴───────┴────────┴─────────────┴───────┴──────┘
//!            u32       u32           u32          u16     u16      16 bytes       crc32c of 0..60
//! ```
//!
//! The header and the directory are synced before anything relies on the file.
//!
//! Where commits wait for their sync, a file is written *ahead* with zeros, which blocks then
//! overwrite: a sync has neither a new length nor new extents to store, so the file system writes
//! the block and no journal of its own. (On ext4 over a virtual disk that takes 100 to 110 µs where
//! a block that makes the file longer takes 160 to 180.) Every byte of such a log is therefore
//! written twice; logs that are synced by the clock have no use for it. Zeros behind the last block
//! are no torn tail: see `scan`. Sealing or closing a file cuts them off.
//!
//! Behind that a file has disk space *reserved*, without contents and beyond its length, where the
//! file system can do that. While the disk has more space, the writer reserves anew as blocks are
//! written; when it has no more, only removals are accepted, and their blocks use the reserve. Its
//! last part is left for the next opening, which releases it to write a manifest and new logs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_vfs::{OpenMode, Vfs, VfsFile, is_disk_full};

use crate::block::{self, BlockHeader, Closing, HEADER_BYTES, Identity};
use crate::error::{Error, Result};
use crate::planted::{PlantedBug, planted};
use crate::timestamp::Timestamp;

/// The directory of log files inside a database.
pub(crate) const LOG_DIR: &str = "log";
const FILE_MAGIC: [u8; 8] = *b"HdgrwLog";

// Where each field of a file's header begins: behind the one before, but for the checksum.
const VERSION_AT: usize = FILE_MAGIC.len();
const INCARNATION_AT: usize = VERSION_AT + size_of::<u32>();
const GENERATION_AT: usize = INCARNATION_AT + size_of::<u32>();
const SHARD_AT: usize = GENERATION_AT + size_of::<u32>();
const SHARDS_AT: usize = SHARD_AT + size_of::<u16>();
const DATABASE_ID_AT: usize = SHARDS_AT + size_of::<u16>();
const ZEROS_AT: usize = DATABASE_ID_AT + size_of::<u128>();
const CRC_AT: usize = FILE_HEADER_BYTES - size_of::<u32>();
/// Bytes of a log file's header.
pub(crate) const FILE_HEADER_BYTES: usize = 64;

// The header as it is drawn above.
const _: () = {
    assert!(VERSION_AT == 8 && INCARNATION_AT == 12 && GENERATION_AT == 16);
    assert!(SHARD_AT == 20 && SHARDS_AT == 22 && DATABASE_ID_AT == 24);
    assert!(ZEROS_AT == 40 && CRC_AT == 60);
};

/// The newest log format this code reads, and the one it writes. Version 2 knows removals of
/// ranges, version 3 blocks that name a manifest; older versions are the same without them.
pub(crate) const LOG_VERSION: u32 = 3;

/// The name of a log file.
pub(crate) fn file_name(incarnation: u32, generation: u32, shard: u16) -> String {
    format!("{incarnation:08}-{generation:08}-{shard:04}.log")
}

/// The parts of a log file's name.
#[derive(Clone, Copy)]
pub(crate) struct FileName {
    pub(crate) incarnation: u32,
    pub(crate) generation: u32,
    pub(crate) shard: u16,
}

/// The parts of a log file's name; `None` for other files.
pub(crate) fn parse_file_name(name: &str) -> Option<FileName> {
    let mut parts = name.strip_suffix(".log")?.split('-');
    let parsed = FileName {
        incarnation: parts.next()?.parse().ok()?,
        generation: parts.next()?.parse().ok()?,
        shard: parts.next()?.parse().ok()?,
    };
    let again = file_name(parsed.incarnation, parsed.generation, parsed.shard);
    (again == name).then_some(parsed)
}

/// The name of the empty file in the data folder's `log/` that says that this incarnation has its
/// logs in other directories.
pub(crate) fn elsewhere_name(incarnation: u32) -> String {
    format!("{incarnation:08}.elsewhere")
}

/// The incarnation of such a name; `None` for other files.
pub(crate) fn parse_elsewhere_name(name: &str) -> Option<u32> {
    let incarnation = name.strip_suffix(".elsewhere")?.parse().ok()?;
    (elsewhere_name(incarnation) == name).then_some(incarnation)
}

/// The path of the log file with this identity, in a data folder or another directory.
pub(crate) fn path(dir: &Path, identity: &Identity) -> PathBuf {
    dir.join(LOG_DIR).join(file_name(
        identity.incarnation,
        identity.generation,
        identity.shard,
    ))
}

/// The header of a log file of the newest version.
pub(crate) fn file_header(identity: &Identity) -> [u8; FILE_HEADER_BYTES] {
    file_header_of(LOG_VERSION, identity)
}

fn file_header_of(version: u32, identity: &Identity) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, &FILE_MAGIC);
    put(VERSION_AT, &version.to_le_bytes());
    put(INCARNATION_AT, &identity.incarnation.to_le_bytes());
    put(GENERATION_AT, &identity.generation.to_le_bytes());
    put(SHARD_AT, &identity.shard.to_le_bytes());
    put(SHARDS_AT, &identity.shards.to_le_bytes());
    put(DATABASE_ID_AT, &identity.database_id.to_le_bytes());
    let crc = crc32c::crc32c(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Why a file header was refused.
pub(crate) enum HeaderFault {
    /// Written by a newer program.
    Newer(u32),
    /// Damaged, or another file's.
    Bad(&'static str),
}

/// Verifies that `bytes` are the header of the file with this identity.
pub(crate) fn check_file_header(
    bytes: &[u8],
    identity: &Identity,
) -> std::result::Result<(), HeaderFault> {
    if (1..=LOG_VERSION).any(|version| bytes == file_header_of(version, identity)) {
        return Ok(());
    }
    if bytes.len() < FILE_HEADER_BYTES {
        return Err(HeaderFault::Bad("the file ends inside its header"));
    }
    if bytes[..VERSION_AT] != FILE_MAGIC {
        return Err(HeaderFault::Bad("this is not a log file"));
    }
    if crc32c::crc32c(&bytes[..CRC_AT]).to_le_bytes() != bytes[CRC_AT..FILE_HEADER_BYTES] {
        return Err(HeaderFault::Bad(
            "the file header's checksum does not match its bytes",
        ));
    }
    let version = &bytes[VERSION_AT..INCARNATION_AT];
    let version = version.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    if version > LOG_VERSION {
        return Err(HeaderFault::Newer(version));
    }
    if version == 0 {
        return Err(HeaderFault::Bad(
            "this log file has format version 0, which never was",
        ));
    }
    if bytes[DATABASE_ID_AT..ZEROS_AT] != identity.database_id.to_le_bytes() {
        return Err(HeaderFault::Bad(
            "this log file belongs to another database",
        ));
    }
    Err(HeaderFault::Bad(
        "this log file was renamed: its header names another one",
    ))
}

/// The identity that the header of a log file states, if the header is whole.
pub(crate) fn identity_in(bytes: &[u8]) -> Option<Identity> {
    let header: &[u8; FILE_HEADER_BYTES] = bytes.try_into().ok()?;
    let crc = crc32c::crc32c(&header[..CRC_AT]).to_le_bytes();
    if header[..VERSION_AT] != FILE_MAGIC || header[CRC_AT..] != crc {
        return None;
    }
    let word = |at: usize| header[at..].first_chunk().map(|b| u32::from_le_bytes(*b));
    let half = |at: usize| header[at..].first_chunk().map(|b| u16::from_le_bytes(*b));
    Some(Identity {
        database_id: u128::from_le_bytes(*header[DATABASE_ID_AT..].first_chunk()?),
        incarnation: word(INCARNATION_AT)?,
        generation: word(GENERATION_AT)?,
        shard: half(SHARD_AT)?,
        shards: half(SHARDS_AT)?,
    })
}

/// Appends blocks to one log file.
pub(crate) struct SegmentWriter {
    file: Arc<dyn VfsFile>,
    pub(crate) path: PathBuf,
    identity: Identity,
    /// Bytes of whole blocks in the file.
    pub(crate) length: u64,
    /// Bytes known to be synced.
    pub(crate) durable: u64,
    sequence: u64,
    /// The blocks being put together: room for a header, then records. Kept between writes.
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u32,
    pub(crate) last_timestamp: Timestamp,
    /// Where one block of `bytes` ends and the next begins.
    pub(crate) cuts: Vec<Cut>,
    /// Whether `bytes` are finished blocks that still have to be written.
    pending: bool,
    /// Bytes of the file: those behind `length` are zeros, written ahead.
    allocated: u64,
    /// Bytes of the blocks written last.
    last_block: u64,
    /// Whether zeros could not be written: blocks are written all the same.
    refused: bool,
    /// Bytes of disk space to reserve behind the blocks; 0 for none.
    reserve: u64,
    /// The offset up to which disk space is reserved.
    reserved: u64,
    /// Whether less than half of the reserve is left, and the disk has no more.
    short: bool,
    /// Whether the reserve is given to a checkpoint: until it is over nothing is reserved.
    released: bool,
    /// Whether the finished block seals the file: then nothing is reserved behind it.
    seals: bool,
}

/// Bytes that are written ahead at once, at least, where that is within the limit.
const LEAST_AHEAD: u64 = 16 << 10;

// After a burst, or a large value, what a buffer has beyond this goes back to the allocator. There
// are two buffers for each shard: under load each has twice what is worth writing, if that.
const RETAINED_BUFFER_BYTES: usize = 512 << 10;

/// Where one block of a buffer ends and the next begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Where the room for the next one's header begins.
    pub(crate) at: usize,
    /// The buffer's records before it.
    pub(crate) records: u32,
    /// The last of their timestamps.
    pub(crate) last_timestamp: Timestamp,
}

/// An empty buffer: room for a block header.
pub(crate) fn empty_buffer() -> Vec<u8> {
    vec![0; HEADER_BYTES]
}

/// A reserve is had in so many parts: if there is no space for all, then for as many as there is.
const RESERVE_PARTS: u64 = 32;
/// How many of them are left for the next opening.
const LEAST_PARTS: u64 = 4;

/// Finds how many parts of a reserve there is space for, by halving; `try_parts` reserves so many.
fn most_parts(most: u64, mut try_parts: impl FnMut(u64) -> bool) {
    if try_parts(most) {
        return;
    }
    let (mut had, mut refused) = (0, most);
    while refused - had > 1 {
        let parts = (had + refused) / 2;
        if try_parts(parts) {
            had = parts;
        } else {
            refused = parts;
        }
    }
}

/// Reserves disk space for the new files of all shards, which have no blocks yet: the same amount
/// for each, so that on a full disk every worker has some. While the reserve is `released`, no
/// more than must be left for the next opening.
pub(crate) fn reserve_alike(writers: &mut [SegmentWriter], released: bool) {
    let most = if released { LEAST_PARTS } else { RESERVE_PARTS };
    let mut reserve = |parts| {
        let is_had = writers
            .iter_mut()
            .all(|writer| writer.reserve_parts(writer.length, parts));
        if !is_had {
            writers.iter_mut().for_each(SegmentWriter::trim);
        }
        is_had
    };
    let mut had = 0;
    most_parts(most, |parts| {
        let is_had = reserve(parts);
        if is_had {
            had = parts;
        }
        is_had
    });
    // What was tried last may have been too much.
    reserve(had);
    for writer in writers {
        let enough = writer.length + writer.reserve / 2;
        writer.short = writer.reserve > 0 && writer.reserved < enough;
        writer.released = released && writer.reserve > 0;
    }
}

impl SegmentWriter {
    /// Creates the file with its header and syncs it. So many bytes of disk space are to be
    /// reserved for it, which the caller does for all shards ([`reserve_alike`]), as it syncs the
    /// directory.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        dir: &Path,
        identity: Identity,
        reserve_bytes: u32,
    ) -> Result<SegmentWriter> {
        let path = path(dir, &identity);
        if vfs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?
        {
            // Left over from an opening or a rotation that did not complete: nothing refers to it.
            vfs.remove(&path)
                .map_err(|e| Error::io("remove", &path, e))?;
        }
        let file = vfs
            .open(&path, OpenMode::CreateNew)
            .map_err(|e| Error::io("create", &path, e))?;
        file.write_at(0, &file_header(&identity))
            .map_err(|e| Error::io("write", &path, e))?;
        file.sync().map_err(|e| Error::io("sync", &path, e))?;
        Ok(SegmentWriter {
            file: Arc::from(file),
            path,
            identity,
            length: FILE_HEADER_BYTES as u64,
            durable: FILE_HEADER_BYTES as u64,
            sequence: 0,
            bytes: empty_buffer(),
            records: 0,
            last_timestamp: Timestamp::ZERO,
            cuts: Vec::new(),
            pending: false,
            allocated: FILE_HEADER_BYTES as u64,
            last_block: 0,
            refused: false,
            reserve: reserve_bytes.into(),
            reserved: FILE_HEADER_BYTES as u64,
            short: false,
            released: false,
            seals: false,
        })
    }

    /// Whether the disk has no space beyond what is left of the reserve.
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    /// Reserves disk space behind the block that is to be written, if less than half of what there
    /// should be is left.
    pub(crate) fn keep_reserve(&mut self) {
        if self.released {
            self.short = self.reserve > 0;
            return;
        }
        let block = if self.pending { self.bytes.len() } else { 0 };
        let next = self.length + block as u64;
        let enough = next + self.reserve / 2;
        if self.reserve == 0 || self.reserved >= enough {
            self.short = false;
            return;
        }
        most_parts(RESERVE_PARTS, |parts| self.reserve_parts(next, parts));
        self.short = self.reserve > 0 && self.reserved < enough;
    }

    /// Whether so many parts of what there should be are reserved behind `next`, after trying.
    fn reserve_parts(&mut self, next: u64, parts: u64) -> bool {
        let end = next + self.reserve * parts / RESERVE_PARTS;
        if end <= self.reserved {
            return true;
        }
        match self.file.allocate(self.length, end - self.length) {
            Ok(()) => {
                self.reserved = end;
                true
            }
            Err(e) if is_disk_full(&e) => false,
            // The file system cannot reserve: the log has no reserve.
            Err(_) => {
                self.reserve = 0;
                true
            }
        }
    }

    /// How many bytes of the reserve a checkpoint could use: all but those that this file keeps,
    /// and those that the file of the next generation needs.
    pub(crate) fn releasable(&self) -> u64 {
        let reserved = self.reserved.saturating_sub(self.length);
        reserved.saturating_sub(2 * self.least_reserve())
    }

    /// Whether less than an eighth of the reserve is left beside what each file must have, once so
    /// many bytes more are written.
    pub(crate) fn is_reserve_low(&self, appended: usize) -> bool {
        let unwritten = (self.bytes.len() + appended) as u64;
        self.releasable() < unwritten + self.reserve / 8
    }

    fn least_reserve(&self) -> u64 {
        self.reserve * LEAST_PARTS / RESERVE_PARTS
    }

    /// Whether there is as much reserved as must be left for the next opening.
    pub(crate) fn has_least(&self) -> bool {
        self.reserved >= self.length + self.least_reserve()
    }

    /// Releases the reserve, but for the part for the next opening, until it is
    /// [reserved again](Self::restore_reserve). Not while a block waits for space.
    pub(crate) fn release_reserve(&mut self) {
        if self.reserve == 0 || self.pending {
            return;
        }
        self.released = true;
        self.trim();
        self.reserve_parts(self.length, LEAST_PARTS);
    }

    /// Reserves again as much as there is space for.
    pub(crate) fn restore_reserve(&mut self) {
        self.released = false;
        self.keep_reserve();
    }

    /// Whether the finished block would take what is left for the next opening.
    fn is_exhausted(&self) -> bool {
        let end = self.length + self.bytes.len() as u64;
        let keeps = !self.released && !self.seals;
        self.short && keeps && end + self.least_reserve() > self.reserved.max(self.allocated)
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether records wait to be put into a block.
    pub(crate) fn has_records(&self) -> bool {
        self.records > 0
    }

    /// Whether written bytes wait for a sync.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.durable < self.length
    }

    /// How many blocks the current records become.
    pub(crate) fn blocks(&self) -> u64 {
        self.cuts.len() as u64 + 1
    }

    /// The length the file will have once the current records are written as blocks, with or
    /// without a trailer, which names a manifest or does not.
    pub(crate) fn length_after(&self, with_trailer: bool, names_manifest: bool) -> u64 {
        let trailer = if with_trailer {
            block::trailer_bytes(self.identity.shards, names_manifest)
        } else {
            0
        };
        let block = self.bytes.len() + trailer;
        self.length + block as u64
    }

    /// Makes the current records (perhaps none) blocks, to be written by `write`. The last of them
    /// closes, or seals the file.
    pub(crate) fn finish_blocks(&mut self, closing: Option<Closing>, seals: bool) {
        debug_assert!(!self.pending);
        let (mut start, mut records, mut sequence) = (0, 0, self.sequence);
        for cut in &self.cuts {
            let header = BlockHeader {
                length: 0,
                sequence,
                durable_offset: self.durable,
                last_timestamp: cut.last_timestamp,
                records: cut.records - records,
                seals: false,
                closing: None,
            };
            let bytes = &mut self.bytes[start..cut.at];
            block::seal_without_trailer(bytes, &self.identity, &header);
            (start, records, sequence) = (cut.at, cut.records, sequence + 1);
        }
        let header = BlockHeader {
            length: 0,
            sequence,
            durable_offset: self.durable,
            last_timestamp: self.last_timestamp,
            records: self.records - records,
            seals,
            closing,
        };
        block::seal(&mut self.bytes, start, &self.identity, &header);
        self.pending = true;
        self.seals = seals;
    }

    /// Discards the finished block, which has no records, after it could not be written.
    pub(crate) fn discard_block(&mut self) {
        debug_assert!(self.pending && self.records == 0);
        self.pending = false;
        self.bytes.truncate(HEADER_BYTES);
    }

    /// Whether finished blocks have to be written.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Writes the finished blocks; how many bytes that were. After an error it may be called
    /// again, and writes to the same place.
    pub(crate) fn write(&mut self) -> io::Result<u64> {
        debug_assert!(self.pending);
        self.keep_reserve();
        if self.is_exhausted() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let outcome = self.file.write_at(self.length, &self.bytes);
        if !planted(PlantedBug::WriteErrorIgnored) {
            outcome?;
        }
        let written = self.bytes.len() as u64;
        self.length += written;
        self.allocated = self.allocated.max(self.length);
        self.last_block = written;
        self.sequence += self.blocks();
        self.pending = false;
        self.cuts.clear();
        self.records = 0;
        self.last_timestamp = Timestamp::ZERO;
        self.bytes.truncate(HEADER_BYTES);
        self.bytes.shrink_to(RETAINED_BUFFER_BYTES);
        Ok(written)
    }

    /// Writes zeros ahead of the blocks to come, if there is no room for two more like the last one
    /// and these are small: as many as the file has bytes, within a limit. How many that were. If
    /// that fails, the file has no zeros ahead from then on.
    pub(crate) fn write_ahead(&mut self, most: u64) -> u64 {
        debug_assert!(!self.pending);
        let ahead = self.length.clamp(LEAST_AHEAD.min(most), most);
        let room = self.allocated - self.length;
        let is_due = self.last_block > 0 && room < 2 * self.last_block;
        if self.refused || !is_due || 8 * self.last_block > ahead {
            return 0;
        }
        match self.file.write_at(self.allocated, &vec![0; ahead as usize]) {
            Ok(()) => {
                self.allocated += ahead;
                ahead
            }
            // No block depends on it, and the next one meets what is wrong if it is in its way.
            Err(_) => {
                self.refused = true;
                0
            }
        }
    }

    /// Cuts off what was written ahead, if that is possible, and gives the reserve back: nothing
    /// depends on either.
    pub(crate) fn trim(&mut self) {
        debug_assert!(!self.pending);
        // After a refusal there may be more of it than is known.
        let has_more = self.allocated.max(self.reserved) > self.length || self.refused;
        if has_more && self.file.truncate(self.length).is_ok() {
            self.allocated = self.length;
            self.reserved = self.length;
        }
    }

    /// Cuts off what was written ahead; the reserve stays, for the next opening.
    pub(crate) fn trim_ahead(&mut self) {
        if self.allocated > self.length || self.refused {
            self.trim();
            self.keep_reserve();
        }
    }

    /// The file, for syncing it while others write.
    pub(crate) fn file(&self) -> Arc<dyn VfsFile> {
        Arc::clone(&self.file)
    }
}
