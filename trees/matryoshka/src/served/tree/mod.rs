//! One tree: an anchor, which names the root, and the way down to a page.
//!
//! **Why following an address is safe.** Every operation runs under a guard of the epoch. A child's
//! address is followed only after the version of the node that named it was found unchanged: so at
//! that moment the child was linked, it cannot have been retired before the guard was taken, and
//! its memory stays until the guard is dropped. The anchor is the parent of the root in this
//! respect, and outlives the operation (it lies in the map, or in a layer that is retired in the
//! same way).
//!
//! **Why a page is the right one.** A descent validates the parent's version a second time after it
//! took the snapshot of the child's. A writer that moves keys out of a page (split, merge, growth)
//! marks the parent in the same step, and marks the page as deleted. So a page whose snapshot
//! validates is still responsible for the key.
//!
//! Order of latches: parents before children, left before right, and a tree before its layers.

pub(crate) mod get_many;
mod grow;
#[cfg(test)]
mod interleavings;
pub(crate) mod load;
pub(crate) mod scan;
mod shrink;
pub(crate) mod update;
pub(crate) mod verify;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::Placement;
use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::{self, Guard};
use hedgerow_sync::{Counters, Version, VersionWord};

use crate::key_bounds::KeyBounds;
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::{Router, SharedNodeKey};
use crate::served::node::page::Page;

/// Things that are counted when they happen.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Event {
    Retry,
    PageGrowth,
    PageSplit,
    PageMerge,
    InnerSplit,
    InnerMerge,
}

/// How many kinds of events there are.
pub(crate) const EVENTS: usize = 6;

/// Events of a tree and its layers.
pub(crate) type Events = Counters<EVENTS>;

/// The tree was a layer, and the trie has removed it: the operation begins again at the first tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerRemoved;

/// A tree without the parts that layers share.
pub(crate) struct Tree<C: Capacity, L: SharedNodeKey = u64> {
    pub(crate) anchor: VersionWord,
    pub(crate) root: AtomicU64,
    kind: PhantomData<(C, L)>,
}

/// A guard of a latch; dropping it unlatches the node and counts the changes that were marked.
pub(crate) struct Latched<'g>(&'g VersionWord);

impl<'g> Latched<'g> {
    /// Takes the latch, if nothing changed since `version`.
    #[inline(always)]
    pub(crate) fn unchanged(word: &'g VersionWord, version: Version) -> Option<Self> {
        word.lock();
        let latched = Self(word);
        word.validate(version).then_some(latched)
    }

    /// Takes the latch of a node that the caller keeps linked by holding its parent's.
    pub(crate) fn linked(word: &'g VersionWord) -> Self {
        word.lock();
        Self(word)
    }
}

impl Drop for Latched<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// The only page of a tree, deleted.
struct TakenPage<R> {
    address: usize,
    /// What made it so.
    outcome: R,
}

/// The node, or the anchor, from which a descent reached a node, with its version snapshot.
#[derive(Clone, Copy)]
pub(crate) struct ParentReference<'g, L: SharedNodeKey> {
    pub(crate) latch: &'g VersionWord,
    pub(crate) version: Version,
    /// The inner node and the child taken; `None` for the anchor.
    pub(crate) inner: Option<(&'g Inner<L>, usize)>,
}

/// The page responsible for a key, and the snapshot of its version at that moment.
#[derive(Clone, Copy)]
pub(crate) struct PageReference<'g, L: SharedNodeKey> {
    pub(crate) page: &'g Page<L>,
    pub(crate) address: usize,
    pub(crate) version: Version,
    pub(crate) above: ParentReference<'g, L>,
}

/// An inner node on the path of a descent.
pub(crate) struct VisitedInner<'a, 'g, L: SharedNodeKey> {
    pub(crate) above: &'a ParentReference<'g, L>,
    pub(crate) address: usize,
    pub(crate) inner: &'g Inner<L>,
    pub(crate) version: Version,
    /// The child taken.
    pub(crate) index: usize,
}

/// Sees each inner node on the path of a descent, and may restart it.
pub(crate) trait DescentVisitor<'g, L: SharedNodeKey> {
    /// The descent begins, or restarts at the root.
    #[inline(always)]
    fn begin(&mut self) {}

    /// The descent read an inner node and chose a child; neither is validated yet. True if the
    /// visitor changed the tree, so that the descent must restart.
    #[inline(always)]
    fn visit_inner(&mut self, _passed: &VisitedInner<'_, 'g, L>) -> bool {
        false
    }
}

impl<L: SharedNodeKey> DescentVisitor<'_, L> for () {}

/// Collects the separators around the page that a descent reaches.
impl<'g, L: SharedNodeKey> DescentVisitor<'g, L> for KeyBounds<L> {
    #[inline(always)]
    fn begin(&mut self) {
        *self = Self::NONE;
    }

