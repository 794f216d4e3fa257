//! The signals that end `hedgerow serve`. Before there is a server, they end the process: what
//! recovery was at begins anew at the next start. From the moment on at which clients may be served
//! the first asks for a graceful end; once it was asked for, `SIGINT` (Ctrl-C) ends the process at
//! once, as in Redis.

use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::error::{Error, Result};

/// What a shell adds to the number of the signal that ended a process.
const ENDED_BY_SIGNAL: i32 = 128;

/// How far the process has come, which says what a signal does.
enum Phase {
    /// Nobody is served.
    Recovering,
    /// Clients may be served, and nothing can ask the server to stop yet.
    Starting { is_asked_to_stop: bool },
    /// What asks the server to stop.
    Serving(Box<dyn Fn() + Send>),
}

impl Phase {
    /// What asks the server to stop is there; a signal that came before it asks now.
    fn serve(&mut self, stop: Box<dyn Fn() + Send>) {
        if let Phase::Starting {
            is_asked_to_stop: true,
        } = self
        {
            stop();
        }
        *self = Phase::Serving(stop);
    }

    /// Asks for a graceful end. Returns whether there is somebody to end gracefully.
    fn stop(&mut self) -> bool {
        match self {
            Phase::Recovering => return false,
            Phase::Starting { is_asked_to_stop } => *is_asked_to_stop = true,
            Phase::Serving(stop) => stop(),
        }
        true
    }
}

/// What the thread that awaits signals is to do at them.
pub(crate) struct StopSignals {
    phase: Arc<Mutex<Phase>>,
}

impl StopSignals {
    /// Awaits signals from here on, by a thread that lives as long as the process.
    ///
    /// # Errors
    /// [`Error::Stream`]: the system refuses.
    pub(crate) fn watch() -> Result<StopSignals> {
        let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|source| Error::Stream {
            operation: "listen for signals",
            source,
        })?;
        let phase = Arc::new(Mutex::new(Phase::Recovering));
        let shared = Arc::clone(&phase);
        std::thread::spawn(move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                obey(signal, &shared, is_stopping);
                is_stopping = true;
            }
        });
        Ok(StopSignals { phase })
    }

    /// Clients may be served from here on, so a signal does not end the process any more.
    pub(crate) fn begin_to_serve(&self) {
        *locked(&self.phase) = Phase::Starting {
            is_asked_to_stop: false,
        };
    }

    /// From here on a signal calls `stop`, which asks the server to end.
    pub(crate) fn serve(&self, stop: impl Fn() + Send + 'static) {
        locked(&self.phase).serve(Box::new(stop));
    }
}

fn locked(phase: &Mutex<Phase>) -> std::sync::MutexGuard<'_, Phase> {
    phase.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what a signal asks for; `is_stopping` says whether one before it asked for a graceful end.
fn obey(signal: i32, phase: &Mutex<Phase>, is_stopping: bool) {
    let name = low_level::signal_name(signal).unwrap_or("unknown");
    if is_stopping && signal == SIGINT {
        tracing::warn!(signal = name, "ended at once: a second signal asked for it");
        low_level::exit(ENDED_BY_SIGNAL + signal);
    }
    if is_stopping {
        return;
    }
    let mut phase = locked(phase);
    if matches!(*phase, Phase::Recovering) {
        tracing::info!(signal = name, "ended by a signal before it served");
    } else {
        tracing::info!(signal = name, "stopping: a signal asked for it");
    }
    if !phase.stop() {
        low_level::exit(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_signal_before_the_server_can_be_asked_to_stop_is_not_lost() {
        let mut phase = Phase::Recovering;
        assert!(!phase.stop(), "nobody is served");
        for is_early in [true, false] {
            phase = Phase::Starting {
                is_asked_to_stop: false,
            };
            if is_early {
                assert!(phase.stop());
            }
            let asked = Arc::new(AtomicUsize::new(0));
            let counts = Arc::clone(&asked);
            phase.serve(Box::new(move || {
                counts.fetch_add(1, Ordering::Relaxed);
            }));
            assert_eq!(asked.load(Ordering::Relaxed), usize::from(is_early));
            assert!(phase.stop());
            assert_eq!(asked.load(Ordering::Relaxed), 1 + usize::from(is_early));
        }
    }
}
