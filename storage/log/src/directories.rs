//! The directories that a database's files are in: its data folder, and others, on other disks.
//!
//! Each shard's logs can be on a disk of their own, and so can the parts of a checkpoint (§5 of the
//! Masstree paper). The manifest lists the directories, with the path where each was last, and says
//! for each incarnation and each part in which of them its files are. In each, `log/` and
//! `checkpoint/` are as in the data folder.
//!
//! A directory also has a file `OWNER`, which says of which database it is, and which one of its
//! directories. So a directory of another database is refused, one that was moved is recognised,
//! and one whose disk is not mounted is missed, not taken for an empty one.
//!
//! ```text
//!  0          8         12      16             24            40     44
//! ┌──────────┬─────────┬───────┬──────────────┬─────────────┬──────┐
//! │"HdgrwDir"│ version │ zeros │ directory id │ database id │ crc  │
//! └──────────┴─────────┴───────┴──────────────┴─────────────┴──────┘
//!              u32       u32     u64            16 bytes      crc32c of 0..40
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hedgerow_vfs::{OpenMode, Vfs, read_file};

use crate::entries::{DATA_FOLDER, DirectoryEntry};
use crate::error::{Error, Problem, Result};

/// The name of the file that says whose a directory is.
pub const OWNER_FILE: &str = "OWNER";
const TEMPORARY_FILE: &str = "OWNER.tmp";
const MAGIC: [u8; 8] = *b"HdgrwDir";
const OWNER_VERSION: u32 = 1;

// Where each field begins: behind the one before, but for what follows zeros.
const VERSION_AT: usize = MAGIC.len();
const ID_AT: usize = VERSION_AT + 2 * size_of::<u32>();
const DATABASE_ID_AT: usize = ID_AT + size_of::<u64>();
const CRC_AT: usize = DATABASE_ID_AT + size_of::<u128>();
const OWNER_BYTES: usize = CRC_AT + size_of::<u32>();

// The file as it is drawn above.
const _: () = {
    assert!(VERSION_AT == 8 && ID_AT == 16 && DATABASE_ID_AT == 24);
    assert!(CRC_AT == 40 && OWNER_BYTES == 44);
};

/// The item of a list of directories that is `number`-th, where they are taken by turns; the data
/// folder if the list is empty.
pub fn round_robin(directories: &[u64], number: usize) -> u64 {
    match directories {
        [] => DATA_FOLDER,
        some => some[number % some.len()],
    }
}

/// The paths of a database's data folder and of the directories that its manifest lists.
#[derive(Clone, Debug)]
pub struct Folders {
    data: PathBuf,
    others: Vec<DirectoryEntry>,
}

impl Folders {
    /// The folders of a database in `dir`.
    pub(crate) fn new(dir: &Path, others: &[DirectoryEntry]) -> Folders {
        Folders {
            data: dir.to_path_buf(),
            others: others.to_vec(),
        }
    }

    /// The path of a directory that the manifest lists, or of the data folder.
    ///
    /// # Panics
    /// If it lists none of this id.
    pub fn path(&self, id: u64) -> &Path {
        if id == DATA_FOLDER {
            return &self.data;
        }
        let found = self.others.iter().find(|entry| entry.id == id);
        let listed = found.expect("a directory that files are in is listed");
        &listed.path
    }

    /// The path of the directory where a shard's logs are, if the shards take `directories` by
    /// turns.
    pub(crate) fn of_shard(&self, directories: &[u64], shard: u16) -> &Path {
        self.path(round_robin(directories, shard.into()))
    }

    /// All of them with their ids, the data folder first.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Path)> {
        let others = self.others.iter();
        let others = others.map(|entry| (entry.id, entry.path.as_path()));
        [(DATA_FOLDER, self.data.as_path())]
            .into_iter()
            .chain(others)
    }
}

/// The folders that new log files of shards go to, which these take by turns: one at least.
#[derive(Clone, Debug)]
pub(crate) struct ShardFolders(Vec<PathBuf>);

