//! Items: a key and what it leads to, as a consolidation takes them from a chain.

use std::cmp::Ordering;

use crate::node::key::copy_short;
use crate::value::Stored;

/// A key in two parts: the prefix of its node, and the rest.
#[derive(Clone, Copy)]
pub(crate) struct KeyParts<'a> {
    prefix: &'a [u8],
    suffix: &'a [u8],
}

/// A key and its value; in an inner node, a separator and its child.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub key: KeyParts<'a>,
    pub value: Stored<'a>,
}

impl<'a> KeyParts<'a> {
    #[inline(always)]
    pub fn new(prefix: &'a [u8], suffix: &'a [u8]) -> Self {
        Self { prefix, suffix }
    }

    #[inline(always)]
    pub fn whole(key: &'a [u8]) -> Self {
        Self::new(&[], key)
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Compares with a whole key.
    #[inline]
    pub fn compare(&self, key: &[u8]) -> Ordering {
        let common = self.prefix.len().min(key.len());
        match self.prefix.cmp(&key[..common]) {
            Ordering::Equal => self.suffix.cmp(&key[common..]),
            unequal => unequal,
        }
    }

    /// Compares keys of one node: each is whole or has the node's prefix.
    #[inline]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self.prefix.is_empty(), other.prefix.is_empty()) {
            (_, true) => self.compare(other.suffix),
            (true, false) => other.compare(self.suffix).reverse(),
            (false, false) => {
                debug_assert_eq!(self.prefix, other.prefix);
                self.suffix.cmp(other.suffix)
            }
        }
    }

    /// Appends the key's bytes.
    #[inline]
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.prefix);
        bytes.extend_from_slice(self.suffix);
    }

    /// Makes `bytes` the key. `has_prefix` says that they begin with the key's prefix: of keys that
    /// also have one length, as those of a leaf most often do, only suffixes are copied.
    #[inline(always)]
    pub fn write_over(&self, bytes: &mut Vec<u8>, has_prefix: bool) {
        if has_prefix && bytes.len() == self.len() {
            copy_short(&mut bytes[self.prefix.len()..], self.suffix);
        } else {
            bytes.clear();
            self.append_to(bytes);
        }
    }

    /// Whether the key stands whole, without a prefix of its node.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.prefix.is_empty()
    }

    pub fn to_vec(self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    fn bytes(&self) -> impl Iterator<Item = u8> + 'a {
        self.prefix.iter().chain(self.suffix).copied()
    }

    /// Shows the bytes from `from` to before `to` in at most two pieces, each with its distance
    /// from `from`.
    #[inline]
    pub fn copy_range(&self, from: usize, to: usize, mut copy: impl FnMut(usize, &[u8])) {
        let split = self.prefix.len();
        if from < split {
            copy(0, &self.prefix[from..to.min(split)]);
        }
        if to > split {
            let begin = from.max(split);
            copy(begin - from, &self.suffix[begin - split..to - split]);
        }
    }
}

/// How many bytes two keys share at their beginning.
pub(crate) fn shared_bytes(one: KeyParts<'_>, other: KeyParts<'_>) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(a, b)| a == b)
        .count()
}

/// The shortest key that is above `low` and not above `high`, for two ascending keys.
pub(crate) fn separator(low: KeyParts<'_>, high: KeyParts<'_>) -> Vec<u8> {
    let length = shared_bytes(low, high) + 1;
    high.bytes().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_two_parts_compare_as_whole_keys() {
        let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"ab", b"abc", b"b", b"ba"];
        for one in keys {
            for cut in 0..=one.len() {
                let parts = KeyParts::new(&one[..cut], &one[cut..]);
                for other in keys {
                    assert_eq!(
                        parts.compare(other),
                        one.cmp(other),
                        "{one:?} at {cut}, {other:?}"
                    );
                    if one < other {
                        let between = separator(parts, KeyParts::whole(other));
                        assert!(one < between.as_slice() && between.as_slice() <= other);
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_are_shown_whole() {
        let parts = KeyParts::new(b"abc", b"defg");
        for from in 0..=7 {
            for to in from..=7 {
                let mut found = vec![0; to - from];
                parts.copy_range(from, to, |at, bytes| {
                    found[at..at + bytes.len()].copy_from_slice(bytes);
                });
                assert_eq!(found, b"abcdefg"[from..to]);
            }
        }
    }
}
