//! The pages' protocol under shuttle: the shipping version word, on shuttle's atomics, through many
//! interleavings of two threads.
//!
//! Pages are modelled with two lines of two keys and one separator, because the words of the real
//! ones are the processor's; the steps are those of `Tree::get`, `Page::insert_into_full`,
//! `Tree::modify` and `Tree::replace_full`. Each test has a twin with one step left out, which must
//! fail.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_modelled::Modelled;
use hedgerow_sync::version::VersionWord;
use shuttle::sync::atomic::AtomicU64;
use shuttle::thread;

/// No key, and the separator of a page whose second line is not in use.
const NONE: u64 = u64::MAX;

/// A page: keys up to the separator stand in the first line, others in the second.
struct SmallPage {
    version: VersionWord<Modelled>,
    separator: AtomicU64,
    lines: [[AtomicU64; 2]; 2],
}

impl SmallPage {
    fn new(first: [u64; 2]) -> Self {
        Self {
            version: VersionWord::new(true, false),
            separator: AtomicU64::new(NONE),
            lines: [first, [NONE; 2]].map(|line| line.map(AtomicU64::new)),
        }
    }

    /// Whether the key is there; nothing is validated.
    fn holds(&self, key: u64) -> bool {
        let line = usize::from(self.separator.load(Ordering::Acquire) < key);
        let mut keys = self.lines[line].iter();
        keys.any(|lane| lane.load(Ordering::Acquire) == key)
    }

    fn get(&self, key: u64) -> bool {
        loop {
            let version = self.version.stable();
            let found = self.holds(key);
            if self.version.validate(version) {
                return found;
            }
        }
    }

    /// Moves the second key of the full first line into the second line.
    fn cut_line(&self, mark: bool) {
        self.version.lock();
        if mark {
            self.version.mark_inserting();
        }
        let [low, high] = self.lines[0]
            .each_ref()
            .map(|lane| lane.load(Ordering::Relaxed));
        self.separator.store(low, Ordering::Release);
        self.lines[0][1].store(NONE, Ordering::Release);
        self.lines[1][0].store(high, Ordering::Release);
        self.version.unlock();
    }
}

/// A reader looks for a key that a writer moves to another line.
fn cut_beside_a_reader(mark: bool) {
    let page = Arc::new(SmallPage::new([10, 20]));
    let writer = {
        let page = page.clone();
        thread::spawn(move || page.cut_line(mark))
    };
    for key in [20, 10] {
        assert!(page.get(key), "a key that stays was lost");
    }
    writer.join().expect("writer");
    assert!(page.get(20) && page.get(10));
}

#[test]
fn a_key_that_moves_to_another_line_is_found() {
    shuttle::check_random(|| cut_beside_a_reader(true), 2_000);
    shuttle::check_pct(|| cut_beside_a_reader(true), 2_000, 3);
}

#[test]
#[should_panic(expected = "a key that stays was lost")]
fn a_cut_without_a_mark_is_noticed() {
    shuttle::check_pct(|| cut_beside_a_reader(false), 20_000, 3);
}

/// An anchor over one page, and the page that will take its place.
struct SmallTree {
    anchor: VersionWord<Modelled>,
    /// Which of the pages is the root.
    root: AtomicU64,
    pages: [SmallPage; 2],
}

impl SmallTree {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            anchor: VersionWord::new(false, true),
            root: AtomicU64::new(0),
            pages: [SmallPage::new([10, NONE]), SmallPage::new([NONE; 2])],
        })
    }

    fn root(&self) -> &SmallPage {
        &self.pages[self.root.load(Ordering::Acquire) as usize]
    }

    /// The steps of `replace_full`: copies the page, links the copy, gives the page up.
    fn replace(&self, mark: bool) {
        self.anchor.lock();
        let (old, new) = (&self.pages[0], &self.pages[1]);
        old.version.lock();
        for (to, from) in new.lines[0].iter().zip(&old.lines[0]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.anchor.mark_inserting();
        self.root.store(1, Ordering::Release);
        if mark {
            old.version.mark_deleted();
        }
        old.version.unlock();
        self.anchor.unlock();
    }

    /// The steps of `modify`: arrive, latch, look again, store.
    fn insert(&self, key: u64, look_again: bool) {
        loop {
            let above = self.anchor.stable();
            let page = self.root();
            let version = page.version.stable();
            if !self.anchor.validate(above) || version.is_deleted() {
                thread::yield_now();
                continue;
            }
            page.version.lock();
            if look_again && !page.version.validate(version) {
                page.version.unlock();
                continue;
            }
            page.version.mark_inserting();
            page.lines[0][1].store(key, Ordering::Release);
            page.version.unlock();
            return;
        }
    }
}

/// A writer stores a key while another replaces the page where it belongs.
fn replace_beside_a_writer(mark: bool, look_again: bool) {
    let tree = SmallTree::new();
    let other = {
        let tree = tree.clone();
        thread::spawn(move || tree.replace(mark))
    };
    tree.insert(30, look_again);
    other.join().expect("the other writer");
    assert!(tree.root().get(30), "a stored key was lost");
    assert!(tree.root().get(10));
}

#[test]
fn a_key_stored_while_its_page_is_replaced_is_kept() {
    shuttle::check_random(|| replace_beside_a_writer(true, true), 2_000);
    shuttle::check_pct(|| replace_beside_a_writer(true, true), 2_000, 3);
}

#[test]
#[should_panic(expected = "a stored key was lost")]
fn a_replaced_page_without_a_mark_is_noticed() {
    shuttle::check_pct(|| replace_beside_a_writer(false, true), 20_000, 3);
}

#[test]
#[should_panic(expected = "a stored key was lost")]
fn a_writer_that_does_not_look_again_is_noticed() {
    shuttle::check_pct(|| replace_beside_a_writer(true, false), 20_000, 3);
}
