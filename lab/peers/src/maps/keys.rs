//! The forms that a map of typed keys can hold our byte keys in.
//!
//! Hedgerow's trees take byte strings. A map over any ordered type could hold each as a heap
//! allocation, which is what most of its users would write, but a user whose keys are integers
//! or short would not: so such a map is measured in every form, each a contender of its own.

use std::borrow::Borrow;

use crate::registry::LONGEST_SHORT;

/// How a key is held.
pub(super) trait Form: 'static {
    /// What the map stores.
    type Owned: Ord + Clone + Send + Sync + Borrow<Self::Query> + 'static;
    /// What it is compared with.
    type Query: Ord + ?Sized;
    /// What lookups make from a key: no allocation.
    type Probe<'a>: Borrow<Self::Query>;

    /// The form of a key that lookups use.
    fn probe(key: &[u8]) -> Self::Probe<'_>;

    /// The form of a key that is stored.
    fn own(key: &[u8]) -> Self::Owned;

    /// Shows the bytes of a stored key.
    fn show<R>(key: &Self::Owned, visit: impl FnOnce(&[u8]) -> R) -> R;
}

/// 8-byte keys as integers, whose order is that of their big-endian bytes.
pub(super) struct Word;

impl Form for Word {
    type Owned = u64;
    type Query = u64;
    type Probe<'a> = u64;

    #[inline]
    fn probe(key: &[u8]) -> u64 {
        u64::from_be_bytes(key.try_into().expect("a key of 8 bytes"))
    }

    #[inline]
    fn own(key: &[u8]) -> u64 {
        Self::probe(key)
    }

    #[inline]
    fn show<R>(key: &u64, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(&key.to_be_bytes())
    }
}

/// Keys of up to 15 bytes in place: padded with zeros, the length behind them.
pub(super) struct Short;

impl Form for Short {
    type Owned = [u8; LONGEST_SHORT + 1];
    type Query = [u8; LONGEST_SHORT + 1];
    type Probe<'a> = [u8; LONGEST_SHORT + 1];

    #[inline]
    fn probe(key: &[u8]) -> Self::Owned {
        let mut padded = [0; LONGEST_SHORT + 1];
        padded[..LONGEST_SHORT][..key.len()].copy_from_slice(key);
        padded[LONGEST_SHORT] = key.len() as u8;
        padded
    }

    #[inline]
    fn own(key: &[u8]) -> Self::Owned {
        Self::probe(key)
    }

    #[inline]
    fn show<R>(key: &Self::Owned, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(&key[..usize::from(key[LONGEST_SHORT])])
    }
}

/// Keys of any length, each a heap allocation.
pub(super) struct Boxed;

impl Form for Boxed {
    type Owned = Box<[u8]>;
    type Query = [u8];
    type Probe<'a> = &'a [u8];

    #[inline]
    fn probe(key: &[u8]) -> &[u8] {
        key
    }

    #[inline]
    fn own(key: &[u8]) -> Box<[u8]> {
        key.into()
    }

    #[inline]
    fn show<R>(key: &Box<[u8]>, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(key)
    }
}

/// The same as `Vec`s, for a map that has no place for boxes.
pub(super) struct Growable;

impl Form for Growable {
    type Owned = Vec<u8>;
    type Query = [u8];
    type Probe<'a> = &'a [u8];

    #[inline]
    fn probe(key: &[u8]) -> &[u8] {
        key
    }

    #[inline]
    fn own(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    #[inline]
    fn show<R>(key: &Vec<u8>, visit: impl FnOnce(&[u8]) -> R) -> R {
        visit(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_keeps_bytes_and_their_order() {
        fn check<F: Form>(sorted: &[&[u8]]) {
            let owned: Vec<F::Owned> = sorted.iter().map(|key| F::own(key)).collect();
            assert!(owned.is_sorted());
            for (key, owned) in sorted.iter().zip(&owned) {
                F::show(owned, |bytes| assert_eq!(bytes, *key));
                let query: &F::Query = owned.borrow();
                assert!(query == F::probe(key).borrow());
            }
        }
        let sorted: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"abcdefghijklmno"];
        check::<Short>(&sorted);
        check::<Boxed>(&sorted);
        check::<Growable>(&sorted);
        check::<Word>(&[
            b"\0\0\0\0\0\0\0\x01",
            b"\0\0\0\0\0\0\x01\0",
            b"\xff\0\0\0\0\0\0\0",
        ]);
    }
}
