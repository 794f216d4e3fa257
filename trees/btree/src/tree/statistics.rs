//! Walks over the whole tree: verification, statistics, keys for parallel scans, and its release.

use std::ops::Deref;

use hedgerow_index::Statistics;
use hedgerow_pages::{Error, PageId, Pages, Pool, SharedLatch, Stop};

use super::{
    ADAPTED_LEAVES, BTreeIndex, CONTENTION_SPLITS, DEFERRED_SLOT_FREES, FREED_SLOT_PAGES, MERGES,
    RANGE_LEAVES, RESTARTS, SPLITS, image,
};
use crate::configuration::Configuration;
use crate::node::chain::Chain;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::page::PageNumber;
use crate::node::page::{Image, Tag, node};
use crate::node::search::Node;
use crate::node::slotted::Comparison;
use crate::tree::counts::Counts;
use crate::tree::verify::Seen;
use crate::tree::walk::ReadPages;

/// Pages that are read together when a tree is given back.
const AHEAD: usize = 32;

/// A page of a pool under a shared latch.
struct Latched<'p, const PAGE: usize>(SharedLatch<'p, PAGE>);

impl<const PAGE: usize> Deref for Latched<'_, PAGE> {
    type Target = Image<PAGE>;

    fn deref(&self) -> &Image<PAGE> {
        node(self.0.image())
    }
}

/// The pages of a pool, each latched while it is looked at.
struct Latching<'p, const PAGE: usize>(&'p Pool<PAGE>);

impl<const PAGE: usize> ReadPages<PAGE> for Latching<'_, PAGE> {
    type Page<'a>
        = Latched<'a, PAGE>
    where
        Self: 'a;

    fn read(&self, page: PageNumber) -> Result<Latched<'_, PAGE>, String> {
        match self.0.shared(PageId(page)) {
            Ok(latch) => Ok(Latched(latch)),
            Err(Stop::Restart) => Err(format!("page {page} is not in use")),
            Err(Stop::Failed(error)) => Err(error.to_string()),
        }
    }
}

/// [`Latching`], but for one page that is not to be had.
struct Without<'p, const PAGE: usize>(Latching<'p, PAGE>, PageId);

/// What is said of that page.
const WITHOUT: &str = "without it";

