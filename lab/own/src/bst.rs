//! The concurrent binary search trees as maps of the lab, in the forms that experiments ask for.
//!
//! They are contenders of their own experiments, and the best of each in the registry. Runs hold a
//! pin over many operations, as those of our other trees do.

use std::hint::black_box;
use std::marker::PhantomData;
use std::mem;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use hedgerow_bst::{
    BaselineCitrus, BaselineEdgeExtLf, BaselineEdgeExtLf2, BaselineEdgeIntLf, BaselineExtLf,
    BaselineIntLf, BaselineLogInt, BaselineTicket, BloatedLocks, Citrus, EdgeExtLf, EdgeExtLf2,
    EdgeIntLf, ExtLf, FrozenOccAvl, HeavyLookups, IntLf, LogInt, OccAvl, OccAvl2, OccAvl2Ret,
    Padded, ScatteredFields, SearchTree, Ticket,
};
use hedgerow_index::{Direction, OrderedIntMap};
use hedgerow_lab_contender::{Map, MapEntry, Promises, Steps, Tally, take_steps, value_of};
use hedgerow_lab_data::{KeyRange, Kind};
use hedgerow_memory::Placement;
use hedgerow_sync::epoch;

use super::entries::{concurrent, ordered, own};
use super::integers::Integer;
use super::masstree::{OPERATIONS_PER_PIN, one_less, pinned_runs};

/// Where the nodes of a contender come from, as a type.
pub trait Place: Send + Sync + 'static {
    /// From there.
    const PLACEMENT: Placement;
}

/// Each node type from a pool of its own.
pub struct Segregated;

/// From the pools of size classes.
pub struct Merged;

/// From the standard allocator.
pub struct System;

impl Place for Segregated {
    const PLACEMENT: Placement = Placement::Segregated;
}

impl Place for Merged {
    const PLACEMENT: Placement = Placement::Merged;
}

impl Place for System {
    const PLACEMENT: Placement = Placement::System;
}

/// A search tree by the big-endian bytes of its keys.
pub struct BinaryTree<T, P = Segregated>(T, PhantomData<P>);

impl<T: SearchTree<u64>, P: Place> Default for BinaryTree<T, P> {
    fn default() -> Self {
        Self(T::with_placement(P::PLACEMENT), PhantomData)
    }
}

impl<T: SearchTree<u64>, P: Place> Map for BinaryTree<T, P> {
    /// The trees replace no values: a removal and an insertion do.
    fn put(&self, key: &[u8], value: u64) {
        let key = u64::of(key);
        while self.0.insert(key, value).is_some() {
            self.0.remove(key);
        }
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        self.0.insert(u64::of(key), value)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(u64::of(key))
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(u64::of(key)).is_some()
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _: KeyRange<'_>, _: usize) -> Tally {
        Tally::default()
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        for some in keys.chunks(OPERATIONS_PER_PIN) {
            let _pin = epoch::pin();
            for key in some.iter() {
                self.put(key, value_of(key).wrapping_add(add));
            }
        }
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        let mut tally = Tally::default();
        let mut integers: Vec<u64> = Vec::with_capacity(group);
        for some in keys.chunks(group) {
            integers.clear();
            integers.extend(some.iter().map(u64::of));
            self.0.get_many(&integers, |_, value| tally.count(value));
        }
        Some(tally)
    }

    pinned_runs!();
}

/// A search tree with its ordered reads.
struct Ordered<T>(BinaryTree<T>);

impl<T: SearchTree<u64>> Default for Ordered<T> {
    fn default() -> Self {
        Self(BinaryTree::default())
    }
}

impl<T: SearchTree<u64> + OrderedIntMap<u64>> Map for Ordered<T> {
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    #[inline]
    fn insert_if_absent(&self, key: &[u8], value: u64) -> Option<u64> {
        self.0.insert_if_absent(key, value)
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    #[inline]
    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        let mut left = count;
        let from = Bound::Included(u64::of(from));
        self.0.0.scan(from, Direction::Forward, |key, value| {
            visit(&key.to_be_bytes(), value);
            one_less(&mut left)
        });
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let mut tally = Tally::default();
        for from in keys.iter() {
            let mut left = count;
            let from = Bound::Included(u64::of(from));
            self.0.0.scan(from, Direction::Forward, |key, value| {
                black_box(key);
                tally.count(Some(value));
                one_less(&mut left)
            });
        }
        tally
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        self.0.put_run(keys, add);
    }

