//! Trees that several threads fill and empty again and again lose no node: once everything that was
//! retired is freed, the blocks in use are those that the tree leads to, one by one. A process of
//! its own, since other tests' memory and pins would count.
//!
//! `HEDGEROW_TEST_SCALE` multiplies the operations.

use std::collections::HashSet;

use hedgerow_bst::{
    BaselineCitrus, BaselineEdgeIntLf, BaselineExtLf, BaselineIntLf, BaselineLogInt,
    BaselineTicket, BloatedLocks, BstIndex, Citrus, EdgeExtLf, EdgeExtLf2, EdgeIntLf, ExtLf, IntLf,
    LogInt, OccAvl, OccAvl2, OccAvl2Ret, Placement, ScatteredFields, SearchTree, Ticket,
};
use hedgerow_index::{Decision, IndexExt, ValuePart};
use hedgerow_memory::VisitNodes;
use hedgerow_sync::epoch;

const KEYS: f64 = 4_000.0;
const THREADS: u64 = 3;
const ROUNDS: usize = 10;
/// Keys at which all threads meet.
const CONTENDED_KEYS: u64 = 40;

fn scaled_keys() -> u64 {
    let scale = std::env::var("HEDGEROW_TEST_SCALE").map_or(1.0, |scale| {
        scale.parse().expect("HEDGEROW_TEST_SCALE is a number")
    });
    (KEYS * scale) as u64
}

fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Runs `work` on so many threads, and waits until all that they had is given back: a thread that
/// was joined has run its destructors, too.
fn on_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        for thread in threads {
            thread.join().expect("a thread ended well");
        }
    });
}

/// The blocks in use once everything that was retired is freed: no thread but this one is pinned.
fn live_blocks() -> usize {
    let mut before = usize::MAX;
    loop {
        // Each frees what some hundred retirements left, and what is due a grace period later.
        for _ in 0..500 {
            epoch::pin().flush();
        }
        let report = hedgerow_memory::inspect();
        let pooled: usize = report.classes.iter().map(|class| class.live).sum();
        let live = pooled + report.large_blocks;
        if live == before {
            return live;
        }
        before = live;
    }
}

/// How many blocks a structure leads to. Several nodes can name one.
fn reachable(structure: &impl VisitNodes) -> usize {
    let mut addresses = HashSet::new();
    structure.visit_nodes(&mut |node| {
        addresses.insert(node.address);
    });
    addresses.len()
}

/// What a tree's blocks are compared with.
struct Books {
    name: String,
    /// Blocks that were in use before there was a tree.
    others: usize,
    /// Blocks of the tree that are no nodes to be visited, such as the ends of a list.
    hidden: usize,
    violations: Vec<String>,
}

impl Books {
    fn open<T: VisitNodes>(name: &str, new: impl FnOnce() -> T) -> (T, Self) {
        let others = live_blocks();
        let tree = new();
        let books = Self {
            name: name.to_owned(),
            others,
            hidden: live_blocks() - others - reachable(&tree),
            violations: Vec::new(),
        };
        (tree, books)
    }

    /// Compares the blocks in use with those that the tree leads to; `values` are named by it.
    fn compare(&mut self, when: &str, tree: &impl VisitNodes, values: usize) {
        let expected = self.others + self.hidden + reachable(tree) + values;
        self.expect(when, expected);
    }

    fn expect(&mut self, when: &str, expected: usize) {
        let live = live_blocks();
        if live != expected {
            let name = &self.name;
            let violation = format!("{name}, {when}: {live} blocks in use, {expected} expected");
            self.violations.push(violation);
        }
    }

    fn close(mut self) -> Vec<String> {
        self.expect("dropped", self.others);
        println!("{}: {} hidden blocks", self.name, self.hidden);
        self.violations
    }
}

