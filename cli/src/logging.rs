//! The server's log: events of engine and server, one line each on standard error.
//!
//! ```text
//! 2026-01-31T12:00:00.000000Z  INFO hedgerow::disk::checkpoint: checkpoint written records=100 bytes=4096 duration_ms=3
//! ```

use tracing::level_filters::LevelFilter;

use crate::serve_arguments::LogLevel;

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Sends the events of this level and the more urgent ones to standard error from now on. Where
/// they cannot be written, as nobody reads them or the disk is full, they are lost: an error of
/// that, which could not be written either, must not end the thread that has the event.
pub(crate) fn start(level: LogLevel) {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false)
        .init();
}
