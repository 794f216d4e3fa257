//! Printing results: text for people, JSON lines for programs.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Result, writing};

/// Prints a line on standard error that says what is wrong. Where nobody reads it, or its disk is
/// full, the exit code has to say it alone.
pub(crate) fn print_error(what: impl Display) {
    let _ = writeln!(io::stderr(), "hedgerow: {what}");
}

/// How results are printed.
pub(crate) struct Output {
    /// JSON instead of text.
    pub(crate) json: bool,
}

impl Output {
    /// Prints one result.
    pub(crate) fn print(
        &self,
        json: serde_json::Value,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let line = if self.json { json.to_string() } else { text() };
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(writing)
    }

    /// A buffered standard output, for many lines.
    pub(crate) fn lines(&self) -> BufWriter<io::StdoutLock<'static>> {
        BufWriter::with_capacity(1 << 16, io::stdout().lock())
    }
}

/// A progress bar over bytes; drawn on a terminal only, and not at all before half a second.
pub(crate) fn bytes_bar(what: &'static str, total: u64) -> ProgressBar {
    let style = "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
    bar(what, Some(total), style)
}

/// A progress display of things done, their number being unknown before.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    bar(what, None, "{spinner} {msg}: {human_pos} ({per_sec})")
}

/// A display of work whose end is not known: what is done now, and for how long it has been going
/// on. Drawn at once and then a few times a second, on a terminal only.
pub(crate) fn working(what: &'static str) -> ProgressBar {
    let bar = bar(what, None, "{spinner} {msg} ({elapsed})");
    bar.tick();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn bar(what: &'static str, total: Option<u64>, style: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}
