//! What dense leaves have in common: keys that are numbers (§3.5).
//!
//! Where all keys of a leaf have one length and differ in their last four bytes only, those
//! bytes, as a number less that of a reference key, say where a record is: nothing is searched,
//! and no key is stored. What comes before them, the *prefix*, is that of the lower fence. The
//! *places* of a dense leaf, taken or not, stand for consecutive keys, the reference key first.
//!
//! ```text
//!  lower fence  "wiki" 0 0 0 12       keys "wiki" 0 0 0 12 … "wiki" 0 0 2 3
//!               └ prefix ┘└number┘      places            0 … 503
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use hedgerow_pages::{Restart, View};

use crate::node::layout::{Kind, Payload};
use crate::node::page::{HEADER, Image, KEY_LEN_AT, LOWER_AT, PLACES_AT, REFERENCE_AT, Tag};
use crate::node::search::{Node, infallible};

/// Bytes of a key that are a number.
const NUMBER: usize = 4;

/// What the keys (and values) of a dense leaf have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of every key.
    pub key_len: usize,
    /// Bytes of every value, in fully dense leaves.
    pub value_len: usize,
    /// The number of the first place's key.
    pub reference: u32,
    /// How many places there are.
    pub places: usize,
}

impl Shape {
    /// Bytes of a key before its number.
    pub(crate) fn prefix_len(self) -> usize {
        self.key_len.saturating_sub(NUMBER)
    }

    /// How many keys there can be from `reference` on, by the number's bytes.
    fn keys_left(key_len: usize, reference: u32) -> u64 {
        (1 << (8 * key_len.min(NUMBER))) - u64::from(reference)
    }

    /// The same keys from another on, with as many places as there is room for and keys left.
    pub(crate) fn starting_at(self, reference: u32, room: usize) -> Self {
        let left = Self::keys_left(self.key_len, reference);
        let places = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        Self {
            reference,
            places,
            ..self
        }
    }
}

/// Whether two keys have one length and differ in their numbers only.
pub(crate) fn alike(first: &[u8], last: &[u8]) -> bool {
    let prefix = first.len().saturating_sub(NUMBER);
    last.len() == first.len() && last[..prefix] == first[..prefix]
}

/// The number that up to four bytes are.
#[inline(always)]
pub(crate) fn number(bytes: &[u8]) -> u32 {
    if let Ok(word) = <[u8; NUMBER]>::try_from(bytes) {
        return u32::from_be_bytes(word);
    }
    bytes
        .iter()
        .fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// The number of the lowest key of `key_len` bytes at or above a fence that begins with its prefix
/// (which a shorter fence does not); none if that is past the last number.
pub(crate) fn number_from(fence: &[u8], key_len: usize) -> Option<u32> {
    let prefix = key_len.saturating_sub(NUMBER);
    let width = key_len.min(NUMBER);
    let mut word = [0; NUMBER];
    let tail = fence.get(prefix..)?;
    let len = tail.len().min(width);
    word[..len].copy_from_slice(&tail[..len]);
    let mut number = u32::from_be_bytes(word) >> (8 * (NUMBER - width));
    if fence.len() > key_len {
        number = number.checked_add(1)?;
    }
    Some(number).filter(|&n| u64::from(n) < 1 << (8 * width))
}

/// The place of a key in a dense leaf, which may be free; none for keys of another shape or
/// beyond.
#[inline(always)]
pub(crate) fn place_of(page: impl View, key: &[u8]) -> Result<Option<usize>, Restart> {
    if key.len() != usize::from(page.u16(KEY_LEN_AT)?) {
        return Ok(None);
    }
    let (prefix, tail) = key.split_at_checked(page.prefix_bytes()?).ok_or(Restart)?;
    if !prefix.is_empty() {
        let at = usize::from(page.u16(LOWER_AT)?);
        if page.compare(at..at + prefix.len(), prefix)? != Ordering::Equal {
            return Ok(None);
        }
    }
    let place = number(tail).wrapping_sub(page.u32(REFERENCE_AT)?) as usize;
    Ok((place < usize::from(page.u16(PLACES_AT)?)).then_some(place))
}

/// Records of one leaf that are looked at together with another's.
pub(crate) type Part<'p, const PAGE: usize> = (&'p Image<PAGE>, Range<usize>);

