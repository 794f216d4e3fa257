//! Race tests on the Matryoshka for many threads, as [`crate::tree_races`] has them for Masstree:
//! one thread stands in exactly the situation that one step of the concurrency protocol is there
//! for.
//!
//! The callbacks of `get_many` and of a scan run in the middle of their work and under no latch:
//! what another thread does meanwhile is all that the reader must notice, so those race tests end
//! the same way every time. A page holds three lines of seven keys, so that a few keys are enough.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hedgerow_index::Direction;
use hedgerow_matryoshka::{Capacity, Change, SharedMatryoshka};

use crate::tree_races::{ARRIVAL, RaceTest, against_readers, await_flag};

/// All race tests.
pub const RACE_TESTS: [RaceTest; 6] = [
    RaceTest {
        name: "a batch of reads meets a line that is cut",
        run: get_many_at_a_cut,
        rounds: 200,
    },
    RaceTest {
        name: "a scan meets lines that are joined",
        run: scan_at_a_join,
        rounds: 200,
    },
    RaceTest {
        name: "a scan rests in a page that others replace",
        run: scan_in_a_replaced_page,
        rounds: 200,
    },
    RaceTest {
        name: "a writer waits for a split",
        run: writer_at_a_split,
        rounds: 600,
    },
    RaceTest {
        name: "a writer waits for a merge",
        run: writer_at_a_merge,
        rounds: 600,
    },
    RaceTest {
        name: "a reader meets lines that are cut and joined",
        run: reader_among_lines,
        rounds: 1_000_000,
    },
];

/// Small pages.
struct Small;

impl Capacity for Small {
    const LINES: usize = 3;
    const FAN_OUT: usize = 4;
}

type Map = SharedMatryoshka<u64, Small>;

/// Stores each number under itself.
fn filled(numbers: impl Iterator<Item = u64>) -> Map {
    let map = Map::new();
    fill(&map, numbers);
    map
}

fn fill(map: &Map, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| {
        map.insert(number, number);
    });
}

fn clear(map: &Map, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| {
        map.remove(number);
    });
}

/// Complains unless the map has counted exactly this many events of a kind.
fn expect_count(map: &Map, event: &str, count: f64) -> Result<(), String> {
    let counted = map.statistics().get(event);
    if counted != Some(count) {
        return Err(format!("the race test went wrong: {event} are {counted:?}"));
    }
    map.verify()
}

/// Runs `work` on another thread and waits for it.
fn elsewhere(work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(work);
    });
}

/// The batch knows the lines of both keys; then the upper half of them moves to another line.
fn get_many_at_a_cut(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = filled((10..=70).step_by(10));
        let mut found = None;
        map.get_many(&[10, 70], |index, word| match index {
            0 => elsewhere(|| fill(&map, 35..36)),
            _ => found = word,
        });
        if found != Some(70) {
            return Err(format!("get_many lost a key to a cut: {found:?}"));
        }
        map.verify()?;
    }
    Ok(())
}

/// Runs `meddle` when a scan shows the key `at`, and complains when one of `staying` is not shown.
fn scan_while(map: &Map, at: u64, meddle: impl Fn() + Sync, staying: &[u64]) -> Result<(), String> {
    let mut shown = Vec::new();
    map.scan(Bound::Unbounded, Direction::Forward, |key, _| {
        if key == at {
            elsewhere(&meddle);
        }
        shown.push(key);
        ControlFlow::Continue(())
    });
    if !shown.is_sorted_by(|a, b| a < b) || !staying.iter().all(|key| shown.contains(key)) {
        return Err(format!("a scan showed {shown:?}, but {staying:?} stayed"));
    }
    Ok(())
}

