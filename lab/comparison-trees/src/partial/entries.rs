//! The entries of a node: of each key where it first differs from the one before it, and the few
//! bytes from there on.
//!
//! Fields are atomic words, so that a reader may look at a node while a writer changes it, and ask
//! the node's version afterwards whether what it saw was consistent. What changes a node needs its
//! latch, and marks the version first.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use hedgerow_sync::VersionWord;

use super::super::arena::NONE;

/// Bytes of a key that an entry holds.
const PARTIAL_BYTES: usize = 4;

/// Where two keys that are equal differ: nowhere.
pub const NOWHERE: usize = 0xFF_FFFF;

/// Where a key first differs from the one before it, how many of its bytes from there on are
/// here, and these bytes: 24, 8 and 32 bits.
#[derive(Clone, Copy)]
pub struct Partial(u64);

impl Partial {
    /// A key's, which `rest` is all that follows of from the difference on.
    pub fn new(differs_at: usize, rest: &[u8]) -> Self {
        let mut bytes = [0; PARTIAL_BYTES];
        let len = rest.len().min(PARTIAL_BYTES);
        bytes[..len].copy_from_slice(&rest[..len]);
        Self((differs_at as u64) << 40 | (len as u64) << 32 | u64::from(u32::from_be_bytes(bytes)))
    }

    #[inline(always)]
    fn differs_at(self) -> usize {
        (self.0 >> 40) as usize
    }

    /// How a key that differs from the one before this one at the same byte compares with this
    /// one, and where they differ; `None` where the bytes that are here do not tell.
    #[inline(always)]
    fn compare(self, key: &[u8]) -> Option<(Ordering, usize)> {
        let at = self.differs_at();
        if at == NOWHERE {
            return Some((Ordering::Equal, NOWHERE));
        }
        let len = ((self.0 >> 32) as usize & 0xFF).min(PARTIAL_BYTES);
        let bytes = (self.0 as u32).to_be_bytes();
        let rest = key.get(at..).unwrap_or_default();
        let here = &rest[..rest.len().min(PARTIAL_BYTES)];
        let same = here.iter().zip(&bytes[..len]).take_while(|(a, b)| a == b);
        let same = same.count();
        match (here.get(same), bytes[..len].get(same)) {
            (None, None) if len == PARTIAL_BYTES => None,
            (None, None) => Some((Ordering::Equal, NOWHERE)),
            (mine, its) => Some((mine.cmp(&its), at + same)),
        }
    }
}

/// What a search of a node found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// How many keys are below the one looked for.
    pub rank: usize,
    /// Whether the next key is the one looked for.
    pub is_here: bool,
    /// Where the key looked for differs from the last one below it, or from the node's bound.
    pub after_lower: usize,
    /// Where it differs from the next one, if there is one.
    pub before_upper: usize,
}

/// Up to `WIDTH` keys in order.
#[repr(C)]
pub struct Entries<const WIDTH: usize> {
    pub version: VersionWord,
    count: AtomicU32,
    /// The record of the key that the node's keys are not below: what its first key is compared
    /// with. It never changes. None for the lowest node of a level, whose bound is the empty key.
    bound: AtomicU32,
    partial: [AtomicU64; WIDTH],
    records: [AtomicU32; WIDTH],
}

impl<const WIDTH: usize> Entries<WIDTH> {
    /// An empty node.
    pub fn new(is_leaf: bool) -> Self {
        Self {
            version: VersionWord::new(is_leaf, false),
            count: AtomicU32::new(0),
            bound: AtomicU32::new(NONE),
            partial: std::array::from_fn(|_| AtomicU64::new(0)),
            records: std::array::from_fn(|_| AtomicU32::new(NONE)),
        }
    }

    /// How many keys there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(WIDTH)
    }

    pub fn is_full(&self) -> bool {
        self.count() == WIDTH
    }

    /// The record of the key at a rank.
    #[inline(always)]
    pub fn record(&self, rank: usize) -> u32 {
        self.records[rank].load(Relaxed)
    }

    /// The record of the node's bound.
    pub fn bound(&self) -> u32 {
        self.bound.load(Relaxed)
    }

    /// Sets the bound of a node that no other thread can see.
    pub fn begin_at(&self, bound: u32) {
        self.bound.store(bound, Relaxed);
    }

    /// Where a key belongs that differs from the node's bound at a byte. `compare` looks at the
    /// whole key of a record.
    #[inline(always)]
    pub fn search(
        &self,
        key: &[u8],
        mut differs_at: usize,
        compare: impl Fn(u32) -> (Ordering, usize),
    ) -> Found {
        let count = self.count();
        for rank in 0..count {
            let partial = Partial(self.partial[rank].load(Relaxed));
            let found = |is_here, before_upper| Found {
                rank,
                is_here,
                after_lower: differs_at,
                before_upper,
            };
            // It shares more with the key before than the one looked for does: it is as far below.
            if differs_at < partial.differs_at() {
                continue;
            }
            if differs_at > partial.differs_at() {
                return found(false, partial.differs_at());
            }
            let (order, at) = partial
                .compare(key)
                .unwrap_or_else(|| compare(self.record(rank)));
            match order {
                Ordering::Less => return found(false, at),
                Ordering::Equal => return found(true, NOWHERE),
                Ordering::Greater => differs_at = at,
            }
        }
        Found {
            rank: count,
            is_here: false,
            after_lower: differs_at,
            before_upper: NOWHERE,
        }
    }

    /// Makes room at a rank and puts a key there. The caller holds the latch of a node with room,
    /// has marked it, and sees to the key behind.
    pub fn insert(&self, rank: usize, partial: Partial, record: u32) {
        let count = self.count();
        for at in (rank..count).rev() {
            self.partial[at + 1].store(self.partial[at].load(Relaxed), Relaxed);
            self.records[at + 1].store(self.records[at].load(Relaxed), Relaxed);
        }
        self.records[rank].store(record, Relaxed);
        self.set_partial(rank, partial);
        self.count.store(count as u32 + 1, Relaxed);
    }

    /// Says anew where a key differs from the one before it.
    pub fn set_partial(&self, rank: usize, partial: Partial) {
        self.partial[rank].store(partial.0, Relaxed);
    }

    /// Moves the keys from a rank on to an empty node, and leaves so many. The caller holds both
    /// latches and has marked both as splitting.
    pub fn split(&self, from: usize, left: usize, right: &Self) {
        let count = self.count();
        for rank in from..count {
            let (partial, record) = (&self.partial[rank], &self.records[rank]);
            right.partial[rank - from].store(partial.load(Relaxed), Relaxed);
            right.records[rank - from].store(record.load(Relaxed), Relaxed);
        }
        right.count.store((count - from) as u32, Relaxed);
        self.count.store(left as u32, Relaxed);
    }
}
