//! Values around the longest that a leaf takes, and around what fills pages and slots of shared
//! overflow pages, with short and long keys: against the standard library's map, for both trees.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use crate::steps::{Map, Model, Step, scan, take};
use hedgerow_btree::configuration::{Adaptive, Baseline, Configuration, Fingerprint, SemiDense};
use hedgerow_btree::{BTree, BTreeIndex};
use hedgerow_index::{Decision, Direction, ScanRange};
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use proptest::prelude::*;

/// Keys of which many share their key prefix, dense numbers, and lengths up to two key prefixes.
fn key(page: usize) -> impl Strategy<Value = Vec<u8>> {
    let long = (0..4_usize, 0..page / 4, any::<u8>()).prop_map(|(fill, len, last)| {
        let mut key = vec![fill as u8; len];
        key.push(last);
        key
    });
    prop_oneof![
        3 => (0..60_u32).prop_map(|n| n.to_be_bytes().to_vec()),
        2 => any::<u16>().prop_map(|n| n.wrapping_mul(31).to_be_bytes().to_vec()),
        3 => long,
    ]
}

/// From a fifth to three fifths of a page; less often anything up to three pages, and short.
fn value(page: usize) -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        6 => page / 5..page * 3 / 5,
        2 => 0..page * 3,
        1 => page - 40..page + 10,
        2 => 0..40_usize,
    ];
    (len, any::<u8>()).prop_map(|(len, byte)| (0..len).map(|n| byte ^ (n / 7) as u8).collect())
}

fn step(page: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (key(page), value(page)).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => any::<usize>().prop_map(Step::RemoveNth),
        2 => key(page).prop_map(Step::Remove),
        2 => key(page).prop_map(Step::Get),
        1 => prop::collection::vec(key(page), 0..10).prop_map(Step::GetMany),
        2 => (key(page), any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        1 => (key(page), any::<bool>(), 0..20_usize)
            .prop_map(|(key, up, n)| Step::Scan(Some((key, true)), up, n)),
        4 => crate::steps::step(),
    ]
}

/// A tree on a pool, which is opened again now and then and forgets the shared overflow pages
/// that it knows.
struct Reopened<C, const PAGE: usize> {
    tree: BTreeIndex<C, PAGE>,
    calls: usize,
}

impl<C: Configuration, const PAGE: usize> Default for Reopened<C, PAGE> {
    fn default() -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let budget = (4 * 8 + 140) * PAGE as u64 + 64 * 1024;
        let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(budget)).unwrap();
        Self {
            tree: BTreeIndex::create(Arc::new(pool)).unwrap(),
            calls: 0,
        }
    }
}

/// A map of which the pages in use are known.
trait Paged: Map + Default {
    fn live(&self) -> usize;
}

/// A tree for one writer.
struct One<C: Configuration, const PAGE: usize>(BTree<C, PAGE>);

impl<C: Configuration, const PAGE: usize> Default for One<C, PAGE> {
    fn default() -> Self {
        Self(BTree::default())
    }
}

impl<C: Configuration, const PAGE: usize> Paged for One<C, PAGE> {
    fn live(&self) -> usize {
        self.0.statistics().get("live_bytes").unwrap() as usize / PAGE
    }
}

impl<C: Configuration, const PAGE: usize> Paged for Reopened<C, PAGE> {
    fn live(&self) -> usize {
        self.tree.pool().statistics().live as usize
    }
}

impl<C: Configuration, const PAGE: usize> Map for One<C, PAGE> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.0.insert(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key, <[u8]>::to_vec)
    }

    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
        self.0.get_many(keys, read);
    }

    fn update(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()>,
    ) {
        self.0.update(key, new, decide);
    }

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.0.scan(from, direction, visit);
    }

    fn verify(&self) -> Result<(), String> {
        self.0.verify()
    }
}