    #[inline(always)]
    fn visit_inner(&mut self, visited: &VisitedInner<'_, 'g, L>) -> bool {
        let (node, index) = (visited.inner, visited.index);
        if index > 0 {
            self.low = Some(node.routing.get(index - 1));
        }
        if index + 1 < node.count() {
            self.high = Some(node.routing.get(index));
        }
        false
    }
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// Leaf lines of a page: as many as the capacity says, if a page has room for them.
    pub(crate) const LINES: usize = {
        let most = crate::served::node::page::most_lines::<L>();
        if C::LINES < most { C::LINES } else { most }
    };

    /// A tree of ascending pairs, few enough for one page.
    pub(crate) fn of(placement: Placement, pairs: &[(L, u64)]) -> Self {
        Self::with_root(Page::build_with_room(placement, pairs, Self::LINES))
    }

    /// The tree of a root that nobody else knows of.
    pub(crate) fn with_root(root: usize) -> Self {
        const { assert!(C::LINES >= 3 && C::LINES <= crate::served::node::page::MOST_LINES) };
        const {
            assert!(C::FAN_OUT >= 4);
            assert!(C::FAN_OUT <= crate::served::node::inner::MOST_CHILDREN);
        }
        Self {
            anchor: VersionWord::new(false, true),
            root: AtomicU64::new(root as u64),
            kind: PhantomData,
        }
    }

