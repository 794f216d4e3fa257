//! The commits of all shards up to the cutoff, merged by timestamp. A shard's files have its
//! records in the order of their timestamps, so this merges one stream for each shard, incarnation
//! after incarnation.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use hedgerow_vfs::Vfs;

use crate::block::Identity;
use crate::error::{Error, FilePlace, Result};
use crate::planted::{PlantedBug, planted};
use crate::record::Commit;
use crate::scan::{BlockReader, Next, problem};
use crate::timestamp::Timestamp;

/// A file to read.
pub(crate) struct FileToRead {
    /// The data folder or another directory, in whose `log/` it is.
    pub(crate) folder: PathBuf,
    pub(crate) identity: Identity,
    /// Where its commits end; without it, at the block that seals the file.
    pub(crate) length: Option<u64>,
}

/// The logs of one incarnation.
pub(crate) struct Source {
    pub(crate) cutoff_epoch: u64,
    /// For each shard its files, oldest first.
    pub(crate) shards: Vec<VecDeque<FileToRead>>,
}

/// All commits that count, in the order of their timestamps.
pub struct Commits {
    vfs: Arc<dyn Vfs>,
    /// Incarnations that come later.
    later: VecDeque<Source>,
    cutoff_epoch: u64,
    streams: Vec<Stream>,
    /// The stream whose commit was returned last: it has to move on.
    returned: Option<usize>,
}

/// One shard's commits.
struct Stream {
    files: VecDeque<FileToRead>,
    reader: Option<BlockReader>,
    sealed: bool,
    /// What is left of the current block's records, in the reader's bytes.
    block: Range<usize>,
    block_offset: u64,
    /// The commit that comes next.
    head: Option<Head>,
    /// The timestamp of the last record read: the next one is later.
    last: Timestamp,
    bytes_before: u64,
}

impl Commits {
    pub(crate) fn new(vfs: Arc<dyn Vfs>, sources: VecDeque<Source>) -> Commits {
        Commits {
            vfs,
            later: sources,
            cutoff_epoch: 0,
            streams: Vec::new(),
            returned: None,
        }
    }

    /// The next commit, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming the place, if a log does not read back as it was written.
    #[allow(clippy::should_implement_trait)] // The commits borrow this: no `Iterator`.
    pub fn next(&mut self) -> Result<Option<Commit<'_>>> {
        if let Some(index) = self.returned.take() {
            self.streams[index].advance(&*self.vfs, self.cutoff_epoch)?;
        }
        loop {
            let heads = self.streams.iter().enumerate();
            let heads =
                heads.filter_map(|(at, s)| s.head.as_ref().map(|head| (head.timestamp, at)));
            let first = if planted(PlantedBug::TimestampOrderIgnored) {
                heads.min_by_key(|(_, index)| *index)
            } else {
                heads.min()
            };
            if let Some((_, index)) = first {
                self.returned = Some(index);
                return Ok(self.streams[index].commit());
            }
            let Some(source) = self.later.pop_front() else {
                return Ok(None);
            };
            self.cutoff_epoch = source.cutoff_epoch;
            let read = self.bytes_read();
            self.streams = source.shards.into_iter().map(Stream::new).collect();
            if let Some(first) = self.streams.first_mut() {
                first.bytes_before = read;
            }
            for stream in &mut self.streams {
                stream.advance(&*self.vfs, self.cutoff_epoch)?;
            }
        }
    }

    /// Where the commit is that was returned last; no file before the first.
    pub fn place(&self) -> FilePlace {
        let stream = self.returned.map(|index| &self.streams[index]);
        let reader = stream.and_then(|stream| stream.reader.as_ref());
        FilePlace {
            file: reader.map(|reader| reader.path.clone()).unwrap_or_default(),
            offset: stream.map_or(0, |stream| stream.block_offset),
        }
    }

    /// Bytes read so far, of [`RecoveredLogs::total_bytes`](crate::RecoveredLogs::total_bytes).
    pub fn bytes_read(&self) -> u64 {
        let streams = self.streams.iter();
        streams
            .map(|s| s.bytes_before + s.reader.as_ref().map_or(0, |r| r.offset))
            .sum()
    }
}

