//! What a tree tells of its nodes to whoever inspects how they lie in memory.

use std::ops::Range;

/// A node of a running tree, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedNode {
    /// The type of the node, such as `leaf`.
    pub kind: &'static str,
    /// Its address.
    pub address: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// The bytes of it that a search reads, counted from its start.
    pub search_fields: Range<usize>,
    /// The bytes of it that updates write while others use it.
    pub written_fields: WrittenFields,
    /// The address of its parent; `None` for the root.
    pub parent: Option<usize>,
}

/// A structure whose nodes can be visited.
pub trait VisitNodes {
    /// Visits every node once. For quiet moments: concurrent writers may make it miss some.
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode));
}

/// Ranges of bytes that a node may have at most, those that touch counted as one.
const MOST_RANGES: usize = 6;

/// The bytes of a node that are written once others can see it: links, locks, versions, values that
/// change. What is written before, such as a key that stays, is none of them.
///
/// # Examples
///
/// ```
/// use std::mem::offset_of;
///
/// use hedgerow_memory::WrittenFields;
///
/// #[repr(C)]
/// struct Node {
///     key: u64,
///     links: [u64; 2],
///     value: u64,
///     lock: u32,
/// }
///
/// const WRITTEN: WrittenFields = WrittenFields::NONE
///     .and_field::<[u64; 2]>(offset_of!(Node, links))
///     .and_field::<u32>(offset_of!(Node, lock));
/// assert!(WRITTEN.ranges().eq([8..24, 32..36]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WrittenFields {
    /// Starts and ends, ascending and apart from each other; empty ones are behind them.
    ranges: [(u32, u32); MOST_RANGES],
}

impl WrittenFields {
    /// Of a node that is written before others can see it, and never again.
    pub const NONE: Self = Self {
        ranges: [(0, 0); MOST_RANGES],
    };

    /// These bytes too, counted from the node's start.
    ///
    /// # Panics
    ///
    /// If there are more than six ranges with gaps between them.
    #[must_use]
    pub const fn and(self, bytes: Range<usize>) -> Self {
        let (mut start, mut end) = (bytes.start as u32, bytes.end as u32);
        if start >= end {
            return self;
        }
        let mut all = Self::NONE;
        let (mut count, mut at, mut is_in) = (0, 0, false);
        while at < MOST_RANGES {
            let known = self.ranges[at];
            at += 1;
            if known.0 == known.1 {
                break;
            }
            let is_behind = known.0 > end;
            if known.1 >= start && !is_behind {
                // They touch, and become one.
                start = if known.0 < start { known.0 } else { start };
                end = if known.1 > end { known.1 } else { end };
                continue;
            }
            if is_behind && !is_in {
                all.ranges[count] = (start, end);
                (count, is_in) = (count + 1, true);
            }
            assert!(count < MOST_RANGES, "a node has at most six ranges");
            all.ranges[count] = known;
            count += 1;
        }
        if !is_in {
            assert!(count < MOST_RANGES, "a node has at most six ranges");
            all.ranges[count] = (start, end);
        }
        all
    }

    /// A field of this type too, which begins so many bytes behind the node's start.
    #[must_use]
    pub const fn and_field<T>(self, at: usize) -> Self {
        self.and(at..at + size_of::<T>())
    }

    /// The bytes, counted from the node's start: ascending ranges with gaps between them.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let ranges = self.ranges.iter().take_while(|(start, end)| start < end);
        ranges.map(|&(start, end)| start as usize..end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(written: WrittenFields) -> Vec<Range<usize>> {
        written.ranges().collect()
    }

    #[test]
    fn ranges_ascend_and_those_that_touch_are_one() {
        let some = WrittenFields::NONE.and(40..48).and(8..16).and(60..64);
        assert_eq!(ranges(some), [8..16, 40..48, 60..64]);
        assert_eq!(ranges(some.and(16..24)), [8..24, 40..48, 60..64]);
        assert_eq!(ranges(some.and(44..60)), [8..16, 40..64]);
        assert_eq!(some.and(12..70), WrittenFields::NONE.and(8..70));
        assert_eq!(ranges(some.and(20..30)), [8..16, 20..30, 40..48, 60..64]);
        assert_eq!(some.and(3..3), some);
        assert_eq!(ranges(WrittenFields::NONE), []);
        let field = WrittenFields::NONE.and_field::<u32>(4);
        assert_eq!(field, WrittenFields::NONE.and(4..8));
    }

    #[test]
    fn six_ranges_fit() {
        let all = (0..6).fold(WrittenFields::NONE, |all, nth| {
            all.and(80 - 16 * nth..88 - 16 * nth)
        });
        assert!(all.ranges().eq((0..6).map(|nth| 16 * nth..16 * nth + 8)));
    }

    #[test]
    #[should_panic(expected = "six ranges")]
    fn more_than_six_ranges_are_refused() {
        let _ = (0..7).fold(WrittenFields::NONE, |all, nth| {
            all.and(16 * nth..16 * nth + 8)
        });
    }
}
