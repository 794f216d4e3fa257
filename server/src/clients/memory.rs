//! The memory of all connections together: requests that have not run, replies that clients have
//! not fetched, transactions under way. Each worker adds changes of its connections' memory to one
//! sum. A worker that would exceed the limit asks for relief: every worker then reports the size of
//! its largest connection, and the worker with the largest of all closes it. So the connection with
//! the most memory is closed, whichever worker has it, and a connection that needs a little at that
//! moment waits for a millisecond.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How long workers wait for each other when memory is short.
pub(crate) const RELIEF_INTERVAL: Duration = Duration::from_millis(1);

/// One of so many parts of the limit is to be free after relief, so that small replies find room.
const FREE_PART: usize = 16;

const ORDER: Ordering = Ordering::Relaxed;

/// The sum and its limit.
pub(crate) struct ClientMemory {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    /// What replies of ticks under way take, until they count as memory of their connections.
    encoded_bytes: AtomicUsize,
    /// Whether somebody could not get what he needed.
    pressed: AtomicBool,
    /// Of each worker, what its largest connection holds: as far as it knows, while pressed.
    largest_bytes: Vec<AtomicUsize>,
}

impl ClientMemory {
    pub(crate) fn new(limit_bytes: usize, workers: usize) -> ClientMemory {
        ClientMemory {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            encoded_bytes: AtomicUsize::new(0),
            pressed: AtomicBool::new(false),
            largest_bytes: (0..workers).map(|_| AtomicUsize::new(usize::MAX)).collect(),
        }
    }

    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(ORDER)
    }

    /// What may still be used.
    pub(crate) fn left_bytes(&self) -> usize {
        let taken = self.used_bytes() + self.encoded_bytes.load(ORDER);
        self.limit_bytes.saturating_sub(taken)
    }

    /// The replies of a tick under way take so many bytes more.
    #[inline]
    pub(crate) fn encoded(&self, bytes: usize) {
        if bytes > 0 {
            self.encoded_bytes.fetch_add(bytes, ORDER);
        }
    }

    /// So many bytes of [`encoded`](ClientMemory::encoded) replies now count as memory of their
    /// connections, or are gone.
    #[inline]
    pub(crate) fn counted(&self, bytes: usize) {
        if bytes > 0 {
            self.encoded_bytes.fetch_sub(bytes, ORDER);
        }
    }

    /// A connection's memory changed from `before` to `now` bytes; there is no check of the limit.
    #[inline]
    pub(crate) fn change(&self, before: usize, now: usize) {
        if now > before {
            let used = self.used_bytes.fetch_add(now - before, ORDER) + (now - before);
            if used > self.limit_bytes {
                self.press();
            }
        } else if now < before {
            self.used_bytes.fetch_sub(before - now, ORDER);
        }
    }

    /// Whether a connection may grow by so many bytes; if not, somebody has to go.
    #[inline]
    pub(crate) fn admits(&self, bytes: usize) -> bool {
        let admits = self.used_bytes().saturating_add(bytes) <= self.limit_bytes;
        if !admits {
            self.press();
        }
        admits
    }

    #[cold]
    fn press(&self) {
        if !self.pressed.swap(true, Ordering::AcqRel) {
            self.forget_largest();
        }
    }

    /// Whether relief is asked for: one load.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Acquire)
    }

    /// Reports the bytes of a worker's largest connection; whether it is the largest of all, to be
    /// closed. `None`: another worker has not reported yet.
    pub(crate) fn is_largest(&self, worker: usize, bytes: usize) -> Option<bool> {
        self.largest_bytes[worker].store(bytes, Ordering::SeqCst);
        let mut largest = (0, 0);
        for (worker, bytes) in self.largest_bytes.iter().enumerate() {
            let bytes = bytes.load(Ordering::SeqCst);
            if bytes == usize::MAX {
                return None;
            }
            largest = largest.max((bytes, worker));
        }
        Some(largest.1 == worker)
    }

    /// A reply found no room. Where little is left for anybody, the largest connection has to go;
    /// else the reply was too large.
    #[cold]
    pub(crate) fn refused(&self) {
        if self.is_short() {
            self.press();
        }
    }

    /// Whether too little is left to serve others.
    fn is_short(&self) -> bool {
        self.left_bytes() < self.limit_bytes / FREE_PART
    }

    /// The largest connection, of so many bytes, has been closed. While little is left, the next
    /// has to go: several connections may have grown at the same moment. Else a worker that needs
    /// more asks again.
    pub(crate) fn relieved(&self, bytes: usize) {
        // In any case: a worker may see that somebody asks anew before he has forgotten them.
        self.forget_largest();
        if bytes == 0 || !self.is_short() {
            self.pressed.store(false, Ordering::Release);
        }
    }

    /// What workers said of their largest connections is no longer true.
    fn forget_largest(&self) {
        for largest in &self.largest_bytes {
            largest.store(usize::MAX, ORDER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_all_workers_goes_once_all_have_spoken() {
        let memory = ClientMemory::new(100, 2);
        memory.change(0, 60);
        assert!(memory.admits(40) && !memory.is_pressed());
        assert!(!memory.admits(41) && memory.is_pressed());
        assert_eq!(memory.is_largest(0, 20), None);
        assert_eq!(memory.is_largest(1, 40), Some(true));
        assert_eq!(memory.is_largest(0, 20), Some(false));
        memory.change(40, 0);
        memory.relieved(40);
        assert!(!memory.is_pressed());
        // One that speaks as soon as somebody asks anew is not compared with what others had then.
        assert_eq!(memory.is_largest(0, 20), None);
        assert_eq!((memory.used_bytes(), memory.left_bytes()), (20, 80));
        memory.change(0, 90);
        assert!(memory.is_pressed(), "beyond the limit, though nobody asked");
        assert_eq!(
            memory.is_largest(1, 90),
            None,
            "what was said before is forgotten"
        );
        assert_eq!(memory.is_largest(0, 20), Some(false));
        assert_eq!(memory.is_largest(1, 90), Some(true));
    }

    #[test]
    fn what_a_tick_has_encoded_is_not_left_for_others() {
        let memory = ClientMemory::new(100, 1);
        memory.change(0, 20);
        memory.encoded(50);
        assert_eq!((memory.used_bytes(), memory.left_bytes()), (20, 30));
        memory.encoded(60);
        assert_eq!(memory.left_bytes(), 0);
        memory.change(0, 50);
        memory.counted(110);
        assert_eq!((memory.used_bytes(), memory.left_bytes()), (70, 30));
    }

    #[test]
    fn connections_go_until_the_rest_is_within_the_limit() {
        let memory = ClientMemory::new(100, 2);
        // They grew at the same moment: each alone would have had room.
        (0..4).for_each(|_| memory.change(0, 90));
        for left in (0..3).rev() {
            assert_eq!(memory.is_largest(1, 90), None, "all speak again");
            assert_eq!(memory.is_largest(0, 90), Some(false));
            assert_eq!(memory.is_largest(1, 90), Some(true));
            memory.change(90, 0);
            memory.relieved(90);
            assert_eq!(memory.is_pressed(), left > 0);
        }
        // Memory that no connection can give back is waited for no longer.
        memory.change(0, 90);
        assert!(memory.is_pressed());
        memory.relieved(0);
        assert!(!memory.is_pressed());
    }
}