    fn get_many_run(&self, keys: KeyRange<'_>, group: usize) -> Option<Tally> {
        self.0.get_many_run(keys, group)
    }

    pinned_runs!();
}

/// A contender over keys of 8 bytes that many threads share and that cannot scan.
fn tree<T: SearchTree<u64> + 'static>(name: &'static str) -> MapEntry {
    placed::<T, Segregated>(name)
}

/// The same, its nodes from a place of its own.
fn placed<T: SearchTree<u64> + 'static, P: Place>(name: &'static str) -> MapEntry {
    let promises = Promises {
        concurrent: true,
        longest_key: Some(u64::BYTES),
        ..Promises::default()
    };
    MapEntry {
        entry: own(name, promises),
        build: concurrent::<BinaryTree<T, P>>(),
    }
}

/// Every tree as the paper improves it (§3.1), by its name in Table 1, each node type from a pool
/// of its own. `edge-ext-lf-2` keeps its padding: without it, it is `edge-ext-lf`.
#[must_use]
pub fn bst_improved() -> Vec<MapEntry> {
    vec![
        tree::<OccAvl<u64>>("occ-avl"),
        tree::<OccAvl2<u64>>("occ-avl-2"),
        tree::<OccAvl2Ret<u64>>("occ-avl-2-ret"),
        tree::<EdgeIntLf<u64>>("edge-int-lf"),
        tree::<LogInt<u64>>("log-int"),
        tree::<Citrus<u64>>("citrus"),
        tree::<IntLf<u64>>("int-lf"),
        tree::<EdgeExtLf<u64>>("edge-ext-lf"),
        tree::<EdgeExtLf2<u64>>("edge-ext-lf-2"),
        tree::<Ticket<u64>>("ticket"),
        tree::<ExtLf<u64>>("ext-lf"),
    ]
}

/// The trees that a user would choose among: the fastest one, and the fastest that stays balanced,
/// with its scans.
#[must_use]
pub fn bst_best() -> Vec<MapEntry> {
    let promises = Promises {
        variable_keys: false,
        longest_key: Some(u64::BYTES),
        ..ordered(true)
    };
    vec![
        tree::<Ticket<u64>>("ticket"),
        MapEntry {
            entry: own("occ-avl-2-ret", promises),
            build: concurrent::<Ordered<OccAvl2Ret<u64>>>(),
        },
    ]
}

/// Every tree with the flaws that Table 3 finds in it, its nodes from the pools of size classes.
#[must_use]
pub fn bst_published() -> Vec<MapEntry> {
    type PublishedOccAvl = OccAvl<u64, BloatedLocks<ScatteredFields>>;
    vec![
        placed::<PublishedOccAvl, Merged>("occ-avl, published"),
        placed::<OccAvl2<u64>, Merged>("occ-avl-2, published"),
        placed::<BaselineEdgeIntLf<u64>, Merged>("edge-int-lf, published"),
        placed::<BaselineLogInt<u64>, Merged>("log-int, published"),
        placed::<BaselineCitrus<u64>, Merged>("citrus, published"),
        placed::<BaselineIntLf<u64>, Merged>("int-lf, published"),
        placed::<BaselineEdgeExtLf<u64>, Merged>("edge-ext-lf, published"),
        placed::<BaselineEdgeExtLf2<u64>, Merged>("edge-ext-lf-2, published"),
        placed::<BaselineTicket<u64>, Merged>("ticket, published"),
        placed::<BaselineExtLf<u64>, Merged>("ext-lf, published"),
    ]
}

