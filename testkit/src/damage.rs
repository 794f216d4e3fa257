//! Damages the newest checkpoint of a closed database, in the ways that disks and people do.
//!
//! Where the manifest lists an older checkpoint behind it, an opening must have everything all the
//! same. Campaigns use this between the end of one process and the start of the next.

use std::path::{Path, PathBuf};

use hedgerow_log::Manifest;
use hedgerow_vfs::{OpenMode, Vfs, VfsFile, read_file};
use rand::Rng;

/// A way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit is flipped.
    Flip,
    /// A run of bytes becomes zeros, as a lost block reads back. It may have been zeros.
    Zeros,
    /// The end is missing.
    Truncate,
    /// There are bytes behind the end.
    Extend,
    /// The file is gone.
    Delete,
}

impl Damage {
    /// All ways.
    pub const ALL: [Damage; 5] = [
        Damage::Flip,
        Damage::Zeros,
        Damage::Truncate,
        Damage::Extend,
        Damage::Delete,
    ];

    /// Damages a file that has a byte at least, somewhere; whether its bytes are others now.
    ///
    /// # Errors
    /// The file system's.
    pub fn apply(self, vfs: &dyn Vfs, path: &Path, rng: &mut impl Rng) -> std::io::Result<bool> {
        if self == Damage::Delete {
            return vfs.remove(path).map(|()| true);
        }
        let mut bytes = read_file(vfs, path)?;
        let before = bytes.clone();
        let at = rng.random_range(0..bytes.len());
        match self {
            Damage::Flip => bytes[at] ^= 1 << rng.random_range(0..8),
            Damage::Zeros => {
                let end = bytes.len().min(at + rng.random_range(1..4096));
                bytes[at..end].fill(0);
            }
            Damage::Truncate => bytes.truncate(at),
            _ => bytes.extend((0..=at % 100).map(|byte| byte as u8)),
        }
        let file: Box<dyn VfsFile> = vfs.open(path, OpenMode::ReadWrite)?;
        file.write_at(0, &bytes)?;
        file.truncate(bytes.len() as u64)?;
        file.sync()?;
        Ok(bytes != before)
    }
}

/// The files of the checkpoint that is the `nth` in a database's manifest, from 0 for the newest;
/// none if it lists fewer.
///
/// # Errors
/// There is no manifest that is whole.
pub fn parts_of(vfs: &dyn Vfs, dir: &Path, nth: usize) -> Result<Vec<PathBuf>, String> {
    let manifest = Manifest::load(vfs, dir).map_err(|e| e.to_string())?;
    let folders = manifest.folders(dir);
    let checkpoint = manifest.checkpoints.get(nth);
    let parts = checkpoint.iter().flat_map(|checkpoint| &checkpoint.parts);
    let path = |file: &str, directory| folders.path(directory).join("checkpoint").join(file);
    Ok(parts.map(|part| path(&part.file, part.directory)).collect())
}

/// Damages a part of the newest checkpoint of a closed database, if the manifest lists an older one
/// behind it: which file.
///
/// # Errors
/// There is a manifest that is not whole, or the file system fails.
pub fn damage_newest(
    vfs: &dyn Vfs,
    dir: &Path,
    rng: &mut impl Rng,
) -> Result<Option<PathBuf>, String> {
    if !Manifest::exists(vfs, dir).map_err(|e| e.to_string())? {
        return Ok(None);
    }
    let manifest = Manifest::load(vfs, dir).map_err(|e| e.to_string())?;
    let parts = parts_of(vfs, dir, 0)?;
    if manifest.checkpoints.len() < 2 || parts.is_empty() {
        return Ok(None);
    }
    let part = &parts[rng.random_range(0..parts.len())];
    // A power cut may have come after an earlier damage.
    let length = read_file(vfs, part).map_or(0, |bytes| bytes.len());
    if length == 0 {
        return Ok(None);
    }
    let damage = Damage::ALL[rng.random_range(0..Damage::ALL.len())];
    let changed = damage.apply(vfs, part, rng).map_err(|e| e.to_string())?;
    Ok(changed.then(|| part.clone()))
}