impl<const PAGE: usize> ReadPages<PAGE> for Without<'_, PAGE> {
    type Page<'a>
        = Latched<'a, PAGE>
    where
        Self: 'a;

    fn read(&self, page: PageNumber) -> Result<Latched<'_, PAGE>, String> {
        if PageId(page) == self.1 {
            return Err(WITHOUT.to_owned());
        }
        self.0.read(page)
    }
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// Which keys need a page, in words; `None` if none of the tree's does. Of a page that several
    /// keys have parts of their values in, it names one. Walks the tree, up to where it names the
    /// page.
    ///
    /// # Errors
    ///
    /// What ended the walk before: another page that cannot be read, or writers beside it.
    pub fn keys_that_need(&self, page: PageId) -> Result<Option<String>, String> {
        let pages = Without(Latching(&self.pool), page);
        let Err(said) = Seen::of_tree::<C, PAGE>(&pages, self.root.0) else {
            return Ok(None);
        };
        let Some(keys) = said.strip_prefix(WITHOUT) else {
            return Err(said);
        };
        let keys = keys.trim_start_matches("; ");
        let of_many = keys.strip_suffix(" need it");
        let keys = of_many.or(keys.strip_suffix(" needs it")).unwrap_or(keys);
        Ok(Some(keys.to_owned()))
    }

    /// Checks every structural invariant and returns the first violation in words. Meant for
    /// quiescent moments: it may call what writers are at a violation.
    ///
    /// # Errors
    ///
    /// The violation, with the page where it is; or why a page cannot be read.
    pub fn verify(&self) -> Result<(), String> {
        self.verified_pages().map(|_| ())
    }

    /// [`verify`](Self::verify), and how many pages of the pool are the tree's.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify).
    pub fn verified_pages(&self) -> Result<usize, String> {
        // A slot that cannot be made free on a full disk is no violation.
        let _ = self.apply_pending_frees();
        let seen = Seen::of_tree::<C, PAGE>(&Latching(&self.pool), self.root.0)?;
        if seen.keys as u64 != self.len() {
            return Err(format!("{} keys, but {} counted", seen.keys, self.len()));
        }
        Ok(seen.pages)
    }

    /// Numbers that show every mechanism at work. Walks all pages. While there are writers they
    /// are approximate, or those of pages are left out.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::new();
        // Slots that cannot be made free now are counted as taken.
        let _ = self.apply_pending_frees();
        if let Ok(counts) = Counts::of_tree::<C, PAGE>(&Latching(&self.pool), self.root.0) {
            counts.push::<PAGE>(&mut all, self.len() as usize, counts.pages());
        }
        self.push_counters(&mut all);
        all
    }

    /// What was counted as it happened. Walks nothing.
    #[must_use]
    pub fn counters(&self) -> Statistics {
        let mut all = Statistics::new();
        self.push_counters(&mut all);
        all
    }

    fn push_counters(&self, all: &mut Statistics) {
        self.conversions().push(all);
        let mut push = |name, event, help| all.push(name, self.events.sum(event) as f64, help);
        push(
            "restarts",
            RESTARTS,
            "Attempts that other threads made begin again.",
        );
        push("splits", SPLITS, "Nodes that were split.");
        push("merges", MERGES, "Nodes that went into a neighbour.");
        push(
            "contention_splits",
            CONTENTION_SPLITS,
            "Leaves that were split since writers waited for each other.",
        );
        push(
            "adapted_leaves",
            ADAPTED_LEAVES,
            "Leaves that got another form in the background, as their keys had been replaced.",
        );
        push(
            "deferred_slot_frees",
            DEFERRED_SLOT_FREES,
            "Slots of shared overflow pages that became free while their shared overflow pages \
             were not in memory.",
        );
        push(
            "freed_shared_pages",
            FREED_SLOT_PAGES,
            "Shared overflow pages that were read for that, many at a time.",
        );
        push(
            "range_leaves",
            RANGE_LEAVES,
            "Leaves that the removal of a range went through.",
        );
    }

    /// Up to `parts - 1` ascending keys that cut the key space into ranges of roughly equal size,
    /// for parallel scans. Fewer (even none) when the tree is small.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read.
    pub fn partition(&self, parts: usize) -> Result<Vec<Vec<u8>>, Error> {
        let separators = self.repeat(|| self.separators(8 * parts))?;
        let parts = parts.min(separators.len() + 1);
        let cut = |part: usize| -> Vec<u8> {
            separators[part * (separators.len() + 1) / parts - 1].clone()
        };
        Ok((1..parts).map(cut).collect())
    }

    /// Keys between the nodes of the highest level that has so many, or of that above the leaves.
    fn separators(&self, wanted: usize) -> hedgerow_pages::Result<Vec<Vec<u8>>> {
        let pool: &Pool<PAGE> = &self.pool;
        let mut level = vec![self.snapshot_root()?];
        loop {
            let (mut separators, mut below) = (Vec::new(), Vec::new());
            for &at in &level {
                let latch = self.latch_node(&at)?;
                let page = node(latch.image());
                if !page.is_inner() {
                    return Ok(separators);
                }
                if !page.lower().is_empty() {
                    separators.push(page.lower().to_vec());
                }
                for index in 0..page.count() {
                    let mut key = Vec::new();
                    page.node_key::<C>(index, &mut key);
                    separators.push(key);
                }
                let children = (0..=page.count()).map(|index| page.child::<Comparison<C>>(index));
                below.extend(children.map(|child| (at, PageId(child))));
            }
            let (above, first) = below[0];
            let first = self.snapshot_child(&above, first)?;
            let over_leaves = !pool.seen(&first.snapshot).has_tag(Tag::Inner)?;
            pool.validate(&first.snapshot)?;
            if over_leaves || separators.len() >= wanted {
                return Ok(separators);
            }
            level.clear();
            for (above, child) in below {
                level.push(self.snapshot_child(&above, child)?);
            }
        }
    }

    /// Gives all pages back to the pool. The tree must not be used by anybody else any more, nor
    /// its root be named by a checkpoint to come.
    ///
    /// # Errors
    ///
    /// What the pool says of pages that it cannot read; what they lead to stays in use.
    pub fn release(self) -> Result<(), Error> {
        self.release_from(&mut vec![self.root])
    }

    /// Gives back the nodes in `open` and all that they lead to: of a tree that nobody else uses
    /// any more, nor any checkpoint to come names, first its root. Nodes that could not be brought
    /// to memory this time are in `open` afterwards, for another call: also where memory is full
    /// of pages that a full disk does not take. Those that are damaged stay in use.
    ///
    /// # Errors
    ///
    /// The first of what the pool says of pages that it cannot read. Others are given back all the
    /// same.
    pub fn release_from(&self, open: &mut Vec<PageId>) -> Result<(), Error> {
        let pool: &Pool<PAGE> = &self.pool;
        let (mut unread, mut released) = (Vec::new(), Ok(()));
        while let Some(id) = open.pop() {
            // Pages that come next are read together.
            if open.len().is_multiple_of(AHEAD) {
                pool.load_many(&open[open.len().saturating_sub(AHEAD)..]);
            }
            let mut is_latched = false;
            let one = self.repeat(|| self.release_node(id, open, &mut is_latched));
            if !is_latched && !matches!(one, Ok(()) | Err(Error::CorruptPage { .. })) {
                unread.push(id);
            }
            released = released.and(one);
            self.apply_frees_if_many();
        }
        *open = unread;
        released.and(self.apply_pending_frees())
    }

    /// Gives back one node, with the chains of its records; what else it names is added to
    /// `open`. If the node itself was not latched, nothing was given back.
    fn release_node(
        &self,
        id: PageId,
        open: &mut Vec<PageId>,
        is_latched: &mut bool,
    ) -> hedgerow_pages::Result<()> {
        let mut pool: &Pool<PAGE> = &self.pool;
        let operation = pool.begin();
        let latch = match pool.exclusive(id) {
            Err(Stop::Restart) => return Err(self.damaged(id, "is named, but not in use")),
            other => other?,
        };
        *is_latched = true;
        let mut released = Ok(());
        let page = image(&latch);
        if page.is_inner() {
            let children = (0..=page.count()).map(|index| page.child::<Comparison<C>>(index));
            open.extend(children.map(PageId));
        } else {
            for place in page.all_taken::<C>() {
                let payload = page.payload(page.leaf_record::<C>(place));
                match payload.kind {
                    Kind::Inline => {}
                    Kind::Layer => open.push(PageId(layer_root(payload))),
                    _ => {
                        let one = self.release_chain(&Chain::read::<PAGE>(payload), &operation);
                        released = released.and(one);
                    }
                }
            }
        }
        pool.release(latch, &operation).and(released)
    }
}
