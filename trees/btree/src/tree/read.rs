//! Lookups.

use std::cell::Cell;

use hedgerow_index::{RANGE_VALUE_BYTES, ValuePart};
use hedgerow_pages::{Error, PageId, Pages, Pool, Restart, Result, SharedLatch, View, ViewMut};

use super::descend::{Leaf, SearchTarget};
use super::{BTreeIndex, image};
use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::chain::Chain;
use crate::node::fingerprint::{self, Fingerprints, find_fingerprint};
use crate::node::fully_dense::find_value;
use crate::node::key::{CutKey, layer_root};
use crate::node::layout::{Kind, Record};
use crate::node::page::{COUNTER_AT, Image, Tag, node};
use crate::node::search::Node;
use crate::node::slotted::Comparison;
use crate::restructure::NodeRef;

/// Values up to this are copied to the stack.
const SMALL: usize = 64;
const MEDIUM: usize = 1024;

/// How many bytes of a long value an operation reads for a part of it.
#[inline(always)]
pub(super) fn shown_bytes(part: ValuePart) -> usize {
    match part {
        ValuePart::Whole => usize::MAX,
        ValuePart::Head => RANGE_VALUE_BYTES,
    }
}

/// The result of an optimistic lookup in a leaf.
enum OptimisticLookup {
    /// The key is not there.
    Absent,
    /// So many bytes of value, copied.
    Value(usize),
    /// It takes a latch to tell.
    Latch,
}

