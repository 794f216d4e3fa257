//! The manifest: the one small file that says what the database consists of.
//!
//! It names everything else, and changes only by one atomic step: the new contents are written to
//! `MANIFEST.tmp`, synced, and renamed over `MANIFEST`. So a crash leaves the old state or the new
//! one, and a checkpoint or an opening counts exactly when its manifest does. In between,
//! `MANIFEST.tmp` is an empty file with disk space reserved, for the next manifest.
//!
//! ```text
//!  0          8         12            16     20
//! ┌──────────┬─────────┬─────────────┬──────┬────────────────┐
//! │"HdgrwMan"│ version │ body length │ crc  │ body           │
//! └──────────┴─────────┴─────────────┴──────┴────────────────┘
//!              u32       u32           u32: crc32c of bytes 8..16 and the body
//!
//! body; integers are varints, strings a varint length and UTF-8, lists a varint count and items:
//!  16 bytes database id
//!  last incarnation · log floor · next keyspace id · epoch floor
//!  u8 1 after a clean shutdown, else 0
//!  list of incarnations: incarnation · shards · first generation · first epoch ·
//!                        end (list of 0 or 1)
//!      end: cutoff epoch · largest epoch · last generation ·
//!           list of the lengths of that generation's files, by shard
//!  list of keyspaces: id · string name · string kind of index
//!  list of checkpoints, the newest first: generation · timestamp · list of parts
//!      part: string file name · length · records · crc
//!      in version 5 two or more, of descending generations; in earlier ones 0 or 1
//!  sequence, from version 2 on
//!  in versions 4 and 5:
//!      the version without this · list of directories: u64 id · string path, of any bytes
//!          in version 4 one or more
//!      list of the directories that new logs go to
//!      of each incarnation, in their order: list of the directories of its shards, by turns
//!      of each part of each checkpoint, in their order: its directory
//!          a directory: its number in the list of directories, from 1 on, or 0 for the data folder
//! ```
//!
//! Version 3 has the body of version 2. It is written where a database has a page file beside
//! keyspaces in memory, which a program that knows version 2 alone would take for one or the other.
//! Version 4 is written while the manifest lists directories, which earlier programs know nothing
//! of. [`DirectoryEntry`] is one of them. Version 5 is written while the manifest lists older
//! checkpoints behind the newest ([`retained`](crate::retained)), whether there are directories or
//! not.
//!
//! [`Manifest`] says what the fields mean.

use std::io;
use std::path::{Path, PathBuf};

use hedgerow_sync::varint;
use hedgerow_vfs::{OpenMode, Vfs, VfsFile, is_disk_full, read_file};

use crate::entries::{
    CheckpointEntry, DATA_FOLDER, DirectoryEntry, IncarnationEnd, IncarnationEntry, KeyspaceEntry,
    push_all, take_all, take_u32,
};
use crate::error::{Error, Problem, Result};
use crate::planted::{PlantedBug, planted};
use crate::segment::FILE_HEADER_BYTES;
use crate::timestamp::Timestamp;

/// The manifest's name in the database's directory.
pub const MANIFEST_FILE: &str = "MANIFEST";
const TEMPORARY_FILE: &str = "MANIFEST.tmp";
const MAGIC: [u8; 8] = *b"HdgrwMan";

// Where each field of the header begins: behind the one before.
const VERSION_AT: usize = MAGIC.len();
const BODY_LENGTH_AT: usize = VERSION_AT + size_of::<u32>();
const CRC_AT: usize = BODY_LENGTH_AT + size_of::<u32>();
const HEADER_BYTES: usize = CRC_AT + size_of::<u32>();
const DATABASE_ID_BYTES: u64 = 16;

// The header as it is drawn above.
const _: () = {
    assert!(VERSION_AT == 8 && BODY_LENGTH_AT == 12 && CRC_AT == 16 && HEADER_BYTES == 20);
    assert!(DATABASE_ID_BYTES == size_of::<u128>() as u64);
};

