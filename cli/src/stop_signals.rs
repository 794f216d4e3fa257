//! The signals that end `hedgerow serve`. Before there is a server, they end the process: what
//! recovery was at begins anew at the next start. Then the first asks for a graceful end; once it
//! was asked for, `SIGINT` (Ctrl-C) ends the process at once, as in Redis.

use std::sync::{Arc, OnceLock};

use hedgerow_server::Stopper;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::error::{Error, Result};

/// What a shell adds to the number of the signal that ended a process.
const ENDED_BY_SIGNAL: i32 = 128;

/// What the thread that awaits signals is to do at them.
pub(crate) struct StopSignals {
    /// Whom to ask for a graceful end, once there is a server.
    stopper: Arc<OnceLock<Stopper>>,
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
        let stopper = Arc::new(OnceLock::new());
        let serves = Arc::clone(&stopper);
        std::thread::spawn(move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                is_stopping = obey(signal, serves.get(), is_stopping);
            }
        });
        Ok(StopSignals { stopper })
    }

    /// From here on a signal asks this server to end.
    pub(crate) fn stop(&self, stopper: Stopper) {
        // Only the first counts, and there is one server.
        let _ = self.stopper.set(stopper);
    }
}

/// Does what a signal asks for. Returns whether the server is on its way to its end.
fn obey(signal: i32, stopper: Option<&Stopper>, is_stopping: bool) -> bool {
    let name = low_level::signal_name(signal).unwrap_or("unknown");
    match stopper {
        None => {
            tracing::info!(signal = name, "ended by a signal before it served");
            low_level::exit(0);
        }
        Some(_) if is_stopping && signal == SIGINT => {
            tracing::warn!(signal = name, "ended at once: a second signal asked for it");
            low_level::exit(ENDED_BY_SIGNAL + signal);
        }
        Some(_) if is_stopping => {}
        Some(stopper) => {
            tracing::info!(signal = name, "stopping: a signal asked for it");
            stopper.stop();
        }
    }
    true
}
