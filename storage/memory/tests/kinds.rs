//! Pools of one kind of blocks: each has chunks and slots of its own, serves all its users and all
//! threads, and is counted.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

use hedgerow_memory::{BlockPool, Placement, inspect, live_bytes, reserved_bytes};

/// The pools are process-wide, so tests that read their totals run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test when no other runs, in a thread that is joined before the next one begins: a
/// thread that ends gives its magazines back, and that would change the next one's totals.
fn alone(test: impl FnOnce() + Send + 'static) {
    let _alone = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

/// A block of a pool, filled by a byte of its own.
struct Block {
    pool: BlockPool,
    start: NonNull<u8>,
    bytes: usize,
    stamp: u8,
}

// SAFETY: the block is owned by whoever holds this value.
unsafe impl Send for Block {}

impl Block {
    fn new(pool: BlockPool, bytes: usize, stamp: u8) -> Self {
        let start = pool.allocate();
        let align = if bytes.is_multiple_of(64) { 64 } else { 8 };
        assert_eq!(start.as_ptr() as usize % align, 0, "{bytes} bytes");
        // SAFETY: the block is ours and has these bytes.
        unsafe { start.as_ptr().write_bytes(stamp, bytes) };
        Self {
            pool,
            start,
            bytes,
            stamp,
        }
    }

    fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` filled these bytes, and the block is ours until it is released here.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.start.as_ptr(), self.bytes);
            let whole = bytes.iter().all(|&byte| byte == self.stamp);
            self.pool.release(self.start);
            assert!(whole, "block overwritten");
        }
    }
}

/// Blocks of a kind, as many as asked for.
fn blocks(kind: &'static str, bytes: usize, placement: Placement, count: usize) -> Vec<Block> {
    let pool = BlockPool::new(kind, bytes, placement);
    let block = |nth: usize| Block::new(pool, bytes, nth as u8);
    (0..count).map(block).collect()
}

const PLACEMENTS: [Placement; 3] = [Placement::Segregated, Placement::Merged, Placement::System];

const MANY: usize = if cfg!(miri) { 40 } else { 5000 };
const SOME: usize = if cfg!(miri) { 3 } else { 70 };

#[test]
fn blocks_of_all_placements_are_whole_aligned_and_counted() {
    alone(|| {
        let before = live_bytes();
        for placement in PLACEMENTS {
            for bytes in [1, 8, 40, 64, 72, 136, 320, 33 << 10] {
                let pool = BlockPool::new("counted", bytes, placement);
                assert_eq!(pool.placement(), placement);
                let some = blocks("counted", bytes, placement, SOME);
                assert_eq!(live_bytes() - before, SOME * pool.block_bytes());
                assert!(reserved_bytes() >= SOME * pool.block_bytes());
                let places: BTreeSet<usize> = some.iter().map(Block::address).collect();
                let gap = |(a, b): (&usize, &usize)| b - a;
                let gaps = places.iter().zip(places.iter().skip(1)).map(gap);
                assert!(gaps.min() >= Some(bytes), "blocks overlap");
                drop(some);
                assert_eq!(live_bytes(), before, "{placement:?}, {bytes} bytes");
            }
        }
    });
}

#[cfg(not(any(feature = "system-allocator", miri)))]
#[test]
fn a_kind_has_chunks_of_its_own_and_slots_of_its_size() {
    alone(|| {
        let kinds = ["inner", "leaf"];
        let nodes = kinds.map(|kind| blocks(kind, 136, Placement::Segregated, MANY));
        let merged = blocks("inner", 136, Placement::Merged, MANY);
        let report = inspect();
        let of = |kind: Option<&str>, bytes: usize| {
            let wanted = |class: &&_| {
                let class: &hedgerow_memory::ClassReport = class;
                class.kind == kind && class.slot_bytes == bytes
            };
            report.classes.iter().find(wanted).expect("a used pool")
        };
        for (kind, nodes) in kinds.iter().zip(&nodes) {
            let pool = of(Some(kind), 136);
            assert_eq!(pool.live, MANY);
            let home = |block: &Block| {
                let in_chunk = |chunk: &std::ops::Range<usize>| chunk.contains(&block.address());
                pool.chunks.iter().any(in_chunk)
            };
            assert!(nodes.iter().all(home), "a strayed {kind}");
            assert!(!merged.iter().any(home), "a stranger among {kind}");
        }
        // The size class rounds to 144; the kinds do not.
        assert!(of(None, 144).live >= MANY);
        let mut chunks: Vec<_> = report
            .classes
            .iter()
            .flat_map(|pool| &pool.chunks)
            .collect();
        chunks.sort_by_key(|chunk| chunk.start);
        assert!(chunks.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let text = report.to_string();
        assert!(kinds.iter().all(|kind| text.contains(kind)), "{text}");
    });
}

#[cfg(not(any(feature = "system-allocator", miri)))]
#[test]
fn fresh_blocks_of_a_kind_lie_side_by_side_whatever_else_is_allocated() {
    alone(|| {
        let pool = BlockPool::new("side by side", 72, Placement::Segregated);
        let mut others = Vec::new();
        let mut places = Vec::new();
        let mut nodes = Vec::new();
        for nth in 0..900_u32 {
            others.push(blocks("other", 72, Placement::Merged, 1));
            nodes.push(Block::new(pool, 72, nth as u8));
            places.push(nodes[nth as usize].address());
        }
        let adjacent = places.windows(2).filter(|pair| pair[1] == pair[0] + 72);
        // 64 KiB hold 910 blocks.
        assert_eq!(adjacent.count(), 899);
    });
}

#[test]
fn users_of_a_kind_that_come_and_go_share_one_pool() {
    alone(|| {
        let user = || drop(blocks("shared", 56, Placement::Segregated, MANY));
        user();
        let (reserved, pools) = (reserved_bytes(), inspect().classes.len());
        for _ in 0..20 {
            user();
            thread::spawn(user).join().expect("a thread that uses it");
        }
        // A thread of its own has magazines of its own, which it hands back at its end.
        assert!(reserved_bytes() <= reserved + (64 << 10));
        assert_eq!(inspect().classes.len(), pools);
    });
}

#[test]
fn threads_release_what_others_allocated_and_hand_their_blocks_back() {
    alone(|| {
        let before = live_bytes();
        let made = thread::spawn(|| {
            let kinds = ["a", "b", "c", "d"];
            kinds.map(|kind| blocks(kind, 48, Placement::Segregated, MANY))
        });
        let made = made.join().expect("the thread that allocates");
        let reserved = reserved_bytes();
        // Each thread begins with another kind, so that its list of magazines has gaps.
        let release = made.map(|blocks| thread::spawn(move || drop(blocks)));
        for thread in release {
            thread.join().expect("a thread that releases");
        }
        assert_eq!(live_bytes(), before);
        let again = ["d", "c", "b", "a"].map(|kind| {
            let allocate = move || blocks(kind, 48, Placement::Segregated, MANY);
            thread::spawn(allocate).join().expect("a thread")
        });
        assert!(reserved_bytes() <= reserved, "freed blocks were not reused");
        drop(again);
        assert_eq!(live_bytes(), before);
    });
}

/// Releases its block when the thread's locals die, which may be after the magazines did.
struct Late(Option<Block>);

impl Drop for Late {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            drop(blocks("late", 96, Placement::Segregated, 1));
        }
    }
}

#[test]
fn blocks_of_a_kind_may_be_used_while_a_thread_is_ending() {
    alone(|| {
        thread_local! {
            static LATE: std::cell::RefCell<Late> = const { std::cell::RefCell::new(Late(None)) };
        }
        let live = live_bytes();
        for round in 0..4 {
            let end = move || {
                if round % 2 == 0 {
                    // Registered before the magazines, so dropped after them.
                    LATE.with(|late| drop(late.borrow_mut()));
                }
                let block = blocks("late", 96, Placement::Segregated, 1).pop();
                LATE.with(|late| late.borrow_mut().0 = block);
            };
            thread::spawn(end).join().expect("a thread that ends");
        }
        assert_eq!(live_bytes(), live);
    });
}
