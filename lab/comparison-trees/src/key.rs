//! Keys inside nodes: the first 16 bytes there, the rest elsewhere.
//!
//! All of a key is in atomic words. A reader of a binary tree or 4-tree sees a key only after it
//! was written; one of a B-tree may see half of it, and finds out by the node's version.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::arena::Arena;

const INLINE_BYTES: usize = 16;
const WORD_BYTES: usize = 8;

/// Up to 8 bytes as an integer that sorts as they do, with zeros behind them.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

/// The ends of keys that are longer than a node holds, in words.
#[derive(Default)]
pub struct Tails(Arena<AtomicU64>);

impl Tails {
    fn push(&self, tail: &[u8]) -> u32 {
        let count = tail.len().div_ceil(WORD_BYTES);
        let at = u32::try_from(count).map(|count| self.0.take_run(count));
        let at = at.expect("keys of less than 2 MiB");
        let words = self.0.get_run(at, count).unwrap_or_default();
        for (place, bytes) in words.iter().zip(tail.chunks(WORD_BYTES)) {
            place.store(word(bytes), Relaxed);
        }
        at
    }

    /// How the end of a key that is looked for compares with the one here.
    #[inline]
    fn compare(&self, looked_for: &[u8], at: u32, len: usize) -> Ordering {
        let words = self.0.get_run(at, len.div_ceil(WORD_BYTES));
        let words = words.unwrap_or_default();
        for (bytes, place) in looked_for.chunks(WORD_BYTES).zip(words) {
            let order = word(bytes).cmp(&place.load(Relaxed));
            if order != Ordering::Equal {
                return order;
            }
        }
        looked_for.len().cmp(&len)
    }
}

/// A key that is looked for, made ready for comparisons.
pub struct Probe<'a> {
    key: &'a [u8],
    bytes: [u8; INLINE_BYTES],
    words: [u64; 2],
}

impl<'a> Probe<'a> {
    /// Prepares a key.
    #[inline]
    pub fn new(key: &'a [u8]) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        let inline = key.len().min(INLINE_BYTES);
        bytes[..inline].copy_from_slice(&key[..inline]);
        let all = u128::from_be_bytes(bytes);
        Self {
            key,
            bytes,
            words: [(all >> 64) as u64, all as u64],
        }
    }

    /// Its first 8 bytes as an integer that sorts as they do.
    #[inline]
    pub fn first_word(&self) -> u64 {
        self.words[0]
    }
}

/// How a node holds a key.
pub trait NodeKey: Default + Send + Sync {
    /// A key out of its node.
    type Key: Copy;

