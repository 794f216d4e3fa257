//! Consolidation of a leaf whose items have all the same size: runs of its base node are copied as
//! bytes, and items of deltas are written between them.
//!
//! This is the common case of [fast consolidation](super::view): offsets of deltas say where a run
//! ends, and with one size of items a run of heads and a run of items are each one copy. The new
//! node keeps the prefix of the old one, so heads and suffixes stay as they are. A key that has
//! another prefix or length, and a value of another length, make the general form necessary.

use std::ptr::NonNull;

use hedgerow_memory::Placement;

use crate::chunk::ChunkPlan;
use crate::chunk_word::ChunkWord;
use crate::node::base::Base;
use crate::node::draft::{Layout, Output};
use crate::node::key::{compare, equal, head_of};
use crate::node::record::{IN_BASE, Kind, RecordRef};
use crate::node::view::Change;
use crate::value::Stored;

/// The newest delta of a key.
struct Splice<'a> {
    offset: u32,
    suffix: &'a [u8],
    value: Option<&'a [u8]>,
}

impl Splice<'_> {
    fn place(&self) -> usize {
        (self.offset & !IN_BASE) as usize
    }

    fn is_in_base(&self) -> bool {
        self.offset & IN_BASE != 0
    }
}

/// A leaf's chain whose items have all the same size, its deltas in order.
pub(crate) struct Spliced<'a> {
    head: RecordRef<'a>,
    base: Base<'a>,
    stride: usize,
    /// Items of the base node that stay.
    stay: usize,
    splices: Vec<Splice<'a>>,
    count: usize,
}

impl<'a> Spliced<'a> {
    /// A chain with a change on top; `None` if it needs the general form.
    pub fn of(head: RecordRef<'a>, change: Option<&Change<'a>>) -> Option<Self> {
        let header = head.header();
        if header.level > 0 || head.kind() == Kind::Merge {
            return None;
        }
        head.prefetch_chain();
        let base = head.base();
        let mut spliced = Self {
            head,
            base,
            stride: base.stride()?,
            stay: base.size(),
            splices: Vec::with_capacity(usize::from(header.depth) + 1),
            count: 0,
        };
        if let Some(change) = change {
            let value = (change.kind != Kind::Delete).then_some(change.value);
            spliced.add(change.offset, change.key, value)?;
        }
        let mut record = head;
        while record.kind() != Kind::Base {
            if record.is_leaf_delta() {
                let value = (record.kind() != Kind::Delete).then(|| record.value());
                spliced.add(record.header().offset, record.key(), value)?;
            } else if record.kind() == Kind::Split {
                spliced.stay = record.offset();
            }
            record = record.next();
        }
        spliced.sort();
        (spliced.count > 0).then_some(spliced)
    }

    /// Adds a delta that is older than those before it; `None` if its size is another one.
    #[inline]
    fn add(&mut self, offset: u32, key: &'a [u8], value: Option<Stored<'a>>) -> Option<()> {
        let prefix = self.base.prefix();
        let (begin, suffix) = key.split_at_checked(prefix.len())?;
        let length_word = self.base.value_length();
        let same_value = value.is_none_or(|value| value.length_word() == length_word);
        let same_size = suffix.len() + Stored::bytes_of(length_word) == self.stride;
        if !(same_value && same_size && equal(begin, prefix)) {
            return None;
        }
        self.splices.push(Splice {
            offset,
            suffix,
            value: value.map(|value| value.bytes()),
        });
        Some(())
    }

    /// Puts the deltas in the order of their keys, the newest one of each, and counts the items.
    fn sort(&mut self) {
        // The sort is stable and they stand newest first.
        self.splices.sort_by(|one, other| {
            let places = one.place().cmp(&other.place());
            places.then_with(|| compare(one.suffix, other.suffix))
        });
        self.splices
            .dedup_by(|older, newer| equal(older.suffix, newer.suffix));
        let splices = self.splices.iter();
        let gone = splices.clone().filter(|s| s.is_in_base()).count();
        let new = splices.filter(|s| s.value.is_some()).count();
        self.count = self.stay + new - gone;
    }

    /// Items of the consolidated node.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What [`item_bytes`](super::draft::item_bytes) says of the items.
    pub fn item_bytes(&self) -> usize {
        self.base.prefix().len() + self.count * (self.stride + 4)
    }

    /// Writes the consolidated node into a new chunk with room for `delta_bytes` of deltas.
    pub fn build<W: ChunkWord>(&self, placement: Placement, delta_bytes: usize) -> NonNull<u8> {
        let layout = Layout {
            level: 0,
            count: self.count,
            right: self.head.right(),
            prefix: self.base.prefix(),
            low: self.base.low(),
            high: self.head.high(),
            stride: self.stride,
            value_length: self.base.value_length(),
        };
        let heads_at = layout.heads_at();
        let items_at = heads_at + 4 * self.count;
        let output = Output::new::<W>(ChunkPlan {
            placement,
            level: 0,
            delta_bytes,
            base_bytes: items_at + self.stride * self.count,
        });
        layout.write(&output);
        let mut writer = Writer {
            output: &output,
            base: self.base,
            stride: self.stride,
            heads_at,
            items_at,
            written: 0,
        };
        let mut next = 0;
        for splice in &self.splices {
            let place = splice.place();
            writer.copy(next, place);
            next = place + usize::from(splice.is_in_base());
            if let Some(value) = splice.value {
                writer.put(value, splice.suffix);
            }
        }
        writer.copy(next, self.stay);
        debug_assert_eq!(writer.written, self.count);
        output.base()
    }
}

/// Writes items of one size one after the other.
struct Writer<'a, 'g> {
    output: &'a Output,
    base: Base<'g>,
    stride: usize,
    heads_at: usize,
    items_at: usize,
    written: usize,
}

impl Writer<'_, '_> {
    /// Copies the old node's items from `from` to before `to`.
    #[inline]
    fn copy(&mut self, from: usize, to: usize) {
        let count = to - from;
        let heads = self
            .base
            .bytes_at(self.base.heads_at() + 4 * from, 4 * count);
        self.output.put(self.heads_at + 4 * self.written, heads);
        let stride = self.stride;
        let items_at = self.base.behind_heads() + stride * from;
        let items = self.base.bytes_at(items_at, stride * count);
        self.output
            .put(self.items_at + stride * self.written, items);
        self.written += count;
    }

    #[inline]
    fn put(&mut self, value: &[u8], suffix: &[u8]) {
        let head = (head_of(suffix) >> 32) as usize;
        self.output.put_u32(self.heads_at + 4 * self.written, head);
        let at = self.items_at + self.stride * self.written;
        self.output.put(at, value);
        self.output.put(at + value.len(), suffix);
        self.written += 1;
    }
}
