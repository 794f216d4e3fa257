//! Large values in replies that were not sent yet.
//!
//! ```text
//! buffer of one connection    segment ─┐
//!                             segment ─┴► LargeValue ─┐
//! buffer of another one       segment ──► LargeValue ─┴► bytes ◄·· table of the process (weak)
//! ```
//!
//! A reply such as that of `MGET` shows its rows as they were at one moment, so it has to keep
//! their values until its client has fetched them. Values with the same content are kept once for
//! all connections of the process: a table finds them by a sample of their bytes, and the whole
//! content is compared. Each connection is charged for what its own replies refer to, as it might
//! be the last that does.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A value of this length or more is a segment of its own.
pub(crate) const LARGE_BYTES: usize = 32 << 10;

/// The length of a value and a few words of it: values that differ in them are not compared.
pub(super) type Sample = [u64; 5];

pub(super) fn sample(value: &[u8]) -> Sample {
    let word = |i: usize| {
        let from = (value.len() - 8) / 3 * i;
        value[from..]
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    [value.len() as u64, word(0), word(1), word(2), word(3)]
}

/// A value that segments of one buffer refer to.
#[derive(Clone)]
pub(super) struct LargeValue(Arc<InBuffer>);

/// A value within one buffer: its segments count `InBuffer`, and buffers count the bytes.
struct InBuffer {
    bytes: Arc<Vec<u8>>,
}

impl LargeValue {
    pub(super) fn new(bytes: Arc<Vec<u8>>) -> LargeValue {
        LargeValue(Arc::new(InBuffer { bytes }))
    }

    /// The same bytes for the segments of another buffer.
    pub(super) fn in_another_buffer(&self) -> LargeValue {
        LargeValue::new(Arc::clone(&self.0.bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn is_last_of_buffer(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// Values of at least so many replies are listed before the table looks for those that are gone.
const LISTED_AT_LEAST: usize = 64;

/// Where the values lie that replies of the process refer to.
struct Table {
    by_sample: BTreeMap<Sample, Weak<Vec<u8>>>,
    /// So many entries, and those of values that are gone are removed.
    clean_at: usize,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    by_sample: BTreeMap::new(),
    clean_at: LISTED_AT_LEAST,
});

fn table() -> MutexGuard<'static, Table> {
    // A panic leaves it whole.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// Lists a value, instead of another that looks like it.
    fn insert(&mut self, sample: Sample, value: &Arc<Vec<u8>>) {
        if self.by_sample.len() >= self.clean_at {
            self.by_sample.retain(|_, value| value.strong_count() > 0);
            self.clean_at = (2 * self.by_sample.len()).max(LISTED_AT_LEAST);
        }
        self.by_sample.insert(sample, Arc::downgrade(value));
    }
}

/// The bytes of a large value: those in some reply, or a copy that `copy` makes.
pub(super) fn shared<V: AsRef<[u8]>>(
    sample: &Sample,
    value: V,
    copy: impl FnOnce(V) -> Vec<u8>,
) -> Arc<Vec<u8>> {
    let found = table().by_sample.get(sample).and_then(Weak::upgrade);
    if let Some(found) = found.filter(|found| found.as_slice() == value.as_ref()) {
        return found;
    }
    let copied = Arc::new(copy(value));
    table().insert(*sample, &copied);
    copied
}

/// A large value and its position.
pub(super) struct Segment {
    pub(super) at: usize,
    pub(super) value: LargeValue,
}

/// The large values of a buffer, in order.
#[derive(Default)]
pub(super) struct Segments {
    pub(super) segments: VecDeque<Segment>,
    /// How many were sent: the number of the first that is left.
    pub(super) first_number: u64,
    /// The number of the last segment with a sample.
    by_sample: HashMap<Sample, u64>,
    /// What of the first one is sent.
    pub(super) sent_of_first: usize,
    /// What is left to send.
    pub(super) unsent_bytes: usize,
    /// The memory of the values, each counted once.
    pub(super) value_bytes: usize,
}

impl Segments {
    /// The value of a segment with this content, if there is one.
    pub(super) fn find(&self, sample: &Sample, value: &[u8]) -> Option<LargeValue> {
        let number = *self.by_sample.get(sample)?;
        let index = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        let found = &self.segments.get(index)?.value;
        let is_same = std::ptr::eq(found.bytes(), value) || found.bytes() == value;
        is_same.then(|| found.clone())
    }

    /// Appends a segment, whose number it returns.
    pub(super) fn push(&mut self, at: usize, sample: Sample, value: LargeValue) -> u64 {
        let number = self.first_number + self.segments.len() as u64;
        if self.by_sample.len() > 64 + 2 * self.segments.len() {
            let first = self.first_number;
            self.by_sample.retain(|_, number| *number >= first);
        }
        self.by_sample.insert(sample, number);
        self.unsent_bytes += value.bytes().len();
        self.segments.push_back(Segment { at, value });
        number
    }

    /// One segment less.
    pub(super) fn forget(&mut self, segment: &Segment) {
        if segment.value.is_last_of_buffer() {
            self.value_bytes -= segment.value.bytes().len();
        }
    }

    /// `n` bytes of the first segment are sent.
    pub(super) fn advance(&mut self, n: usize) {
        self.sent_of_first += n;
        self.unsent_bytes -= n;
        let sent_of_first = self.sent_of_first;
        let is_sent = |first: &Segment| first.value.bytes().len() == sent_of_first;
        if self.segments.front().is_some_and(is_sent)
            && let Some(sent) = self.segments.pop_front()
        {
            self.forget(&sent);
            self.sent_of_first = 0;
            self.first_number += 1;
        }
    }

    /// The memory that is taken up.
    pub(super) fn capacity(&self) -> usize {
        self.value_bytes
            + self.segments.capacity() * size_of::<Segment>()
            + self.by_sample.capacity() * size_of::<(Sample, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(bytes: &[u8]) -> Arc<Vec<u8>> {
        shared(&sample(bytes), bytes, <[u8]>::to_vec)
    }

    #[test]
    fn values_are_shared_while_a_reply_refers_to_them() {
        let value = b"in two replies ".repeat(5_000);
        let (one, other) = (hold(&value), hold(&value));
        assert!(Arc::ptr_eq(&one, &other));
        // One that looks like it takes its place in the table.
        let mut alike = value.clone();
        alike[9] ^= 1;
        assert_eq!(sample(&alike), sample(&value));
        let alike_shared = hold(&alike);
        assert!(*alike_shared == alike && *one == value);
        drop((one, other, alike_shared));
        let listed = table().by_sample.get(&sample(&value)).cloned();
        assert!(listed.and_then(|listed| listed.upgrade()).is_none());
        assert!(*hold(&value) == value, "and is copied anew");
    }

    #[test]
    fn values_that_are_gone_leave_the_table() {
        let mut table = Table {
            by_sample: BTreeMap::new(),
            clean_at: LISTED_AT_LEAST,
        };
        let kept: Vec<_> = (0..100).map(|i| Arc::new(vec![i])).collect();
        for (i, value) in kept.iter().enumerate() {
            table.insert([i as u64; 5], value);
        }
        for i in 100..10_000 {
            table.insert([i; 5], &Arc::new(Vec::new()));
            assert!(table.by_sample.len() <= 2 * kept.len() + LISTED_AT_LEAST);
        }
        let is_listed = |i: usize| table.by_sample[&[i as u64; 5]].upgrade().is_some();
        assert!((0..kept.len()).all(is_listed));
    }
}
