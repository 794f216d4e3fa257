//! Reads the pages that a run of changes in key order will need ahead of them, many at once.
//! Without this, each change of a row that is not in memory waits for the disk: for the leaf, and
//! for the page of a value that it replaces. A commit of many rows knows all its keys, and so does
//! redo. So the leaves of a window of keys are read together, then the pages of values that they
//! name. The window is as long as memory has room for those pages.

use hedgerow_btree::BTreeIndex;

use crate::disk::page_file::PageFile;
use crate::index::space::Space;

/// Leaves that are read at once, and pages of values beside them.
const MOST_LEAVES: usize = 64;
const MOST_OF_VALUES: usize = 512;
/// Keys that are looked at to find so many leaves: at first, and at most.
const FIRST_WINDOW: usize = 64;
const MOST_WINDOW: usize = 2048;

/// Changes of a commit that are worth it.
const LEAST_CHANGES: usize = 4;
/// Threads that may commit at once, each with a window of its own.
const COMMITTING_THREADS: usize = 4;

/// Leaves that one of several threads may have read ahead, at most.
pub(crate) const LEAVES_OF_A_THREAD: usize = MOST_LEAVES;

/// How far to read ahead in one tree.
pub(crate) struct Window<'a> {
    tree: &'a BTreeIndex,
    leaves: usize,
    of_values: usize,
    keys: usize,
}

impl<'a> Window<'a> {
    /// For one of so many threads that share a pool with room for so many pages: what was read
    /// ahead must not displace itself.
    pub(crate) fn new(tree: &'a BTreeIndex, room: usize, threads: usize) -> Window<'a> {
        let share = (room / (4 * threads)).max(1);
        Window {
            tree,
            leaves: share.min(MOST_LEAVES),
            of_values: share.min(MOST_OF_VALUES),
            keys: FIRST_WINDOW,
        }
    }

    /// Reads what the first of ascending `keys` need; how many of them that is, one at least.
    pub(crate) fn load<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        let keys: Vec<&[u8]> = keys.take(self.keys).collect();
        let covered = self.tree.read_ahead(&keys, self.leaves, self.of_values);
        self.keys = (2 * covered).clamp(FIRST_WINDOW, MOST_WINDOW);
        covered
    }
}

/// What a commit's changes in one tree need, window by window.
pub(crate) struct ReadAhead<'a, I> {
    window: Window<'a>,
    /// The keys that nothing was read for yet.
    rest: I,
    /// Changes to come of those that everything was read for.
    covered: usize,
}

impl<'a, 'k, I: Iterator<Item = &'k [u8]> + Clone> ReadAhead<'a, I> {
    /// For that many changes of ascending keys of a keyspace; `None` where nothing has to be read,
    /// or too little to be read together.
    pub(crate) fn new(
        space: &'a Space,
        pages: Option<&PageFile>,
        keys: I,
        changes: usize,
    ) -> Option<Self> {
        let (tree, pages) = (space.index.tree()?, pages?);
        if changes < LEAST_CHANGES || !tree.pool().may_miss() {
            return None;
        }
        Some(ReadAhead {
            window: Window::new(tree, pages.room(), COMMITTING_THREADS),
            rest: keys,
            covered: 0,
        })
    }

    /// Is called before each change.
    pub(crate) fn step(&mut self) {
        if self.covered == 0 {
            self.covered = self.window.load(self.rest.clone()).max(1);
            self.rest.by_ref().take(self.covered).for_each(drop);
        }
        self.covered -= 1;
    }
}