/// A commit that was decoded once, as positions.
struct Head {
    timestamp: Timestamp,
    /// Its operations, in the reader's bytes.
    operations: Range<usize>,
    count: u64,
}

impl Stream {
    fn new(files: VecDeque<FileToRead>) -> Stream {
        Stream {
            files,
            reader: None,
            sealed: false,
            block: 0..0,
            block_offset: 0,
            head: None,
            last: Timestamp::ZERO,
            bytes_before: 0,
        }
    }

    fn commit(&self) -> Option<Commit<'_>> {
        let head = self.head.as_ref()?;
        let operations = &self.reader.as_ref()?.bytes()[head.operations.clone()];
        Some(Commit::from_parts(head.timestamp, operations, head.count))
    }

    /// Finds the next commit that counts.
    fn advance(&mut self, vfs: &dyn Vfs, cutoff_epoch: u64) -> Result<()> {
        self.head = None;
        loop {
            if self.block.is_empty() && !self.next_block(vfs)? {
                return Ok(());
            }
            let Some(reader) = &self.reader else {
                return Ok(());
            };
            if self.block.is_empty() {
                continue;
            }
            let mut rest = &reader.bytes()[self.block.clone()];
            let Some(commit) = Commit::take(&mut rest) else {
                let what = "a record does not decode";
                return Err(self.damage(self.block_offset, what));
            };
            self.block.start = self.block.end - rest.len();
            // The merge relies on this order; a file that breaks it was not written by a log.
            if commit.timestamp() <= self.last {
                return Err(self.damage(self.block_offset, "the records are out of order"));
            }
            self.last = commit.timestamp();
            if commit.timestamp().epoch() <= cutoff_epoch {
                self.head = Some(Head {
                    timestamp: commit.timestamp(),
                    operations: self.block.start - commit.operation_bytes()..self.block.start,
                    count: commit.count(),
                });
                return Ok(());
            }
        }
    }

    /// Reads the next block, of the next file if need be; false after the last.
    fn next_block(&mut self, vfs: &dyn Vfs) -> Result<bool> {
        loop {
            let Some(reader) = &mut self.reader else {
                if !self.next_file(vfs)? {
                    return Ok(false);
                }
                continue;
            };
            self.block_offset = reader.offset;
            let next = match reader.next()? {
                // Written ahead, and not cut off.
                Next::Bad(_) if self.sealed && reader.is_unused()? => Next::End,
                next => next,
            };
            match next {
                Next::Block(header, records) => {
                    self.sealed = header.seals;
                    self.block = records;
                    return Ok(true);
                }
                Next::End if self.sealed || self.files.is_empty() => {
                    self.bytes_before += reader.offset;
                    self.reader = None;
                    if !self.next_file(vfs)? {
                        return Ok(false);
                    }
                }
                Next::End => {
                    return Err(self.damage(self.block_offset, "the file ends before its seal"));
                }
                Next::Bad(what) => return Err(self.damage(self.block_offset, &what)),
            }
        }
    }

    fn next_file(&mut self, vfs: &dyn Vfs) -> Result<bool> {
        let Some(file) = self.files.pop_front() else {
            return Ok(false);
        };
        let FileToRead {
            folder,
            identity,
            length,
        } = file;
        let mut reader = BlockReader::open(vfs, &folder, identity)?;
        if let Some(length) = length {
            if reader.end < length {
                let what = format!("the file ends here, {length} bytes were durable");
                let affected = "the last commits of this file";
                return Err(problem(&reader.path, reader.end, &what, affected).into());
            }
            reader.end = length;
        }
        self.sealed = false;
        self.reader = Some(reader);
        Ok(true)
    }

    fn damage(&self, offset: u64, what: &str) -> Error {
        let path = self
            .reader
            .as_ref()
            .map(|reader| reader.path.clone())
            .unwrap_or_default();
        problem(&path, offset, what, "commits in this file from here on").into()
    }
}
