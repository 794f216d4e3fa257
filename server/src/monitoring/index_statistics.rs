//! Statistics of the indexes, for `INFO` and `/metrics`. Counters of events (splits, retries) cost
//! nothing to read. A tree's shape (nodes by kind, fill, bytes) takes a walk through the whole
//! tree, so a request gets the shape of the last walk. If that walk is old, the request starts
//! another: at once in a small tree, else in a thread, whose result the next request gets. A long
//! walk is not repeated soon: walks take a hundredth of one core at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hedgerow::Statistics;
use hedgerow::backend::{Backend, BackendKeyspace, Capability};

/// A tree of so many rows is walked while the asker waits: a few milliseconds.
const SMALL_ROWS: u64 = 10_000;
/// How old a walk must be before the next one.
const LEAST_AGE: Duration = Duration::from_secs(15);
/// How many times as long as a walk took must pass until the next one.
const REST: u32 = 100;

/// One walk.
#[derive(Clone)]
struct IndexWalk {
    /// `None`: the index is not walked while it is in use.
    shape: Option<Arc<Statistics>>,
    ended: Instant,
    took: Duration,
}

/// The last walks, by keyspace.
#[derive(Default)]
pub(crate) struct IndexWalks {
    walks: Mutex<BTreeMap<String, Option<IndexWalk>>>,
}

/// A keyspace's index.
pub(crate) struct IndexState {
    pub(crate) keyspace: String,
    /// The tree's name.
    pub(crate) kind: &'static str,
    /// `None` where the backend does not count them.
    pub(crate) rows: Option<u64>,
    /// Counted as things happen; they only grow.
    pub(crate) counters: Statistics,
    /// From the last walk, and how many seconds ago that was.
    pub(crate) shape: Option<(Arc<Statistics>, u64)>,
}

impl IndexWalks {
    fn walks(&self) -> MutexGuard<'_, BTreeMap<String, Option<IndexWalk>>> {
        self.walks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last walk, and whether the caller is to make another one: then nobody else will.
    fn last(&self, keyspace: &str) -> (Option<IndexWalk>, bool) {
        let mut walks = self.walks();
        match walks.get_mut(keyspace) {
            None => {
                walks.insert(keyspace.to_owned(), None);
                (None, true)
            }
            // Somebody is at it for the first time.
            Some(None) => (None, false),
            Some(Some(walk)) => {
                let last = walk.clone();
                let due = walk.ended.elapsed() > LEAST_AGE.max(walk.took * REST);
                if due {
                    // Until the new one is there.
                    walk.ended = Instant::now();
                }
                (Some(last), due)
            }
        }
    }

    fn walk(&self, keyspace: &impl BackendKeyspace) -> Option<IndexWalk> {
        let started = Instant::now();
        let shape = keyspace.index_shape();
        let walk = shape.ok().map(|shape| IndexWalk {
            shape: shape.map(Arc::new),
            ended: Instant::now(),
            took: started.elapsed(),
        });
        let mut walks = self.walks();
        match &walk {
            Some(walk) => walks.insert(keyspace.name().to_owned(), Some(walk.clone())),
            // Dropped meanwhile, or the database closes.
            None => walks.remove(keyspace.name()),
        };
        walk
    }

    /// The last shape of a keyspace's index; makes a new one if it is time.
    fn shape(self: &Arc<Self>, keyspace: &impl BackendKeyspace) -> Option<(Arc<Statistics>, u64)> {
        let (mut last, due) = self.last(keyspace.name());
        if due && keyspace.row_count() <= SMALL_ROWS {
            last = self.walk(keyspace);
        } else if due {
            let (index_walks, keyspace) = (Arc::clone(self), keyspace.clone());
            let thread = std::thread::Builder::new().name("hedgerow-statistics".into());
            // Without a thread the old shape stays.
            let _ = thread.spawn(move || index_walks.walk(&keyspace));
        }
        let walk = last?;
        Some((walk.shape?, walk.ended.elapsed().as_secs()))
    }
}

/// The indexes of the keyspaces that this process knows, as they are known now: never waits for a
/// backend elsewhere.
pub(crate) fn indexes(db: &impl Backend, index_walks: &Arc<IndexWalks>) -> Vec<IndexState> {
    let counts = db.lacks(Capability::Counts).is_none();
    let state = |name: String| {
        let keyspace = db.keyspace(&name).ok()?;
        Some(IndexState {
            kind: keyspace.index_name().ok()?,
            rows: counts.then(|| keyspace.row_count()),
            counters: keyspace.index_counters().ok()?,
            shape: index_walks.shape(&keyspace),
            keyspace: name,
        })
    };
    let known = db.known_keyspaces().into_iter();
    known.filter_map(state).collect()
}

/// The numbers of a shape without those that are counters.
pub(crate) fn shape_alone(index: &IndexState) -> impl Iterator<Item = &hedgerow::Statistic> {
    let shape = index.shape.iter().flat_map(|(shape, _)| shape.iter());
    shape.filter(|number| index.counters.get(number.name).is_none())
}
