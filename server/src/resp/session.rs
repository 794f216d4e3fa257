//! One RESP connection: its user, its queued commands and watches, and its replies to requests that
//! the event loop batched. [`requests`](crate::resp::requests) runs its other requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Commit, Row};

use crate::clients::list::{Client, Names, Published};
use crate::connection::reply_buffer::ReplyBuffer;
use crate::monitoring::metrics::count_error_by_code;
use crate::protocol::request::{NO_COMMAND, Span};
use crate::resp::arguments::Arguments;
use crate::resp::failure::{Failure, engine_line};
use crate::resp::frame::Unfinished;
use crate::resp::open_snapshots::OpenSnapshots;
use crate::resp::open_transaction::Interactive;
use crate::resp::outside_effects::OutsideEffects;
use crate::resp::reply::Reply;

/// The code of a request that names no known command.
pub(super) const UNKNOWN: u32 = NO_COMMAND;

/// A key that must not change until `EXEC`.
pub(crate) struct Watched<B: Backend> {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) watch: <B::Keyspace as BackendKeyspace>::Watch,
}

/// The commands between `MULTI` and `EXEC`.
#[derive(Default)]
pub(crate) struct Queue {
    /// Their arguments, one after the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: Vec<Span>,
    /// Their numbers in the table, each with that of its first span.
    pub(crate) commands: Vec<(u32, usize)>,
    /// A command was refused: `EXEC` will fail.
    pub(crate) failed: bool,
}

impl Queue {
    pub(super) fn push(&mut self, code: u32, arguments: Arguments<'_>) {
        self.commands.push((code, self.spans.len()));
        for argument in arguments.iter() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(argument);
            self.spans.push(Span::new(start, self.bytes.len()));
        }
    }

    /// The memory that is taken up.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.commands.capacity() * size_of::<(u32, usize)>()
    }

    /// The memory that one more command would make it take up.
    pub(super) fn memory_with(&self, arguments: Arguments<'_>) -> usize {
        let grown = |len: usize, capacity: usize| {
            if len > capacity {
                len.max(capacity.saturating_mul(2))
            } else {
                capacity
            }
        };
        let bytes: usize = arguments.iter().map(<[u8]>::len).sum();
        let spans = self.spans.len() + arguments.len();
        grown(self.bytes.len() + bytes, self.bytes.capacity())
            + grown(spans, self.spans.capacity()) * size_of::<Span>()
            + grown(self.commands.len() + 1, self.commands.capacity()) * size_of::<(u32, usize)>()
    }

    /// The arguments of the `i`th command, its name included.
    pub(crate) fn arguments(&self, i: usize) -> Arguments<'_> {
        let end = self
            .commands
            .get(i + 1)
            .map_or(self.spans.len(), |&(_, first)| first);
        Arguments::new(&self.bytes, &self.spans[self.commands[i].1..end])
    }
}

/// Which replies a connection gets (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// The next command's is left out.
    SkipNext,
    /// This command's is left out.
    Skip,
}

/// What became of commands in a tick, beyond that requests ran, by the numbers of the commands.
#[derive(Default)]
pub(crate) struct CommandTally {
    /// They ran in an `EXEC`.
    pub(crate) queued_ran: Vec<u32>,
    /// They ran, and replied an error.
    pub(crate) failed: Vec<u32>,
    /// How often those that ran in a batch or an `EXEC` replied an error, by its code. Other errors
    /// are counted as they are replied.
    pub(crate) errors: BTreeMap<String, u64>,
    /// They were refused before they ran.
    pub(crate) rejected: Vec<u32>,
}

/// One RESP connection.
pub(crate) struct Session<B: Backend> {
    pub(crate) client: Arc<Client>,
    /// The memory of what the client says of itself.
    names_bytes: usize,
    pub(crate) authenticated: bool,
    pub(crate) resp3: bool,
    pub(crate) replies: Replies,
    pub(crate) database: usize,
    pub(crate) queue: Option<Box<Queue>>,
    pub(crate) watched: Vec<Watched<B>>,
    /// Between `BEGIN` and its end.
    pub(crate) transaction: Option<Interactive<B>>,
    /// Those that end with the connection.
    pub(crate) snapshots: OpenSnapshots<B>,
    /// Of the `EXEC` that runs, until it has committed; `None` if there are none.
    pub(crate) outside: Option<Box<OutsideEffects>>,
    /// What `WAITAOF` waits for.
    pub(crate) last_commit: Option<Commit>,
    /// The number of the last request's command.
    pub(super) command: u32,
    pub(super) unfinished: Option<Box<Unfinished>>,
    /// Until the tick's end; `None` if there is nothing to count.
    pub(crate) tally: Option<Box<CommandTally>>,
}

