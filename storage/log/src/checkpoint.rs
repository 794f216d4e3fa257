//! Checkpoint files: the rows that a scan of the database saw, in parts.
//!
//! `checkpoint/<generation>-<part>.ckpt`. The scan is fuzzy: writers continue while it runs, and
//! replay of the logs from its rotation on brings every record to its final state. A part counts
//! when the manifest lists it, so nothing here is ever repaired: any damage is an error.
//!
//! ```text
//!  0        8         12           16     20      24            40      60     64
//! ┌────────┬─────────┬────────────┬──────┬───────┬─────────────┬───────┬──────┐
//! │"HdgrwCkp"│version│ generation │ part │ zeros │ database id │ zeros │ crc  │  file header
//! └────────┴─────────┴────────────┴──────┴───────┴─────────────┴───────┴──────┘
//!            u32       u32          u32            16 bytes       crc32c of 0..60
//!
//! blocks of about 64 KiB (one record may make a block larger):
//!   0 u32 magic "HdCk"
//!   4 u32 crc32c of bytes 8.. of the block, seeded by the crc32c of the file header's 64 bytes
//!   8 u64 length of the whole block       16 u64 sequence of the block, from 0
//!  24 u32 records     28 u32 1 for the last block of the file, else 0
//!  32 records: varint keyspace · varint key length · varint record length · key · record
//! ```
//!
//! The manifest lists each part with its length, its number of records, and a CRC-32C over the
//! checksums (four bytes each) of its blocks. The engine's records are rows with their timestamps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_sync::varint;
use hedgerow_vfs::{OpenMode, Vfs, VfsFile, read_exact_at, read_up_to_at};

use crate::entries::{DATA_FOLDER, PartEntry};
use crate::error::{Error, FilePlace, Problem, Result};
use crate::planted::{PlantedBug, planted};
use crate::read_buffer::resized;

/// The directory of checkpoint files inside a database.
pub(crate) const CHECKPOINT_DIR: &str = "checkpoint";
const FILE_MAGIC: [u8; 8] = *b"HdgrwCkp";
const CHECKPOINT_VERSION: u32 = 1;
const MAGIC: u32 = u32::from_le_bytes(*b"HdCk");

// Where each field of the file's header begins: behind the one before, but for what follows zeros.
const VERSION_AT: usize = FILE_MAGIC.len();
const GENERATION_AT: usize = VERSION_AT + size_of::<u32>();
const PART_AT: usize = GENERATION_AT + size_of::<u32>();
const DATABASE_ID_AT: usize = PART_AT + 2 * size_of::<u32>();
const FILE_CRC_AT: usize = FILE_HEADER_BYTES - size_of::<u32>();
const FILE_HEADER_BYTES: usize = 64;

// Where each field of a block's header begins: behind the one before.
const CRC_AT: usize = size_of::<u32>();
const LENGTH_AT: usize = CRC_AT + size_of::<u32>();
const SEQUENCE_AT: usize = LENGTH_AT + size_of::<u64>();
const RECORDS_AT: usize = SEQUENCE_AT + size_of::<u64>();
const LAST_AT: usize = RECORDS_AT + size_of::<u32>();
const HEADER_BYTES: usize = LAST_AT + size_of::<u32>();

// Both headers as they are drawn above.
const _: () = {
    assert!(VERSION_AT == 8 && GENERATION_AT == 12 && PART_AT == 16 && DATABASE_ID_AT == 24);
    assert!(DATABASE_ID_AT + size_of::<u128>() == 40 && FILE_CRC_AT == 60);
    assert!(CRC_AT == 4 && LENGTH_AT == 8 && SEQUENCE_AT == 16);
    assert!(RECORDS_AT == 24 && LAST_AT == 28 && HEADER_BYTES == 32);
};

const BLOCK_BYTES: usize = 64 << 10;
// Syncing as we go keeps the last sync, and with it the log's, short.
const SYNC_EVERY_BYTES: u64 = 16 << 20;

/// The name of a checkpoint file.
pub(crate) fn file_name(generation: u32, part: u32) -> String {
    format!("{generation:08}-{part:04}.ckpt")
}

