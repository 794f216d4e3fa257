//! The lines of a file or of standard input, read by a thread of their own, so that an interruption
//! is heard also while a line is waited for.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use indicatif::ProgressBar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{Error, Result, reading};
use crate::output::{bytes_bar, spinner};

/// Lines and bytes that come together at most (a longer line comes alone).
const BATCH_LINES: usize = 64;
const BATCH_BYTES: usize = 1 << 20;
/// Batches that are read ahead.
const AHEAD: usize = 4;
/// How long to wait for lines before an interruption is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What comes next.
pub(crate) enum Event {
    /// Lines with their ends; the last one of all may have none.
    Lines(Vec<Vec<u8>>),
    /// Nothing yet.
    Nothing,
    /// No further line can be read.
    Failed(io::Error),
    /// There are no more lines.
    End,
}

/// The first line.
pub(crate) struct First {
    /// Without its end.
    pub(crate) text: Vec<u8>,
    /// It has no end: nothing follows.
    pub(crate) is_cut: bool,
}

/// Where lines come from, and how far they are.
pub(crate) struct Lines {
    pub(crate) bar: ProgressBar,
    /// Whether the bar counts bytes (of a file) or lines (of standard input).
    counts_bytes: bool,
    /// The file's name, for people.
    pub(crate) name: String,
    batches: Receiver<io::Result<Vec<Vec<u8>>>>,
    /// Read to look at the first line.
    first: std::cell::RefCell<Option<Vec<Vec<u8>>>>,
}

impl Lines {
    /// Begins to read a file, or standard input if its name is `-`.
    pub(crate) fn open(file: &Path) -> Result<Lines> {
        let (sender, batches) = sync_channel(AHEAD);
        let first = Default::default();
        if file.as_os_str() == "-" {
            read_by_thread(BufReader::with_capacity(1 << 20, io::stdin()), sender)?;
            return Ok(Lines {
                bar: spinner("lines"),
                counts_bytes: false,
                name: "standard input".into(),
                batches,
                first,
            });
        }
        let failed = |source| Error::File {
            operation: "read",
            file: file.to_path_buf(),
            source,
        };
        let opened = File::open(file).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Error::Failed(format!(
                "{} is a folder; name a file, or - for standard input",
                file.display()
            )));
        }
        let bytes = metadata.len();
        read_by_thread(BufReader::with_capacity(1 << 20, opened), sender)?;
        Ok(Lines {
            bar: bytes_bar("loading", bytes),
            counts_bytes: true,
            name: file.display().to_string(),
            batches,
            first,
        })
    }

    /// Waits for the first line and returns it; it comes again as the first one of all. `None` if
    /// there are no lines.
    pub(crate) fn first(&mut self) -> Result<Option<First>> {
        let lines = match self.batches.recv() {
            Ok(lines) => lines.map_err(|source| match self.counts_bytes {
                true => Error::File {
                    operation: "read",
                    file: PathBuf::from(&self.name),
                    source,
                },
                false => reading(source),
            })?,
            Err(_) => return Ok(None),
        };
        let first = lines.first().cloned().unwrap_or_default();
        *self.first.get_mut() = Some(lines);
        let whole = first.strip_suffix(b"\n");
        Ok(Some(First {
            text: whole.unwrap_or(&first).to_vec(),
            is_cut: whole.is_none(),
        }))
    }

    /// Waits a moment for further lines.
    pub(crate) fn next(&self) -> Event {
        let lines = match self.first.take() {
            Some(lines) => lines,
            None => match self.batches.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(lines)) => lines,
                Ok(Err(error)) => return Event::Failed(error),
                Err(RecvTimeoutError::Timeout) => return Event::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Event::End,
            },
        };
        let bytes = || lines.iter().map(Vec::len).sum::<usize>();
        let done = if self.counts_bytes {
            bytes()
        } else {
            lines.len()
        };
        self.bar.inc(done as u64);
        Event::Lines(lines)
    }
}

/// Reads lines until there are no more, or nobody wants them.
fn read_by_thread(
    mut reader: impl BufRead + Send + 'static,
    sender: SyncSender<io::Result<Vec<Vec<u8>>>>,
) -> Result<()> {
    let read = move || {
        loop {
            let batch = read_batch(&mut reader);
            let is_last = !matches!(&batch, Ok(lines) if !lines.is_empty());
            if matches!(&batch, Ok(lines) if lines.is_empty())
                || sender.send(batch).is_err()
                || is_last
            {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("hedgerow-lines".into());
    thread
        .spawn(read)
        .map(drop)
        .map_err(|source| Error::Stream {
            operation: "start a thread",
            source,
        })
}

fn read_batch(reader: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while lines.len() < BATCH_LINES && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        bytes += line.len();
        lines.push(line);
    }
    Ok(lines)
}

/// Whether Ctrl-C was pressed, or an end asked for. Who asks twice ends the process at once.
pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Watches from now on.
    pub(crate) fn watch() -> Result<Interruption> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: what the first signal sets is what the second one finds.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .map_err(|source| Error::Stream {
                    operation: "listen for signals",
                    source,
                })?;
        }
        Ok(Interruption(asked))
    }

    /// Whether to stop.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
