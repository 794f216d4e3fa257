//! `bf-tree` in memory: a B+-tree of 4 KiB leaves with a buffer of small pages before them.
//!
//! Its pages are byte strings, so values are copied in and out. The buffer is large enough
//! that the experiments' small scale stays in it.

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};

use super::guarded::Guarded;

/// The longest key that the tree is configured for: 4 KiB leaves hold several.
pub(super) const LONGEST_KEY: usize = 256;

/// The tree.
pub(super) struct Memory(BfTree);

impl Default for Memory {
    fn default() -> Self {
        let mut config = Config::default();
        config
            .storage_backend(StorageBackend::Memory)
            .cb_size_byte(256 << 20)
            .cb_max_key_len(LONGEST_KEY)
            .cb_min_record_size(9)
            .cb_max_record_size(LONGEST_KEY + 8);
        Self(BfTree::with_config(config, None).expect("a valid configuration"))
    }
}

impl Guarded for Memory {
    type Guard<'a> = ();

    fn guard(&self) {}

    #[inline]
    fn put(&self, key: &[u8], value: u64, (): &()) {
        let answer = self.0.insert(key, &value.to_le_bytes());
        assert_eq!(answer, LeafInsertResult::Success);
    }

    #[inline]
    fn get(&self, key: &[u8], (): &()) -> Option<u64> {
        let mut value = [0; 8];
        match self.0.read(key, &mut value) {
            LeafReadResult::Found(_) => Some(u64::from_le_bytes(value)),
            _ => None,
        }
    }

    /// The tree does not say whether the key was there, so this asks first.
    #[inline]
    fn remove(&self, key: &[u8], (): &()) -> bool {
        let was_there = self.get(key, &()).is_some();
        self.0.delete(key);
        was_there
    }

    #[inline]
    fn scan(&self, from: &[u8], count: usize, (): &(), mut visit: impl FnMut(&[u8], u64)) {
        let fields = ScanReturnField::KeyAndValue;
        let mut scan = match self.0.scan_with_count(from, count, fields) {
            Ok(scan) => scan,
            Err(error) => panic!("a valid scan: {error:?}"),
        };
        let mut pair = [0; LONGEST_KEY + 8];
        while let Some((key, value)) = scan.next(&mut pair) {
            let word = &pair[key..key + value];
            let word = word.try_into().expect("a value of 8 bytes");
            visit(&pair[..key], u64::from_le_bytes(word));
        }
    }
}
