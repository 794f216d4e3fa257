//! Model tests: blocks never overlap, keep their bytes, are aligned, and come back for reuse,
//! whichever thread releases them and whenever threads end.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use hedgerow_memory::{
    LARGEST_POOLED_BYTES, allocate, block_bytes, inspect, live_bytes, release, reserved_bytes,
};

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

/// A small generator with a fixed seed: failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn size_bytes(&mut self) -> usize {
        match self.below(10) {
            0..=4 => self.below(129),
            5..=6 => self.below(1025),
            7..=8 => self.below(LARGEST_POOLED_BYTES + 1),
            _ => LARGEST_POOLED_BYTES + self.below(100_000),
        }
    }
}

/// A block with a recognisable filling.
struct Block {
    start: NonNull<u8>,
    size_bytes: usize,
    stamp: u8,
}

// SAFETY: the block is owned by whoever holds this value.
unsafe impl Send for Block {}

impl Block {
    fn new(size_bytes: usize, stamp: u8) -> Self {
        let start = allocate(size_bytes);
        let align = if size_bytes > 0 && size_bytes.is_multiple_of(64) {
            64
        } else {
            8
        };
        assert_eq!(
            start.as_ptr() as usize % align,
            0,
            "{size_bytes} bytes misaligned"
        );
        // SAFETY: the block is ours and `size_bytes` long.
        unsafe { start.as_ptr().write_bytes(stamp, size_bytes) };
        Self {
            start,
            size_bytes,
            stamp,
        }
    }

    /// Panics if anything else wrote into the block, then releases it.
    fn finish(self) {
        // SAFETY: `new` initialised these bytes, and the block is ours until released, once.
        unsafe {
            let bytes = std::slice::from_raw_parts(self.start.as_ptr(), self.size_bytes);
            assert!(
                bytes.iter().all(|&byte| byte == self.stamp),
                "block overwritten"
            );
            release(self.start, self.size_bytes);
        }
    }
}

#[test]
fn blocks_never_overlap_and_keep_their_bytes() {
    alone(|| {
        let mut random = Random(1);
        let mut live: BTreeMap<usize, Block> = BTreeMap::new();
        let steps = if cfg!(miri) { 500 } else { 40_000 };
        for step in 0..steps {
            if live.len() < 400 && random.below(5) < 3 || live.is_empty() {
                let block = Block::new(random.size_bytes(), step as u8);
                let (start, end) = (block.start.as_ptr() as usize, block.size_bytes.max(1));
                let end = start + end;
                if let Some((&below, other)) = live.range(..end).next_back() {
                    assert!(below + other.size_bytes.max(1) <= start, "blocks overlap");
                }
                live.insert(start, block);
            } else {
                let pick = random.below(live.len());
                let start = *live.keys().nth(pick).expect("pick is below the length");
                live.remove(&start).expect("key just seen").finish();
            }
        }
        live.into_values().for_each(Block::finish);
    });
}

#[test]
fn threads_allocate_and_release_each_others_blocks() {
    alone(|| {
        let live_before = live_bytes();
        let threads = 4;
        let steps = if cfg!(miri) { 60 } else { 8_000 };
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel()).unzip();
        let handles: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(own, inbox)| {
                let senders = senders.clone();
                thread::spawn(move || {
                    let mut random = Random(own as u64 + 100);
                    for step in 0..steps {
                        let block = Block::new(random.size_bytes() % 700, step as u8);
                        senders[random.below(threads)]
                            .send(block)
                            .expect("receivers outlive us");
                        while let Ok(block) = inbox.try_recv() {
                            block.finish();
                        }
                    }
                    drop(senders);
                    inbox.into_iter().for_each(Block::finish);
                })
            })
            .collect();
        drop(senders);
        for handle in handles {
            handle.join().expect("no thread saw an overwritten block");
        }
        assert_eq!(live_bytes(), live_before, "blocks leaked or counted twice");
    });
}

#[test]
fn a_thread_that_ends_returns_its_magazines() {
    alone(|| {
        const SIZE: usize = 7168; // a class that the other tests seldom use
        let churn = || {
            let blocks: Vec<_> = (0..200)
                .map(|stamp| Block::new(SIZE, stamp as u8))
                .collect();
            blocks.into_iter().for_each(Block::finish);
        };
        thread::spawn(churn).join().expect("first thread");
        let reserved = reserved_bytes();
        let live = live_bytes();
        for _ in 0..20 {
            thread::spawn(churn).join().expect("later thread");
        }
        assert_eq!(
            reserved_bytes(),
            reserved,
            "later threads did not reuse the first one's slots"
        );
        assert_eq!(live_bytes(), live);
        // With some slots handed out and many free, whichever way they are counted.
        let block = Block::new(SIZE, 1);
        assert_eq!(live_bytes(), inspect().live_bytes);
        block.finish();
    });
}

