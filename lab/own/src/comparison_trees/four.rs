//! The "4-tree": three keys and four children to a node of two cache lines, unbalanced.
//!
//! The first line holds all that a descent needs as a rule: the children and the first 8 bytes
//! of each key. The second holds the rest, for keys whose first 8 bytes are equal, and the
//! values. A node fills up before it gets children.

use std::cell::RefCell;
use std::cmp::Ordering;

use hedgerow_lab_contender::{Map, Tally};
use hedgerow_lab_data::KeyRange;

use super::arena::{Arena, NONE};
use super::key::{ByIntegers, NodeKey, Probe, Slot, Tails};

const KEYS: usize = 3;

/// The part of a node that descents read, and the part that they seldom read.
#[repr(C, align(64))]
struct Node {
    children: [u32; KEYS + 1],
    first: [u64; KEYS],
    count: u32,
    rest: Rest,
}

/// On lines of its own.
#[repr(C, align(64))]
struct Rest {
    keys: [Slot<ByIntegers>; KEYS],
    values: [u64; KEYS],
}

impl Node {
    fn new() -> Self {
        Self {
            children: [NONE; KEYS + 1],
            first: [0; KEYS],
            count: 0,
            rest: Rest {
                keys: [Slot::default(); KEYS],
                values: [0; KEYS],
            },
        }
    }

    /// The place of the key among this node's: how many are below it, and whether it is there.
    #[inline(always)]
    fn place(&self, probe: &Probe<'_>, tails: &Tails) -> (usize, bool) {
        for place in 0..self.count as usize {
            let order = probe
                .first_word()
                .cmp(&self.first[place])
                .then_with(|| self.rest.keys[place].compare(probe, tails));
            match order {
                Ordering::Less => return (place, false),
                Ordering::Equal => return (place, true),
                Ordering::Greater => {}
            }
        }
        (self.count as usize, false)
    }

    fn insert(&mut self, place: usize, probe: &Probe<'_>, value: u64, tails: &mut Tails) {
        let count = self.count as usize;
        self.first.copy_within(place..count, place + 1);
        self.rest.keys.copy_within(place..count, place + 1);
        self.rest.values.copy_within(place..count, place + 1);
        self.first[place] = probe.first_word();
        self.rest.keys[place] = Slot::new(probe, tails);
        self.rest.values[place] = value;
        self.count += 1;
    }
}

/// A tree of fanout 4 with integer comparison ("4-tree").
#[derive(Default)]
pub struct FourTree(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    nodes: Arena<Node>,
    tails: Tails,
    is_planted: bool,
}

/// Where a key is or would be.
struct Position {
    node: u32,
    /// How many of the node's keys are below it.
    place: usize,
    /// Whether it is there.
    found: bool,
}

impl Inner {
    /// Where a key is or would be; `None` in an empty tree.
    #[inline(always)]
    fn search(&self, probe: &Probe<'_>) -> Option<Position> {
        if !self.is_planted {
            return None;
        }
        let mut at = 0;
        loop {
            let node = self.nodes.get(at);
            let (place, found) = node.place(probe, &self.tails);
            let child = node.children[place];
            if found || child == NONE {
                let node = at;
                return Some(Position { node, place, found });
            }
            at = child;
        }
    }

    fn found(&self, key: &[u8]) -> Option<(u32, usize)> {
        let Position { node, place, found } = self.search(&Probe::new(key))?;
        found.then_some((node, place))
    }
}

impl Map for FourTree {
    fn put(&self, key: &[u8], value: u64) {
        let inner = &mut *self.0.borrow_mut();
        let probe = Probe::new(key);
        if !inner.is_planted {
            inner.nodes.push(Node::new());
            inner.is_planted = true;
        }
        let Some(position) = inner.search(&probe) else {
            return;
        };
        let Position {
            node: at,
            place,
            found,
        } = position;
        if found {
            let rest = &mut inner.nodes.get_mut(at).rest;
            rest.values[place] = value;
            rest.keys[place].set_removed(false);
            return;
        }
        if (inner.nodes.get(at).count as usize) < KEYS {
            let node = inner.nodes.get_mut(at);
            node.insert(place, &probe, value, &mut inner.tails);
            return;
        }
        let mut child = Node::new();
        child.insert(0, &probe, value, &mut inner.tails);
        let child = inner.nodes.push(child);
        inner.nodes.get_mut(at).children[place] = child;
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        let inner = &*self.0.borrow();
        let (at, place) = inner.found(key)?;
        let rest = &inner.nodes.get(at).rest;
        (!rest.keys[place].is_removed()).then_some(rest.values[place])
    }

    fn remove(&self, key: &[u8]) -> bool {
        let inner = &mut *self.0.borrow_mut();
        let Some((at, place)) = inner.found(key) else {
            return false;
        };
        let slot = &mut inner.nodes.get_mut(at).rest.keys[place];
        let was_there = !slot.is_removed();
        slot.set_removed(true);
        was_there
    }

    fn scan(&self, _from: &[u8], _count: usize, _visit: &mut dyn FnMut(&[u8], u64)) {}

    fn scan_run(&self, _keys: KeyRange<'_>, _count: usize) -> Tally {
        Tally::default()
    }
}
