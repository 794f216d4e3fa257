//! The tree on a pool against the standard library's map, one step after the other, while other
//! pages push its own out of memory all the time; and what a checkpoint keeps of it.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use crate::steps::{Map, Model, Step, key, scan, step, take};
use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::{Adaptive, Configuration, Fingerprint, Hints, SemiDense};
use hedgerow_index::{Decision, Direction, RANGE_VALUE_BYTES, ScanRange};
use hedgerow_pages::{Options, PageId, Pages, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};
use proptest::prelude::*;

/// More than fit the memory of the pool.
const OTHERS: usize = 200;

fn open<const PAGE: usize>(vfs: &Arc<dyn Vfs>) -> Arc<Pool<PAGE>> {
    let budget = (4 * 8 + 140) * PAGE as u64 + 64 * 1024;
    Arc::new(Pool::open(vfs, Path::new("/pages"), &Options::new(budget)).unwrap())
}

/// A tree in a pool that is too small for other pages, let alone for both.
struct Crowded<C, const PAGE: usize> {
    tree: BTreeIndex<C, PAGE>,
    others: Vec<PageId>,
    calls: Cell<usize>,
}

impl<C: Configuration, const PAGE: usize> Crowded<C, PAGE> {
    fn new(pool: Arc<Pool<PAGE>>) -> Self {
        let mut handle = &*pool;
        let others = (0..OTHERS).map(|_| {
            let operation = handle.begin();
            let page = handle.allocate(&operation).unwrap();
            handle.id(&page)
        });
        Self {
            others: others.collect(),
            tree: BTreeIndex::create(pool).unwrap(),
            calls: Cell::new(0),
        }
    }

    /// The tree; now and then after all of its pages had to go.
    fn tree(&self) -> &BTreeIndex<C, PAGE> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get().is_multiple_of(8) {
            for &page in &self.others {
                drop(Pages::shared(&&**self.tree.pool(), page).unwrap());
            }
        }
        &self.tree
    }

    fn live(&self) -> usize {
        self.tree.pool().statistics().live as usize - OTHERS
    }
}

impl<C: Configuration, const PAGE: usize> Map for Crowded<C, PAGE> {
    fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.tree().insert(key, value).unwrap()
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.tree().remove(key).unwrap()
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.tree().get(key, <[u8]>::to_vec).unwrap()
    }

    fn get_many(&mut self, keys: &[&[u8]], read: impl FnMut(usize, Option<&[u8]>)) {
        self.tree().get_many(keys, read).unwrap();
    }

    fn update(
        &mut self,
        key: &[u8],
        new: &mut Vec<u8>,
        decide: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Decision<()>,
    ) {
        self.tree().update(key, new, decide).unwrap();
    }

    fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.tree().scan(from, direction, visit).unwrap();
    }

    fn scan_range(
        &mut self,
        range: &ScanRange<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        self.tree().scan_range(range, visit).unwrap();
    }

    fn verify(&self) -> Result<(), String> {
        let pages = self.tree().verified_pages()?;
        let live = self.live();
        if pages != live {
            return Err(format!("{pages} pages reached, but {live} in use"));
        }
        let cuts = self.tree.partition(4).map_err(|error| error.to_string())?;
        if cuts.len() > 3 || !cuts.is_sorted() {
            return Err(format!("cuts at {cuts:?}"));
        }
        Ok(())
    }
}

pub fn check<C: Configuration, const PAGE: usize>(steps: &[Step]) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut crowded = Crowded::<C, PAGE>::new(open(&vfs));
    let mut model = Model::new();
    for step in steps {
        take(&mut crowded, &mut model, step.clone());
    }
    crowded.verify().unwrap();
    assert_eq!(crowded.tree.len(), model.len() as u64);
    scan(&mut crowded, &model, None, true, usize::MAX);
    scan(&mut crowded, &model, None, false, usize::MAX);
    // What a checkpoint keeps is all of it.
    let Crowded { tree, others, .. } = crowded;
    let root = tree.root();
    let pool = tree.pool();
    pool.checkpoint(|| tree.len().to_le_bytes().to_vec())
        .unwrap();
    drop(tree);
    let pool = open::<PAGE>(&vfs);
    let len = u64::from_le_bytes(pool.owner().try_into().unwrap());
    let mut crowded = Crowded::<C, PAGE> {
        tree: BTreeIndex::open(pool, root, len),
        others,
        calls: Cell::new(0),
    };
    crowded.verify().unwrap();
    scan(&mut crowded, &model, None, true, usize::MAX);
    if model.len().is_multiple_of(2) {
        for key in model.keys() {
            assert!(crowded.remove(key));
        }
        crowded.verify().unwrap();
        assert_eq!((crowded.live(), crowded.tree.len()), (1, 0));
    }
    let pool = crowded.tree.pool().clone();
    crowded.tree.release().unwrap();
    assert_eq!(pool.statistics().live, OTHERS as u64);
}

