//! Many lookups at once, a level at a time, so that their cache misses overlap.
//!
//! Each of a group of lookups takes one step down, then asks for the lines that its next search
//! touches first; by the time its turn comes again they have arrived.
use hedgerow_simd::Scalar;

use super::BTree;
use crate::configuration::Configuration;
use crate::node::layout::Kind;
use crate::node::page::PageNumber;
use crate::node::prefetch::{prefetch_keys, prefetch_record, prefetch_search};
use crate::node::search::{Node, infallible};
use crate::node::slotted::Comparison;

/// Lookups under way at once: more than a core has outstanding misses.
const GROUP: usize = 16;

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Looks up all `keys` and calls `read(i, value)` once for each `keys[i]`, in their order.
    pub fn get_many(&mut self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<&[u8]>)) {
        for (number, group) in keys.chunks(GROUP).enumerate() {
            let mut pages = [self.root; GROUP];
            prefetch_keys(group);
            self.descend(group, &mut pages);
            let (mut begun, mut likely) = ([None; GROUP], [None; GROUP]);
            for (index, key) in group.iter().enumerate() {
                let image = self.pages.page(pages[index]);
                let search = prefetch_search::<C, Scalar>(image, Self::cut(key).key_prefix);
                begun[index] = infallible(search);
            }
            for (index, key) in group.iter().enumerate() {
                let image = self.pages.page(pages[index]);
                let key_prefix = Self::cut(key).key_prefix;
                let place = prefetch_record::<C, Scalar>(image, key_prefix, begun[index]);
                likely[index] = infallible(place).map(|likely| likely.index);
            }
            for (index, key) in group.iter().enumerate() {
                self.count_point(pages[index]);
                let at = number * GROUP + index;
                self.answer(pages[index], key, likely[index], |value| read(at, value));
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

    fn answer(
        &mut self,
        page: PageNumber,
        key: &[u8],
        likely: Option<usize>,
        read: impl FnOnce(Option<&[u8]>),
    ) {
        let image = self.pages.page(page);
        let cut = Self::cut(key);
        let (place, true) = image.locate_likely::<C>(cut.key_prefix, likely) else {
            return read(None);
        };
        let record = image.leaf_record::<C>(place);
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
