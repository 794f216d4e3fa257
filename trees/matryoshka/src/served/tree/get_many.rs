//! Many lookups side by side: each step uses the lines that were asked for in the step before.
//!
//! A traveller never waits. When a version is dirty or has changed, the lookup begins again as a
//! single one, which knows how to wait.

use hedgerow_simd::Kernel;
use hedgerow_sync::{Version, VersionWord};

use super::{Above, Tree};
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::inner::Inner;
use crate::served::node::page::Page;
use crate::served::node::routing::Router;
use crate::served::node::width::SharedLane;

/// Lookups that go side by side: what a core can have under way at a time, about.
pub(crate) const GROUP: usize = 16;

/// One lookup on its way.
pub(crate) struct Traveller<'g, L: SharedLane = u64> {
    /// Where in a longer key the searched slice begins.
    pub(crate) offset: usize,
    key: L,
    above: Above<'g, L>,
    /// The node to be read next.
    address: usize,
    /// The leaf line to be read next, once the page was.
    leaf: Option<(&'g Page<L>, Version, usize)>,
}

/// How far a step led.
pub(crate) enum Progress {
    OnTheWay,
    /// The word of the key, validated.
    Arrived(Option<u64>),
    /// A writer is at work: take the single path.
    Contended,
}

impl<'g, L: SharedLane> Traveller<'g, L> {
    /// A lookup of `key` in `tree` that has not begun.
    #[inline(always)]
    pub(crate) fn new<C: Capacity>(tree: &'g Tree<C, L>, key: L, offset: usize) -> Self {
        let version = tree.anchor.load();
        Self {
            offset,
            key,
            above: Above {
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
        if let Some((page, version, index)) = self.leaf {
            let leaf = page.leaf(index);
            let (rank, found) = leaf.find::<N>(self.key);
            let word = found.then(|| leaf.word(rank));
            let changed = !page.version.validate(version);
            return if changed && !planted(PlantedBug::GetManyNotValidated) {
                Progress::Contended
            } else {
                Progress::Arrived(word)
            };
        }
        let Above { latch, version, .. } = self.above;
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
            self.leaf = Some((page, own_version, index));
            return Progress::OnTheWay;
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
        self.above = Above {
            latch: own,
            version: own_version,
            inner: Some((inner, index)),
        };
        Progress::OnTheWay
    }
}

/// Takes `count` lookups to their ends, some at a time. `depart` begins one; `arrive` hears of its
/// number, its offset and its end, and may send it on to another tree.
#[inline(always)]
pub(crate) fn travel<'g, N: Kernel, L: SharedLane>(
    count: usize,
    mut depart: impl FnMut(usize) -> Traveller<'g, L>,
    mut arrive: impl FnMut(usize, usize, Progress) -> Option<Traveller<'g, L>>,
) {
    if count == 0 {
        return;
    }
    let mut travellers: [(usize, Traveller<'g, L>); GROUP] = std::array::from_fn(|number| {
        let number = number.min(count - 1);
        (number, depart(number))
    });
    let mut active = count.min(GROUP);
    let (mut next, mut at) = (active, 0);
    while active > 0 {
        let (number, traveller) = &mut travellers[at];
        let progress = traveller.step::<N>();
        if !matches!(progress, Progress::OnTheWay) {
            if let Some(onward) = arrive(*number, traveller.offset, progress) {
                *traveller = onward;
            } else if next < count {
                travellers[at] = (next, depart(next));
                next += 1;
            } else {
                active -= 1;
                travellers.swap(at, active);
                at = if at < active { at } else { 0 };
                continue;
            }
        }
        at = if at + 1 < active { at + 1 } else { 0 };
    }
}
