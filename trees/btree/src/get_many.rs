//! Many lookups at once, a level at a time, so that their cache misses overlap.
//!
//! Each of a group of lookups takes one step down, then asks for the lines that its next search
//! touches first; by the time its turn comes again they have arrived.

use hedgerow_memory::prefetch_line;
use hedgerow_pages::{Restart, View};

use crate::configuration::Configuration;
use crate::fingerprint;
use crate::fully_dense::prefetch_value;
use crate::page::Tag;
use crate::pages::{PageNumber, Pages};
use crate::search::Node;
use crate::slotted::{Comparison, Kind, Layout};
use crate::tree::BTree;

/// Lookups under way at once: more than a core has outstanding misses.
const GROUP: usize = 16;

/// Asks for the lines of a group's keys.
#[inline(always)]
pub(crate) fn prefetch_keys(keys: &[&[u8]]) {
    for key in keys {
        prefetch_line(key.as_ptr());
    }
}

/// Asks for the lines of the record that a leaf probably has for a key, after a search without
/// those. Bytes that are changed meanwhile are asked for in vain.
#[inline(always)]
pub(crate) fn prefetch_record<C: Configuration>(
    page: impl View,
    key_prefix: &[u8],
) -> Result<(), Restart> {
    let tag = page.u8(0)?;
    let suffix = key_prefix.get(page.prefix_bytes()?..).unwrap_or(&[]);
    let record = if tag == Tag::Comparison as u8 && <Comparison<C> as Layout>::HEAD > 0 {
        Some(page.likely_record::<Comparison<C>>(suffix)?)
    } else if C::LEAVES.fingerprint() && tag == Tag::Fingerprint as u8 {
        fingerprint::likely_record(page, suffix)?
    } else if C::LEAVES.fully_dense() && tag == Tag::FullyDense as u8 {
        return prefetch_value(page, key_prefix);
    } else {
        None
    };
    if let Some(at) = record {
        page.prefetch(at);
        // Where it ends, more or less.
        page.prefetch(at + suffix.len() + 8);
    }
    Ok(())
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Looks up all `keys` and calls `read(i, value)` once for each `keys[i]`, in their order.
    pub fn get_many(&mut self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        for (number, group) in keys.chunks(GROUP).enumerate() {
            let mut pages = [self.root; GROUP];
            prefetch_keys(group);
            self.descend(group, &mut pages);
            for (key, &page) in group.iter().zip(&pages) {
                let image = self.pages.page(page);
                let _ = prefetch_record::<C>(image, Self::cut(key).key_prefix);
            }
            for (index, key) in group.iter().enumerate() {
                self.count_point(pages[index]);
                let at = number * GROUP + index;
                self.answer(pages[index], key, |value| read(at, value));
            }
        }
    }

    /// Takes all lookups of a group to their leaves. All leaves are at one depth.
    fn descend(&self, group: &[&[u8]], pages: &mut [PageNumber; GROUP]) {
        while self.pages.page(pages[0]).is_inner() {
            for (key, page) in group.iter().zip(pages.iter_mut()) {
                let image = self.pages.page(*page);
                *page = image
                    .child_for::<Comparison<C>>(Self::cut(key).key_prefix)
                    .0;
                self.pages.page(*page).prefetch_first();
            }
        }
    }

    fn answer(&mut self, page: PageNumber, key: &[u8], read: impl FnOnce(Option<&[u8]>)) {
        let image = self.pages.page(page);
        let cut = Self::cut(key);
        let Some(record) = image.find::<C>(cut.key_prefix) else {
            return read(None);
        };
        let payload = image.payload(record);
        match payload.kind {
            Kind::Inline => read(Some(payload.bytes)),
            Kind::Layer => {
                let found = self.get(key, <[u8]>::to_vec);
                read(found.as_deref());
            }
            _ => {
                let found = self.get_chained(payload, cut, <[u8]>::to_vec);
                read(found.as_deref());
            }
        }
    }
}