/// Releases its block when the thread's locals die, which may be after the magazines did.
struct Late(Option<Block>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            block.finish();
            Block::new(96, 7).finish();
        }
    }
}

#[test]
fn blocks_may_be_used_while_a_thread_is_ending() {
    alone(|| {
        thread_local! {
            static LATE: std::cell::RefCell<Late> = const { std::cell::RefCell::new(Late(None)) };
        }
        let live = live_bytes();
        for round in 0..4 {
            let early_local = round % 2 == 0;
            thread::spawn(move || {
                if early_local {
                    // Registered before the magazines, so dropped after them.
                    LATE.with(|late| drop(late.borrow_mut()));
                }
                let block = Block::new(96, 9);
                LATE.with(|late| late.borrow_mut().0 = Some(block));
            })
            .join()
            .expect("a thread that ends with a live block");
        }
        assert_eq!(live_bytes(), live);
    });
}

#[test]
fn live_bytes_follow_allocate_and_release() {
    alone(|| {
        let before = live_bytes();
        let sizes = [1, 8, 100, 320, 1000, 5000, 32 * 1024, 200_000];
        let blocks: Vec<_> = sizes.iter().map(|&size| Block::new(size, 3)).collect();
        let expected: usize = sizes.iter().map(|&size| block_bytes(size)).sum();
        assert_eq!(live_bytes() - before, expected);
        assert!(reserved_bytes() >= expected);
        blocks.into_iter().for_each(Block::finish);
        assert_eq!(live_bytes(), before);
    });
}

#[test]
fn threads_that_end_change_no_count() {
    const THREADS: usize = 4;
    alone(|| {
        let kept = allocate(56);
        let before = live_bytes();
        for _ in 0..if cfg!(miri) { 2 } else { 500 } {
            let released = Barrier::new(THREADS + 1);
            thread::scope(|threads| {
                for _ in 0..THREADS {
                    threads.spawn(|| {
                        Block::new(56, 7).finish();
                        released.wait();
                    });
                }
                released.wait();
                for _ in 0..10 {
                    assert_eq!(live_bytes(), before);
                }
            });
        }
        // SAFETY: allocated above with this size, and used by nobody.
        unsafe { release(kept, 56) };
    });
}

#[cfg(not(any(feature = "system-allocator", miri)))]
#[test]
fn classes_never_share_a_chunk_and_grow_into_regions() {
    alone(|| {
        let blocks: Vec<_> = (0..20_000)
            .map(|n| Block::new(24 + 320 * (n % 2), n as u8))
            .collect();
        let report = hedgerow_memory::inspect();
        let mut ranges: Vec<_> = report
            .classes
            .iter()
            .flat_map(|class| class.chunks.clone())
            .collect();
        ranges.sort_by_key(|range| range.start);
        assert!(
            ranges.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "chunks overlap"
        );
        for block in &blocks {
            let address = block.start.as_ptr() as usize;
            let class = report
                .classes
                .iter()
                .find(|class| class.slot_bytes == block_bytes(block.size_bytes))
                .expect("the block's class was used");
            assert!(
                class.chunks.iter().any(|chunk| chunk.contains(&address)),
                "strayed block"
            );
            assert!(class.live >= 10_000 && class.least_fill > 0.0);
        }
        let nodes = report
            .classes
            .iter()
            .find(|class| class.slot_bytes == 384)
            .expect("used");
        assert!(
            nodes.regions >= 1,
            "3.8 MB of nodes did not earn a whole region"
        );
        assert!(report.to_string().contains("slot bytes"));
        blocks.into_iter().for_each(Block::finish);
    });
}

#[cfg(not(any(feature = "system-allocator", miri)))]
#[test]
fn released_slots_are_reused_before_fresh_memory() {
    alone(|| {
        let wave = |stamp: u8| {
            let blocks: Vec<_> = (0..50_000).map(|_| Block::new(40, stamp)).collect();
            blocks.into_iter().for_each(Block::finish);
        };
        wave(1);
        let reserved = reserved_bytes();
        (2..8).for_each(wave);
        assert_eq!(reserved_bytes(), reserved);
    });
}
