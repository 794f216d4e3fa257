//! What a manifest lists, and how each entry is written: openings, keyspaces, directories, and the
//! files of a checkpoint. The drawing is that of [the manifest](crate::manifest).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use hedgerow_sync::varint;

use crate::segment::FILE_HEADER_BYTES;
use crate::timestamp::Timestamp;

/// Stands for the data folder where a manifest says in which directory files are.
pub const DATA_FOLDER: u64 = 0;

/// The most generations of one opening that can be needed: each has a file for each shard.
const MOST_GENERATIONS: u32 = 1 << 22;

/// A directory besides the data folder that has, or may have, files of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Made up when it was added, and also in the directory's own file `OWNER`: never
    /// [`DATA_FOLDER`].
    pub id: u64,
    /// Where it was at the last opening.
    pub path: PathBuf,
}

/// One opening of the database for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncarnationEntry {
    /// Its number: part of the names of its log files.
    pub incarnation: u32,
    /// How many log shards it has.
    pub shards: u16,
    /// Its oldest generation that is still needed.
    pub first_generation: u32,
    /// The first epoch of its commits.
    pub first_epoch: u64,
    /// The directories that its shards' files are in, by turns; none: the data folder.
    pub directories: Vec<u64>,
    /// Where its logs end; `None` while it is open, and after a crash until recovery.
    pub end: Option<IncarnationEnd>,
}

/// Where the logs of an incarnation end: fixed once, by closing it or by recovery, so that later
/// recoveries drop exactly the same commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncarnationEnd {
    /// Which incarnation.
    pub incarnation: u32,
    /// Commits of later epochs do not count.
    pub cutoff_epoch: u64,
    /// An upper bound of all epochs it used, counted or not.
    pub max_epoch: u64,
    /// Its last generation.
    pub last_generation: u32,
    /// The length of each shard's file of the last generation. Bytes behind it do not count.
    pub lengths: Vec<u64>,
}

/// A keyspace: a named ordered map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceEntry {
    /// What log and checkpoint records call it.
    pub id: u32,
    /// What users call it.
    pub name: String,
    /// The kind of index it has; the engine gives it meaning.
    pub index: String,
}

/// A complete checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// The generation that its rotation began: logs from it on are replayed over the checkpoint.
    pub generation: u32,
    /// An upper bound of the timestamps in it.
    pub timestamp: Timestamp,
    /// Its files.
    pub parts: Vec<PartEntry>,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// Its name inside the checkpoint directory.
    pub file: String,
    /// In which directory that is.
    pub directory: u64,
    /// Its length in bytes.
    pub len: u64,
    /// How many records it has.
    pub records: u64,
    /// crc32c over the checksums of its blocks.
    pub crc: u32,
}

pub(crate) fn push_all<T>(body: &mut Vec<u8>, items: &[T], encode: impl Fn(&T, &mut Vec<u8>)) {
    varint::push(body, items.len() as u64);
    for item in items {
        encode(item, body);
    }
}

pub(crate) fn take_all<T>(
    rest: &mut &[u8],
    decode: impl Fn(&mut &[u8]) -> Option<T>,
) -> Option<Vec<T>> {
    let count = varint::take(rest)?;
    // Every item takes at least a byte: a damaged count cannot ask for much memory.
    if count > rest.len() as u64 {
        return None;
    }
    (0..count).map(|_| decode(rest)).collect()
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    varint::take(rest)?.try_into().ok()
}

fn push_string(body: &mut Vec<u8>, string: &str) {
    varint::push(body, string.len() as u64);
    body.extend_from_slice(string.as_bytes());
}

fn take_string(rest: &mut &[u8]) -> Option<String> {
    let length = varint::take(rest)?;
    String::from_utf8(varint::take_bytes(rest, length)?.to_vec()).ok()
}

