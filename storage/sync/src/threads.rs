//! A small number for each thread, to choose its stripe among several.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(0);

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// The number of the calling thread: 0, 1, 2 … in the order in which threads first ask. A thread
/// that ends does not give its number back. Costs a load.
#[inline]
#[must_use]
pub fn number() -> usize {
    let number = NUMBER.get();
    if number == UNKNOWN { assign() } else { number }
}

#[cold]
fn assign() -> usize {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_keeps_a_number_of_its_own() {
        let own = number();
        let mut numbers: Vec<usize> = (0..8)
            .map(|_| std::thread::spawn(|| (number(), number())))
            .map(|thread| thread.join().expect("a thread"))
            .map(|(first, second)| {
                assert_eq!(first, second);
                first
            })
            .chain([own])
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), number()), (9, own));
    }
}
