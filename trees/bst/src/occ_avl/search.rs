//! Searches: hand over hand, each step validated by versions, never a lock.
//!
//! A search stands at a node, has chosen a side, and knows a version of the node at which its key
//! was in the node's range. To go on it reads the link, the child's version, the link again and the
//! node's version again: if link and version stayed, the child was in the tree at the child's
//! version with the key in its range. If the node's version changed, its range may have shrunk, and
//! the search cannot go on from there.

use std::mem::MaybeUninit;

use hedgerow_index::IntKey;
use hedgerow_memory::prefetch_line;
use hedgerow_sync::epoch::Guard;
use hedgerow_sync::word::Word;

use super::node::{Node, Side};
use super::{OccAvl, RETRIES, Validation};
use crate::form::Form;
use crate::interleave::{self, interleave};
use crate::planted::{PlantedBug, planted};

/// Where a search stands: a node, the side on which it goes on, and the node's version.
pub(super) struct Stop<'g, K: IntKey, F: Form, W: Word> {
    pub(super) node: &'g Node<K, F, W>,
    pub(super) side: Side,
    pub(super) version: u64,
}

impl<K: IntKey, F: Form, W: Word> Clone for Stop<'_, K, F, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: IntKey, F: Form, W: Word> Copy for Stop<'_, K, F, W> {}

impl<'g, K: IntKey, F: Form, W: Word + 'static> Stop<'g, K, F, W> {
    /// Whether what was read of the node since belongs to the range that the search is in.
    #[inline(always)]
    pub(super) fn is_valid(&self) -> bool {
        planted(PlantedBug::OccAvlOnlyChildValidated) || self.node.is_at(self.version)
    }

    /// Where a step led, if it started in the range that the search is in.
    #[inline(always)]
    fn if_valid(&self, step: Step<'g, K, F, W>) -> Step<'g, K, F, W> {
        match self.is_valid() {
            true => step,
            false => Step::Invalid,
        }
    }
}

/// What a step of a search led to.
pub(super) enum Step<'g, K: IntKey, F: Form, W: Word> {
    /// One node further.
    Into(Stop<'g, K, F, W>),
    /// The child, which has the key.
    Found(&'g Node<K, F, W>),
    /// There was no child: no node had the key.
    Absent,
    /// The node's range may have shrunk.
    Invalid,
}

/// Where a search ended.
pub(super) enum Place<'g, K: IntKey, F: Form, W: Word> {
    /// The node of the key, and its parent.
    Node {
        parent: &'g Node<K, F, W>,
        node: &'g Node<K, F, W>,
    },
    /// Where the node of the key would be.
    Gap(Stop<'g, K, F, W>),
}

/// Nodes that a search remembers: an AVL tree of as many levels has billions of keys.
const PATH: usize = 48;

/// A node at which a search stood, with the version that it had then.
struct Passed<'g, K: IntKey, F: Form, W: Word> {
    node: &'g Node<K, F, W>,
    version: u64,
}

/// The nodes at which a search stood before, from the top down. Below [`PATH`] nodes it remembers
/// no further ones, so a search goes back to the last that it remembers.
struct Path<'g, K: IntKey, F: Form, W: Word> {
    /// The first `length` are written.
    passed: [MaybeUninit<Passed<'g, K, F, W>>; PATH],
    length: usize,
}

impl<'g, K: IntKey, F: Form, W: Word + 'static> Path<'g, K, F, W> {
    #[inline(always)]
    fn new() -> Self {
        Self {
            passed: [const { MaybeUninit::uninit() }; PATH],
            length: 0,
        }
    }

    /// Remembers where the search stands.
    #[inline(always)]
    fn push(&mut self, stop: Stop<'g, K, F, W>) {
        if let Some(place) = self.passed.get_mut(self.length) {
            place.write(Passed {
                node: stop.node,
                version: stop.version,
            });
            self.length += 1;
        }
    }

    /// Forgets the last node of a search for `key` that began at `top`, and returns to it.
    #[inline(always)]
    fn pop(&mut self, key: K::Encoded, top: Stop<'g, K, F, W>) -> Option<Stop<'g, K, F, W>> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: `push` wrote what is below the length, which only it raises; it is a reference
        // and a number, of which there may be copies.
        let Passed { node, version } = unsafe { self.passed[self.length].assume_init_read() };
        // The node at the top may have no key.
        let side = match self.length {
            0 => top.side,
            _ => side_for(key, node.key()),
        };
        Some(Stop {
            node,
            side,
            version,
        })
    }
}

/// One step of the search for `key` from where it stands.
#[inline(always)]
pub(super) fn step<'g, K: IntKey, F: Form, W: Word + 'static>(
    from: Stop<'g, K, F, W>,
    key: K::Encoded,
    guard: &'g Guard,
) -> Step<'g, K, F, W> {
    step_by(from, |at| (key != at).then(|| side_for(key, at)), guard)
}

