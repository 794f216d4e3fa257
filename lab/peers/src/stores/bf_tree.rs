//! `bf-tree` over a file: an index larger than memory, measured as one and not as durable.
//!
//! In 0.5.7, recovery from its log is marked incomplete and gives no tree back, and a tree
//! recovered from a snapshot answers wrongly when keys had been removed before, or are after
//! (keys come back). So nothing here is reopened.

use std::path::Path;

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};
use hedgerow_lab_contender::{Store, StoreError, StoreSettings, Sync};

/// The longest key that the tree is configured for.
pub(super) const LONGEST_KEY: usize = 256;

/// The longest key and value together: 4 KiB leaves must hold two.
const LONGEST_PAIR: usize = 1500;

/// An open tree.
struct Tree(BfTree);

/// Opens one.
pub(super) fn open(
    directory: &Path,
    settings: &StoreSettings,
) -> Result<Box<dyn Store + Send + std::marker::Sync>, StoreError> {
    if settings.sync != Sync::Never {
        let why = "bf-tree cannot be recovered rightly, so no sync would keep anything";
        return Err(StoreError(why.to_owned()));
    }
    let cache = usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX / 2);
    if !cache.is_power_of_two() {
        let why = format!("bf-tree's cache is a power of two in bytes, not {cache}");
        return Err(StoreError(why));
    }
    let leaves = directory.join("leaves");
    if leaves.exists() {
        let why = "bf-tree cannot be recovered rightly, so it is not reopened";
        return Err(StoreError(why.to_owned()));
    }
    let mut config = Config::new(leaves, cache);
    config
        .storage_backend(StorageBackend::Std)
        .cb_max_key_len(LONGEST_KEY)
        .cb_min_record_size(2)
        .cb_max_record_size(LONGEST_PAIR);
    let tree = BfTree::with_config(config, None);
    let tree = tree.map_err(|error| StoreError(format!("{error:?}")))?;
    Ok(Box::new(Tree(tree)))
}

impl Store for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        match self.0.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => Err(StoreError(why)),
        }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StoreError> {
        value.resize(LONGEST_PAIR, 0);
        match self.0.read(key, value) {
            LeafReadResult::Found(bytes) => {
                value.truncate(bytes as usize);
                Ok(true)
            }
            LeafReadResult::InvalidKey => Err(StoreError("an invalid key".to_owned())),
            LeafReadResult::Deleted | LeafReadResult::NotFound => {
                value.clear();
                Ok(false)
            }
        }
    }

    fn remove(&self, key: &[u8]) -> Result<(), StoreError> {
        self.0.delete(key);
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let fields = ScanReturnField::KeyAndValue;
        let scan = self.0.scan_with_count(from, count, fields);
        let mut scan = scan.map_err(|error| StoreError(format!("{error:?}")))?;
        let mut pair = [0; LONGEST_PAIR];
        let mut visited = 0;
        while let Some((key, value)) = scan.next(&mut pair) {
            visit(&pair[..key], &pair[key..key + value]);
            visited += 1;
        }
        Ok(visited)
    }

    fn put_all(&self, _: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let why = "bf-tree has no atomic writes of several pairs";
        Err(StoreError(why.to_owned()))
    }

    /// Nothing to keep; the experiments' own moments of syncing pass.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