/// A removal between two bounds; every so many pairs stay, and after so many more it stops.
#[derive(Debug, Clone)]
struct Removal {
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    stays: usize,
    most: usize,
}

fn removal() -> impl Strategy<Value = Removal> {
    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        prop_oneof![
            2 => Just(Bound::Unbounded),
            3 => key().prop_map(Bound::Included),
            3 => key().prop_map(Bound::Excluded),
        ]
    }
    let stays = prop_oneof![3 => Just(usize::MAX), 1 => 1..50_usize];
    let most = prop_oneof![5 => Just(usize::MAX), 1 => 0..100_usize];
    (bound(), bound(), stays, most).prop_map(|(from, to, stays, most)| Removal {
        from,
        to,
        stays,
        most,
    })
}

/// Removes a range from both and compares what was asked and what is left.
fn remove_range<C: Configuration, const PAGE: usize>(
    crowded: &mut Crowded<C, PAGE>,
    model: &mut Model,
    removal: &Removal,
) {
    let (from, to) = (removal.from.as_ref(), removal.to.as_ref());
    let (from, to) = (from.map(Vec::as_slice), to.map(Vec::as_slice));
    let mut asked = Vec::new();
    let mut gone = Vec::new();
    let mut decide = |key: &[u8], value: &[u8]| {
        if asked.len() == removal.most {
            return ControlFlow::Break(());
        }
        asked.push((key.to_vec(), value.to_vec()));
        let goes = asked.len() % removal.stays != 0;
        if goes {
            gone.push(key.to_vec());
        }
        ControlFlow::Continue(goes)
    };
    crowded.tree().remove_range(from, to, &mut decide).unwrap();
    let after = |key: &[u8]| match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let before = |key: &[u8]| match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    let pairs = model.iter().filter(|(key, _)| after(key) && before(key));
    let pairs = pairs.map(|(key, value)| (key.clone(), value.clone()));
    let expected: Vec<_> = pairs.take(removal.most).collect();
    assert_eq!(asked.len(), expected.len());
    for ((key, shown), (expected, value)) in asked.iter().zip(&expected) {
        assert_eq!(key, expected);
        assert!(value.starts_with(shown) && shown.len() >= value.len().min(RANGE_VALUE_BYTES));
    }
    gone.iter().for_each(|key| drop(model.remove(key)));
    scan(crowded, model, None, true, usize::MAX);
    crowded.verify().unwrap();
}

fn check_ranges<C: Configuration, const PAGE: usize>(rounds: &[(Vec<Step>, Removal)]) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let mut crowded = Crowded::<C, PAGE>::new(open(&vfs));
    let mut model = Model::new();
    for (steps, removal) in rounds {
        for step in steps {
            take(&mut crowded, &mut model, step.clone());
        }
        remove_range(&mut crowded, &mut model, removal);
    }
    let everything = Removal {
        from: Bound::Unbounded,
        to: Bound::Unbounded,
        stays: usize::MAX,
        most: usize::MAX,
    };
    remove_range(&mut crowded, &mut model, &everything);
    assert_eq!((crowded.live(), crowded.tree.len()), (1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn ranges_go_from_adaptive_leaves(
        rounds in prop::collection::vec((prop::collection::vec(step(), 1..120), removal()), 1..5)
    ) {
        check_ranges::<Adaptive, 1024>(&rounds);
    }

    #[test]
    fn ranges_go_from_fingerprint_leaves(
        rounds in prop::collection::vec((prop::collection::vec(step(), 1..120), removal()), 1..5)
    ) {
        check_ranges::<Fingerprint, 1024>(&rounds);
    }
}

#[test]
fn a_range_goes_leaf_by_leaf() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree: BTreeIndex = BTreeIndex::create(open(&vfs)).unwrap();
    let keys: Vec<[u8; 4]> = (0..20_000_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        tree.insert(key, &[7; 60]).unwrap();
    }
    let leaves = tree.pool().statistics().live;
    let mut visited = 0;
    let (from, to) = (100_u32.to_be_bytes(), 19_900_u32.to_be_bytes());
    let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    tree.remove_range(bounds.0, bounds.1, &mut |_, _| {
        visited += 1;
        ControlFlow::Continue(true)
    })
    .unwrap();
    assert_eq!((visited, tree.len()), (19_800, 200));
    let went_through = tree.statistics().get("range_leaves").unwrap();
    assert!(went_through as u64 <= leaves, "{went_through} of {leaves}");
    let left = tree.verified_pages().unwrap();
    assert!(left < 12, "{left} pages for 200 keys");
    assert_eq!(tree.pool().statistics().live as usize, left);
}

