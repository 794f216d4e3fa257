//! Many lookups interleaved: each step reads the lines that the step before prefetched.
//!
//! A [`Lookup`] never waits. When a version is dirty or has changed, the lookup is repeated as a
//! single one, which can wait.

use hedgerow_simd::Kernel;
use hedgerow_sync::{Version, VersionWord};

use super::{ParentReference, Tree};
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::node_key::{Router, SharedNodeKey};
use crate::served::node::page::Page;

/// Lookups that are interleaved: about as many as a core can have cache misses in flight.
pub(crate) const GROUP: usize = 16;

/// The state of one lookup between its steps.
pub(crate) struct Lookup<'g, L: SharedNodeKey = u64> {
    /// Where in a longer key the searched slice begins.
    pub(crate) offset: usize,
    key: L,
    above: ParentReference<'g, L>,
    /// The node to be read next.
    address: usize,
    /// The leaf line to be read next, once the page was.
    leaf: Option<LeafLine<'g, L>>,
}

/// A leaf line of a page, and the page's version when the line was chosen.
#[derive(Clone, Copy)]
struct LeafLine<'g, L: SharedNodeKey> {
    page: &'g Page<L>,
    version: Version,
    index: usize,
}

/// What a step achieved.
pub(crate) enum Progress {
    Running,
    /// The word of the key, validated.
    Done(Option<u64>),
    /// A writer is at work: take the single path.
    Contended,
}

impl<'g, L: SharedNodeKey> Lookup<'g, L> {
    /// A lookup of `key` in `tree` that has not begun.
    #[inline(always)]
    pub(crate) fn new<C: Capacity>(tree: &'g Tree<C, L>, key: L, offset: usize) -> Self {
        let version = tree.anchor.load();
        Self {
            offset,
            key,
            above: ParentReference {
                latch: &tree.anchor,
                version,
                inner: None,
            },
            address: tree.root.load(std::sync::atomic::Ordering::Acquire) as usize,
            leaf: None,
        }
    }

    #[inline(always)]
    pub(crate) fn step<N: Kernel>(&mut self) -> Progress {
        if let Some(line) = self.leaf {
            let LeafLine {
                page,
                version,
                index,
            } = line;
            let leaf = page.leaf(index);
            let (rank, found) = leaf.find::<N>(self.key);
            let word = found.then(|| leaf.word(rank));
            let changed = !page.version.validate(version);
            return if changed && !planted(PlantedBug::GetManyNotValidated) {
                Progress::Contended
            } else {
                Progress::Done(word)
            };
        }
        let ParentReference { latch, version, .. } = self.above;
        if version.is_dirty() || version.is_deleted() || !latch.validate(version) {
            return Progress::Contended;
        }
        // SAFETY: the address was validated, under the operation's guard (see `tree`).
        let own = unsafe { &*std::ptr::with_exposed_provenance::<VersionWord>(self.address) };
        let own_version = own.load();
        if own_version.is_dirty() || own_version.is_deleted() || !latch.validate(version) {
            return Progress::Contended;
        }
        if own_version.is_border() {
            // SAFETY: as above, and a page.
            let page = unsafe { Page::at(self.address) };
            let index = page.route::<N>(self.key);
            page.leaf(index).prefetch();
            let version = own_version;
            self.leaf = Some(LeafLine {
                page,
                version,
                index,
            });
            return Progress::Running;
        }
        // SAFETY: as above, and an inner node.
        let inner = unsafe { Inner::<L>::at(self.address) };
        let index = inner.routing.route::<N>(self.key);
        self.address = inner.child(index);
        if inner.over_pages {
            Page::<L>::prefetch(self.address);
        } else {
            Inner::<L>::prefetch(self.address);
        }
        self.above = ParentReference {
            latch: own,
            version: own_version,
            inner: Some((inner, index)),
        };
        Progress::Running
    }
}

/// Runs `count` lookups to their ends, [`GROUP`] at a time. `start` begins one; `finish` receives
/// its number, its offset and its result, and may continue it in another tree.
#[inline(always)]
pub(crate) fn run_lookups<'g, N: Kernel, L: SharedNodeKey>(
    count: usize,
    mut start: impl FnMut(usize) -> Lookup<'g, L>,
    mut finish: impl FnMut(usize, usize, Progress) -> Option<Lookup<'g, L>>,
) {
    if count == 0 {
        return;
    }
    let mut lookups: [(usize, Lookup<'g, L>); GROUP] = std::array::from_fn(|number| {
        let number = number.min(count - 1);
        (number, start(number))
    });
    let mut active = count.min(GROUP);
    let (mut next, mut at) = (active, 0);
    while active > 0 {
        let (number, lookup) = &mut lookups[at];
        let progress = lookup.step::<N>();
        if !matches!(progress, Progress::Running) {
            if let Some(continued) = finish(*number, lookup.offset, progress) {
                *lookup = continued;
            } else if next < count {
                lookups[at] = (next, start(next));
                next += 1;
            } else {
                active -= 1;
                lookups.swap(at, active);
                at = if at < active { at } else { 0 };
                continue;
            }
        }
        at = if at + 1 < active { at + 1 } else { 0 };
    }
}
