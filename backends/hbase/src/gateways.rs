//! The gateways of a cluster, as the rest of the crate uses them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::error::{Error, Result};
use crate::health;
use crate::options::Options;
use crate::pool::Pool;
use crate::statistics::Statistics;
use crate::url::ClusterUrl;

/// More than any call takes, and little enough to be added to the time.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The gateways of a cluster: connections to them, and which of them are well. Any number of
/// threads use it at once. Dropped, it closes all connections.
pub struct Gateways {
    pool: Arc<Pool>,
    /// Ends when the pool is closed.
    health: Option<JoinHandle<()>>,
}

impl Gateways {
    /// Prepares for calls to the gateways of `url`; connects to none of them yet. Starts a thread
    /// that checks those that fail.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`], and [`Error::NoThread`] where the operating system has none.
    pub fn new(url: &ClusterUrl, options: Options) -> Result<Gateways> {
        options.check()?;
        let pool = Arc::new(Pool::new(url.gateways().to_vec(), options));
        let checked = Arc::clone(&pool);
        let thread = std::thread::Builder::new().name("hbase-health".to_owned());
        let health = thread.spawn(move || health::run(&checked));
        let health = health.map_err(|error| Error::NoThread(error.to_string()))?;
        Ok(Gateways {
            pool,
            health: Some(health),
        })
    }

    /// Calls that end at `deadline` at the latest, in an error if not in a result. Only the lookup
    /// of a host's name can take longer.
    pub fn until(&self, deadline: Instant) -> Calls<'_> {
        Calls::new(&self.pool, deadline)
    }

    /// Calls that end within `time` from now, at most a year.
    pub fn within(&self, time: Duration) -> Calls<'_> {
        self.until(Instant::now() + time.min(YEAR))
    }

    /// How many there are, healthy or not.
    pub(crate) fn count(&self) -> usize {
        self.pool.count()
    }

    /// The options that were given.
    pub fn options(&self) -> &Options {
        &self.pool.options
    }

    /// What has been counted, and the state of each gateway at this moment.
    pub fn statistics(&self) -> Statistics {
        self.pool.statistics()
    }
}

impl Drop for Gateways {
    /// Waits for a check that is under way, as long as the timeout of connections at most.
    fn drop(&mut self) {
        self.pool.close();
        if let Some(health) = self.health.take() {
            // A panic of the thread has been reported by then, and nothing else is lost.
            let _ = health.join();
        }
    }
}
