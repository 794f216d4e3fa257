//! Overflow pages, for what does not fit a leaf: how they are written, read and released.
//!
//! `chain` says how a record names overflow pages, and how a value is laid out over them. An
//! overflow page of one value is the header (of which only the tag and the number of the next page,
//! in the place of the upper child, are used) and then bytes. A [shared overflow
//! page](crate::node::shared_overflow) holds the ends of several values.
//!
//! Both trees use this code; [`ReadOverflow`] and [`WriteOverflow`] are what it needs of them.

use std::borrow::Cow;

use crate::node::chain::{Chain, NewRecord};
use crate::node::key::CutKey;
use crate::node::layout::Payload;
use crate::node::page::PageNumber;
use crate::node::page::{HEADER, Image, Tag};
use crate::node::shared_overflow::{self, KnownFreeSlots};

/// Shared overflow pages that are tried before a new one is made.
const TRIED: usize = 3;

/// Bytes that are reserved for a value at once; a longer one grows.
const MOST_RESERVED: usize = 1 << 20;

/// Pages that can be read.
pub(crate) trait ReadOverflow<const PAGE: usize> {
    /// Why a page cannot be read.
    type Error;
    /// Runs `read` on an overflow page.
    fn read_page<R>(
        &self,
        page: PageNumber,
        read: impl FnOnce(&Image<PAGE>) -> R,
    ) -> Result<R, Self::Error>;
    /// What to say of a page that is not what it is to be.
    fn damaged(&self, page: PageNumber, what: &str) -> Self::Error;
}

/// Pages that can be taken and given back.
pub(crate) trait WriteOverflow<const PAGE: usize>: ReadOverflow<PAGE> {
    /// The number by which shared overflow pages know their tree.
    fn tree(&self) -> PageNumber;
    /// A new page of this content.
    fn add(&mut self, image: &Image<PAGE>) -> Result<PageNumber, Self::Error>;
    /// Gives a page back without looking at it.
    fn release(&mut self, page: PageNumber) -> Result<(), Self::Error>;
    /// Puts bytes into a slot of what was a shared overflow page, if it is one still, has a
    /// free slot, and nobody is in the way.
    fn fill(
        &mut self,
        slot_page: PageNumber,
        class: usize,
        bytes: &[u8],
    ) -> Result<Option<usize>, Self::Error>;
    /// Makes slots free. Gives the shared overflow page back if no other is taken, and says
    /// whether it did.
    fn free_slots(&mut self, slot_page: PageNumber, bits: u16) -> Result<bool, Self::Error>;
    /// Runs `what` on the shared overflow pages that the tree knows.
    fn known_slots<R>(&mut self, what: impl FnOnce(&mut KnownFreeSlots) -> R) -> R;
}

/// Writes the rest of a key and a value to overflow pages, split as planned, and returns the
/// record that names them. Leaves nothing behind when it fails.
pub(crate) fn store<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    mut chain: Chain,
    cut: CutKey<'_>,
    value: &[u8],
) -> Result<NewRecord, W::Error> {
    let bytes: Cow<'_, [u8]> = match cut.rest {
        None | Some([]) => value.into(),
        Some(rest) => [rest, value].concat().into(),
    };
    let mut written = Vec::with_capacity(chain.pages);
    match write(store, &mut chain, &bytes, &mut written) {
        Ok(()) => Ok(chain.new_record(&bytes[..chain.head])),
        Err(error) => {
            for page in written {
                store.release(page)?;
            }
            Err(error)
        }
    }
}

fn write<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    chain: &mut Chain,
    bytes: &[u8],
    written: &mut Vec<PageNumber>,
) -> Result<(), W::Error> {
    let (mut image, mut next) = (Image::<PAGE>::zeroed(), 0);
    image.set_tag(Tag::Overflow);
    // From the end on, so that each page is written once, with the number of the next.
    for index in (0..chain.pages).rev() {
        image.set_upper_child(next as usize);
        image.put(HEADER, &bytes[chain.in_page::<PAGE>(index)]);
        next = store.add(&image)?;
        written.push(next);
        if index < chain.listed {
            chain.numbers[index] = next;
        }
    }
    if chain.class > 0 {
        (chain.slot_page, chain.slot) = put(store, chain.class, &bytes[chain.in_slot::<PAGE>()])?;
    }
    Ok(())
}