/// The newest manifest format this code reads: the one of a database that keeps older checkpoints
/// behind the newest.
pub const FORMAT_VERSION: u32 = 5;
/// The format of a database with files in other directories than its data folder, and one
/// checkpoint at most.
pub const DIRECTORIES_FORMAT_VERSION: u32 = 4;
/// The format of a database that has a page file beside keyspaces in memory, without such
/// directories or older checkpoints.
pub const MIXED_FORMAT_VERSION: u32 = 3;
/// The format of any other database, with the same body.
/// Version 2 has a sequence; in version 1 it was always 0.
pub const PLAIN_FORMAT_VERSION: u32 = 2;

/// What a database consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Made up at creation; in every file, so that files of two databases are never mixed up.
    pub database_id: u128,
    /// The version of the format this was read from, and will be written in, but for versions
    /// before [`PLAIN_FORMAT_VERSION`], which are not written any more. While directories or older
    /// checkpoints are listed, the version that it would have without.
    pub format_version: u32,
    /// The number of the last opening for writing.
    pub incarnation: u32,
    /// How often an open database replaced its manifest: logs record it
    /// ([`Log::record_manifest_sequence`]), so that an older copy is known for one.
    ///
    /// [`Log::record_manifest_sequence`]: crate::Log::record_manifest_sequence
    pub sequence: u64,
    /// Log files of older generations are not needed any more.
    pub log_floor: u32,
    /// Epochs up to this one were used by openings that have ended.
    pub epoch_floor: u64,
    /// The openings whose logs are still needed, oldest first.
    pub incarnations: Vec<IncarnationEntry>,
    /// All keyspaces.
    pub keyspaces: Vec<KeyspaceEntry>,
    /// The id that the next keyspace gets. Ids are never used twice.
    pub next_keyspace_id: u32,
    /// The complete checkpoints that are kept, the newest first. Recovery loads the first; the
    /// others are for a recovery that finds it damaged.
    pub checkpoints: Vec<CheckpointEntry>,
    /// Whether the database was closed properly, so that nothing needs replaying carefully.
    pub clean_shutdown: bool,
    /// The directories besides the data folder that have files of the database, or may have.
    pub directories: Vec<DirectoryEntry>,
    /// Those of them that new logs and checkpoints go to, by turns; none: the data folder.
    pub log_directories: Vec<u64>,
}

/// A spare manifest has a multiple of this.
const SPARE_UNIT_BYTES: u64 = 4096;

/// Opens the file that the next manifest is written to; whether it is new.
fn open_temporary(vfs: &dyn Vfs, path: &Path) -> io::Result<(Box<dyn VfsFile>, bool)> {
    let is_new = !vfs.exists(path)?;
    let mode = match is_new {
        true => OpenMode::CreateNew,
        false => OpenMode::ReadWrite,
    };
    Ok((vfs.open(path, mode)?, is_new))
}

impl Manifest {
    /// The manifest of a new, empty database.
    pub fn new(database_id: u128) -> Manifest {
        Manifest {
            database_id,
            format_version: PLAIN_FORMAT_VERSION,
            incarnation: 0,
            sequence: 0,
            log_floor: 1,
            epoch_floor: 0,
            incarnations: Vec::new(),
            keyspaces: Vec::new(),
            next_keyspace_id: 0,
            checkpoints: Vec::new(),
            clean_shutdown: true,
            directories: Vec::new(),
            log_directories: Vec::new(),
        }
    }