/// What each thread does at keys that all have.
fn contend<T: SearchTree<u64>>(tree: &T, thread: u64, operations: u64) {
    let mut random = scattered(thread + 1);
    for number in 0..operations {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let key = scattered((random >> 33) % CONTENDED_KEYS);
        match random >> 63 {
            0 => tree.insert(key, number),
            _ => tree.remove(key),
        };
    }
}

/// The violations of a tree whose nodes come from there.
fn churn<T: SearchTree<u64>>(form: &str, placement: Placement) -> Vec<String> {
    let keys = scaled_keys();
    let name = format!("{}{form}, {placement:?}", T::NAME);
    let (tree, mut books) = Books::open(&name, || T::with_placement(placement));
    let own = |thread: u64| (thread..keys).step_by(THREADS as usize).map(scattered);
    for round in 0..ROUNDS {
        on_threads(|thread| own(thread).for_each(|key| assert_eq!(tree.insert(key, key), None)));
        tree.verify().expect("sound when full");
        books.compare(&format!("full, round {round}"), &tree, 0);
        on_threads(|thread| contend(&tree, thread, keys));
        books.compare(&format!("contended, round {round}"), &tree, 0);
        on_threads(|thread| own(thread).for_each(|key| _ = tree.remove(key)));
        tree.verify().expect("sound when empty");
        books.compare(&format!("empty, round {round}"), &tree, 0);
    }
    drop(tree);
    books.close()
}

/// The violations of a tree, and of its form as published or of another tree of its code.
fn churn_both<T: SearchTree<u64>, B: SearchTree<u64>>() -> Vec<String> {
    let form = match T::NAME == B::NAME {
        true => " as published",
        false => "",
    };
    [
        churn::<T>("", Placement::Segregated),
        churn::<T>("", Placement::Merged),
        churn::<B>(form, Placement::Segregated),
    ]
    .concat()
}

/// The violations of the index that is served, whose values are blocks, too.
fn churn_served() -> Vec<String> {
    let keys = scaled_keys();
    let (index, mut books) = Books::open("served", BstIndex::new);
    let own = |thread: u64| (thread..keys).step_by(THREADS as usize);
    let decide = |key: u64, new_bytes: Option<usize>| {
        let key = scattered(key).to_be_bytes();
        let changed = index.modify(&key, ValuePart::Head, &mut Vec::new(), |_, new| {
            new.extend(std::iter::repeat_n(7, new_bytes.unwrap_or(0)));
            match new_bytes {
                Some(_) => Decision::Put(()),
                None => Decision::Remove(()),
            }
        });
        changed.expect("a key of the right width");
    };
    for round in 0..ROUNDS {
        for bytes in [8, 3, 100] {
            on_threads(|thread| own(thread).for_each(|key| decide(key, Some(bytes))));
        }
        books.compare(&format!("full, round {round}"), &index, keys as usize);
        on_threads(|thread| {
            for key in own(thread) {
                let shared = key % CONTENDED_KEYS;
                decide(shared, None);
                decide(shared, Some(thread as usize));
            }
        });
        on_threads(|thread| own(thread).for_each(|key| decide(key, None)));
        books.compare(&format!("empty, round {round}"), &index, 0);
    }
    drop(index);
    books.close()
}

#[test]
fn no_node_is_lost() {
    let violations = [
        churn_both::<OccAvl<u64>, OccAvl<u64, BloatedLocks<ScatteredFields>>>(),
        churn_both::<OccAvl2<u64>, OccAvl2Ret<u64>>(),
        churn_both::<EdgeIntLf<u64>, BaselineEdgeIntLf<u64>>(),
        churn_both::<LogInt<u64>, BaselineLogInt<u64>>(),
        churn_both::<Citrus<u64>, BaselineCitrus<u64>>(),
        churn_both::<IntLf<u64>, BaselineIntLf<u64>>(),
        churn_both::<EdgeExtLf<u64>, EdgeExtLf2<u64>>(),
        churn_both::<Ticket<u64>, BaselineTicket<u64>>(),
        churn_both::<ExtLf<u64>, BaselineExtLf<u64>>(),
        churn_served(),
    ]
    .concat();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
