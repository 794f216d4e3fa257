//! How a record is put into a node, and taken out of it, wherever the node's bytes lie.
//!
//! A change is written once, against [`ViewMut`], for a page that one thread has for itself
//! and for one that others may be reading as it changes. To write a word of the latter costs as
//! much as a byte: so fields that are neighbours are written together.

use std::hint::select_unpredictable;

use hedgerow_pages::ViewMut;

use crate::node::layout::{
    HINTS, Kind, LONGEST_SHORT_KEY, LONGEST_SHORT_VALUE, Layout, Payload, record_size,
};
use crate::node::page::{COUNT_AT, HEADER, HEAP_AT, Image, node};

/// A node that is being changed.
pub(crate) trait Edit<const PAGE: usize>: ViewMut<PAGE> + Sized {
    /// The node as it is now.
    #[inline(always)]
    fn node(&self) -> &Image<PAGE> {
        node(self.image())
    }

    /// Says how many records there are.
    #[inline(always)]
    fn put_count(&mut self, count: usize) {
        self.put_u16(COUNT_AT, count as u16);
    }

    /// Takes room from the heap; the caller saw to it that there is some.
    #[inline(always)]
    fn take_heap(&mut self, size: usize) -> usize {
        let (start, used) = (self.node().heap_start(), self.node().heap_used());
        let at = start - size;
        // Both fields are one word.
        self.put_u64(HEAP_AT, at as u64 | ((used + size) as u64) << 32);
        at
    }

    /// Says how many bytes of the heap are in use.
    #[inline(always)]
    fn put_heap_used(&mut self, used: usize) {
        self.put_u32(HEAP_AT + 4, used as u32);
    }

    /// Puts a record of a slotted node at `index`; there is a gap for it. The page leaves out the
    /// first `prefix` bytes of the key.
    #[inline(always)]
    fn put_record<L: Layout>(
        &mut self,
        index: usize,
        key: &[u8],
        prefix: usize,
        payload: Payload<'_>,
    ) {
        let suffix = &key[prefix..];
        let at = self.take_heap(record_size::<L>(suffix.len(), payload));
        self.write_record::<L>(at, suffix, payload);
        self.open_slot::<L>(index, at);
        L::put_side(self, L::BODY + index * L::SIDE, key, prefix);
        self.update_hints::<L>(index);
    }

    /// Makes room in both arrays for one more entry: what is beside later slots and the earlier
    /// slots are neighbours, and move as one.
    #[inline(always)]
    fn open_slot<L: Layout>(&mut self, index: usize, offset: usize) {
        let count = self.node().count();
        let old = self.node().slots_at::<L>() + 2 * index;
        let new = old + L::SIDE;
        if index < count {
            self.shift_up(old..old + 2 * (count - index), L::SIDE + 2);
        }
        if L::SIDE > 0 {
            let side = L::BODY + index * L::SIDE;
            self.shift_up(side..old, L::SIDE);
        }
        self.put_u16(new, offset as u16);
        self.put_count(count + 1);
    }

    /// Removes a record; its bytes stay in the heap until the next compaction.
    #[inline(always)]
    fn remove<L: Layout>(&mut self, index: usize) {
        let size = self.node().record_at::<L>(index).size();
        let (count, used) = (self.node().count(), self.node().heap_used());
        let old = self.node().slots_at::<L>() + 2 * index;
        let new = old - L::SIDE;
        if L::SIDE > 0 {
            let side = L::BODY + index * L::SIDE;
            self.shift(side + L::SIDE..old, side);
        }
        self.shift(old + 2..old + 2 * (count - index), new);
        self.put_count(count - 1);
        self.put_heap_used(used - size);
        self.update_hints::<L>(index);
    }

