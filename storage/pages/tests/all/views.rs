//! The two kinds of view agree: whatever is written and read through the words of a frame is what
//! plain bytes would hold.

use std::cmp::Ordering;
use std::sync::atomic::AtomicU64;

use hedgerow_pages::{Frame, FrameMut, Image, Restart, View, ViewMut};
use proptest::prelude::*;

const PAGE: usize = 512;

#[derive(Clone, Debug)]
enum Write {
    Put(usize, Vec<u8>),
    U16(usize, u16),
    U64(usize, u64),
    Fill(usize, usize, u8),
    Shift(usize, usize, usize),
    /// A range, and by how many bytes it moves.
    ShiftUp(usize, usize, usize),
    /// The lines of a range, of a page that differs by some bytes from an offset on.
    Lines(usize, usize, usize, u8),
}

fn write() -> impl Strategy<Value = Write> {
    let at = 0..PAGE - 130;
    prop_oneof![
        (at.clone(), prop::collection::vec(any::<u8>(), 0..100))
            .prop_map(|(at, bytes)| Write::Put(at, bytes)),
        (at.clone(), any::<u16>()).prop_map(|(at, value)| Write::U16(at, value)),
        (at.clone(), any::<u64>()).prop_map(|(at, value)| Write::U64(at, value)),
        (at.clone(), 0..130_usize, any::<u8>()).prop_map(|(at, n, b)| Write::Fill(at, n, b)),
        (at.clone(), 0..130_usize, at.clone()).prop_map(|(from, n, to)| Write::Shift(from, n, to)),
        // To and from the ends of the page, too.
        (0..=PAGE, 0..=PAGE, 0..=PAGE).prop_map(|(from, n, to)| {
            let n = n.min(PAGE - from).min(PAGE - to);
            Write::Shift(from, n, to)
        }),
        (0..=PAGE, 0..=PAGE, 0..=24_usize).prop_map(|(from, n, by)| {
            let by = by.min(PAGE - from);
            Write::ShiftUp(from, n.min(PAGE - from - by), by)
        }),
        (at.clone(), 0..130_usize, at, any::<u8>())
            .prop_map(|(from, n, other, byte)| Write::Lines(from, n, other, byte)),
    ]
}

fn apply(write: &Write, page: &mut impl ViewMut<PAGE>) {
    match write {
        Write::Put(at, bytes) => page.put(*at, bytes),
        Write::U16(at, value) => page.put_u16(*at, *value),
        Write::U64(at, value) => page.put_u64(*at, *value),
        Write::Fill(at, n, byte) => page.fill(*at..at + n, *byte),
        Write::Shift(from, n, to) => page.shift(*from..from + n, *to),
        Write::ShiftUp(from, n, by) => page.shift_up(*from..from + n, *by),
        Write::Lines(from, n, other, byte) => {
            let mut expected = page.image().clone();
            let mut new = expected.clone();
            new.bytes_mut()[*other..other + 100].fill(*byte);
            page.take_lines(*from..from + n, &new);
            let lines = if *n == 0 {
                0..0
            } else {
                from / 64 * 64..(from + n).next_multiple_of(64)
            };
            expected.bytes_mut()[lines.clone()].copy_from_slice(&new.bytes()[lines]);
            assert_eq!(page.image(), &expected);
        }
    }
}

#[repr(C, align(64))]
struct Words([AtomicU64; PAGE / 8]);

proptest! {
    #[test]
    fn frames_are_bytes(
        writes in prop::collection::vec(write(), 1..40),
        reads in prop::collection::vec((0..PAGE - 130, 0..130_usize), 20),
        last in 0..=80_usize,
        other in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let words = Words(std::array::from_fn(|_| AtomicU64::new(0)));
        let frame: Frame<'_, PAGE> = Frame::new(&words.0);
        // SAFETY: the words are aligned and this thread's alone; `frame` is only read as a frame.
        let mut changing = unsafe { FrameMut::new(frame) };
        let mut plain: Image<PAGE> = Image::zeroed();
        for write in &writes {
            apply(write, &mut changing);
            apply(write, &mut &mut plain);
        }
        prop_assert_eq!(changing.image(), &plain);
        for (at, n) in reads {
            prop_assert_eq!(frame.u8(at), (&plain).u8(at));
            prop_assert_eq!(frame.u16(at), (&plain).u16(at));
            prop_assert_eq!(frame.u32(at), (&plain).u32(at));
            prop_assert_eq!(frame.u64(at), (&plain).u64(at));
            prop_assert_eq!(frame.array::<13>(at), (&plain).array::<13>(at));
            prop_assert_eq!(frame.array::<64>(at), (&plain).array::<64>(at));
            let mut few = [0; 136];
            frame.copy_few(at, n, &mut few).unwrap();
            prop_assert_eq!(&few[..n], &plain.bytes()[at..at + n]);
            let (mut ours, mut theirs) = (vec![1], vec![1]);
            frame.append(at..at + n, &mut ours).unwrap();
            (&plain).append(at..at + n, &mut theirs).unwrap();
            prop_assert_eq!(&ours, &theirs);
            let same = &plain.bytes()[at..at + n];
            for key in [same, &other, &same[..n / 2], &[same, &other].concat()] {
                prop_assert_eq!(
                    frame.compare(at..at + n, key),
                    (&plain).compare(at..at + n, key)
                );
            }
        }
        // Up to the end of the page.
        let (mut few, mut copied) = ([0; 80], vec![0; last]);
        frame.copy_few(PAGE - last, last, &mut few).unwrap();
        frame.copy(PAGE - last, &mut copied).unwrap();
        prop_assert_eq!(&few[..last], &plain.bytes()[PAGE - last..]);
        prop_assert_eq!(&copied, &plain.bytes()[PAGE - last..]);
        let ends = (frame.u16(PAGE - 2), frame.u32(PAGE - 4), frame.u64(PAGE - 8));
        let plain = &plain;
        prop_assert_eq!(ends, (plain.u16(PAGE - 2), plain.u32(PAGE - 4), plain.u64(PAGE - 8)));
    }
}

#[test]
fn offsets_beyond_the_page_restart() {
    let words = Words(std::array::from_fn(|_| AtomicU64::new(u64::MAX)));
    let frame: Frame<'_, PAGE> = Frame::new(&words.0);
    assert_eq!(frame.u64(PAGE - 8), Ok(u64::MAX));
    assert_eq!(frame.u64(PAGE - 7), Err(Restart));
    assert_eq!(frame.u8(PAGE), Err(Restart));
    assert_eq!(frame.u16(usize::MAX), Err(Restart));
    assert_eq!(frame.copy(PAGE - 4, &mut [0; 5]), Err(Restart));
    assert_eq!(frame.copy_few(PAGE - 4, 5, &mut [0; 8]), Err(Restart));
    assert_eq!(frame.copy_few(usize::MAX, 1, &mut [0; 8]), Err(Restart));
    let (from, to) = (9, 8);
    assert_eq!(frame.compare(from..to, b""), Err(Restart));
    assert_eq!(frame.append(from..to, &mut Vec::new()), Err(Restart));
    assert_eq!(frame.append(500..600, &mut Vec::new()), Err(Restart));
    assert_eq!(frame.compare(500..600, b"x"), Err(Restart));
    assert_eq!(frame.compare(PAGE..PAGE, b""), Ok(Ordering::Equal));
}