impl<C: Configuration, const PAGE: usize> Map for Reopened<C, PAGE> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.calls += 1;
        if self.calls.is_multiple_of(50) {
            let tree = &self.tree;
            tree.apply_pending_frees().unwrap();
            self.tree = BTreeIndex::open(Arc::clone(tree.pool()), tree.root(), tree.len());
        }
        self.tree.insert(key, value).unwrap()
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.tree.remove(key).unwrap()
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.tree.get(key, <[u8]>::to_vec).unwrap()
    }

    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
        self.tree.get_many(keys, read).unwrap();
    }

    fn update(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()>,
    ) {
        self.tree.update(key, new, decide).unwrap();
    }

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.tree.scan(from, direction, visit).unwrap();
    }

    fn scan_range(
        &mut self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.tree.scan_range(range, visit).unwrap();
    }

    fn verify(&self) -> Result<(), String> {
        let (pages, live) = (self.tree.verified_pages()?, self.live());
        if pages != live {
            return Err(format!("{pages} pages reached, but {live} in use"));
        }
        Ok(())
    }
}

fn check<T: Paged>(steps: &[Step]) {
    let (mut tree, mut model) = (T::default(), Model::new());
    for step in steps {
        take(&mut tree, &mut model, step.clone());
    }
    tree.verify().unwrap();
    scan(&mut tree, &model, None, true, usize::MAX);
    scan(&mut tree, &model, None, false, usize::MAX);
    for key in model.keys() {
        assert!(tree.remove(key));
    }
    tree.verify().unwrap();
    assert_eq!(tree.live(), 1);
}

macro_rules! models {
    ($($name:ident $tree:ident $config:ident $page:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(steps in prop::collection::vec(step($page), 1..250)) {
                    check::<$tree<$config, $page>>(&steps);
                }
            )*
        }
    };
}

models! {
    baseline_256 One Baseline 256;
    fingerprint_1024 One Fingerprint 1024;
    semi_dense_1024 One SemiDense 1024;
    adaptive_1024 One Adaptive 1024;
    adaptive_4096 One Adaptive 4096;
    shared_fingerprint_1024 Reopened Fingerprint 1024;
    shared_semi_dense_1024 Reopened SemiDense 1024;
    shared_adaptive_1024 Reopened Adaptive 1024;
    shared_adaptive_4096 Reopened Adaptive 4096;
}

fn numbered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

#[test]
fn values_of_any_length_take_about_one_and_a_half_times_their_bytes() {
    for len in [600, 1000, 1400, 2000, 2040, 3000, 4070, 5000, 10_000] {
        let mut tree = BTree::<Adaptive>::default();
        let value = vec![7; len];
        for number in 0..2000 {
            tree.insert(&numbered(number), &value);
        }
        tree.verify().unwrap();
        let ratio = tree.statistics().get("bytes_per_key").unwrap() / (8 + len) as f64;
        // Five or six records to a leaf leave more of it unused than shared overflow pages do.
        let most = if len < 980 { 1.7 } else { 1.5 };
        assert!(ratio < most, "{ratio} times {len}");
        // Slots that become free are taken again.
        let live = tree.statistics().get("live_bytes").unwrap();
        for round in 0..4 {
            for number in (0..2000).filter(|n| n % 4 == round) {
                assert!(tree.remove(&numbered(number)));
            }
            for number in (0..2000).filter(|n| n % 4 == round) {
                assert!(tree.insert(&numbered(number), &value));
            }
        }
        tree.verify().unwrap();
        let grown = tree.statistics().get("live_bytes").unwrap();
        assert!(grown < live * 1.2, "{grown} after {live} with {len}");
    }
}

#[test]
fn what_goes_by_its_number_is_not_read() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 300) * 4096 + 64 * 1024);
    let pool = Arc::new(Pool::<4096>::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex<Adaptive> = BTreeIndex::create(Arc::clone(&pool)).unwrap();
    let mut model = BTreeMap::new();
    for number in 0..1000_u64 {
        // A page or three of its own, and no part of a shared overflow page.
        let len = 4000 + 2 * 4064 * (number as usize % 2);
        tree.insert(&numbered(number), &vec![1; len]).unwrap();
        model.insert(numbered(number), len);
    }
    pool.checkpoint(Vec::new).unwrap();
    let (leaves, before) = (
        tree.statistics().get("comparison_leaves").unwrap(),
        pool.statistics(),
    );
    assert!(
        before.evictions > 1500 && leaves < 30.0,
        "{before:?} {leaves}"
    );
    for (number, key) in model.keys().enumerate() {
        match number % 3 {
            0 => assert!(tree.remove(key).unwrap()),
            1 => assert!(!tree.insert(key, b"short").unwrap()),
            _ => assert!(!tree.insert(key, &[2; 4010]).unwrap()),
        }
    }
    let read = pool.statistics().reads - before.reads;
    assert!(read < 60, "{read} pages were read");
    assert_eq!(
        tree.verified_pages().unwrap() as u64,
        pool.statistics().live
    );
    assert_eq!(tree.statistics().get("overflow_pages"), Some(333.0));
}

