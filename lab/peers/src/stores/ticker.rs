//! A thread that forces an engine to storage at a fixed interval.
//!
//! Several engines leave the time of a sync to their user: their documentation advises to call
//! theirs now and then. This is such a user.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hedgerow_lab_contender::StoreError;

/// Hedgerow's default too, so that both may lose the same.
const INTERVAL: Duration = Duration::from_millis(200);

/// The thread; it ends when this is dropped.
pub(super) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Ticker {
    /// Starts one.
    pub(super) fn start(sync: impl Fn() -> Result<(), StoreError> + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let failure = Arc::new(Mutex::new(None));
        let failed = Arc::clone(&failure);
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = sync() {
                    *failed.lock().expect("nothing panics with it") = Some(error.to_string());
                    return;
                }
            }
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
            failure,
        }
    }

    /// Whether every sync so far went well.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let failure = self.failure.lock().expect("nothing panics with it");
        failure.clone().map_or(Ok(()), |why| Err(StoreError(why)))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a ticker that may be absent says.
pub(super) fn check(ticker: Option<&Ticker>) -> Result<(), StoreError> {
    ticker.map_or(Ok(()), Ticker::check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_sync_is_reported() {
        let (told, hear) = mpsc::channel();
        let ticker = Ticker::start(move || {
            let _ = told.send(());
            Err(StoreError("disk full".to_owned()))
        });
        hear.recv().expect("a sync within the interval");
        // The thread ends right after it has noted the failure.
        while ticker.check().is_ok() {
            thread::yield_now();
        }
    }
}