impl ShardFolders {
    /// Those of some directories, or the data folder.
    pub(crate) fn new(folders: &Folders, directories: &[u64]) -> ShardFolders {
        let paths = (0..directories.len().max(1)).map(|at| round_robin(directories, at));
        ShardFolders(paths.map(|id| folders.path(id).to_path_buf()).collect())
    }

    /// That of a shard.
    pub(crate) fn of(&self, shard: u16) -> &Path {
        &self.0[usize::from(shard) % self.0.len()]
    }

    /// All of them, each once.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

/// Whose a directory is: what its file `OWNER` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The database.
    pub database_id: u128,
    /// Which of its directories.
    pub directory: u64,
}

impl Owner {
    /// Whose a directory is; `None` without such a file.
    ///
    /// # Errors
    /// [`Error::NewerFormat`], [`Error::Corrupt`], or the file cannot be read.
    pub fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Owner>> {
        let path = dir.join(OWNER_FILE);
        match read_file(vfs, &path) {
            Ok(bytes) => Owner::decode(&path, &bytes).map(Some),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", &path, e)),
        }
    }

    /// Says so in the directory, durably.
    ///
    /// # Errors
    /// [`Error::Io`]; what was there before is there then, or this.
    pub fn store(&self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        let temporary = dir.join(TEMPORARY_FILE);
        let failed = |operation| move |e| Error::io(operation, &dir.join(TEMPORARY_FILE), e);
        if vfs.exists(&temporary).map_err(failed("look for"))? {
            vfs.remove(&temporary).map_err(failed("remove"))?;
        }
        let file = vfs.open(&temporary, OpenMode::CreateNew);
        let file = file.map_err(failed("create"))?;
        file.write_at(0, &self.encode()).map_err(failed("write"))?;
        file.sync().map_err(failed("sync"))?;
        vfs.rename(&temporary, &dir.join(OWNER_FILE))
            .map_err(failed("rename"))?;
        vfs.sync_dir(dir)
            .map_err(|e| Error::io("sync directory", dir, e))
    }

    /// Whether this is the name of a file that [`store`](Self::store) makes or leaves.
    pub fn is_name(name: &str) -> bool {
        name == OWNER_FILE || name == TEMPORARY_FILE
    }

    fn encode(&self) -> [u8; OWNER_BYTES] {
        let mut bytes = [0; OWNER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(VERSION_AT, &OWNER_VERSION.to_le_bytes());
        put(ID_AT, &self.directory.to_le_bytes());
        put(DATABASE_ID_AT, &self.database_id.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Owner> {
        let damaged = |what: &str| {
            Error::from(Problem {
                file: path.to_path_buf(),
                offset: 0,
                what: what.to_owned(),
                affected: "whether this directory is one of the database".to_owned(),
                remedy: "put the file back, or restore a backup; nothing was changed".to_owned(),
            })
        };
        let Some(bytes): Option<&[u8; OWNER_BYTES]> = bytes.first_chunk() else {
            return Err(damaged("the file is too short"));
        };
        if bytes[..VERSION_AT] != MAGIC {
            return Err(damaged("it is no file of Hedgerow's"));
        }
        if bytes[CRC_AT..] != crc32c::crc32c(&bytes[..CRC_AT]).to_le_bytes() {
            return Err(damaged("the checksum does not match the contents"));
        }
        let version = bytes[VERSION_AT..].first_chunk();
        let version = version.map_or(0, |b| u32::from_le_bytes(*b));
        if version > OWNER_VERSION {
            return Err(Error::NewerFormat {
                file: path.to_path_buf(),
                found: version,
                supported: OWNER_VERSION,
            });
        }
        let directory = bytes[ID_AT..].first_chunk();
        let database_id = bytes[DATABASE_ID_AT..].first_chunk();
        Ok(Owner {
            database_id: database_id.map_or(0, |b| u128::from_le_bytes(*b)),
            directory: directory.map_or(0, |b| u64::from_le_bytes(*b)),
        })
    }
}