thread_local! {
    /// State of the random numbers that decide which operations adaption counts.
    static RANDOM: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// True as often as `of_2_to_32` says (xorshift; not zero at first, so never).
#[inline(always)]
pub(super) fn chance(of_2_to_32: u32) -> bool {
    RANDOM.with(|random| {
        let mut word = random.get();
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        random.set(word);
        word < of_2_to_32
    })
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Runs `read` on the value of `key` and returns its result, or `None` when absent.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read.
    #[inline]
    pub fn get<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> std::result::Result<Option<R>, Error> {
        self.get_part(key, ValuePart::Whole, read)
    }

    /// [`get`](Self::get) which shows `read` the value or its head: for the head of a long value
    /// the tree reads none of its other pages.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    #[inline]
    pub fn get_part<R>(
        &self,
        key: &[u8],
        part: ValuePart,
        read: impl FnOnce(&[u8]) -> R,
    ) -> std::result::Result<Option<R>, Error> {
        let shown = shown_bytes(part);
        let mut read = Some(read);
        self.repeat(|| {
            let mut from = self.snapshot_root()?;
            let mut cut = Self::cut(key);
            loop {
                let leaf = self.descend(from, SearchTarget::Key(cut.key_prefix))?;
                match self.lookup_leaf(&leaf, cut, None, shown, &mut read)? {
                    LeafLookup::Answer(answer) => return Ok(answer),
                    LeafLookup::Layer(root) => {
                        from = root;
                        cut = Self::cut(cut.rest.unwrap_or(&[]));
                    }
                }
            }
        })
    }

    /// Looks a key up under the leaf's version snapshot, and copies a small value into `small`.
    #[inline(always)]
    fn lookup_optimistic(
        &self,
        leaf: &Leaf,
        key_prefix: &[u8],
        likely: Option<usize>,
        small: &mut [u8; SMALL],
    ) -> Result<OptimisticLookup> {
        let pool: &Pool<PAGE> = &self.pool;
        let page = pool.seen(&leaf.at.snapshot);
        match lookup_in::<C>(page, key_prefix, likely, small) {
            Ok((lookup_optimistic, counter)) => {
                pool.validate(&leaf.at.snapshot)?;
                self.count_point(leaf, counter);
                Ok(lookup_optimistic)
            }
            Err(Restart) => Err(self.restart_or_damage(&leaf.at, "refers to bytes beyond its end")),
        }
    }

    /// Looks a key up in a leaf, without a latch if possible, and without a search if its record is
    /// at the likely index.
    #[inline(always)]
    pub(super) fn lookup_leaf<R>(
        &self,
        leaf: &Leaf,
        cut: CutKey<'_>,
        likely: Option<usize>,
        shown: usize,
        read: &mut Option<impl FnOnce(&[u8]) -> R>,
    ) -> Result<LeafLookup<R>> {
        let mut small = [0; SMALL];
        match self.lookup_optimistic(leaf, cut.key_prefix, likely, &mut small)? {
            OptimisticLookup::Absent => Ok(LeafLookup::Answer(None)),
            OptimisticLookup::Value(len) => {
                let answer = read.take().map(|read| read(&small[..len]));
                Ok(LeafLookup::Answer(answer))
            }
            OptimisticLookup::Latch => self.lookup_latched(leaf, cut, shown, read),
        }
    }

    /// Looks a key up in a leaf under its latch.
    fn lookup_latched<R>(
        &self,
        leaf: &Leaf,
        cut: CutKey<'_>,
        shown: usize,
        read: &mut Option<impl FnOnce(&[u8]) -> R>,
    ) -> Result<LeafLookup<R>> {
        let latch = self.latch_shared(leaf)?;
        let page = node(latch.image());
        let counter = page.counter() as u8;
        let Some(record) = page.find::<C>(cut.key_prefix) else {
            drop(latch);
            self.count_point(leaf, counter);
            return Ok(LeafLookup::Answer(None));
        };
        let payload = page.payload(record);
        let answer = match payload.kind {
            Kind::Inline => {
                let read = read.take().expect("read once");
                Some(self.read_detached(leaf, latch, record, read))
            }
            Kind::Layer => {
                let root = self.snapshot_layer_root(layer_root(payload))?;
                return Ok(LeafLookup::Layer(root));
            }
            _ => {
                let key_len = Chain::read::<PAGE>(payload).key_len;
                let bytes = self.load_chain(payload, key_len.saturating_add(shown))?;
                drop(latch);
                let (rest, value) = bytes.split_at(key_len);
                if rest == cut.rest.unwrap_or(&[]) {
                    read.take().map(|read| read(value))
                } else {
                    None
                }
            }
        };
        Ok(LeafLookup::Answer(answer))
    }

    /// Takes a version snapshot of the root of a layer, while the leaf that names it is latched.
    pub(super) fn snapshot_layer_root(&self, root: u32) -> Result<NodeRef> {
        let (pool, id): (&Pool<PAGE>, _) = (&self.pool, PageId(root));
        match pool.optimistic(id) {
            Ok(snapshot) => Ok(NodeRef { id, snapshot }),
            Err(hedgerow_pages::Stop::Restart) => {
                Err(self.damaged(id, "is to be the root of a layer, but is not in use"))
            }
            Err(failed) => Err(failed),
        }
    }

    /// Copies a value, releases the latch, and reads the copy.
    fn read_detached<R>(
        &self,
        leaf: &Leaf,
        latch: SharedLatch<'_, PAGE>,
        record: Record,
        read: impl FnOnce(&[u8]) -> R,
    ) -> R {
        let page = node(latch.image());
        let counter = page.counter() as u8;
        let value = page.payload(record).bytes;
        let len = value.len();
        if len > MEDIUM {
            let value = value.to_vec();
            drop(latch);
            return read(&value);
        }
        let mut copy = [0; MEDIUM];
        copy[..len].copy_from_slice(value);
        drop(latch);
        self.count_point(leaf, counter);
        read(&copy[..len])
    }

    /// Counts a lookup, insertion or removal in a leaf that had this counter.
    #[inline(always)]
    pub(super) fn count_point(&self, leaf: &Leaf, counter: u8) {
        // As a signed byte, a disabled counter is negative.
        let counts = C::LEAVES.adaptive() && counter.cast_signed() > 0;
        if counts && chance(C::THRESHOLDS.point_counts) {
            self.change_form(leaf, |page, conversions| {
                page.lower_counter::<C>(conversions)
            });
        }
    }

    /// Changes the form of a leaf but not its records, if its snapshot still holds and no other
    /// thread has it latched; whether that was so.
    #[cold]
    pub(super) fn change_form(
        &self,
        leaf: &Leaf,
        change: impl FnOnce(&mut Image<PAGE>, &mut Conversions),
    ) -> bool {
        let mut pool: &Pool<PAGE> = &self.pool;
        let Ok(mut latch) = pool.upgrade(&leaf.at.snapshot) else {
            return false;
        };
        if !image(&latch).is_leaf() {
            return false;
        }
        let mut conversions = Conversions::default();
        let mut page = image(&latch).clone();
        change(&mut page, &mut conversions);
        Pages::touch(&mut pool, &mut latch).take_lines(0..PAGE, page.image());
        drop(latch);
        self.conversions().absorb(&conversions);
        true
    }
}

/// What a latched leaf says of a key.
pub(super) enum LeafLookup<R> {
    Answer(Option<R>),
    Layer(NodeRef),
}

/// Looks a key up in bytes that may be changing; also what the leaf's counter is.
#[inline(always)]
fn lookup_in<C: Configuration>(
    page: impl View,
    key_prefix: &[u8],
    likely: Option<usize>,
    small: &mut [u8; SMALL],
) -> std::result::Result<(OptimisticLookup, u8), Restart> {
    let tag = page.u8(0)?;
    let value = if tag == Tag::Comparison as u8 {
        find_likely::<C>(page, key_prefix, likely)?
    } else if C::LEAVES.fingerprint() && tag == Tag::Fingerprint as u8 {
        let suffix = page.suffix_of(key_prefix)?;
        let index = match likely {
            Some(index) if fingerprint::is_at(page, index, suffix)? => Some(index),
            _ => find_fingerprint(page, suffix)?,
        };
        match index {
            Some(index) => value_of(page.record::<Fingerprints>(index, page.records()?)?),
            None => ValueAt::Absent,
        }
    } else if C::LEAVES.fully_dense() && tag == Tag::FullyDense as u8 {
        match find_value(page, key_prefix)? {
            Some((at, len)) => ValueAt::Inline { at, len },
            None => ValueAt::Absent,
        }
    } else {
        ValueAt::Elsewhere
    };
    let lookup_optimistic = match value {
        ValueAt::Absent => OptimisticLookup::Absent,
        ValueAt::Inline { at, len: 8 } => {
            *small.first_chunk_mut().expect("room") = page.array::<8>(at)?;
            OptimisticLookup::Value(8)
        }
        ValueAt::Inline {
            at,
            len: len @ 0..=SMALL,
        } => {
            page.copy_few(at, len, small)?;
            OptimisticLookup::Value(len)
        }
        _ => return Ok((OptimisticLookup::Latch, 0)),
    };
    Ok((lookup_optimistic, page.u8(COUNTER_AT)?))
}

/// Where the value of a key is in a comparison leaf, without a search if its record is at the
/// likely index, or would be.
#[inline(always)]
fn find_likely<C: Configuration>(
    page: impl View,
    key: &[u8],
    likely: Option<usize>,
) -> std::result::Result<ValueAt, Restart> {
    if let Some(index) = likely {
        if let Some(record) = page.record_if_of::<Comparison<C>>(index, key)? {
            return Ok(value_of(record));
        }
        if let Some((_, false)) = page.confirm_slot::<Comparison<C>>(index, key)? {
            return Ok(ValueAt::Absent);
        }
    }
    let (index, found) = page.find_slot::<Comparison<C>>(key)?;
    if !found {
        return Ok(ValueAt::Absent);
    }
    let record = page.record::<Comparison<C>>(index, page.records()?)?;
    Ok(value_of(record))
}

/// Where a value is.
enum ValueAt {
    Absent,
    /// In the leaf: its offset and length.
    Inline {
        at: usize,
        len: usize,
    },
    /// Where it takes a latch to read it.
    Elsewhere,
}

#[inline(always)]
fn value_of(record: Record) -> ValueAt {
    if record.kind == Kind::Inline {
        ValueAt::Inline {
            at: record.value_at,
            len: record.value_len,
        }
    } else {
        ValueAt::Elsewhere
    }
}