/// The scan shows the first line; then what stays of the second is put into the first, and the
/// third is the second now.
fn scan_at_a_join(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = filled((10..=200).step_by(10));
        let join = || {
            clear(&map, (30..=70).step_by(10));
            clear(&map, (80..=120).step_by(10));
        };
        scan_while(&map, 10, join, &[10, 20, 130, 140, 150, 200])?;
        map.verify()?;
    }
    Ok(())
}

/// The lowest number in the right one of [`two_pages`].
const RIGHT: u64 = 110;

/// A full page, and a key more that cuts it in two; nothing was put into the right one since.
fn two_pages() -> Map {
    filled((10..=210).step_by(10).chain([15]))
}

/// The scan shows a line of the right page, which is then merged with the left one. The page of
/// both is filled and cut in two; the lower half of it is the next to ask for memory of a page's
/// size, and as no key is put there, it has the version of the page that the scan was in.
fn scan_in_a_replaced_page(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = two_pages();
        let replace = || {
            clear(&map, 15..16);
            clear(&map, (10..RIGHT - 30).step_by(10));
            fill(&map, RIGHT + 1..=RIGHT + 8);
        };
        let staying: Vec<u64> = (RIGHT..=210).step_by(10).collect();
        scan_while(&map, RIGHT, replace, &staying)?;
        expect_count(&map, "page_merges", 1.0)?;
        expect_count(&map, "page_splits", 2.0)?;
    }
    Ok(())
}

/// What a writer stores while it waits for a page.
#[derive(Clone, Copy)]
struct Pair {
    key: u64,
    word: u64,
}

/// Stores a pair whose page, that of `latched_key`, is latched by another thread. That thread then
/// does `replace`, maybe before the first one has its latch.
fn wait_for_page(map: &Map, latched_key: u64, pair: Pair, replace: impl FnOnce()) {
    let Pair { key, word } = pair;
    let (latched, coming) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            await_flag(&latched);
            coming.store(true, Ordering::Release);
            map.insert(key, word);
        });
        map.update(latched_key, |_| {
            latched.store(true, Ordering::Release);
            await_flag(&coming);
            thread::sleep(ARRIVAL);
            Change::Keep(())
        });
        replace();
    });
}

/// Complains unless the map has the pair.
fn expect(map: &Map, Pair { key, word }: Pair, what: &str) -> Result<(), String> {
    let found = map.get(key);
    if found != Some(word) {
        return Err(format!("key {key}, {what}: {found:?}"));
    }
    map.verify()
}

/// What the second writer stores.
const STORED: Pair = Pair { key: 210, word: 7 };

/// The second writer found the full page, whose keys then moved to two others: it must follow.
fn writer_at_a_split(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = filled((10..=210).step_by(10));
        wait_for_page(&map, 100, STORED, || fill(&map, 15..16));
        expect(&map, STORED, "stored while its page was split")?;
        expect_count(&map, "page_splits", 1.0)?;
    }
    Ok(())
}

/// The second writer found a page that is then merged with its neighbour: it must follow.
fn writer_at_a_merge(rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let map = two_pages();
        clear(&map, 15..16);
        clear(&map, (10..RIGHT - 50).step_by(10));
        wait_for_page(&map, RIGHT, STORED, || {
            clear(&map, (RIGHT - 50..RIGHT - 30).step_by(10));
        });
        expect(&map, STORED, "stored while its page was merged")?;
        expect_count(&map, "page_merges", 1.0)?;
    }
    Ok(())
}

/// Two keys that stay, while others come and go between them: they share a line, or do not.
fn reader_among_lines(rounds: usize) -> Result<(), String> {
    let map = filled([10, 70].into_iter());
    let flip = |_| {
        fill(&map, (20..=60).step_by(10).chain([35]));
        clear(&map, [35].into_iter().chain((20..=60).step_by(10)));
    };
    let read = || {
        [10, 70].into_iter().find_map(|key| {
            let found = map.get(key);
            (found != Some(key)).then(|| format!("key {key}, which stays: {found:?}"))
        })
    };
    against_readers(rounds, flip, read)
}
