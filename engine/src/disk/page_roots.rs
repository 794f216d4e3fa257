//! What the root of the page file says of the engine's own trees, and the catalog's entries in it.
//!
//! The 512 bytes that the pool reserves for its owner say where the catalog and the expiry index
//! are, and from which log generation on the file lacks commits:
//!
//! ```text
//!  0          4                8               12                   16            24           32
//! ┌──────────┬────────────────┬───────────────┬────────────────────┬─────────────┬────────────┐
//! │version 1 │log generation  │catalog's root │expiry index's root │catalog's len│expiries    │
//! └──────────┴────────────────┴───────────────┴────────────────────┴─────────────┴────────────┘
//!
//! catalog: keyspace id, big endian (4)   →   root page (4) · rows (8) · rows with an expiry (8)
//! ```
//!
//! Integers are little-endian, but for those in keys. A length is how many entries a tree has.

use std::path::Path;

use hedgerow_log::Problem;
use hedgerow_pages::{PageId, Pool};

use crate::error::{Error, Result};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

const VERSION: u32 = 1;

// Where each field of the owner's bytes begins: behind the one before.
const GENERATION_AT: usize = size_of::<u32>();
const CATALOG_ROOT_AT: usize = GENERATION_AT + size_of::<u32>();
const EXPIRIES_ROOT_AT: usize = CATALOG_ROOT_AT + size_of::<PageId>();
const CATALOG_LEN_AT: usize = EXPIRIES_ROOT_AT + size_of::<PageId>();
const EXPIRIES_LEN_AT: usize = CATALOG_LEN_AT + size_of::<u64>();
const ENGINE_ROOTS_BYTES: usize = EXPIRIES_LEN_AT + size_of::<u64>();

// The same of an entry of the catalog.
const ROWS_AT: usize = size_of::<PageId>();
const EXPIRING_AT: usize = ROWS_AT + size_of::<u64>();
const ENTRY_BYTES: usize = EXPIRING_AT + size_of::<u64>();

// Both as they are drawn above.
const _: () = {
    assert!(GENERATION_AT == 4 && CATALOG_ROOT_AT == 8 && EXPIRIES_ROOT_AT == 12);
    assert!(CATALOG_LEN_AT == 16 && EXPIRIES_LEN_AT == 24 && ENGINE_ROOTS_BYTES == 32);
    assert!(ROWS_AT == 4 && EXPIRING_AT == 12 && ENTRY_BYTES == 20);
};

/// The engine's bytes in the pool's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EngineRoots {
    pub(crate) generation: u32,
    /// Its root page and how many entries it has, as of the next.
    pub(crate) catalog: (PageId, u64),
    pub(crate) expiries: (PageId, u64),
}

impl EngineRoots {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ENGINE_ROOTS_BYTES);
        for number in [
            VERSION,
            self.generation,
            self.catalog.0.0,
            self.expiries.0.0,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for len in [self.catalog.1, self.expiries.1] {
            bytes.extend_from_slice(&len.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<EngineRoots> {
        let bytes: &[u8; ENGINE_ROOTS_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        let long = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |b| u64::from_le_bytes(*b))
        };
        (word(0) == VERSION).then(|| EngineRoots {
            generation: word(GENERATION_AT),
            catalog: (PageId(word(CATALOG_ROOT_AT)), long(CATALOG_LEN_AT)),
            expiries: (PageId(word(EXPIRIES_ROOT_AT)), long(EXPIRIES_LEN_AT)),
        })
    }
}

/// An entry of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogEntry {
    pub(crate) root: PageId,
    pub(crate) rows: u64,
    pub(crate) expiring: u64,
}

impl CatalogEntry {
    pub(crate) fn encode(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..ROWS_AT].copy_from_slice(&self.root.0.to_le_bytes());
        bytes[ROWS_AT..EXPIRING_AT].copy_from_slice(&self.rows.to_le_bytes());
        bytes[EXPIRING_AT..].copy_from_slice(&self.expiring.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<CatalogEntry> {
        let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| {
            bytes[at..]
                .first_chunk()
                .map_or(0, |b| u64::from_le_bytes(*b))
        };
        Some(CatalogEntry {
            root: PageId(bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))),
            rows: long(ROWS_AT),
            expiring: long(EXPIRING_AT),
        })
    }
}

/// Where the engine's trees begin in the page file; `None` if it is new. The logs before generation
/// `needed` are gone.
pub(crate) fn engine_roots(
    pool: &Pool<PAGE>,
    path: &Path,
    needed: u32,
) -> Result<Option<EngineRoots>> {
    let bytes = pool.owner();
    let roots = EngineRoots::decode(&bytes);
    if roots.is_none() && !bytes.is_empty() {
        return Err(unknown_owner(path, &bytes));
    }
    let generation = roots.as_ref().map_or(0, |roots| roots.generation);
    if generation < needed {
        let what = format!(
            "it ends at log generation {generation}, and the logs before {needed} are gone"
        );
        return Err(not_this_databases(path, what));
    }
    Ok(roots)
}

/// The error of a page file that is missing, or older than the logs.
pub(crate) fn not_this_databases(path: &Path, what: String) -> Error {
    Error::Corrupt(Box::new(Problem {
        file: path.to_path_buf(),
        offset: 0,
        what,
        affected: "all rows".to_owned(),
        remedy: "put the page file that belongs to this database back, or restore a backup"
            .to_owned(),
    }))
}

/// What is wrong with an owner's record that does not decode.
fn unknown_owner(path: &Path, bytes: &[u8]) -> Error {
    let file = path.to_path_buf();
    let found = bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    if found > VERSION {
        return Error::NewerFormat {
            file,
            found,
            supported: VERSION,
        };
    }
    let what = match found {
        VERSION => format!("its root says of the engine's trees {} bytes", bytes.len()),
        _ => format!("its root has format version {found} of the engine, which never was"),
    };
    Error::Corrupt(Box::new(Problem {
        file,
        offset: 0,
        what,
        affected: "all rows".to_owned(),
        remedy: "restore a backup".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_entries_come_back_and_other_versions_do_not() {
        let owner = EngineRoots {
            generation: 7,
            catalog: (PageId(1), 3),
            expiries: (PageId(2), u64::MAX),
        };
        let mut bytes = owner.encode();
        assert_eq!(EngineRoots::decode(&bytes), Some(owner));
        assert_eq!(EngineRoots::decode(&bytes[1..]), None);
        for (version, words) in [(VERSION + 1, "newer"), (0, "version 0"), (VERSION, "bytes")] {
            bytes[..4].copy_from_slice(&version.to_le_bytes());
            let decodes = EngineRoots::decode(&bytes).is_some();
            assert_eq!(decodes, version == VERSION);
            let said = unknown_owner(Path::new("pages.hdg"), &bytes).to_string();
            assert!(said.contains(words), "{said}");
        }
        let entry = CatalogEntry {
            root: PageId(9),
            rows: 10,
            expiring: 11,
        };
        assert_eq!(CatalogEntry::decode(&entry.encode()), Some(entry));
        assert_eq!(CatalogEntry::decode(&[0; ENTRY_BYTES - 1]), None);
    }
}
