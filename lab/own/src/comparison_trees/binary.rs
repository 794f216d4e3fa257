//! Unbalanced binary trees: the first four steps of the factor analysis.
//!
//! Random insertion keeps them within a small factor of the least depth. A node is a full key
//! (up to 16 bytes), a value and two links: 40 bytes with links into an arena, as in the paper,
//! and 48 with the pointers of the boxed form.

use std::cell::RefCell;
use std::cmp::Ordering;

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;

use super::arena::{Arena, NONE};
use super::key::{ByBytes, Comparison, NodeKey, Probe, Slot, Tails};

/// Which of two children comes next, or none when the key is here.
#[inline(always)]
fn side(order: Ordering) -> Option<usize> {
    match order {
        Ordering::Less => Some(0),
        Ordering::Equal => None,
        Ordering::Greater => Some(1),
    }
}

struct BoxedNode {
    key: Slot<ByBytes>,
    value: u64,
    children: [Option<Box<BoxedNode>>; 2],
}

/// Nodes from the system's allocator, keys compared as strings ("Binary").
#[derive(Default)]
pub struct BoxedBinary(RefCell<(Option<Box<BoxedNode>>, Tails)>);

impl Map for BoxedBinary {
    fn put(&self, key: &[u8], value: u64) {
        let (root, tails) = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        let mut place = root;
        while let Some(node) = place {
            match side(node.key.compare(&probe, tails)) {
                Some(side) => place = &mut node.children[side],
                None => {
                    node.value = value;
                    node.key.set_removed(false);
                    return;
                }
            }
        }
        *place = Some(Box::new(BoxedNode {
            key: Slot::new(&probe, tails),
            value,
            children: [None, None],
        }));
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let (root, tails) = &*self.0.borrow();
        let probe = Probe::new(key);
        let mut place = root;
        while let Some(node) = place {
            match side(node.key.compare(&probe, tails)) {
                Some(side) => place = &node.children[side],
                None => return (!node.key.is_removed()).then_some(node.value),
            }
        }
        None
    }

    fn remove(&self, key: &[u8]) -> bool {
        let (root, tails) = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        let mut place = root;
        while let Some(node) = place {
            match side(node.key.compare(&probe, tails)) {
                Some(side) => place = &mut node.children[side],
                None => {
                    let was_there = !node.key.is_removed();
                    node.key.set_removed(true);
                    return was_there;
                }
            }
        }
        false
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}

struct Node<C> {
    key: Slot<C>,
    value: u64,
    children: [u32; 2],
}

/// Nodes in an arena ("+Flow"), keys compared as strings or integers ("+IntCmp").
pub struct Binary<C>(RefCell<Inner<C>>);

struct Inner<C> {
    root: u32,
    nodes: Arena<Node<C>>,
    tails: Tails,
}

impl<C> Default for Binary<C> {
    fn default() -> Self {
        Self(RefCell::new(Inner {
            root: NONE,
            nodes: Arena::default(),
            tails: Tails::default(),
        }))
    }
}

/// Where a search ended.
enum End {
    /// At the key's node.
    Found(u32),
    /// Below this node, on this side.
    Below(u32, usize),
    /// In an empty tree.
    Empty,
}

impl<C: Comparison> Inner<C> {
    #[inline(always)]
    fn search(&self, probe: &Probe<'_>) -> End {
        let mut end = End::Empty;
        let mut at = self.root;
        while at != NONE {
            let node = self.nodes.get(at);
            let Some(side) = side(node.key.compare(probe, &self.tails)) else {
                return End::Found(at);
            };
            end = End::Below(at, side);
            at = node.children[side];
        }
        end
    }
}

impl<C: Comparison> Map for Binary<C> {
    fn put(&self, key: &[u8], value: u64) {
        let inner = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        let end = inner.search(&probe);
        if let End::Found(at) = end {
            let node = inner.nodes.get_mut(at);
            node.value = value;
            node.key.set_removed(false);
            return;
        }
        let new = inner.nodes.push(Node {
            key: Slot::new(&probe, &mut inner.tails),
            value,
            children: [NONE; 2],
        });
        match end {
            End::Below(at, side) => inner.nodes.get_mut(at).children[side] = new,
            _ => inner.root = new,
        }
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let inner = &*self.0.borrow();
        let End::Found(at) = inner.search(&Probe::new(key)) else {
            return None;
        };
        let node = inner.nodes.get(at);
        (!node.key.is_removed()).then_some(node.value)
    }

    fn remove(&self, key: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let End::Found(at) = inner.search(&Probe::new(key)) else {
            return false;
        };
        let node = inner.nodes.get_mut(at);
        let was_there = !node.key.is_removed();
        node.key.set_removed(true);
        was_there
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
