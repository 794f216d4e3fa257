//! What a batch of lookups prefetches: keys, then what their searches of leaves will read, then the
//! records that they will find. A batch of writes also prefetches where its records will be
//! written.

use hedgerow_memory::prefetch_line;
use hedgerow_pages::{Restart, View};
use hedgerow_simd::Kernel;

use crate::configuration::Configuration;
use crate::node::fingerprint::{self, Fingerprints};
use crate::node::fully_dense::prefetch_value;
use crate::node::page::{HEAP_AT, Tag};
use crate::node::search::{HINT_BYTES, HeadSearch, Node};
use crate::node::slotted::Comparison;

/// Asks for the lines of a group's keys.
#[inline(always)]
pub(crate) fn prefetch_keys(keys: &[&[u8]]) {
    for key in keys {
        prefetch_line(key.as_ptr());
    }
}

/// Asks for what the search of a leaf for a key reads, as far as the leaf's first
/// [`HINT_BYTES`] tell; the search that begins there, if it is one among heads.
#[inline(always)]
pub(crate) fn prefetch_search<C: Configuration, K: Kernel>(
    page: impl View,
    key_prefix: &[u8],
) -> Result<Option<HeadSearch>, Restart> {
    let tag = page.u8(0)?;
    if tag == Tag::Comparison as u8 && C::HEAD > 0 {
        let search = page.begin_search::<Comparison<C, K>>(key_prefix)?;
        return Ok(Some(search));
    }
    page.prefetch(HINT_BYTES);
    Ok(None)
}

/// Bytes of a small record, more or less.
const RECORD_BYTES: usize = 48;

/// Asks for the lines that a new record of a leaf will be written to: in front of the heap. The
/// arrays, which move for it, are left to the processor, which sees that they are read in order.
#[inline(always)]
pub(crate) fn prefetch_heap(page: impl View) -> Result<(), Restart> {
    let start = page.u32(HEAP_AT)? as usize;
    page.prefetch(start.wrapping_sub(1));
    page.prefetch(start.wrapping_sub(RECORD_BYTES));
    Ok(())
}

/// Where among a leaf's records that of a key is, or would be, unless the leaf changes.
#[derive(Clone, Copy)]
pub(crate) struct LikelyRecord {
    pub index: usize,
    /// Whether a record there begins as the key does.
    pub is_there: bool,
}

/// Asks for the lines of the record that a leaf probably has for a key, by the search that was
/// [begun](prefetch_search), and says where that is. Bytes that are changed meanwhile are asked for
/// in vain.
#[inline(always)]
pub(crate) fn prefetch_record<C: Configuration, K: Kernel>(
    page: impl View,
    key_prefix: &[u8],
    begun: Option<HeadSearch>,
) -> Result<Option<LikelyRecord>, Restart> {
    let (index, at) = if let Some(search) = begun {
        let index = page.likely_slot::<Comparison<C, K>>(search)?;
        if !page.has_head::<Comparison<C>>(index, search)? {
            let is_there = false;
            return Ok(Some(LikelyRecord { index, is_there }));
        }
        (index, page.slot::<Comparison<C>>(index, search.count)?)
    } else if C::LEAVES.fingerprint() && page.has_tag(Tag::Fingerprint)? {
        let suffix = page.suffix_of(key_prefix)?;
        let Some(index) = fingerprint::likely_index(page, suffix)? else {
            return Ok(None);
        };
        (index, page.slot::<Fingerprints>(index, page.records()?)?)
    } else {
        if C::LEAVES.fully_dense() && page.has_tag(Tag::FullyDense)? {
            prefetch_value(page, key_prefix)?;
        }
        return Ok(None);
    };
    page.prefetch(at);
    page.prefetch(at + RECORD_BYTES - 1);
    let is_there = true;
    Ok(Some(LikelyRecord { index, is_there }))
}
