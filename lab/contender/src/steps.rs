//! Mixed operations as data: what a map does with one key after the other, in one run.
//!
//! A mix of lookups, writes and scans cannot be timed as a run of one kind each, and a call
//! through the lab for each operation would cost more than some operations do. So the lab hands
//! a contender a list of keys in the order of use, and for each key a [`Step`]: four bytes that
//! say what to do with it. The loop over both is the contender's own code.

use hedgerow_lab_data::{KeyRange, Keys, Kind};

/// What steps add to [`value_of`](crate::value_of) a key when they write it, so that a new value
/// differs from the one that was loaded.
pub const STEP_ADD: u64 = 1;

/// What to do with one key: a kind in the low 3 bits, above it how many pairs a scan returns.
/// Loops in other languages read the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Step(u32);

impl Step {
    /// The longest scan that a step can ask for.
    pub const LONGEST_SCAN: u32 = u32::MAX >> 3;

    /// A step of this kind; `scan_length` is at least 1 for scans and 0 for all other kinds.
    #[must_use]
    pub fn new(kind: Kind, scan_length: u32) -> Self {
        let kind = match kind {
            Kind::Read => 0,
            Kind::Update => 1,
            Kind::Insert => 2,
            Kind::Remove => 3,
            Kind::Scan => 4,
            Kind::ReadModifyWrite => 5,
            Kind::ReadInsert => 6,
            Kind::InsertIfAbsent => 7,
        };
        Self(scan_length.min(Self::LONGEST_SCAN) << 3 | kind)
    }

    /// What to do.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            0 => Kind::Read,
            1 => Kind::Update,
            2 => Kind::Insert,
            3 => Kind::Remove,
            4 => Kind::Scan,
            5 => Kind::ReadModifyWrite,
            6 => Kind::ReadInsert,
            _ => Kind::InsertIfAbsent,
        }
    }

    /// How many pairs a scan returns.
    #[inline]
    #[must_use]
    pub fn scan_length(self) -> u32 {
        self.0 >> 3
    }
}

/// Keys in the order of use, and what to do with each.
#[derive(Debug, Clone)]
pub struct Steps<'a> {
    keys: KeyRange<'a>,
    steps: &'a [Step],
    longest_scan: u32,
}

impl<'a> Steps<'a> {
    /// Pairs keys with their steps.
    ///
    /// # Panics
    ///
    /// If there are more of one than of the other.
    #[must_use]
    pub fn new(keys: &'a Keys, steps: &'a [Step]) -> Self {
        assert_eq!(keys.len(), steps.len(), "a step for each key");
        let lengths = steps.iter().map(|step| step.scan_length());
        Self {
            keys: keys.all(),
            steps,
            longest_scan: lengths.max().unwrap_or(0),
        }
    }

    /// How many steps there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The keys, as a loop in another language takes them.
    #[must_use]
    pub fn keys(&self) -> &KeyRange<'a> {
        &self.keys
    }

    /// The steps, one for each key.
    #[must_use]
    pub fn steps(&self) -> &'a [Step] {
        self.steps
    }

    /// Each key with its step, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Step)> + use<'a> {
        self.keys.iter().zip(self.steps.iter().copied())
    }

    /// The steps in pieces that touch some `pairs` pairs each: contenders that hold a guard over
    /// several operations go by these.
    ///
    /// # Panics
    ///
    /// If `pairs` is 0.
    pub fn chunks(&self, pairs: usize) -> impl Iterator<Item = Steps<'a>> + use<'a> {
        let longest_scan = self.longest_scan;
        let count = (pairs / (longest_scan as usize).max(1)).max(1);
        let keys = self.keys.chunks(count);
        keys.zip(self.steps.chunks(count))
            .map(move |(keys, steps)| Steps {
                keys,
                steps,
                longest_scan,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_keeps_its_kind_and_length() {
        for kind in Kind::ALL {
            for length in [0, 1, 1000, Step::LONGEST_SCAN] {
                let step = Step::new(kind, length);
                assert_eq!((step.kind(), step.scan_length()), (kind, length));
            }
        }
    }

    #[test]
    fn chunks_keep_keys_and_steps_together_and_shorten_for_long_scans() {
        let keys: Keys = (0..10_u8).map(|n| [n]).collect();
        let mut list = vec![Step::new(Kind::Read, 0); 10];
        let lengths = |list: &[Step]| {
            let steps = Steps::new(&keys, list);
            let chunks: Vec<_> = steps.chunks(8).collect();
            let joined: Vec<_> = chunks.iter().flat_map(Steps::iter).collect();
            assert_eq!(joined, steps.iter().collect::<Vec<_>>());
            chunks.iter().map(Steps::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&list), [8, 2]);
        list[3] = Step::new(Kind::Scan, 2);
        assert_eq!(lengths(&list), [4, 4, 2]);
        list[3] = Step::new(Kind::Scan, 1000);
        assert_eq!(lengths(&list).len(), 10);
    }
}