fn file_header(database_id: u128, generation: u32, part: u32) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, &FILE_MAGIC);
    put(VERSION_AT, &CHECKPOINT_VERSION.to_le_bytes());
    put(GENERATION_AT, &generation.to_le_bytes());
    put(PART_AT, &part.to_le_bytes());
    put(DATABASE_ID_AT, &database_id.to_le_bytes());
    let crc = crc32c::crc32c(&header[..FILE_CRC_AT]);
    header[FILE_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Writes one part of a checkpoint. Dropped before it is finished, it removes its file.
pub struct CheckpointWriter {
    vfs: Arc<dyn Vfs>,
    file: Box<dyn VfsFile>,
    path: PathBuf,
    name: String,
    seed: u32,
    block: Vec<u8>,
    block_records: u32,
    sequence: u64,
    length: u64,
    synced: u64,
    records: u64,
    crc: u32,
    finished: bool,
}

/// A part that is given up gives its space back: the disk may be full because of it.
impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails too, the next opening removes the file.
            let _ = self.vfs.remove(&self.path);
        }
    }
}

impl CheckpointWriter {
    /// Creates the file of part `part` of the checkpoint that the rotation to `generation` began,
    /// in a data folder or another directory, replacing one that an interrupted checkpoint left.
    ///
    /// # Errors
    /// [`Error::Io`] if the file or its directory cannot be made.
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        database_id: u128,
        generation: u32,
        part: u32,
    ) -> Result<CheckpointWriter> {
        let parent = dir.join(CHECKPOINT_DIR);
        let name = file_name(generation, part);
        let path = parent.join(&name);
        vfs.create_dir_all(&parent)
            .map_err(|e| Error::io("create", &parent, e))?;
        if vfs
            .exists(&path)
            .map_err(|e| Error::io("look for", &path, e))?
        {
            vfs.remove(&path)
                .map_err(|e| Error::io("remove", &path, e))?;
        }
        let file = vfs
            .open(&path, OpenMode::CreateNew)
            .map_err(|e| Error::io("create", &path, e))?;
        let header = file_header(database_id, generation, part);
        file.write_at(0, &header)
            .map_err(|e| Error::io("write", &path, e))?;
        Ok(CheckpointWriter {
            vfs,
            file,
            path,
            name,
            seed: crc32c::crc32c(&header),
            block: vec![0; HEADER_BYTES],
            block_records: 0,
            sequence: 0,
            length: FILE_HEADER_BYTES as u64,
            synced: 0,
            records: 0,
            crc: 0,
            finished: false,
        })
    }

    /// Appends a record: opaque bytes under a key. Writes a block when enough records wait.
    ///
    /// # Errors
    /// [`Error::Io`] if a block cannot be written. Drop the writer then, which removes the file.
    pub fn append(&mut self, keyspace: u32, key: &[u8], record: &[u8]) -> Result<()> {
        let mut header = [0; 3 * varint::MAX_BYTES];
        let mut at = varint::put(&mut header, 0, u64::from(keyspace));
        at = varint::put(&mut header, at, key.len() as u64);
        at = varint::put(&mut header, at, record.len() as u64);
        self.block.extend_from_slice(&header[..at]);
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(record);
        self.block_records += 1;
        self.records += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.write_block(false)
        } else {
            Ok(())
        }
    }

    /// Bytes written so far, including the block being filled.
    pub fn bytes(&self) -> u64 {
        self.length + self.block.len() as u64
    }

    /// Writes the last block and makes the file durable. It counts once the manifest lists it: in
    /// the data folder, unless the caller corrects the entry's directory.
    ///
    /// # Errors
    /// [`Error::Io`]: the file is removed.
    pub fn finish(mut self) -> Result<PartEntry> {
        self.write_block(true)?;
        self.sync()?;
        if let Some(parent) = self.path.parent() {
            self.vfs
                .sync_dir(parent)
                .map_err(|e| Error::io("sync directory", parent, e))?;
            // The directory itself may be new.
            if let Some(dir) = parent.parent() {
                self.vfs
                    .sync_dir(dir)
                    .map_err(|e| Error::io("sync directory", dir, e))?;
            }
        }
        self.finished = true;
        Ok(PartEntry {
            file: std::mem::take(&mut self.name),
            directory: DATA_FOLDER,
            len: self.length,
            records: self.records,
            crc: self.crc,
        })
    }

    fn write_block(&mut self, last: bool) -> Result<()> {
        let length = self.block.len() as u64;
        let block = &mut self.block;
        let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(LENGTH_AT, &length.to_le_bytes());
        put(SEQUENCE_AT, &self.sequence.to_le_bytes());
        put(RECORDS_AT, &self.block_records.to_le_bytes());
        put(LAST_AT, &u32::from(last).to_le_bytes());
        let crc = crc32c::crc32c_append(self.seed, &self.block[LENGTH_AT..]);
        self.block[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
        self.file
            .write_at(self.length, &self.block)
            .map_err(|e| Error::io("write", &self.path, e))?;
        self.crc = crc32c::crc32c_append(self.crc, &crc.to_le_bytes());
        self.length += length;
        self.sequence += 1;
        self.block.truncate(HEADER_BYTES);
        self.block.shrink_to(4 * BLOCK_BYTES);
        self.block_records = 0;
        if self.length - self.synced >= SYNC_EVERY_BYTES {
            self.sync()
        } else {
            Ok(())
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.file
            .sync()
            .map_err(|e| Error::io("sync", &self.path, e))?;
        self.synced = self.length;
        Ok(())
    }
}

/// Reads one part of a checkpoint, verifying everything that it returns.
pub struct CheckpointReader {
    file: Box<dyn VfsFile>,
    path: PathBuf,
    entry: PartEntry,
    seed: u32,
    block: Vec<u8>,
    /// Position in `block` of the next record.
    at: usize,
    block_left: u32,
    /// Offset of `block` in the file, and of the next one.
    offset: u64,
    next_offset: u64,
    sequence: u64,
    records: u64,
    crc: u32,
    last_seen: bool,
}

/// A record of a checkpoint, in the reader's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointRecord<'a> {
    /// The number of its keyspace.
    pub keyspace: u32,
    /// Its key.
    pub key: &'a [u8],
    /// The encoded row.
    pub row: &'a [u8],
}