#[test]
fn threads_share_overflow_pages() {
    const THREADS: u64 = 3;
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 400) * 1024 + 128 * 1024);
    let pool = Arc::new(Pool::<1024>::open(&vfs, Path::new("/pages"), &options).unwrap());
    let tree: BTreeIndex<Adaptive, 1024> = BTreeIndex::create(pool).unwrap();
    let done = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                for step in 0..3000_u64 {
                    let number = step % 211 * THREADS + thread;
                    let value = vec![number as u8; 240 + (step * 37 % 500) as usize];
                    if step % 5 == 4 {
                        tree.remove(&numbered(number)).unwrap();
                    } else {
                        tree.insert(&numbered(number), &value).unwrap();
                        let same = tree.get(&numbered(number), |found| found == value);
                        assert_eq!(same.unwrap(), Some(true));
                    }
                }
                done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while done.load(std::sync::atomic::Ordering::Relaxed) < THREADS {
                tree.scan(Bound::Unbounded, Direction::Forward, |key, value| {
                    let first = value[0];
                    assert!(value.iter().all(|&byte| byte == first), "{key:?}");
                    ControlFlow::Continue(())
                })
                .unwrap();
            }
        });
    });
    let statistics = tree.statistics();
    assert!(
        statistics.get("shared_overflow_pages").unwrap() > 50.0,
        "{statistics:?}"
    );
    assert!(
        statistics.get("shared_overflow_taken_ratio").unwrap() > 0.6,
        "{statistics:?}"
    );
    let pages = tree.verified_pages().unwrap() as u64;
    assert_eq!(pages, tree.pool().statistics().live);
}

/// Long values with layers and short ones between them, of keys in order.
fn mixed(number: u64, round: u64) -> (Vec<u8>, Vec<u8>) {
    let mut key = number.to_be_bytes().to_vec();
    let len = match number % 7 {
        // Two that have their key prefixes in common, below a layer.
        0 | 1 => {
            key = (number - number % 7).to_be_bytes().to_vec();
            key.extend_from_slice(&[5; 600]);
            key.push((number % 7) as u8);
            900
        }
        2 => 20,
        _ => 1000 + (round * 37 + number) as usize % 3000,
    };
    (key, vec![number as u8; len])
}

