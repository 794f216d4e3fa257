//! Opening a page file: which of its two roots counts, and making a new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_vfs::{OpenMode, ReadAt, Vfs, VfsFile, WriteAt};

use crate::block::Block;
use crate::error::Error;
use crate::options::Options;
use crate::root::{Root, Slot};

type Result<T> = std::result::Result<T, Error>;

fn io(operation: &'static str, file: &Path, source: std::io::Error) -> Error {
    let file = file.to_path_buf();
    Error::Io {
        operation,
        file,
        source,
    }
}

/// A page file that was opened.
pub(crate) struct OpenFile {
    pub(crate) file: Box<dyn VfsFile>,
    /// Its newest whole root.
    pub(crate) root: Root,
    /// Where that is.
    pub(crate) slot: Slot,
}

/// Opens a page file and finds its newest whole root; makes the file if it is not there.
pub(crate) fn file_and_root<const PAGE: usize>(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    options: &Options,
) -> Result<OpenFile> {
    if !options.read_only && !vfs.exists(path).map_err(|e| io("look for", path, e))? {
        create::<PAGE>(vfs, path, options.database)?;
    }
    let mode = if options.read_only {
        OpenMode::Read
    } else {
        OpenMode::ReadWrite
    };
    let file = vfs.open_direct(path, mode);
    let file = file.map_err(|e| io("open", path, e))?;
    let mut blocks = Block::<PAGE>::several(2);
    let mut reads: Vec<ReadAt<'_>> = blocks
        .iter_mut()
        .zip(Slot::BOTH)
        .map(|(block, slot)| ReadAt::new(slot.offset::<PAGE>(), &mut block.0))
        .collect();
    file.read_many(&mut reads);
    let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
    let mut newest: Option<(Root, Slot)> = None;
    let mut failure = None;
    for ((block, slot), result) in blocks.iter().zip(Slot::BOTH).zip(results) {
        if let Err(error) = result {
            failure = Some(io("read", path, error));
            continue;
        }
        // A slot that is cut off reads as zeros behind its end, which is no root.
        if let Some(root) = Root::decode(&block.0, path)?
            && newest
                .as_ref()
                .is_none_or(|(other, _)| other.epoch < root.epoch)
        {
            newest = Some((root, slot));
        }
    }
    // Without one of the slots there is no telling whether the other is the newest.
    if let Some(error) = failure {
        return Err(error);
    }
    let (root, slot) = newest.ok_or_else(|| Error::NotAPageFile {
        file: path.to_path_buf(),
        what: "neither of its two roots is whole",
    })?;
    if root.database != options.database {
        return Err(Error::Foreign {
            file: path.to_path_buf(),
            found: root.database,
            expected: options.database,
        });
    }
    Ok(OpenFile { file, root, slot })
}

/// Writes the root that was found again, and makes it durable: after a sync that failed the
/// system's cache may serve a root that the disk does not have, and the blocks of the one before it
/// are about to be used. All that the root refers to was durable before it was first written. A
/// power cut meanwhile leaves this root, or the one before, whose blocks are as they were.
pub(crate) fn write_again<const PAGE: usize>(
    file: &dyn VfsFile,
    path: &Path,
    root: &Root,
    slot: Slot,
) -> Result<()> {
    let mut block = Block::<PAGE>::zeroed();
    root.encode(&mut block.0);
    let mut write = WriteAt::new(slot.offset::<PAGE>(), &block.0);
    file.write_many(std::slice::from_mut(&mut write));
    write.result.map_err(|e| io("write to", path, e))?;
    file.sync().map_err(|e| io("sync", path, e))
}

/// How many of a page file's two roots are neither whole nor empty. A crash while one is written
/// leaves one, which loses nothing: the other counts.
///
/// # Errors
///
/// The file cannot be read, or is of a format or a page size that this program does not know.
pub fn torn_roots<const PAGE: usize>(file: &dyn VfsFile, path: &Path) -> Result<u64> {
    let mut torn = 0;
    for slot in Slot::BOTH {
        let mut block = vec![0; PAGE];
        let at = slot.offset::<PAGE>();
        let read = file.read_at(at, &mut block);
        read.map_err(|e| io("read", path, e))?;
        let is_empty = block.iter().all(|&byte| byte == 0);
        torn += u64::from(!is_empty && Root::decode(&block, path)?.is_none());
    }
    Ok(torn)
}

/// Makes an empty page file under another name and renames it, so that no crash leaves a part.
fn create<const PAGE: usize>(vfs: &Arc<dyn Vfs>, path: &Path, database: u64) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let exists = vfs.exists(&new).map_err(|e| io("look for", &new, e))?;
    let mode = if exists {
        OpenMode::ReadWrite
    } else {
        OpenMode::CreateNew
    };
    let file = vfs.open_direct(&new, mode);
    let file = file.map_err(|e| io("create", &new, e))?;
    let root = Root {
        database,
        epoch: 1,
        blocks: 2,
        ..Root::default()
    };
    let mut blocks = Block::<PAGE>::several(2);
    root.encode(&mut blocks[1].0);
    for (block, slot) in blocks.iter().zip(Slot::BOTH) {
        let mut write = WriteAt::new(slot.offset::<PAGE>(), &block.0);
        file.write_many(std::slice::from_mut(&mut write));
        write.result.map_err(|e| io("write to", &new, e))?;
    }
    file.truncate(2 * PAGE as u64)
        .and_then(|()| file.sync())
        .and_then(|()| vfs.rename(&new, path))
        .and_then(|()| vfs.sync_dir(path.parent().unwrap_or(Path::new(""))))
        .map_err(|e| io("create", path, e))
}