    /// The key for a node.
    fn of(probe: &Probe<'_>, tails: &Tails) -> Self::Key;
    /// Puts a key here.
    fn store(&self, key: Self::Key);
    /// The key here.
    fn load(&self) -> Self::Key;
    /// How the key looked for compares with this one.
    fn compare(&self, probe: &Probe<'_>, tails: &Tails) -> Ordering;
}

/// Compares as the C library compares strings.
#[derive(Debug, Default)]
pub struct ByBytes;

/// Compares 8 bytes at a time as integers (§4.2, "+IntCmp").
#[derive(Debug, Default)]
pub struct ByIntegers;

/// The comparison of the inline parts.
pub trait Comparison: Default + Send + Sync + 'static {
    /// The words in which a node holds the inline part.
    fn words(probe: &Probe<'_>) -> [u64; 2];

    /// How the key looked for compares with these words of a node, which hold a key whose length
    /// is in `shape`.
    fn compare(probe: &Probe<'_>, words: &[AtomicU64; 2], shape: &AtomicU64) -> Ordering;
}

impl Comparison for ByBytes {
    #[inline]
    fn words(probe: &Probe<'_>) -> [u64; 2] {
        // The bytes as they are.
        probe
            .words
            .map(|word| u64::from_ne_bytes(word.to_be_bytes()))
    }

    #[inline]
    fn compare(probe: &Probe<'_>, words: &[AtomicU64; 2], shape: &AtomicU64) -> Ordering {
        let mut bytes = [0; INLINE_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(WORD_BYTES).zip(words) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let len = Shape(shape.load(Relaxed)).key_len().min(INLINE_BYTES);
        probe.bytes[..probe.key.len().min(INLINE_BYTES)].cmp(&bytes[..len])
    }
}

impl Comparison for ByIntegers {
    #[inline]
    fn words(probe: &Probe<'_>) -> [u64; 2] {
        probe.words
    }

    #[inline]
    fn compare(probe: &Probe<'_>, words: &[AtomicU64; 2], _shape: &AtomicU64) -> Ordering {
        let first = probe.words[0].cmp(&words[0].load(Relaxed));
        first.then_with(|| probe.words[1].cmp(&words[1].load(Relaxed)))
    }
}

/// A key's length, where its end is, and whether it is removed: one word, so that they are never
/// of two keys.
#[derive(Debug, Clone, Copy)]
struct Shape(u64);

const REMOVED: u64 = 1 << 63;

impl Shape {
    fn new(len: usize, tail: u32) -> Self {
        debug_assert!(len < 1 << 31);
        Self((len as u64) << 32 | u64::from(tail))
    }

    #[inline(always)]
    fn key_len(self) -> usize {
        ((self.0 & !REMOVED) >> 32) as usize
    }

    #[inline(always)]
    fn tail(self) -> u32 {
        self.0 as u32
    }
}

/// A key of any length: 16 bytes of it in the node.
#[derive(Debug, Default)]
pub struct Slot<C> {
    words: [AtomicU64; 2],
    shape: AtomicU64,
    comparison: PhantomData<C>,
}

/// What is in a [`Slot`].
#[derive(Debug, Clone, Copy)]
pub struct SlotKey {
    words: [u64; 2],
    shape: u64,
}

impl<C> Slot<C> {
    /// Whether the key is marked as removed. If not, the value that belongs to it is there.
    #[inline]
    pub fn is_removed(&self) -> bool {
        self.shape.load(Acquire) & REMOVED != 0
    }

    /// Marks the key as removed, or as present; whether it was removed before.
    #[inline]
    pub fn set_removed(&self, removed: bool) -> bool {
        // As a rule a key is present, and stays so.
        if !removed && !self.is_removed() {
            return false;
        }
        let before = match removed {
            true => self.shape.fetch_or(REMOVED, Release),
            false => self.shape.fetch_and(!REMOVED, Release),
        };
        before & REMOVED != 0
    }
}

impl Slot<ByIntegers> {
    /// The key's first 8 bytes as an integer that sorts as they do.
    #[inline]
    pub fn first_word(&self) -> u64 {
        self.words[0].load(Relaxed)
    }

    /// The key's words in order, the last one with zeros behind its bytes.
    fn words<'a>(&'a self, len: usize, tails: &'a Tails) -> impl Iterator<Item = u64> + 'a {
        let shape = Shape(self.shape.load(Relaxed));
        let count = len.saturating_sub(INLINE_BYTES).div_ceil(WORD_BYTES);
        let tail = match count {
            0 => &[][..],
            count => tails.0.get_run(shape.tail(), count).unwrap_or_default(),
        };
        let words = self.words.iter().chain(tail).take(len.div_ceil(WORD_BYTES));
        words.map(|word| word.load(Relaxed))
    }

    /// How a key that is looked for compares with this one, and the first byte at which they
    /// differ, where one of them may have ended; `None` if they are equal.
    #[inline]
    pub fn difference(&self, looked_for: &[u8], tails: &Tails) -> Option<(Ordering, usize)> {
        let len = Shape(self.shape.load(Relaxed)).key_len();
        let shorter = len.min(looked_for.len());
        let chunks = looked_for.chunks(WORD_BYTES).map(word);
        for (nth, (mine, its)) in chunks.zip(self.words(len, tails)).enumerate() {
            let at = nth * WORD_BYTES + (mine ^ its).leading_zeros() as usize / 8;
            if mine != its && at < shorter {
                return Some((mine.cmp(&its), at));
            }
        }
        let order = looked_for.len().cmp(&len);
        (order != Ordering::Equal).then_some((order, shorter))
    }

    /// The whole key.
    pub fn bytes(&self, tails: &Tails) -> Vec<u8> {
        let len = Shape(self.shape.load(Relaxed)).key_len();
        let words = self.words(len, tails).map(u64::to_be_bytes);
        let mut bytes = words.collect::<Vec<_>>().concat();
        bytes.truncate(len);
        bytes
    }
}

impl<C: Comparison> NodeKey for Slot<C> {
    type Key = SlotKey;

    fn of(probe: &Probe<'_>, tails: &Tails) -> SlotKey {
        let tail = match probe.key.get(INLINE_BYTES..) {
            None | Some([]) => 0,
            Some(tail) => tails.push(tail),
        };
        SlotKey {
            words: C::words(probe),
            shape: Shape::new(probe.key.len(), tail).0,
        }
    }

    #[inline(always)]
    fn store(&self, key: SlotKey) {
        self.words[0].store(key.words[0], Relaxed);
        self.words[1].store(key.words[1], Relaxed);
        self.shape.store(key.shape, Relaxed);
    }

    #[inline(always)]
    fn load(&self) -> SlotKey {
        SlotKey {
            words: [self.words[0].load(Relaxed), self.words[1].load(Relaxed)],
            shape: self.shape.load(Relaxed),
        }
    }

    #[inline]
    fn compare(&self, probe: &Probe<'_>, tails: &Tails) -> Ordering {
        let inline = C::compare(probe, &self.words, &self.shape);
        if inline != Ordering::Equal {
            return inline;
        }
        let shape = Shape(self.shape.load(Relaxed));
        let len = shape.key_len();
        if len <= INLINE_BYTES || probe.key.len() <= INLINE_BYTES {
            return probe.key.len().cmp(&len);
        }
        tails.compare(&probe.key[INLINE_BYTES..], shape.tail(), len - INLINE_BYTES)
    }
}

/// A key of 8 bytes and no other length.
#[derive(Debug, Default)]
pub struct Fixed(AtomicU64);

impl NodeKey for Fixed {
    type Key = u64;

    fn of(probe: &Probe<'_>, _tails: &Tails) -> u64 {
        debug_assert_eq!(probe.key.len(), WORD_BYTES);
        probe.words[0]
    }

    #[inline(always)]
    fn store(&self, key: u64) {
        self.0.store(key, Relaxed);
    }

    #[inline(always)]
    fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    fn compare(&self, probe: &Probe<'_>, _tails: &Tails) -> Ordering {
        probe.words[0].cmp(&self.0.load(Relaxed))
    }
}