#[test]
fn no_empty_leaf_stays_where_several_levels_were() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree: BTreeIndex<Adaptive, 1024> = BTreeIndex::create(open(&vfs)).unwrap();
    for key in (0..20_000_u32).map(u32::to_be_bytes) {
        tree.insert(&key, &[7; 60]).unwrap();
    }
    let depth = tree.statistics().get("depth_levels").unwrap();
    assert!(depth >= 3.0, "{depth} levels");
    let mut all = |_: &[u8], _: &[u8]| ControlFlow::Continue(true);
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    tree.remove_range(from, to, &mut all).unwrap();
    assert_eq!(tree.verified_pages().unwrap(), 1);
}

macro_rules! models {
    ($($name:ident $config:ident $page:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $name(steps in prop::collection::vec(step(), 1..400)) {
                    check::<$config, $page>(&steps);
                }
            )*
        }
    };
}

#[test]
fn leaves_ahead_are_in_memory_and_no_more_than_asked_for() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree: BTreeIndex = BTreeIndex::create(open(&vfs)).unwrap();
    let keys: Vec<[u8; 4]> = (0..20_000_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        tree.insert(key, &[7; 60]).unwrap();
    }
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let (mut rest, mut steps, mut missed) = (keys.as_slice(), 0, 0);
    while !rest.is_empty() {
        let covered = tree.read_ahead(&rest[..rest.len().min(1_000)], 10, 10);
        assert!(covered > 0 && covered <= 1_000, "{covered}");
        let read = tree.pool().statistics().reads;
        for key in &rest[..covered] {
            assert_eq!(tree.get(key, <[u8]>::len).unwrap(), Some(60));
        }
        missed += tree.pool().statistics().reads - read;
        rest = &rest[covered..];
        steps += 1;
    }
    let leaves = tree.pool().statistics().live as usize;
    // The clock may pass one that was just read.
    assert!(
        missed < leaves as u64 / 20,
        "{missed} of {leaves} were not there"
    );
    assert!(
        steps >= leaves / 11 && steps < leaves / 3,
        "{steps} of {leaves}"
    );
    assert_eq!(tree.read_ahead(&[], 10, 10), 0);
}

#[test]
fn pages_of_values_ahead_are_in_memory_and_no_more_than_asked_for() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
    let tree: BTreeIndex = BTreeIndex::create(open(&vfs)).unwrap();
    let key = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    let mut keys: Vec<[u8; 4]> = (0..4_000).map(key).collect();
    for key in &keys {
        tree.insert(key, &[7; 1_030]).unwrap();
    }
    keys.sort_unstable();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let (mut rest, mut steps, mut missed) = (keys.as_slice(), 0, 0);
    while !rest.is_empty() {
        let covered = tree.read_ahead(&rest[..rest.len().min(1_000)], 10, 20);
        // Most values are in shared overflow pages of others.
        assert!((1..=30).contains(&covered), "{covered}");
        let read = tree.pool().statistics().reads;
        for key in &rest[..covered] {
            assert_eq!(tree.get(key, <[u8]>::len).unwrap(), Some(1_030));
        }
        missed += tree.pool().statistics().reads - read;
        rest = &rest[covered..];
        steps += 1;
    }
    assert!(missed < 200, "{missed} of 4000 were not there");
    assert!(steps <= 4_000 / 20 + 1, "{steps} steps");
}

models! {
    hints Hints 1024;
    fingerprint Fingerprint 1024;
    semi_dense SemiDense 1024;
    adaptive Adaptive 1024;
    adaptive_4096 Adaptive 4096;
}