    /// The page that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn find_page<'g, N: Kernel>(
        &'g self,
        key: L,
        events: &Events,
        visitor: &mut impl DescentVisitor<'g, L>,
    ) -> Result<PageReference<'g, L>, LayerRemoved> {
        loop {
            if let Some(reference) = self.try_find_page::<N>(key, visitor)? {
                return Ok(reference);
            }
            events.count(Event::Retry as usize);
            std::hint::spin_loop();
        }
    }

    /// `None` when validation failed, or the visitor asked for a restart.
    #[inline(always)]
    fn try_find_page<'g, N: Kernel>(
        &'g self,
        key: L,
        visitor: &mut impl DescentVisitor<'g, L>,
    ) -> Result<Option<PageReference<'g, L>>, LayerRemoved> {
        visitor.begin();
        let version = self.anchor.stable();
        if version.is_deleted() {
            return Err(LayerRemoved);
        }
        let mut above = ParentReference {
            latch: &self.anchor,
            version,
            inner: None,
        };
        let mut address = self.root.load(Ordering::Acquire) as usize;
        loop {
            if !above.latch.validate(above.version) {
                return Ok(None);
            }
            // SAFETY: the address was validated, under the operation's guard (module doc); every
            // node begins with its version word.
            let latch = unsafe { &*std::ptr::with_exposed_provenance::<VersionWord>(address) };
            let version = latch.stable();
            if !above.latch.validate(above.version) || version.is_deleted() {
                return Ok(None);
            }
            if version.is_border() {
                // SAFETY: as above, and the border bit, which never changes, says it is a page.
                let page = unsafe { Page::at(address) };
                return Ok(Some(PageReference {
                    page,
                    address,
                    version,
                    above,
                }));
            }
            // SAFETY: as above, and not a page.
            let inner = unsafe { Inner::<L>::at(address) };
            let index = inner.routing.route::<N>(key);
            let child = inner.child(index);
            // What an inner node's search reads first is read at once, with nothing to wait for.
            if inner.over_pages {
                Page::<L>::prefetch(child);
            }
            let visited = VisitedInner {
                above: &above,
                address,
                inner,
                version,
                index,
            };
            if visitor.visit_inner(&visited) {
                return Ok(None);
            }
            above = ParentReference {
                latch,
                version,
                inner: Some((inner, index)),
            };
            address = child;
        }
    }

    /// The word of `key`.
    #[inline(always)]
    pub(crate) fn get<N: Kernel>(
        &self,
        key: L,
        events: &Events,
    ) -> Result<Option<u64>, LayerRemoved> {
        loop {
            let reference = self.find_page::<N>(key, events, &mut ())?;
            let word = reference.page.get::<N>(key);
            if reference.page.version.validate(reference.version)
                || planted(PlantedBug::GetNotValidated)
            {
                return Ok(word);
            }
            events.count(Event::Retry as usize);
        }
    }

    /// Replaces the node below `above`; the caller holds the latch of `above`.
    pub(crate) fn replace(&self, above: &ParentReference<'_, L>, address: usize) {
        match above.inner {
            Some((inner, index)) => inner.replace_child(index, address),
            None => {
                self.anchor.mark_inserting();
                self.root.store(address as u64, Ordering::Release);
            }
        }
    }

    /// Replaces the node below `above` by two; the caller holds the latch of `above` which, if an
    /// inner node, has room for one child more. `pages` says whether the two are pages.
    pub(crate) fn replace_by_two(
        &self,
        above: &ParentReference<'_, L>,
        separator: L,
        halves: [usize; 2],
        placement: Placement,
        pages: bool,
    ) {
        match above.inner {
            Some((inner, index)) => inner.split_child(index, separator, halves),
            None => {
                let root = Inner::build(placement, &[separator], &halves, pages);
                self.replace(above, root);
            }
        }
    }

    /// Closes a layer's tree if it consists of one page and `decide` agrees after reading it. The
    /// caller holds the latch of the page that names the layer. It stores there what `decide` made
    /// of the pairs, and then retires the layer, with which the page goes.
    pub(crate) fn close<R>(&self, decide: impl FnOnce(&Page<L>) -> Option<R>) -> Option<R> {
        let taken = self.take_only_page(|page| {
            let decision = decide(page)?;
            self.anchor.mark_deleted();
            Some(decision)
        });
        taken.map(|taken| taken.outcome)
    }

    /// Replaces the only page of an empty tree by a root that is not linked yet. False if the tree
    /// was not empty.
    pub(crate) fn fill(&self, root: usize, guard: &Guard) -> bool {
        let taken = self.take_only_page(|page| {
            (page.keys() == 0).then(|| {
                self.anchor.mark_inserting();
                self.root.store(root as u64, Ordering::Release);
            })
        });
        let Some(taken) = taken else {
            return false;
        };
        // SAFETY: deleted, and the anchor names it no more; no latch is held.
        unsafe { retire_page::<L>(guard, taken.address) };
        true
    }

    /// Moves the contents of `other`, a tree that is not linked yet, into this tree by one store.
    /// False if this tree was not empty.
    pub(crate) fn take_contents_of(&self, other: &Self, guard: &Guard) -> bool {
        let root = other.root.load(Ordering::Acquire);
        let taken = self.fill(root as usize, guard);
        if taken {
            let empty = Page::<L>::build_with_room(Placement::Merged, &[], Self::LINES);
            other.root.store(empty as u64, Ordering::Release);
        }
        taken
    }

    /// If the tree consists of one page, runs `take` on it under the latches of the anchor and of
    /// the page. If `take` agrees, the page is deleted.
    fn take_only_page<R>(&self, take: impl FnOnce(&Page<L>) -> Option<R>) -> Option<TakenPage<R>> {
        let _anchor = Latched::linked(&self.anchor);
        let address = self.root.load(Ordering::Acquire) as usize;
        // SAFETY: the latched anchor names the root, which is therefore linked.
        let latch = unsafe { &*std::ptr::with_exposed_provenance::<VersionWord>(address) };
        let _root = Latched::linked(latch);
        if !latch.load().is_border() {
            return None;
        }
        // SAFETY: as above, and a page.
        let outcome = take(unsafe { Page::<L>::at(address) })?;
        latch.mark_deleted();
        Some(TakenPage { address, outcome })
    }

    /// The root's address; `None` when the tree is gone. It was linked a moment ago, so that under
    /// a guard it is alive.
    pub(crate) fn root(&self) -> Option<usize> {
        loop {
            let version = self.anchor.stable();
            let address = self.root.load(Ordering::Acquire) as usize;
            if version.is_deleted() {
                return None;
            }
            if self.anchor.validate(version) {
                return Some(address);
            }
        }
    }

    /// How many keys there are at this moment, if the tree is one page.
    pub(crate) fn keys_of_one_page(&self) -> Option<usize> {
        let address = self.root()?;
        // SAFETY: under the caller's guard (see `root`); every node begins with its version.
        let latch = unsafe { &*std::ptr::with_exposed_provenance::<VersionWord>(address) };
        // SAFETY: as above; the border bit says that it is a page.
        let keys = || unsafe { Page::<L>::at(address) }.keys();
        latch.load().is_border().then(keys)
    }

    /// The root; `None` when the tree is gone. Under a guard it is alive.
    pub(crate) fn top(&self) -> Option<Node<L>> {
        self.root().map(Node::top)
    }

    /// All nodes, children after their parents and in key order. Beside writers the list may lack
    /// some nodes or have some twice. Under a guard all are alive, as each address was linked when
    /// it was read.
    pub(crate) fn nodes(&self) -> Vec<Node<L>> {
        self.root().map_or_else(Vec::new, Node::subtree)
    }
}

/// A node as a walk of a tree at rest finds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<L> {
    pub(crate) address: usize,
    pub(crate) level: usize,
    pub(crate) low: Option<L>,
    pub(crate) high: Option<L>,
}

impl<L: SharedNodeKey> Node<L> {
    /// The node at an address, as a root.
    fn top(address: usize) -> Self {
        Self {
            address,
            level: 0,
            low: None,
            high: None,
        }
    }

