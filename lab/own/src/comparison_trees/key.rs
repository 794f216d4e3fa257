//! Keys inside nodes: the first 16 bytes there, the rest elsewhere.

use std::cmp::Ordering;
use std::marker::PhantomData;

const INLINE_BYTES: usize = 16;

/// The ends of keys that are longer than a node holds, back to back.
#[derive(Debug, Default)]
pub struct Tails(Vec<u8>);

impl Tails {
    fn push(&mut self, tail: &[u8]) -> u32 {
        let at = self.0.len();
        self.0.extend_from_slice(tail);
        u32::try_from(at).expect("less than 4 GiB of long keys")
    }

    #[inline]
    fn get(&self, at: u32, len: usize) -> &[u8] {
        &self.0[at as usize..at as usize + len]
    }
}

/// A key that is looked for, made ready for comparisons.
pub struct Probe<'a> {
    key: &'a [u8],
    bytes: [u8; INLINE_BYTES],
    words: [u64; 2],
}

fn words(bytes: &[u8; INLINE_BYTES]) -> [u64; 2] {
    let all = u128::from_be_bytes(*bytes);
    [(all >> 64) as u64, all as u64]
}

impl<'a> Probe<'a> {
    /// Prepares a key.
    #[inline]
    pub fn new(key: &'a [u8]) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        let inline = key.len().min(INLINE_BYTES);
        bytes[..inline].copy_from_slice(&key[..inline]);
        Self {
            key,
            bytes,
            words: words(&bytes),
        }
    }

    /// Its first 8 bytes as an integer that sorts as they do.
    #[inline]
    pub fn first_word(&self) -> u64 {
        self.words[0]
    }
}

/// How a node holds a key.
pub trait NodeKey: Copy + Default {
    /// The key for a node.
    fn new(probe: &Probe<'_>, tails: &mut Tails) -> Self;
    /// How the key looked for compares with this one.
    fn compare(&self, probe: &Probe<'_>, tails: &Tails) -> Ordering;
}

/// Compares as the C library compares strings.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByBytes;

/// Compares 8 bytes at a time as integers (§4.2, "+IntCmp").
#[derive(Debug, Clone, Copy, Default)]
pub struct ByIntegers;

/// The comparison of the inline parts.
pub trait Comparison: Copy + Default {
    /// How the key looked for compares with these bytes of a node.
    fn compare(probe: &Probe<'_>, bytes: &[u8; INLINE_BYTES], len: usize) -> Ordering;
}

impl Comparison for ByBytes {
    #[inline]
    fn compare(probe: &Probe<'_>, bytes: &[u8; INLINE_BYTES], len: usize) -> Ordering {
        let inline = probe.key.len().min(INLINE_BYTES);
        probe.bytes[..inline].cmp(&bytes[..len.min(INLINE_BYTES)])
    }
}

impl Comparison for ByIntegers {
    #[inline]
    fn compare(probe: &Probe<'_>, bytes: &[u8; INLINE_BYTES], _len: usize) -> Ordering {
        probe.words.cmp(&words(bytes))
    }
}

/// A key of any length: 16 bytes of it in the node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot<C> {
    bytes: [u8; INLINE_BYTES],
    /// The length; the highest bit marks a key as removed.
    len: u32,
    tail: u32,
    comparison: PhantomData<C>,
}

const REMOVED: u32 = 1 << 31;

impl<C> Slot<C> {
    /// Whether the key is marked as removed.
    #[inline]
    pub fn is_removed(&self) -> bool {
        self.len & REMOVED != 0
    }

    /// Marks the key as removed, or as present.
    #[inline]
    pub fn set_removed(&mut self, removed: bool) {
        self.len = (self.len & !REMOVED) | if removed { REMOVED } else { 0 };
    }

    fn key_len(&self) -> usize {
        (self.len & !REMOVED) as usize
    }
}

impl<C: Comparison> NodeKey for Slot<C> {
    fn new(probe: &Probe<'_>, tails: &mut Tails) -> Self {
        let tail = probe.key.get(INLINE_BYTES..).unwrap_or_default();
        Self {
            bytes: probe.bytes,
            len: probe.key.len() as u32,
            tail: if tail.is_empty() { 0 } else { tails.push(tail) },
            comparison: PhantomData,
        }
    }

    #[inline]
    fn compare(&self, probe: &Probe<'_>, tails: &Tails) -> Ordering {
        let inline = C::compare(probe, &self.bytes, self.key_len());
        if inline != Ordering::Equal {
            return inline;
        }
        let len = self.key_len();
        if len <= INLINE_BYTES || probe.key.len() <= INLINE_BYTES {
            return probe.key.len().cmp(&len);
        }
        let tail = tails.get(self.tail, len - INLINE_BYTES);
        probe.key[INLINE_BYTES..].cmp(tail)
    }
}

/// A key of 8 bytes and no other length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fixed(u64);

impl NodeKey for Fixed {
    fn new(probe: &Probe<'_>, _tails: &mut Tails) -> Self {
        debug_assert_eq!(probe.key.len(), 8);
        Self(probe.words[0])
    }

    #[inline]
    fn compare(&self, probe: &Probe<'_>, _tails: &Tails) -> Ordering {
        probe.words[0].cmp(&self.0)
    }
}