    /// Writes a record's bytes.
    #[inline(always)]
    fn write_record<L: Layout>(&mut self, at: usize, suffix: &[u8], payload: Payload<'_>) {
        let mut next = at;
        let len = payload.bytes.len();
        let short_value = payload.kind == Kind::Inline && len <= LONGEST_SHORT_VALUE;
        if suffix.len() <= LONGEST_SHORT_KEY && short_value {
            self.put_u16(next, (suffix.len() | len << 8) as u16);
            next += 2;
        } else {
            if suffix.len() > LONGEST_SHORT_KEY {
                self.put_u8(next, 255);
                self.put_u16(next + 1, suffix.len() as u16);
                next += 3;
            } else {
                self.put_u8(next, suffix.len() as u8);
                next += 1;
            }
            next = self.write_mark(next, payload);
        }
        if let Some(tail) = suffix.get(L::HEAD..)
            && !tail.is_empty()
        {
            self.put(next, tail);
            next += tail.len();
        }
        self.put_value(next, payload.bytes);
    }

    /// Writes what [`value_mark`](Node::value_mark) reads, and returns the place after it.
    #[inline(always)]
    fn write_mark(&mut self, at: usize, payload: Payload<'_>) -> usize {
        let len = payload.bytes.len();
        if payload.kind == Kind::Inline && len <= LONGEST_SHORT_VALUE {
            self.put_u8(at, len as u8);
            return at + 1;
        }
        self.put_u8(at, payload.kind.mark());
        if payload.kind == Kind::Layer {
            return at + 1;
        }
        self.put_u16(at + 1, len as u16);
        at + 3
    }

    /// Writes a value. Most are a word, which needs no call.
    #[inline(always)]
    fn put_value(&mut self, at: usize, bytes: &[u8]) {
        match <&[u8; 8]>::try_from(bytes) {
            Ok(word) => self.put(at, word),
            Err(_) => self.put(at, bytes),
        }
    }

    /// Writes a head.
    #[inline(always)]
    fn put_head<L: Layout>(&mut self, at: usize, head: u64) {
        if L::HEAD == 8 {
            self.put_u64(at, head);
        } else {
            self.put_u32(at, head as u32);
        }
    }

    /// Renews the hints after a change at `index`: those that repeat heads from there on, or all of
    /// them when their spacing changed.
    #[inline(always)]
    fn update_hints<L: Layout>(&mut self, index: usize) {
        // After an insertion a new spacing shows in a remainder of nothing, after a removal in
        // the largest.
        let rest = self.node().count() % (HINTS + 1);
        let spacing_changed = rest == 0 || rest == HINTS;
        self.renew_hints::<L>(if spacing_changed { 0 } else { index });
    }

    /// Copies the heads that hints repeat, where those are at or beyond an index.
    ///
    /// Which hints those are nobody can predict, so no branch depends on it: a hint that stays
    /// copies itself.
    fn renew_hints<L: Layout>(&mut self, first: usize) {
        let step = self.node().count() / (HINTS + 1);
        // Keys that ascend are put behind the last of those heads.
        if !L::HINTED || step == 0 || first > HINTS * step {
            return;
        }
        // Where the head of a hint is, or the hint itself.
        let source_at = |hint: usize| {
            let slot = step * (hint + 1);
            let (head_at, hint_at) = (L::BODY + L::HEAD * slot, HEADER + L::HEAD * hint);
            select_unpredictable(slot >= first, head_at, hint_at)
        };
        if L::HEAD == 8 {
            for hint in 0..HINTS {
                let head = *self.node().array::<8>(source_at(hint));
                self.put_u64(HEADER + L::HEAD * hint, u64::from_le_bytes(head));
            }
            return;
        }
        // Whole words of two short heads.
        for hint in (0..HINTS).step_by(2) {
            let head = |hint| u64::from(u32::from_le_bytes(*self.node().array(source_at(hint))));
            let word = head(hint) | head(hint + 1) << 32;
            self.put_u64(HEADER + L::HEAD * hint, word);
        }
    }
}

impl<const PAGE: usize, V: ViewMut<PAGE>> Edit<PAGE> for V {}