impl CheckpointReader {
    /// Opens a part of the checkpoint that the manifest lists under `generation`, in the folder
    /// that it names ([`Folders::path`](crate::Folders::path)). Reads its header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file is missing, foreign, or of another length than the manifest
    /// says.
    pub fn open(
        vfs: &dyn Vfs,
        dir: &Path,
        database_id: u128,
        generation: u32,
        entry: &PartEntry,
    ) -> Result<CheckpointReader> {
        let path = dir.join(CHECKPOINT_DIR).join(&entry.file);
        let file = match vfs.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(damage(
                    &path,
                    0,
                    "the file is missing, though MANIFEST names it",
                    0,
                    entry,
                )
                .into());
            }
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut header = [0; FILE_HEADER_BYTES];
        let read =
            read_up_to_at(&*file, 0, &mut header).map_err(|e| Error::io("read", &path, e))?;
        check_file_header(&path, &header[..read], database_id, generation, entry)?;
        let length = file
            .len()
            .map_err(|e| Error::io("get the length of", &path, e))?;
        if length != entry.len {
            let what = format!(
                "the file has {length} bytes, the manifest says {}",
                entry.len
            );
            return Err(damage(&path, length.min(entry.len), &what, 0, entry).into());
        }
        Ok(CheckpointReader {
            file,
            path,
            entry: entry.clone(),
            seed: crc32c::crc32c(&header),
            block: Vec::new(),
            at: 0,
            block_left: 0,
            offset: 0,
            next_offset: FILE_HEADER_BYTES as u64,
            sequence: 0,
            records: 0,
            crc: 0,
            last_seen: false,
        })
    }

    /// The next record, or `None` after the last one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming file and offset, if anything is not as it was written.
    #[allow(clippy::should_implement_trait)] // The records borrow the reader: no `Iterator`.
    pub fn next(&mut self) -> Result<Option<CheckpointRecord<'_>>> {
        while self.block_left == 0 {
            if self.at < self.block.len() {
                return Err(self.damage(self.offset, "a block is longer than its records"));
            }
            if self.last_seen {
                return self.check_end().map(|()| None);
            }
            self.read_block()?;
        }
        self.block_left -= 1;
        self.records += 1;
        let mut rest = &self.block[self.at..];
        let lengths = (|| {
            let keyspace = u32::try_from(varint::take(&mut rest)?).ok()?;
            let key = usize::try_from(varint::take(&mut rest)?).ok()?;
            let record = usize::try_from(varint::take(&mut rest)?).ok()?;
            let fits = key
                .checked_add(record)
                .is_some_and(|both| both <= rest.len());
            fits.then_some((keyspace, key, record))
        })();
        let Some((keyspace, key_bytes, record_bytes)) = lengths else {
            return Err(self.damage(self.offset, "a record does not decode"));
        };
        let start = self.block.len() - rest.len();
        self.at = start + key_bytes + record_bytes;
        let (key, row) = self.block[start..self.at].split_at(key_bytes);
        Ok(Some(CheckpointRecord { keyspace, key, row }))
    }

    /// Where the record is that was returned last.
    pub fn place(&self) -> FilePlace {
        FilePlace {
            file: self.path.clone(),
            offset: self.offset,
        }
    }

    /// How far the reader is in the file, in bytes.
    pub fn bytes_read(&self) -> u64 {
        self.next_offset
    }

    fn read_block(&mut self) -> Result<()> {
        self.offset = self.next_offset;
        let offset = self.offset;
        let mut header = [0; HEADER_BYTES];
        if offset + HEADER_BYTES as u64 > self.entry.len {
            return Err(self.damage(offset, "the file ends where a block should begin"));
        }
        self.read(offset, &mut header)?;
        let field = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let long = |at: usize| u64::from(field(at)) | u64::from(field(at + 4)) << 32;
        let length = long(LENGTH_AT);
        if field(0) != MAGIC || length < HEADER_BYTES as u64 || length > self.entry.len - offset {
            return Err(self.damage(offset, "there is no block where one should begin"));
        }
        // The length is bounded by the file's, so a damaged one asks for no more memory than that.
        let mut block = resized(std::mem::take(&mut self.block), length as usize);
        block[..HEADER_BYTES].copy_from_slice(&header);
        self.read(offset + HEADER_BYTES as u64, &mut block[HEADER_BYTES..])?;
        let crc = match planted(PlantedBug::CheckpointChecksumIgnored) {
            true => field(CRC_AT),
            false => crc32c::crc32c_append(self.seed, &block[LENGTH_AT..]),
        };
        if crc != field(CRC_AT) {
            return Err(self.damage(offset, "the block's checksum does not match its bytes"));
        }
        if long(SEQUENCE_AT) != self.sequence || field(LAST_AT) > 1 {
            return Err(self.damage(offset, "the block belongs to another place"));
        }
        self.crc = crc32c::crc32c_append(self.crc, &crc.to_le_bytes());
        self.sequence += 1;
        self.block = block;
        self.at = HEADER_BYTES;
        self.block_left = field(RECORDS_AT);
        self.last_seen = field(LAST_AT) == 1;
        self.next_offset = offset + length;
        Ok(())
    }

    fn check_end(&self) -> Result<()> {
        let found = (self.next_offset, self.records, self.crc);
        if found == (self.entry.len, self.entry.records, self.entry.crc) {
            return Ok(());
        }
        Err(self.damage(
            self.next_offset,
            "the file is not the one that the manifest lists",
        ))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_exact_at(&*self.file, offset, buffer).map_err(|e| Error::io("read", &self.path, e))
    }

    fn damage(&self, offset: u64, what: &str) -> Error {
        damage(&self.path, offset, what, self.records, &self.entry).into()
    }
}

