//! A list of rows that only grows, and that many threads read without a lock.
//!
//! Rows do not move. The list consists of segments, each twice as long as the one before. To make a
//! segment takes time, for which all wait that need it: [`Slots::reserve`] makes those that will be
//! needed, before transactions are timed.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::{PlacedBox, Placement};

use crate::row::Row;

/// Slots of the first segment.
const FIRST: u64 = 256;
/// Segments, enough for 2^40 rows.
const SEGMENTS: usize = 33;

type Slot = OnceLock<PlacedBox<Row>>;

pub(crate) struct Slots {
    segments: [OnceLock<Box<[Slot]>>; SEGMENTS],
    next: AtomicU64,
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            segments: array::from_fn(|_| OnceLock::new()),
            next: AtomicU64::new(0),
        }
    }

    /// Adds the row that `new` makes of its number, in a block from there.
    pub(crate) fn add(&self, new: impl FnOnce(u64) -> Row, placement: Placement) -> &Row {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (segment, offset) = position(number);
        self.segment(segment)[offset].get_or_init(|| PlacedBox::new(new(number), placement))
    }

    /// Makes room for so many rows beyond those that there are.
    pub(crate) fn reserve(&self, rows: u64) {
        let Some(last) = (self.len() + rows).checked_sub(1) else {
            return;
        };
        for segment in 0..=position(last).0 {
            self.segment(segment);
        }
    }

    fn segment(&self, segment: usize) -> &[Slot] {
        self.segments[segment].get_or_init(|| {
            let slots = FIRST << segment;
            (0..slots).map(|_| Slot::new()).collect()
        })
    }

    /// How many rows there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> u64 {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        segments.map(|segment| segment.len() as u64).sum()
    }

    /// The row of a number that [`add`](Self::add) gave out.
    #[inline]
    pub(crate) fn row(&self, number: u64) -> &Row {
        let (segment, offset) = position(number);
        let slots = self.segments[segment].get().expect("a row of this table");
        slots[offset].get().expect("a row of this table")
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
}

/// Segment and offset of a slot.
#[inline]
fn position(number: u64) -> (usize, usize) {
    let shifted = number + FIRST;
    let segment = shifted.ilog2() - FIRST.ilog2();
    (segment as usize, (shifted - (FIRST << segment)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn rows_are_found_by_their_numbers_across_segments() {
        let (slots, settings) = (Slots::new(), Settings::default());
        for number in 0..5000 {
            let row = slots.add(|number| Row::new(number, 1, settings), Placement::Merged);
            row.store(0, number * 3);
        }
        assert_eq!(slots.len(), 5000);
        assert!((0..5000).all(|number| slots.row(number).word(0) == number * 3));
        assert_eq!(position(FIRST - 1), (0, 255));
        assert_eq!(position(FIRST), (1, 0));
    }

    #[test]
    fn what_is_reserved_has_room_without_another_segment() {
        let (slots, settings) = (Slots::new(), Settings::default());
        slots.reserve(0);
        assert_eq!(slots.room(), 0);
        let add = |rows| {
            for _ in 0..rows {
                slots.add(|number| Row::new(number, 1, settings), Placement::Merged);
            }
        };
        add(200);
        for rows in [56, 1, 3000] {
            slots.reserve(rows);
            let room = slots.room();
            assert!((slots.len() + rows..4 * (slots.len() + rows)).contains(&room));
            add(rows);
            assert_eq!(slots.room(), room, "{rows} rows were reserved");
        }
    }
}