    /// The manifest's path in a database's directory.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(MANIFEST_FILE)
    }

    /// Whether the directory holds a manifest.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be found out.
    pub fn exists(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
        let path = Manifest::path(dir);
        vfs.exists(&path)
            .map_err(|e| Error::io("look for", &path, e))
    }

    /// Reads and verifies the manifest of a database.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] if it is missing or foreign, [`Error::NewerFormat`],
    /// [`Error::Corrupt`] if it is cut or damaged.
    pub fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Manifest> {
        let path = Manifest::path(dir);
        match read_file(vfs, &path) {
            Ok(bytes) => Manifest::decode(&path, &bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(Error::NotADatabase { file: path })
            }
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    /// Replaces the manifest, atomically and durably.
    ///
    /// # Errors
    /// [`Error::Io`]; the old or the new manifest is in place then.
    pub fn store(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        let temporary = dir.join(TEMPORARY_FILE);
        let failed = |operation| move |e| Error::io(operation, &dir.join(TEMPORARY_FILE), e);
        // What an interrupted store left, or a spare: its space is taken, and the rest given back.
        let (file, is_new) = open_temporary(vfs, &temporary).map_err(failed("create"))?;
        let bytes = self.encode();
        file.write_at(0, &bytes).map_err(failed("write"))?;
        if !is_new {
            file.truncate(bytes.len() as u64)
                .map_err(failed("truncate"))?;
        }
        if !planted(PlantedBug::ManifestNotSynced) {
            file.sync().map_err(failed("sync"))?;
        }
        vfs.rename(&temporary, &Manifest::path(dir))
            .map_err(failed("rename"))?;
        if planted(PlantedBug::ManifestNameNotSynced) {
            return Ok(());
        }
        vfs.sync_dir(dir)
            .map_err(|e| Error::io("sync directory", dir, e))
    }

    /// Replaces the manifest as [`Manifest::store`] does, after [`Manifest::check_in_place`]: for a
    /// database that is open. Works on a full disk, too: space is reserved for the next one.
    ///
    /// # Errors
    /// As for both.
    pub fn replace(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        self.check_in_place(vfs, dir)?;
        self.store(vfs, dir)?;
        self.keep_spare(vfs, dir);
        Ok(())
    }

    /// Reserves disk space for the next manifest, in the file that it will be written to, as far as
    /// there is space and the file system can do that: so that keyspaces can be dropped, and the
    /// database opened, on a full disk.
    pub(crate) fn keep_spare(&self, vfs: &dyn Vfs, dir: &Path) {
        let Ok((file, _)) = open_temporary(vfs, &dir.join(TEMPORARY_FILE)) else {
            return;
        };
        let mut wanted = (2 * self.encode().len() as u64).next_multiple_of(SPARE_UNIT_BYTES);
        // Nothing depends on it. Of a disk that is full, what the last manifest had is enough.
        while wanted > 0 && file.allocate(0, wanted).is_err_and(|e| is_disk_full(&e)) {
            wanted /= 2;
        }
    }

    /// Whether the manifest on disk is of this database and incarnation, so that this one may
    /// replace it: somebody else may have changed the files of a database that is open. Reads it.
    ///
    /// # Errors
    /// [`Error::Displaced`] if another one is there, or none.
    pub fn check_in_place(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        let found = match Manifest::load(vfs, dir) {
            Ok(found) if found.database_id == self.database_id => Some(found.incarnation),
            Ok(_) | Err(Error::NotADatabase { .. }) => None,
            Err(error) => return Err(error),
        };
        if found != Some(self.incarnation) {
            return Err(Error::Displaced {
                file: Manifest::path(dir),
                own: self.incarnation,
                found,
            });
        }
        Ok(())
    }

    /// The entry of a keyspace, by name.
    pub fn keyspace(&self, name: &str) -> Option<&KeyspaceEntry> {
        self.keyspaces.iter().find(|entry| entry.name == name)
    }

    /// Adds a keyspace and returns its entry. The caller has checked that the name is free.
    pub fn add_keyspace(&mut self, name: &str, index: &str) -> &KeyspaceEntry {
        debug_assert!(self.keyspace(name).is_none());
        let id = self.next_keyspace_id;
        self.next_keyspace_id += 1;
        let entry = KeyspaceEntry {
            id,
            name: name.to_owned(),
            index: index.to_owned(),
        };
        self.keyspaces.push(entry);
        &self.keyspaces[self.keyspaces.len() - 1]
    }

    /// Records where an incarnation's logs end, as closing the log or recovering it found.
    /// Openings that logged nothing leave the manifest.
    pub fn record_end(&mut self, end: IncarnationEnd) {
        self.epoch_floor = self.epoch_floor.max(end.max_epoch);
        let found = self
            .incarnations
            .iter()
            .position(|e| e.incarnation == end.incarnation);
        let Some(at) = found else { return };
        let entry = &mut self.incarnations[at];
        let empty = end
            .lengths
            .iter()
            .all(|&length| length == FILE_HEADER_BYTES as u64);
        if empty && entry.first_generation == end.last_generation {
            self.incarnations.remove(at);
        } else {
            entry.end = Some(end);
        }
    }

    /// The generation with which the next incarnation begins.
    pub(crate) fn next_generation(&self) -> u32 {
        let used = self.incarnations.iter().map(|entry| match &entry.end {
            Some(end) => end.last_generation + 1,
            None => entry.first_generation + 1,
        });
        let replayed = self.replayed_from();
        used.max().unwrap_or(0).max(replayed)
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&self.database_id.to_le_bytes());
        for number in [self.incarnation, self.log_floor, self.next_keyspace_id] {
            varint::push(&mut body, number.into());
        }
        varint::push(&mut body, self.epoch_floor);
        body.push(u8::from(self.clean_shutdown));
        push_all(&mut body, &self.incarnations, IncarnationEntry::encode);
        push_all(&mut body, &self.keyspaces, KeyspaceEntry::encode);
        push_all(&mut body, &self.checkpoints, CheckpointEntry::encode);
        varint::push(&mut body, self.sequence);
        let mut version = self.format_version.max(PLAIN_FORMAT_VERSION);
        let keeps_older = self.checkpoints.len() > 1;
        if keeps_older || !self.directories.is_empty() {
            varint::push(&mut body, version.into());
            self.encode_directories(&mut body);
            version = match keeps_older {
                true => FORMAT_VERSION,
                false => DIRECTORIES_FORMAT_VERSION,
            };
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[VERSION_AT..CRC_AT]), &body);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Verifies and decodes the bytes of a manifest; `path` is for the error.
    ///
    /// # Errors
    /// As for [`Manifest::load`], but for a missing file.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest> {
        let damaged = |offset: usize, what: &str| {
            Error::from(Problem {
                file: path.to_path_buf(),
                offset: offset as u64,
                what: what.to_owned(),
                affected: "the whole database: the manifest lists its files".to_owned(),
                remedy: "restore a backup".to_owned(),
            })
        };
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic != &MAGIC[..magic.len()] {
            // One wrong byte is damage; more is another file.
            let wrong = magic.iter().zip(MAGIC).filter(|(a, b)| **a != *b).count();
            let first = magic
                .iter()
                .zip(MAGIC)
                .position(|(a, b)| *a != b)
                .unwrap_or(0);
            return Err(match wrong {
                1 => damaged(first, "the magic is damaged"),
                _ => Error::NotADatabase {
                    file: path.to_path_buf(),
                },
            });
        }
        if bytes.len() < HEADER_BYTES {
            return Err(damaged(bytes.len(), "the file ends inside its header"));
        }
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let body = &bytes[HEADER_BYTES..];
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[VERSION_AT..CRC_AT]), body);
        if body.len() < number(BODY_LENGTH_AT) as usize && number(VERSION_AT) <= FORMAT_VERSION {
            return Err(damaged(
                BODY_LENGTH_AT,
                "the file is shorter than its header says",
            ));
        }
        if crc != number(CRC_AT) {
            return Err(damaged(
                VERSION_AT,
                "the checksum does not match the contents",
            ));
        }
        if number(VERSION_AT) > FORMAT_VERSION {
            return Err(Error::NewerFormat {
                file: path.to_path_buf(),
                found: number(VERSION_AT),
                supported: FORMAT_VERSION,
            });
        }
        if number(VERSION_AT) == 0 {
            return Err(damaged(
                VERSION_AT,
                "it has format version 0, which never was",
            ));
        }
        let mut rest = body;
        match Manifest::decode_body(&mut rest, number(VERSION_AT)) {
            Some(manifest) if rest.is_empty() && number(BODY_LENGTH_AT) as usize == body.len() => {
                Ok(manifest)
            }
            _ => Err(damaged(HEADER_BYTES, "the contents do not decode")),
        }
    }

    fn decode_body(rest: &mut &[u8], format_version: u32) -> Option<Manifest> {
        let database_id = varint::take_bytes(rest, DATABASE_ID_BYTES)?
            .try_into()
            .ok()?;
        let mut manifest = Manifest {
            database_id: u128::from_le_bytes(database_id),
            format_version,
            incarnation: take_u32(rest)?,
            log_floor: take_u32(rest)?,
            next_keyspace_id: take_u32(rest)?,
            epoch_floor: varint::take(rest)
                .filter(|epoch| *epoch <= Timestamp::MOST_STORED_EPOCH)?,
            clean_shutdown: match varint::take_bytes(rest, 1)? {
                [0] => false,
                [1] => true,
                _ => return None,
            },
            incarnations: take_all(rest, IncarnationEntry::decode)?,
            keyspaces: take_all(rest, KeyspaceEntry::decode)?,
            checkpoints: take_all(rest, CheckpointEntry::decode)?,
            sequence: match format_version {
                1 => 0,
                _ => varint::take(rest)?,
            },
            directories: Vec::new(),
            log_directories: Vec::new(),
        };
        if format_version >= DIRECTORIES_FORMAT_VERSION {
            manifest.format_version = take_u32(rest)?;
            manifest.decode_directories(rest)?;
        }
        let checkpoints = &manifest.checkpoints;
        let descends = |pair: &[CheckpointEntry]| pair[0].generation > pair[1].generation;
        let is_sound = match format_version {
            FORMAT_VERSION => checkpoints.len() > 1 && checkpoints.windows(2).all(descends),
            DIRECTORIES_FORMAT_VERSION => checkpoints.len() < 2 && !manifest.directories.is_empty(),
            _ => checkpoints.len() < 2,
        };
        is_sound.then_some(manifest)
    }

    fn encode_directories(&self, body: &mut Vec<u8>) {
        push_all(body, &self.directories, DirectoryEntry::encode);
        let number = |id: u64| {
            let at = self.directories.iter().position(|entry| entry.id == id);
            match id {
                DATA_FOLDER => 0,
                _ => at.expect("a directory that files are in is listed") as u64 + 1,
            }
        };
        let push = |id: &u64, body: &mut Vec<u8>| varint::push(body, number(*id));
        push_all(body, &self.log_directories, push);
        for entry in &self.incarnations {
            push_all(body, &entry.directories, push);
        }
        for part in self.checkpoints.iter().flat_map(|entry| &entry.parts) {
            push(&part.directory, body);
        }
    }

    fn decode_directories(&mut self, rest: &mut &[u8]) -> Option<()> {
        self.directories = take_all(rest, DirectoryEntry::decode)?;
        let ids: Vec<u64> = self.directories.iter().map(|entry| entry.id).collect();
        let is_distinct = |at: usize| ids[at] != DATA_FOLDER && !ids[..at].contains(&ids[at]);
        let is_known = [PLAIN_FORMAT_VERSION, MIXED_FORMAT_VERSION].contains(&self.format_version);
        if !(0..ids.len()).all(is_distinct) || !is_known {
            return None;
        }
        let take = |rest: &mut &[u8]| match usize::try_from(varint::take(rest)?).ok()? {
            0 => Some(DATA_FOLDER),
            number => ids.get(number - 1).copied(),
        };
        self.log_directories = take_all(rest, take)?;
        for entry in &mut self.incarnations {
            entry.directories = take_all(rest, take)?;
            if entry.directories.len() > usize::from(entry.shards) {
                return None;
            }
        }
        let parts = self
            .checkpoints
            .iter_mut()
            .flat_map(|entry| &mut entry.parts);
        for part in parts {
            part.directory = take(rest)?;
        }
        Some(())
    }
}