fn check_file_header(
    path: &Path,
    header: &[u8],
    database_id: u128,
    generation: u32,
    entry: &PartEntry,
) -> Result<()> {
    let part = entry
        .file
        .strip_suffix(".ckpt")
        .and_then(|name| name.split_once('-'));
    let part = part
        .and_then(|(_, part)| part.parse().ok())
        .unwrap_or(u32::MAX);
    if header == file_header(database_id, generation, part) {
        return Ok(());
    }
    let whole = header.len() == FILE_HEADER_BYTES
        && crc32c::crc32c(&header[..FILE_CRC_AT]).to_le_bytes() == header[FILE_CRC_AT..];
    if whole && header[..VERSION_AT] == FILE_MAGIC {
        let version = &header[VERSION_AT..GENERATION_AT];
        let found = version.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        if found > CHECKPOINT_VERSION {
            let supported = CHECKPOINT_VERSION;
            return Err(Error::NewerFormat {
                file: path.to_path_buf(),
                found,
                supported,
            });
        }
        let what = match found {
            0 => "the file has format version 0, which never was",
            _ => "the file belongs to another checkpoint or database",
        };
        return Err(damage(path, 0, what, 0, entry).into());
    }
    Err(damage(path, 0, "the file header is damaged", 0, entry).into())
}

fn damage(path: &Path, offset: u64, what: &str, good: u64, entry: &PartEntry) -> Problem {
    Problem {
        file: path.to_path_buf(),
        offset,
        what: what.to_owned(),
        affected: format!(
            "records {good} to {} of this part of the checkpoint",
            entry.records
        ),
        remedy: "restore a backup".to_owned(),
    }
}