impl<B: Backend> Session<B> {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool) -> Session<B> {
        Session {
            client,
            names_bytes: 0,
            authenticated,
            resp3: false,
            replies: Replies::On,
            database: 0,
            queue: None,
            watched: Vec::new(),
            transaction: None,
            snapshots: OpenSnapshots::default(),
            outside: None,
            last_commit: None,
            command: UNKNOWN,
            unfinished: None,
            tally: None,
        }
    }

    /// The counts of this tick.
    #[cold]
    pub(super) fn tally(&mut self) -> &mut CommandTally {
        self.tally.get_or_insert_default()
    }

    /// A request has run, or came in part: a transaction is not idle.
    #[inline]
    pub(crate) fn touch(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.touch();
        }
    }

    /// When a transaction is to be rolled back if no request comes until then.
    #[inline]
    pub(crate) fn due_at(&self, longest_idle: Duration) -> Option<Instant> {
        self.transaction.as_ref()?.due_at(longest_idle)
    }

    /// Rolls a transaction back that is idle; whether it did.
    pub(crate) fn end_if_idle(&mut self, now: Instant, longest_idle: Duration) -> bool {
        let transaction = self.transaction.as_mut();
        transaction.is_some_and(|transaction| transaction.end_if_idle(now, longest_idle))
    }

    /// The memory of what the connection's transaction wrote and read.
    fn transaction_memory(&self) -> usize {
        self.transaction.as_ref().map_or(0, Interactive::memory)
    }

    pub(crate) fn too_long(&self) -> Vec<u8> {
        b"-ERR Protocol error: the request exceeds the server's limit\r\n".to_vec()
    }

    /// What is remembered of a request that was parsed in part is no longer true: an earlier one
    /// will be parsed again.
    pub(crate) fn forget_parsed(&mut self) {
        self.unfinished = None;
    }

    /// Changes what the client says of itself.
    pub(crate) fn set_names(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.client.names();
        change(&mut names);
        self.names_bytes = names.memory();
    }

    /// The memory of what is parsed of a long request, of what is queued, written between `BEGIN`
    /// and `COMMIT`, and watched, and of what the client says of itself.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, |queue| queue.memory());
        let unfinished = self.unfinished.as_ref().map_or(0, |part| part.memory());
        let queued = queued + unfinished + self.transaction_memory() + self.names_bytes;
        if self.watched.is_empty() {
            return queued;
        }
        let watched = self.watched.iter().map(|watched| watched.key.capacity());
        queued + watched.sum::<usize>() + self.watched.capacity() * size_of::<Watched<B>>()
    }

    /// Shows others what this connection is like now.
    #[inline]
    pub(crate) fn publish(&self, now: Instant) {
        let published = Published {
            database: self.database,
            resp3: self.resp3,
            queued: self.queue.as_ref().map(|queue| queue.commands.len()),
            queued_bytes: self.queue.as_ref().map_or(0, |queue| queue.bytes.len())
                + self.transaction_memory(),
            watched: self.watched.len(),
            command: self.command,
        };
        self.client.publish(now, &published);
    }

    #[inline]
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    #[inline]
    pub(crate) fn may_batch(&self) -> bool {
        self.authenticated
            && self.queue.is_none()
            && self.transaction.is_none()
            && self.replies == Replies::On
    }

    #[inline]
    pub(crate) fn one_by_one(&self) -> bool {
        !self.authenticated
    }

    /// Whether it replied a value, or that there is none; else an error, which is not
    /// [counted](Self::count_wrong_type) yet.
    #[inline]
    pub(crate) fn reply_read(&mut self, row: Option<Row<'_>>, out: &mut ReplyBuffer) -> bool {
        let mut reply = Reply::new(out, self.resp3);
        match row {
            None => reply.null(),
            Some(row) => match row.value() {
                Some(value) => reply.bulk(value),
                None => {
                    reply.error(&Failure::WrongType.line());
                    return false;
                }
            },
        }
        true
    }

    /// Counts a call in a batch that replied that its key has another type.
    #[cold]
    pub(crate) fn count_wrong_type(&mut self, code: u32) {
        self.count_failed(code, &Failure::WrongType.line());
    }

    /// Counts a call that replied this error in a batch or an `EXEC`.
    pub(super) fn count_failed(&mut self, code: u32, error: &str) {
        let tally = self.tally();
        tally.failed.push(code);
        count_error_by_code(&mut tally.errors, error.as_bytes());
    }

    /// Replies to a call in a batch that the engine failed, and counts that.
    #[cold]
    pub(crate) fn fail(&mut self, code: u32, error: &hedgerow::Error, out: &mut ReplyBuffer) {
        let line = engine_line(error);
        Reply::new(out, self.resp3).error(&line);
        self.count_failed(code, &line);
    }

    #[inline]
    pub(crate) fn reply_put(
        &mut self,
        code: u32,
        outcome: hedgerow::Result<Commit>,
        out: &mut ReplyBuffer,
    ) {
        match outcome {
            Ok(commit) => {
                self.last_commit = Some(commit);
                out.extend_from_slice(b"+OK\r\n");
            }
            Err(error) => self.fail(code, &error, out),
        }
    }

    #[cold]
    pub(crate) fn reply_not_on_disk(&mut self, is_silent: bool, text: &str, out: &mut ReplyBuffer) {
        // `CLIENT REPLY OFF`: the client reads nothing.
        if !is_silent {
            Reply::new(out, self.resp3).error(&format!("MISCONF {text}"));
        }
    }

    /// `WAITAOF` waited for as long as it was asked to: nothing is known to be durable.
    #[cold]
    pub(crate) fn reply_overdue(&mut self, out: &mut ReplyBuffer) {
        let mut reply = Reply::new(out, self.resp3);
        reply.array(2);
        reply.integer(0);
        reply.integer(0);
    }
}
