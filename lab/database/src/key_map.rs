//! The maps that indexes are made over.

use hedgerow_index::{ConcurrentIntMap, Decision, Index, IndexExt, ValuePart};

/// A map from integers to words that many threads share: what a [`LockedLists`](crate::LockedLists)
/// needs. Every [`ConcurrentIntMap`] is one. As an object it costs an indirect call an operation,
/// the same for every map, and the database is compiled once.
pub trait KeyMap: Send + Sync {
    /// The word of `key`.
    fn get(&self, key: u64) -> Option<u64>;

    /// Stores `word` under `key` if the key is absent. Returns the word of a key that is present,
    /// which stays as it is.
    fn insert(&self, key: u64, word: u64) -> Option<u64>;

    /// Removes `key`; returns its word.
    fn remove(&self, key: u64) -> Option<u64>;

    /// Checks the structure, for quiet moments; returns the first violation in words.
    fn verify(&self) -> Result<(), String>;
}

impl<M: ConcurrentIntMap<u64>> KeyMap for M {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        ConcurrentIntMap::get(self, key)
    }

    #[inline]
    fn insert(&self, key: u64, word: u64) -> Option<u64> {
        ConcurrentIntMap::insert(self, key, word)
    }

    #[inline]
    fn remove(&self, key: u64) -> Option<u64> {
        ConcurrentIntMap::remove(self, key)
    }

    fn verify(&self) -> Result<(), String> {
        ConcurrentIntMap::verify(self)
    }
}

/// An index of byte keys in memory, as a map from integers: keys and words are stored as eight
/// bytes, keys with the most significant one first.
#[derive(Debug, Default)]
pub struct ByteKeys<I>(pub I);

/// Why no call of an index can fail here.
const IN_MEMORY: &str = "an index in memory does not fail";

impl<I: Index> KeyMap for ByteKeys<I> {
    fn get(&self, key: u64) -> Option<u64> {
        let mut found = None;
        let read = &mut |bytes: &[u8]| found = word_of(bytes);
        let got = self.0.get(&key.to_be_bytes(), ValuePart::Whole, read);
        got.expect(IN_MEMORY);
        found
    }

    fn insert(&self, key: u64, word: u64) -> Option<u64> {
        let mut buffer = Vec::with_capacity(8);
        let decide = |old: Option<&[u8]>, new: &mut Vec<u8>| match old.and_then(word_of) {
            Some(present) => Decision::Keep(Some(present)),
            None => {
                new.extend_from_slice(&word.to_le_bytes());
                Decision::Put(None)
            }
        };
        let key = key.to_be_bytes();
        let inserted = self.0.modify(&key, ValuePart::Whole, &mut buffer, decide);
        inserted.expect(IN_MEMORY)
    }

    fn remove(&self, key: u64) -> Option<u64> {
        let decide = |old: Option<&[u8]>, _: &mut Vec<u8>| Decision::Remove(old.and_then(word_of));
        let key = key.to_be_bytes();
        let removed = self
            .0
            .modify(&key, ValuePart::Whole, &mut Vec::new(), decide);
        removed.expect(IN_MEMORY)
    }

    fn verify(&self) -> Result<(), String> {
        self.0.verify()
    }
}

fn word_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
