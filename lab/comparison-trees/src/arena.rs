//! Nodes in pieces of about 2 MiB that never move, for any number of threads.
//!
//! Each thread takes nodes from a chunk of its own, as it would from the paper's allocator
//! "Flow", so that threads meet only when a chunk is used up. Nothing is given back before the
//! whole arena is dropped: a position that was once read names a node as long as the tree lives.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hedgerow_sync::{CachePadded, threads};

/// No position: "nothing here" among links. A node that is not yet used holds nothing else.
pub const NONE: u32 = 0;

/// Nodes that a thread takes at once.
const CHUNK: u32 = 64;

/// Pieces of an arena: 32 GiB.
const MOST_PIECES: usize = 1 << 14;

const STRIPES: usize = 16;

/// A growing list of nodes; its pieces are as large as a superpage, so that the system can
/// give them one (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`).
pub struct Arena<T> {
    pieces: Box<[OnceLock<Box<[T]>>]>,
    /// Nodes in chunks that were handed out. The first chunk is nobody's: it holds [`NONE`].
    taken: AtomicU64,
    /// Where each stripe's chunk continues; a multiple of [`CHUNK`] when it is used up.
    cursors: [CachePadded<AtomicU32>; STRIPES],
}

impl<T: Default> Arena<T> {
    /// Nodes per piece: a power of two, to tell piece and place by shifting.
    const PER_PIECE: usize = {
        let fitting = (2 << 20) / size_of::<T>();
        1 << fitting.ilog2()
    };

    /// The position of a node that nobody else has, as its `Default` made it.
    pub fn take(&self) -> u32 {
        self.take_run(1)
    }

    /// The first of so many positions side by side.
    pub fn take_run(&self, count: u32) -> u32 {
        let cursor = &self.cursors[threads::number() % STRIPES];
        let mut at = cursor.load(Ordering::Relaxed);
        while (CHUNK - at % CHUNK) % CHUNK >= count {
            match cursor.compare_exchange_weak(at, at + count, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return at,
                Err(now) => at = now,
            }
        }
        let start = self.take_chunks(count);
        // Should another thread of this stripe have been quicker, its chunk is used up first, and
        // the rest of this one never.
        let _ = cursor.compare_exchange(at, start + count, Ordering::Relaxed, Ordering::Relaxed);
        start
    }

    /// As many chunks as so many nodes need, within one piece.
    fn take_chunks(&self, count: u32) -> u32 {
        let size = u64::from(count.next_multiple_of(CHUNK));
        let per_piece = Self::PER_PIECE as u64;
        assert!(size <= per_piece, "a run of nodes fits a piece");
        let start = loop {
            let start = self.taken.fetch_add(size, Ordering::Relaxed);
            if start / per_piece == (start + size - 1) / per_piece {
                break start;
            }
        };
        let piece = self.pieces.get((start / per_piece) as usize);
        let piece = piece.expect("at most 32 GiB of nodes");
        piece.get_or_init(|| (0..Self::PER_PIECE).map(|_| T::default()).collect());
        u32::try_from(start).expect("fewer nodes than 4-byte links can name")
    }

    /// The node at a position that was taken.
    #[inline(always)]
    pub fn get(&self, at: u32) -> &T {
        let at = at as usize;
        let piece = self.pieces[at / Self::PER_PIECE].get();
        &piece.expect("a position that was taken")[at % Self::PER_PIECE]
    }

    /// So many nodes from a position on; `None` where so many were never taken.
    #[inline(always)]
    pub fn get_run(&self, at: u32, count: usize) -> Option<&[T]> {
        let at = at as usize;
        let piece = self.pieces.get(at / Self::PER_PIECE)?.get()?;
        piece.get(at % Self::PER_PIECE..)?.get(..count)
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            pieces: (0..MOST_PIECES).map(|_| OnceLock::new()).collect(),
            taken: AtomicU64::new(u64::from(CHUNK)),
            cursors: std::array::from_fn(|_| CachePadded::new(AtomicU32::new(0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_position_is_taken_twice_and_runs_lie_side_by_side() {
        let arena: Arena<AtomicU32> = Arena::default();
        std::thread::scope(|scope| {
            // More threads than stripes, so that some share one.
            for _ in 0..STRIPES + 4 {
                scope.spawn(|| {
                    for count in [1, 3, CHUNK - 1, 2, CHUNK, CHUNK + 5, 7].repeat(40) {
                        let at = arena.take_run(count);
                        assert_ne!(at, NONE);
                        let run = arena.get_run(at, count as usize).expect("a run");
                        for node in run {
                            assert_eq!(node.fetch_add(1, Ordering::Relaxed), 0);
                        }
                        assert_eq!(arena.get(at).load(Ordering::Relaxed), 1);
                    }
                });
            }
        });
        assert!(arena.get_run(u32::MAX, 1).is_none());
    }
}