/// One step of a search from where it stands. `choose` says on which side of a key it goes on, or
/// that it has found what it is for.
#[inline(always)]
pub(super) fn step_by<'g, K: IntKey, F: Form, W: Word + 'static>(
    from: Stop<'g, K, F, W>,
    choose: impl Fn(K::Encoded) -> Option<Side>,
    guard: &'g Guard,
) -> Step<'g, K, F, W> {
    let mut rounds = 0;
    loop {
        // What is read of a child before the validation of the link to it counts only with it.
        let Some(child) = from.node.child(from.side, guard) else {
            return from.if_valid(Step::Absent);
        };
        let Some(side) = choose(child.key()) else {
            return from.if_valid(Step::Found(child));
        };
        let version = child.version();
        let linked = from.node.link(from.side) == child.address()
            || planted(PlantedBug::OccAvlOnlyChildValidated);
        if Node::<K, F, W>::is_stable(version) && linked {
            return from.if_valid(Step::Into(Stop {
                node: child,
                side,
                version,
            }));
        }
        // The child changes, was replaced, or is about to be.
        if !from.is_valid() {
            return Step::Invalid;
        }
        W::pause(&mut rounds);
    }
}

/// The side of a node with key `at` on which `key` is.
#[inline(always)]
pub(super) fn side_for<E: Ord>(key: E, at: E) -> Side {
    match key > at {
        true => Side::Right,
        false => Side::Left,
    }
}

impl<K: IntKey, F: Form, V: Validation, W: Word + 'static> OccAvl<K, F, V, W> {
    /// Where every search begins: the root is the right child of a node that stays.
    #[inline(always)]
    pub(super) fn top<'g>(&'g self, _: &'g Guard) -> Stop<'g, K, F, W> {
        Stop {
            node: &self.holder,
            side: Side::Right,
            version: 0,
        }
    }

    /// Searches for `key` and lets `act` do its work there, until it has: when `act` returns
    /// `None`, what it found has changed.
    #[inline(always)]
    pub(super) fn search<'g, R>(
        &'g self,
        key: K::Encoded,
        guard: &'g Guard,
        mut act: impl FnMut(Place<'g, K, F, W>) -> Option<R>,
    ) -> R {
        loop {
            let attempt = match V::FROM_ROOT {
                true => self.attempt_from_root(key, guard, &mut act),
                false => self.attempt_with_path(key, guard, &mut act),
            };
            match attempt {
                Some(result) => return result,
                None => self.counters.count(RETRIES),
            }
        }
    }

    /// The search without memory: whatever fails, the next attempt starts from the root.
    #[inline(always)]
    fn attempt_from_root<'g, R>(
        &'g self,
        key: K::Encoded,
        guard: &'g Guard,
        act: &mut impl FnMut(Place<'g, K, F, W>) -> Option<R>,
    ) -> Option<R> {
        let mut from = self.top(guard);
        loop {
            match step(from, key, guard) {
                Step::Into(next) => from = next,
                Step::Found(node) => {
                    let parent = from.node;
                    return act(Place::Node { parent, node });
                }
                Step::Absent => return act(Place::Gap(from)),
                Step::Invalid => return None,
            }
        }
    }

    /// The search as published: it remembers its path, and a failed validation goes back along it
    /// until a node is still what it was. The published search is recursive; as many returns as the
    /// path has nodes are more than processors predict, so the path is in an array here.
    #[inline(always)]
    fn attempt_with_path<'g, R>(
        &'g self,
        key: K::Encoded,
        guard: &'g Guard,
        act: &mut impl FnMut(Place<'g, K, F, W>) -> Option<R>,
    ) -> Option<R> {
        let top = self.top(guard);
        let (mut path, mut from) = (Path::new(), top);
        loop {
            let result = match step(from, key, guard) {
                Step::Into(next) => {
                    path.push(from);
                    from = next;
                    continue;
                }
                Step::Found(node) => {
                    let parent = from.node;
                    act(Place::Node { parent, node })
                }
                Step::Absent => act(Place::Gap(from)),
                Step::Invalid => {
                    from = path.pop(key, top)?;
                    self.counters.count(RETRIES);
                    continue;
                }
            };
            if result.is_some() {
                return result;
            }
            self.counters.count(RETRIES);
        }
    }

    /// The word of `key`.
    #[inline(always)]
    pub(crate) fn lookup(&self, key: K::Encoded, guard: &Guard) -> Option<u64> {
        self.search(key, guard, |place| match place {
            Place::Node { node, .. } => Some(node.word()),
            Place::Gap(_) => Some(None),
        })
    }

    /// Many lookups at once. A batch remembers no paths, so in both strategies a failed validation
    /// sends a lookup back to the root.
    pub(crate) fn lookup_many(
        &self,
        keys: &[K],
        guard: &Guard,
        read: impl FnMut(usize, Option<u64>),
    ) {
        let advance = |key, from| match step(from, key, guard) {
            Step::Into(next) => {
                let child = next.node.link(next.side) as usize;
                prefetch_line(std::ptr::without_provenance::<u8>(child));
                Err(next)
            }
            Step::Found(node) => Ok(node.word()),
            Step::Absent => Ok(None),
            Step::Invalid if planted(PlantedBug::OccAvlBatchNotValidated) => Ok(None),
            Step::Invalid => {
                self.counters.count(RETRIES);
                Err(self.top(guard))
            }
        };
        interleave(
            keys,
            |key| (key.encode(), self.top(guard)),
            |(key, from)| match advance(*key, *from) {
                Ok(word) => interleave::Step::Found(word),
                Err(next) => {
                    *from = next;
                    interleave::Step::Pending
                }
            },
            read,
        );
    }
}
