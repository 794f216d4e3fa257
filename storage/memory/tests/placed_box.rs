//! Boxes of values hold them, drop them once, and give their blocks back where they came from. In
//! a process of its own, so that it can count blocks.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hedgerow_memory::{PlacedBox, Placement, inspect};

/// Locked by each test: what one allocates is not to be counted by another.
static ALONE: Mutex<()> = Mutex::new(());

/// Blocks of size classes and of the standard allocator in use.
fn in_use() -> (usize, usize) {
    let report = inspect();
    let pooled = report.classes.iter().map(|class| class.live).sum();
    (pooled, report.large_blocks)
}

/// 192 bytes that must lie on lines of their own.
#[repr(align(64))]
struct Aligned([u8; 130]);

#[test]
fn values_live_where_they_were_placed_and_are_dropped_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = cfg!(not(any(feature = "system-allocator", miri)));
    for placement in Placement::ALL {
        let before = in_use();
        let counted = Rc::new(());
        let mut one = PlacedBox::new((7_u32, Rc::clone(&counted)), placement);
        one.0 += 1;
        let aligned = PlacedBox::new(Aligned([9; 130]), placement);
        assert!((&raw const *aligned as usize).is_multiple_of(64));
        assert_eq!(
            aligned.0.iter().map(|&byte| u32::from(byte)).sum::<u32>(),
            1170
        );
        let words = PlacedBox::from_fn(16, placement, |nth| AtomicU64::new(nth as u64));
        words[15].fetch_add(5, Ordering::Relaxed);
        let strings = PlacedBox::from_fn(3, placement, |nth| nth.to_string());
        let nothing = PlacedBox::from_fn(0, placement, |_| 1_u8);
        assert_eq!((one.0, &*strings.concat(), nothing.len()), (8, "012", 0));
        assert_eq!(words[15].load(Ordering::Relaxed), 20);
        let blocks = match pools && placement != Placement::System {
            true => (before.0 + 5, before.1),
            false => (before.0, before.1 + 5),
        };
        assert_eq!(in_use(), blocks, "{placement:?}");
        assert_eq!(Rc::strong_count(&counted), 2);
        drop((one, aligned, words, strings, nothing));
        assert_eq!((in_use(), Rc::strong_count(&counted)), (before, 1));
    }
}

#[test]
fn a_maker_that_panics_frees_nothing_twice() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = std::panic::catch_unwind(|| {
        PlacedBox::from_fn(4, Placement::Merged, |nth| {
            assert!(nth < 2, "no third one");
            nth.to_string()
        })
    });
    assert!(made.is_err());
}