#[test]
fn scans_that_others_are_in_the_way_of_show_each_row_once_and_whole() {
    const KEYS: u64 = 420;
    for memory in [(4 * 8 + 100) * 4096 + 256 * 1024, 64 << 20] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let pool = Pool::<4096>::open(&vfs, Path::new("/pages"), &Options::new(memory)).unwrap();
        let tree: BTreeIndex<Adaptive> = BTreeIndex::create(Arc::new(pool)).unwrap();
        let all: Vec<_> = (0..KEYS).map(|number| mixed(number, 0)).collect();
        for (key, value) in &all {
            tree.insert(key, value).unwrap();
        }
        // Those of every third number come and go.
        let stays = |number: u64| number % 3 != 1;
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..40 {
                    for number in 0..KEYS {
                        let (key, value) = mixed(number, round);
                        if stays(number) || round % 2 == 0 {
                            tree.insert(&key, &value).unwrap();
                        } else {
                            tree.remove(&key).unwrap();
                        }
                    }
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let mut turn = 0;
            // Each direction with each length once, however slow this thread is.
            while turn < 6 || !done.load(std::sync::atomic::Ordering::Relaxed) {
                let direction = [Direction::Forward, Direction::Reverse][turn % 2];
                let most = [usize::MAX, 10 * KEYS as usize, 30][turn % 3];
                let mut seen: Vec<u64> = Vec::new();
                let range = ScanRange::starting_at(Bound::Unbounded, direction).limited(most);
                tree.scan_range(&range, |key, value| {
                    let number = all.iter().position(|(other, _)| other == key).unwrap();
                    assert!(value.iter().all(|&byte| byte == number as u8), "{number}");
                    seen.push(number as u64);
                    if number % 50 == 0 {
                        // A visitor is in nobody's way, nor in its own.
                        tree.insert(key, &mixed(number as u64, 3).1).unwrap();
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert!(seen.len() <= most);
                if direction == Direction::Reverse {
                    seen.reverse();
                }
                assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
                let (first, last) = match (most, direction) {
                    (30, Direction::Forward) => (0, *seen.last().unwrap()),
                    (30, Direction::Reverse) => (seen[0], KEYS - 1),
                    _ => (0, KEYS - 1),
                };
                let missed = (first..=last).find(|n| stays(*n) && !seen.contains(n));
                assert_eq!(missed, None, "{direction:?} {most}");
                turn += 1;
            }
        });
        tree.verify().unwrap();
    }
}

/// A tree of values of which four fill a shared overflow page, in random order, in a pool that
/// holds few of them.
fn with_shared_pages(values: u64) -> BTreeIndex<Adaptive> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let options = Options::new((4 * 8 + 300) * 4096 + values * 4);
    let pool = Pool::<4096>::open(&vfs, Path::new("/pages"), &options).unwrap();
    let tree: BTreeIndex<Adaptive> = BTreeIndex::create(Arc::new(pool)).unwrap();
    for number in 0..values {
        tree.insert(&numbered(number), &[7; 1030]).unwrap();
    }
    assert!(tree.statistics().get("shared_overflow_pages").unwrap() as u64 >= values / 4);
    tree
}

#[test]
fn shared_pages_whose_values_all_go_with_a_range_are_not_read() {
    let tree = with_shared_pages(4000);
    let leaves = tree.statistics().get("comparison_leaves").unwrap() as u64;
    let before = tree.pool().statistics();
    let mut shown = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    tree.remove_range(all.0, all.1, &mut |_, value| {
        shown += value.len();
        ControlFlow::Continue(true)
    })
    .unwrap();
    let after = tree.pool().statistics();
    // The last shared overflow page may have a free slot.
    let read = after.reads - before.reads;
    assert!(read < leaves + 20, "{read} read of {leaves} leaves");
    assert!(shown < 4000 * 100, "{shown} bytes shown");
    assert_eq!((tree.verified_pages().unwrap(), after.live), (1, 1));
}

#[test]
fn shared_pages_of_which_a_part_goes_are_read_together() {
    // More of them than are noted at a time.
    let tree = with_shared_pages(40_000);
    let live = tree.pool().statistics().live;
    let before = tree.pool().statistics();
    let (mut asked, mut stay) = (0, Vec::new());
    let all = (Bound::Unbounded, Bound::Unbounded);
    tree.remove_range(all.0, all.1, &mut |key, _| {
        asked += 1;
        let goes = asked % 3 != 0;
        if !goes {
            stay.push(key.to_vec());
        }
        ControlFlow::Continue(goes)
    })
    .unwrap();
    assert_eq!((asked, tree.len()), (40_000, stay.len() as u64));
    let after = tree.pool().statistics();
    let (read, batches) = (
        after.reads - before.reads,
        after.read_batches - before.read_batches,
    );
    assert!(5 * batches < read, "{read} read in {batches} batches");
    assert!(after.live < live, "{} pages of {live}", after.live);
    for key in &stay {
        let whole = tree.get(key, |value| *value == [7; 1030]);
        assert_eq!(whole.unwrap(), Some(true));
    }
    assert_eq!(tree.verified_pages().unwrap() as u64, after.live);
}

#[test]
fn a_removal_that_takes_nothing_changes_nothing() {
    let tree = with_shared_pages(2000);
    tree.pool().checkpoint(Vec::new).unwrap();
    let mut asked = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    tree.remove_range(all.0, all.1, &mut |_, _| {
        asked += 1;
        ControlFlow::Continue(false)
    })
    .unwrap();
    assert_eq!((asked, tree.pool().statistics().dirty), (2000, 0));
}