impl<const PAGE: usize> Image<PAGE> {
    /// Whether a leaf's keys are numbers.
    #[inline(always)]
    pub(crate) fn is_dense(&self) -> bool {
        self.is(Tag::SemiDense) || self.is(Tag::FullyDense)
    }

    /// The shape of a dense leaf.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            key_len: self.key_len(),
            value_len: self.dense_value_len(),
            reference: self.reference() as u32,
            places: self.places(),
        }
    }

    /// Makes an empty dense leaf, but for its arrays. Its upper fence can become any of up to
    /// one byte more than its keys have.
    pub(crate) fn reset_dense(&mut self, tag: Tag, lower: &[u8], upper: &[u8], shape: Shape) {
        self.reset(tag, lower, &[], false);
        let reserved = upper.len().max(shape.key_len + 1);
        let at = self.heap_start() - reserved;
        self.set_heap_start(at);
        self.set_heap_used(self.heap_used() + reserved);
        self.set_upper_at(at);
        self.set_upper(upper);
        self.set_prefix_len(shape.prefix_len());
        self.set_key_len(shape.key_len);
        self.set_dense_value_len(shape.value_len);
        self.set_reference(shape.reference as usize);
        self.set_places(shape.places);
    }

    /// Makes a dense leaf's upper fence another that fits the bytes kept for it.
    pub(crate) fn set_upper(&mut self, upper: &[u8]) {
        self.put(self.upper_at(), upper);
        self.set_upper_len(upper.len());
    }

    /// Bytes that a dense leaf keeps for its fences.
    pub(crate) fn fence_bytes(lower: usize, upper: usize, key_len: usize) -> usize {
        lower.max(key_len) + upper.max(key_len + 1)
    }

    /// The place of a key, which may be free; none for keys of another shape or beyond.
    #[inline(always)]
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<usize> {
        infallible(place_of(self, key))
    }

    /// The first place whose key is at or above any key, and whether it is that key.
    pub(crate) fn first_place(&self, key: &[u8]) -> (usize, bool) {
        let prefix = self.prefix();
        let places = self.places();
        let Some(tail) = key.strip_prefix(prefix) else {
            return (if key < prefix { 0 } else { places }, false);
        };
        let width = self.key_len().min(NUMBER);
        let mut word = [0; NUMBER];
        let len = tail.len().min(width);
        word[NUMBER - width..NUMBER - width + len].copy_from_slice(&tail[..len]);
        let number = u64::from(u32::from_be_bytes(word)) + u64::from(tail.len() > width);
        let reference = self.reference() as u64;
        if number < reference {
            return (0, false);
        }
        let place = usize::try_from(number - reference).unwrap_or(usize::MAX);
        if place < places {
            (place, tail.len() == width)
        } else {
            (places, false)
        }
    }

    /// Whether a record is one that this dense leaf could hold, here or at another place.
    pub(crate) fn has_shape(&self, key: &[u8], payload: Payload<'_>) -> bool {
        let prefix = self.prefix();
        let fits = payload.kind == Kind::Inline && payload.bytes.len() == self.dense_value_len();
        key.len() == self.key_len() && key.starts_with(prefix) && (fits || self.is(Tag::SemiDense))
    }

    /// The key of a place, in place of what `key` held.
    pub(crate) fn place_key(&self, number: u32, key: &mut Vec<u8>) {
        let width = self.key_len().min(NUMBER);
        key.clear();
        key.extend_from_slice(self.prefix());
        key.extend_from_slice(&number.to_be_bytes()[NUMBER - width..]);
    }

    /// Writes the number of a place's key at the start of `to`, and returns its length.
    #[inline(always)]
    pub(crate) fn write_number(&self, place: usize, to: &mut [u8]) -> usize {
        let number = self.reference() as u32 + place as u32;
        let width = self.key_len().min(NUMBER);
        let bytes = (number << (8 * (NUMBER - width))).to_be_bytes();
        *to.first_chunk_mut().expect("slack") = bytes;
        width
    }

    /// Whether header and fences of a dense leaf agree.
    pub(crate) fn verify_dense(&self) -> Result<(), String> {
        let shape = self.shape();
        if self.lower().len() < shape.prefix_len() {
            return Err("the lower fence of a dense leaf lacks the prefix".into());
        }
        if shape.places as u64 > Shape::keys_left(shape.key_len, shape.reference) {
            return Err(format!("{shape:?} has places for no numbers"));
        }
        if self.heap_start() < HEADER {
            return Err("a heap within the header".into());
        }
        Ok(())
    }
}