/// Puts bytes into a slot of a class: which of which shared overflow page.
fn put<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    class: usize,
    bytes: &[u8],
) -> Result<(PageNumber, usize), W::Error> {
    for _ in 0..TRIED {
        let Some(page) = store.known_slots(|free| free.take(class)) else {
            break;
        };
        // One that is full, or not a shared overflow page any more, or in somebody's use, is out
        // of the way.
        if let Some(slot) = store.fill(page, class, bytes)? {
            if slot + 1 < shared_overflow::SLOTS[class] {
                store.known_slots(|free| free.offer(class, page));
            }
            return Ok((page, slot));
        }
    }
    let mut image = shared_overflow::start(class, store.tree());
    let slot =
        shared_overflow::fill(&mut image, class, bytes).expect("an empty shared overflow page");
    let page = store.add(&image)?;
    store.known_slots(|free| free.offer(class, page));
    Ok((page, slot))
}

/// Reads the first bytes, `most` at most, of what a record names: the rest of a key and the value.
pub(crate) fn load<const PAGE: usize, R: ReadOverflow<PAGE>>(
    pages: &R,
    payload: Payload<'_>,
    most: usize,
) -> Result<Vec<u8>, R::Error> {
    let mut bytes = Vec::new();
    let chain = Chain::read::<PAGE>(payload);
    append(pages, &chain, payload, most, &mut bytes)?;
    Ok(bytes)
}

/// Appends what [`load`] loads to `bytes`, of a chain that was read already. When it fails, `bytes`
/// is as before.
pub(crate) fn append<const PAGE: usize, R: ReadOverflow<PAGE>>(
    pages: &R,
    chain: &Chain,
    payload: Payload<'_>,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), R::Error> {
    let start = bytes.len();
    let appended = append_pages(pages, chain, payload, most, bytes);
    if appended.is_err() {
        bytes.truncate(start);
    }
    appended
}

#[inline(always)]
fn append_pages<const PAGE: usize, R: ReadOverflow<PAGE>>(
    pages: &R,
    chain: &Chain,
    payload: Payload<'_>,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), R::Error> {
    let len = chain.len.min(most);
    let end = bytes.len().saturating_add(len);
    bytes.reserve(len.min(MOST_RESERVED));
    bytes.extend_from_slice(chain.head_of(payload));
    let mut next = 0;
    for index in 0..chain.pages {
        if bytes.len() >= end {
            break;
        }
        let page = chain.number(index).unwrap_or(next);
        let read = pages.read_page(page, |image| {
            let is_of_chain = image.is(Tag::Overflow);
            if is_of_chain {
                let some = chain.in_page::<PAGE>(index).len();
                bytes.extend_from_slice(image.slice(HEADER..HEADER + some));
                next = image.upper_child() as PageNumber;
            }
            is_of_chain
        })?;
        if !read {
            return Err(pages.damaged(page, "is to be of a long value, but is not"));
        }
    }
    if bytes.len() < end && chain.class > 0 {
        let at = shared_overflow::slot_at::<PAGE>(chain.class, chain.slot);
        let read = pages.read_page(chain.slot_page, |image| {
            let is_shared_overflow = image.is(Tag::SharedOverflow);
            if is_shared_overflow {
                bytes.extend_from_slice(image.slice(at..at + chain.in_slot::<PAGE>().len()));
            }
            is_shared_overflow
        })?;
        if !read {
            return Err(pages.damaged(
                chain.slot_page,
                "is to be a shared overflow page of long values, but is not",
            ));
        }
    }
    bytes.truncate(end);
    Ok(())
}

/// Gives back what a record named. Only pages whose numbers other pages have are looked at. What is
/// behind one that cannot be read stays in use.
pub(crate) fn release<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    chain: &Chain,
) -> Result<(), W::Error> {
    let freed = match chain.class {
        0 => Ok(()),
        class => free_slots(store, class, chain.slot_page, chain.slot_bit()),
    };
    let released = release_pages(store, chain);
    freed.and(released)
}

/// As [`release`], but not what is in a shared overflow page.
pub(crate) fn release_pages<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    chain: &Chain,
) -> Result<(), W::Error> {
    let mut page = chain.numbers[0];
    for index in 0..chain.pages {
        let next = match chain.number(index + 1) {
            Some(next) => next,
            None if index + 1 == chain.pages => 0,
            None => {
                let next = store.read_page(page, |image| {
                    let is_of_chain = image.is(Tag::Overflow);
                    is_of_chain.then(|| image.upper_child() as PageNumber)
                })?;
                next.ok_or_else(|| store.damaged(page, "is to be of a long value, but is not"))?
            }
        };
        store.release(page)?;
        page = next;
    }
    Ok(())
}

/// Makes slots of a shared overflow page free.
pub(crate) fn free_slots<const PAGE: usize, W: WriteOverflow<PAGE>>(
    store: &mut W,
    class: usize,
    slot_page: PageNumber,
    bits: u16,
) -> Result<(), W::Error> {
    let is_gone = store.free_slots(slot_page, bits)?;
    store.known_slots(|free| {
        if is_gone {
            free.forget(class, slot_page);
        } else {
            free.offer(class, slot_page);
        }
    });
    Ok(())
}