    /// The node at an address as a root, and all nodes below it, as [`Tree::nodes`] has them.
    fn subtree(address: usize) -> Vec<Self> {
        let (mut nodes, mut stack) = (Vec::new(), vec![Self::top(address)]);
        while let Some(node) = stack.pop() {
            nodes.push(node);
            let Some(inner) = node.inner() else { continue };
            let (separators, children) = (inner.separators(), inner.children());
            for (at, &address) in children.iter().enumerate().rev() {
                // A place that a merge has just emptied.
                if address == 0 {
                    continue;
                }
                let before = at.checked_sub(1).and_then(|before| separators.get(before));
                stack.push(Node {
                    address,
                    level: node.level + 1,
                    low: before.copied().or(node.low),
                    high: separators.get(at).copied().or(node.high),
                });
            }
        }
        nodes
    }

    fn version<'g>(self) -> &'g VersionWord {
        // SAFETY: made by `Tree::nodes`, under a guard or with nobody else about.
        unsafe { &*std::ptr::with_exposed_provenance::<VersionWord>(self.address) }
    }

    pub(crate) fn page<'g>(self) -> Option<&'g Page<L>> {
        // SAFETY: as in `version`, and a page.
        let page = || unsafe { Page::at(self.address) };
        self.version().load().is_border().then(page)
    }

    /// The pairs of a page as they were at one moment, also beside writers: so each word named
    /// something then. `None` for an inner node, and for a page that is not linked any more.
    pub(crate) fn pairs(self) -> Option<Vec<(L, u64)>> {
        let page = self.page()?;
        loop {
            let version = self.version().stable();
            if version.is_deleted() {
                return None;
            }
            let pairs = page.pairs();
            if self.version().validate(version) {
                return Some(pairs);
            }
        }
    }

    /// The separators and children of an inner node as they were at one moment, also beside
    /// writers: so each child was linked then. `None` for a page, and for a node that is not linked
    /// any more.
    pub(crate) fn branches(self) -> Option<(Vec<L>, Vec<Self>)> {
        let inner = self.inner()?;
        loop {
            let version = self.version().stable();
            if version.is_deleted() {
                return None;
            }
            let (separators, children) = (inner.separators(), inner.children());
            if self.version().validate(version) {
                return Some((separators, children.into_iter().map(Self::top).collect()));
            }
        }
    }

    pub(crate) fn inner<'g>(self) -> Option<&'g Inner<L>> {
        // SAFETY: as in `version`, and an inner node.
        let inner = || unsafe { Inner::at(self.address) };
        (!self.version().load().is_border()).then(inner)
    }

    /// Whether the node is linked, unlatched and not being changed.
    pub(crate) fn is_at_rest(self) -> bool {
        let version = self.version().load();
        !(version.is_deleted() || version.is_dirty() || version.is_locked())
    }
}

impl<C: Capacity, L: SharedNodeKey> Drop for Tree<C, L> {
    fn drop(&mut self) {
        // Also of a tree that was closed, which keeps its page.
        let root = self.root.load(Ordering::Acquire) as usize;
        // SAFETY: `&mut self` says that no operation is running.
        unsafe { release_nodes::<L>(root) }
    }
}

/// Releases a node and all nodes below it.
///
/// # Safety
///
/// Nobody uses them any more; each is linked once.
pub(crate) unsafe fn release_nodes<L: SharedNodeKey>(root: usize) {
    for node in Node::<L>::subtree(root) {
        // SAFETY: as the caller promises; the list was made before the first went.
        unsafe {
            if node.page().is_some() {
                Page::<L>::release(node.address);
            } else {
                Inner::<L>::release(node.address);
            }
        }
    }
}

/// Releases a page when nobody can be reading it any more. The caller holds no latches: what was
/// deferred elsewhere may run here and now.
///
/// # Safety
///
/// The page is marked as deleted and no longer linked.
pub(crate) unsafe fn retire_page<L: SharedNodeKey>(guard: &Guard, address: usize) {
    if planted(PlantedBug::ReleasedAtOnce) {
        // SAFETY: broken on purpose, as readers may be there; slots of the pools stay mapped.
        unsafe { Page::<L>::release(address) };
        return;
    }
    // SAFETY: who pins from now on cannot find the page; releasing may happen on any thread.
    unsafe { epoch::retire(guard, move || Page::<L>::release(address)) }
}

/// Releases an inner node when nobody can be reading it any more; as [`retire_page`].
///
/// # Safety
///
/// As for [`retire_page`].
pub(crate) unsafe fn retire_inner<L: SharedNodeKey>(guard: &Guard, address: usize) {
    // SAFETY: as in `retire_page`.
    unsafe { epoch::retire(guard, move || Inner::<L>::release(address)) }
}