/// The trees as improved, and with each flaw alone that Table 3 finds in one of them and that their
/// kind can have.
#[must_use]
pub fn bst_flaws() -> Vec<MapEntry> {
    vec![
        tree::<OccAvl<u64>>("occ-avl"),
        tree::<OccAvl<u64, BloatedLocks>>("occ-avl, bloated locks"),
        tree::<OccAvl<u64, ScatteredFields>>("occ-avl, scattered fields"),
        tree::<LogInt<u64>>("log-int"),
        tree::<LogInt<u64, BloatedLocks>>("log-int, bloated locks"),
        tree::<LogInt<u64, ScatteredFields>>("log-int, scattered fields"),
        tree::<Citrus<u64>>("citrus"),
        tree::<Citrus<u64, BloatedLocks>>("citrus, bloated locks"),
        tree::<EdgeIntLf<u64>>("edge-int-lf"),
        tree::<EdgeIntLf<u64, HeavyLookups>>("edge-int-lf, heavy lookups"),
        tree::<IntLf<u64>>("int-lf"),
        tree::<IntLf<u64, Padded>>("int-lf, padded"),
        tree::<EdgeExtLf<u64>>("edge-ext-lf"),
        tree::<EdgeExtLf<u64, Padded>>("edge-ext-lf, padded"),
        tree::<EdgeExtLf<u64, HeavyLookups>>("edge-ext-lf, heavy lookups"),
        tree::<Ticket<u64>>("ticket"),
        tree::<Ticket<u64, Padded>>("ticket, padded"),
        tree::<ExtLf<u64>>("ext-lf"),
        tree::<ExtLf<u64, Padded>>("ext-lf, padded"),
        tree::<ExtLf<u64, HeavyLookups>>("ext-lf, heavy lookups"),
    ]
}

/// The AVL tree by what its lookups do about validation (Figure 4).
#[must_use]
pub fn bst_validation() -> Vec<MapEntry> {
    let promises = Promises {
        concurrent: true,
        longest_key: Some(u64::BYTES),
        ..Promises::default()
    };
    vec![
        tree::<OccAvl<u64>>("occ-avl"),
        tree::<OccAvl2<u64>>("occ-avl-2"),
        tree::<OccAvl2Ret<u64>>("occ-avl-2-ret"),
        MapEntry {
            entry: own("occ-avl-2-unsafe", promises),
            build: concurrent::<Frozen>(),
        },
    ]
}

type Tree = OccAvl2Ret<u64>;

/// The AVL tree whose lookups read no versions. The first lookup after a write freezes it, for all
/// threads; the next write thaws it.
struct Frozen(RwLock<State>);

enum State {
    Written(Box<BinaryTree<Tree>>),
    Frozen(FrozenOccAvl<Box<Tree>>),
}

impl Default for Frozen {
    fn default() -> Self {
        Self(RwLock::new(State::Written(Box::default())))
    }
}

impl Frozen {
    fn write<R>(&self, run: impl FnOnce(&BinaryTree<Tree>) -> R) -> R {
        loop {
            if let State::Written(tree) = &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
                return run(tree);
            }
            self.change(|state| match state {
                State::Frozen(frozen) => {
                    State::Written(Box::new(BinaryTree(frozen.thaw(), PhantomData)))
                }
                written @ State::Written(_) => written,
            });
        }
    }

    fn look_up<R>(&self, run: impl FnOnce(&FrozenOccAvl<Box<Tree>>) -> R) -> R {
        loop {
            if let State::Frozen(tree) = &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
                return run(tree);
            }
            self.change(|state| match state {
                State::Written(tree) => State::Frozen((*tree).0.into_frozen()),
                frozen @ State::Frozen(_) => frozen,
            });
        }
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let empty = State::Written(Box::default());
        *state = change(mem::replace(&mut *state, empty));
    }
}

impl Map for Frozen {
    fn put(&self, key: &[u8], value: u64) {
        self.write(|tree| tree.put(key, value));
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        self.write(|tree| tree.put_run(keys, add));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.look_up(|tree| tree.get(u64::of(key)))
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.write(|tree| tree.remove(key))
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _: KeyRange<'_>, _: usize) -> Tally {
        Tally::default()
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        self.look_up(|tree| {
            let mut tally = Tally::default();
            for some in keys.chunks(OPERATIONS_PER_PIN) {
                let _pin = epoch::pin();
                some.iter()
                    .for_each(|key| tally.count(tree.get(u64::of(key))));
            }
            tally
        })
    }

    /// Lookups alone look for the frozen tree once, not at each key.
    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        let mut kinds = steps.steps().iter().map(|step| step.kind());
        match kinds.all(|kind| kind == Kind::Read) {
            true => self.get_run(steps.keys().clone()),
            false => take_steps(self, steps),
        }
    }
}
