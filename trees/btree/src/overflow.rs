//! Chains of pages for what does not fit a leaf.
//!
//! Records cannot grow past about a quarter of a page, or a split could not make room. A longer
//! value lies in overflow pages, each the header (of which only the tag and the number of the
//! next page, in the place of the upper child, are used) and then bytes.

use crate::page::{HEADER, Image, Tag};
use crate::pages::{PageNumber, Pages};

/// Writes the concatenation of `parts` and returns the first page.
pub(crate) fn store<const PAGE: usize, P: Pages<PAGE>>(
    pages: &mut P,
    parts: [&[u8]; 2],
) -> PageNumber {
    let first = pages.allocate();
    let mut page = first;
    let mut at = HEADER;
    start(pages.page_mut(page));
    for mut part in parts {
        while !part.is_empty() {
            if at == PAGE {
                let next = pages.allocate();
                pages.page_mut(page).set_upper_child(next as usize);
                start(pages.page_mut(next));
                page = next;
                at = HEADER;
            }
            let (now, rest) = part.split_at(part.len().min(PAGE - at));
            pages.page_mut(page).put(at, now);
            at += now.len();
            part = rest;
        }
    }
    first
}

fn start<const PAGE: usize>(page: &mut Image<PAGE>) {
    page.slice_mut(0..HEADER).fill(0);
    page.set_tag(Tag::Overflow);
}

/// Reads `len` bytes.
pub(crate) fn load<const PAGE: usize, P: Pages<PAGE>>(
    pages: &P,
    first: PageNumber,
    len: usize,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    let mut page = first;
    loop {
        let image = pages.page(page);
        let some = (len - bytes.len()).min(PAGE - HEADER);
        bytes.extend_from_slice(image.slice(HEADER..HEADER + some));
        if bytes.len() == len {
            return bytes;
        }
        page = image.upper_child() as PageNumber;
    }
}

/// How many pages `len` bytes take.
pub(crate) fn pages_of<const PAGE: usize>(len: usize) -> usize {
    len.div_ceil(PAGE - HEADER).max(1)
}

/// Gives back a chain of `len` bytes.
pub(crate) fn release<const PAGE: usize, P: Pages<PAGE>>(
    pages: &mut P,
    first: PageNumber,
    len: usize,
) {
    let mut page = first;
    for _ in 0..pages_of::<PAGE>(len) {
        let next = pages.page(page).upper_child() as PageNumber;
        pages.release(page);
        page = next;
    }
}