impl DirectoryEntry {
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.id.to_le_bytes());
        let path = self.path.as_os_str().as_bytes();
        varint::push(body, path.len() as u64);
        body.extend_from_slice(path);
    }

    pub(crate) fn decode(rest: &mut &[u8]) -> Option<DirectoryEntry> {
        let id = varint::take_bytes(rest, size_of::<u64>() as u64)?;
        let length = varint::take(rest)?;
        let path = OsStr::from_bytes(varint::take_bytes(rest, length)?);
        Some(DirectoryEntry {
            id: u64::from_le_bytes(id.try_into().ok()?),
            path: path.into(),
        })
    }
}

impl IncarnationEntry {
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        for number in [
            self.incarnation.into(),
            self.shards.into(),
            self.first_generation.into(),
            self.first_epoch,
        ] {
            varint::push(body, number);
        }
        push_all(body, self.end.as_slice(), |end, body| {
            for number in [end.cutoff_epoch, end.max_epoch, end.last_generation.into()] {
                varint::push(body, number);
            }
            push_all(body, &end.lengths, |length, body| {
                varint::push(body, *length)
            });
        });
    }

    pub(crate) fn decode(rest: &mut &[u8]) -> Option<IncarnationEntry> {
        let incarnation = take_u32(rest)?;
        let shards = take_u32(rest)?.try_into().ok()?;
        let first_generation = take_u32(rest)?;
        let first_epoch = varint::take(rest)?;
        let mut ends = take_all(rest, |rest| {
            Some(IncarnationEnd {
                incarnation,
                cutoff_epoch: varint::take(rest)?,
                max_epoch: varint::take(rest)?,
                last_generation: take_u32(rest)?,
                lengths: take_all(rest, varint::take)?,
            })
        })?;
        let end = ends.pop();
        let header = FILE_HEADER_BYTES as u64;
        let is_sound_end = |end: &IncarnationEnd| {
            let generations = end.last_generation.saturating_sub(first_generation);
            end.lengths.len() == usize::from(shards)
                && end.lengths.iter().all(|length| *length >= header)
                && generations < MOST_GENERATIONS
                && end.last_generation < u32::MAX
                && end.cutoff_epoch.max(end.max_epoch) <= Timestamp::MOST_STORED_EPOCH
        };
        let sound = shards > 0
            && first_generation < u32::MAX
            && (1..=Timestamp::MOST_STORED_EPOCH).contains(&first_epoch)
            && ends.is_empty()
            && end.as_ref().is_none_or(is_sound_end);
        sound.then_some(IncarnationEntry {
            incarnation,
            shards,
            first_generation,
            first_epoch,
            directories: Vec::new(),
            end,
        })
    }
}

impl KeyspaceEntry {
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        varint::push(body, self.id.into());
        push_string(body, &self.name);
        push_string(body, &self.index);
    }

    pub(crate) fn decode(rest: &mut &[u8]) -> Option<KeyspaceEntry> {
        Some(KeyspaceEntry {
            id: take_u32(rest)?,
            name: take_string(rest)?,
            index: take_string(rest)?,
        })
    }
}

/// Whether a name is one of a file of its folder, and of none elsewhere.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && ![".", ".."].contains(&name)
}

impl CheckpointEntry {
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        varint::push(body, self.generation.into());
        varint::push(body, self.timestamp.raw());
        push_all(body, &self.parts, |part, body| {
            push_string(body, &part.file);
            for number in [part.len, part.records, part.crc.into()] {
                varint::push(body, number);
            }
        });
    }

    pub(crate) fn decode(rest: &mut &[u8]) -> Option<CheckpointEntry> {
        let stored = Timestamp::from_raw;
        Some(CheckpointEntry {
            generation: take_u32(rest).filter(|generation| *generation < u32::MAX)?,
            timestamp: varint::take(rest)
                .map(stored)
                .filter(|timestamp| timestamp.epoch() <= Timestamp::MOST_STORED_EPOCH)?,
            parts: take_all(rest, |rest| {
                Some(PartEntry {
                    file: take_string(rest).filter(|file| is_file_name(file))?,
                    directory: DATA_FOLDER,
                    len: varint::take(rest)?,
                    records: varint::take(rest)?,
                    crc: take_u32(rest)?,
                })
            })?,
        })
    }
}
