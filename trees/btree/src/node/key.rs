//! Keys of any length: how they are cut at layers.
//!
//! A fence must fit its page, so a tree alone could not hold keys past a fraction of it. As in
//! Masstree, keys are cut: a layer indexes *key prefixes* of at most an eighth of a page, and a
//! prefix of exactly that length stands for all keys that begin with it. While there is one such
//! key, its rest and its value lie in overflow pages. With the second, the rests become a tree of
//! their own, a *layer*, whose root the record of the prefix names.
//!
//! ```text
//! short key ───────────────► record: value
//! long key, alone ─────────► record: chain of pages (rest of the key, value)
//! long keys, one prefix ───► record: root ───► records of rests ───► …
//! ```

use crate::configuration::Configuration;
use crate::node::layout::{Layout, Payload};
use crate::node::page::{PageNumber, shared};
use crate::node::slotted::Comparison;

/// A key cut at the key prefix; `rest` is there if the key reaches past it, though it may be empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CutKey<'k> {
    pub key_prefix: &'k [u8],
    pub rest: Option<&'k [u8]>,
}

impl<'k> CutKey<'k> {
    /// Cuts a key after `key_prefix` bytes.
    #[inline(always)]
    pub(crate) fn at(key: &'k [u8], key_prefix: usize) -> Self {
        match key.split_at_checked(key_prefix) {
            Some((key_prefix, rest)) => CutKey {
                key_prefix,
                rest: Some(rest),
            },
            None => CutKey {
                key_prefix: key,
                rest: None,
            },
        }
    }
}

/// Bytes after which keys are cut: about an eighth of a page.
pub(crate) const fn key_prefix_bytes<C: Configuration, const PAGE: usize>() -> usize {
    (PAGE - Comparison::<C>::BODY - 48) / 8
}

/// The root that a layer's record names.
pub(crate) fn layer_root(payload: Payload<'_>) -> PageNumber {
    PageNumber::from_le_bytes(*payload.bytes.first_chunk().expect("four bytes"))
}

/// The shortest string above `low` and at most `high`.
pub(crate) fn shortest_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    high[..shared(low, high) + 1].to_vec()
}
