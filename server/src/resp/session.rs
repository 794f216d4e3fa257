//! One RESP connection: who it is, what it has queued and watches, and how its requests run.

use std::sync::Arc;
use std::time::Instant;

use hedgerow::{Commit, MAX_KEY_BYTES, Row, Watch};

use crate::clients::list::{Client, Published};
use crate::clients::pause::Scope;
use crate::connection::input::Input;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::ran::Ran;
use crate::protocol::request::{Kind, Parsed, Request, Span};
use crate::resp::call::{Arguments, Call, Data, Failure, engine_line};
use crate::resp::commands::subcommands;
use crate::resp::frame::{self, Frame, Limits, Unfinished};
use crate::resp::reply::Reply;
use crate::resp::table::{self, Command, Flags};
use crate::resp::transactions;
use crate::shared::Shared;

/// The code of a request that names no known command.
const UNKNOWN: u32 = u32::MAX;

/// A key that must not change until `EXEC`.
pub(crate) struct Watched {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) watch: Watch,
}

/// The commands between `MULTI` and `EXEC`.
#[derive(Default)]
pub(crate) struct Queue {
    /// Their arguments, one after the other.
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: Vec<Span>,
    /// Each with the number of its first span.
    pub(crate) commands: Vec<(&'static Command, usize)>,
    /// A command was refused: `EXEC` will fail.
    pub(crate) failed: bool,
}

impl Queue {
    fn push(&mut self, command: &'static Command, arguments: Arguments<'_>) {
        self.commands.push((command, self.spans.len()));
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
            + self.commands.capacity() * size_of::<(&Command, usize)>()
    }

    /// The memory that one more command would make it take up.
    fn memory_with(&self, arguments: Arguments<'_>) -> usize {
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
            + grown(self.commands.len() + 1, self.commands.capacity())
                * size_of::<(&Command, usize)>()
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

/// One RESP connection.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    pub(crate) authenticated: bool,
    pub(crate) resp3: bool,
    pub(crate) replies: Replies,
    pub(crate) database: usize,
    pub(crate) queue: Option<Box<Queue>>,
    pub(crate) watched: Vec<Watched>,
    /// What `WAITAOF` waits for.
    pub(crate) last_commit: Option<Commit>,
    /// The number of the last request's command.
    command: u32,
    unfinished: Option<Box<Unfinished>>,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, authenticated: bool) -> Session {
        Session {
            client,
            authenticated,
            resp3: false,
            replies: Replies::On,
            database: 0,
            queue: None,
            watched: Vec::new(),
            last_commit: None,
            command: UNKNOWN,
            unfinished: None,
        }
    }

    #[inline]
    pub(crate) fn parse(
        &mut self,
        shared: &Shared,
        input: &mut Input,
        at: usize,
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let first = spans.len();
        let authenticated = self.authenticated;
        let limits = Limits {
            bulk_bytes: shared.settings.max_bulk_bytes(),
            authenticated,
        };
        match frame::parse(input.bytes(), at, limits, &mut self.unfinished, spans) {
            Frame::Whole(bytes) if spans.len() == first => Parsed::Skip(bytes),
            Frame::Whole(bytes) => {
                let (kind, code) = classify(input.bytes(), &spans[first..]);
                self.command = code;
                Parsed::Whole { bytes, kind, code }
            }
            Frame::Quoted(bytes, words) => {
                input.replace(at..at + bytes, &frame::encode(&words));
                Parsed::Skip(0)
            }
            Frame::Partial(wanted) => Parsed::Partial(wanted),
            Frame::Malformed(text) => Parsed::Malformed(format!("-{text}\r\n").into_bytes()),
        }
    }

    pub(crate) fn too_long(&self) -> Vec<u8> {
        b"-ERR Protocol error: the request exceeds the server's limit\r\n".to_vec()
    }

    /// What is remembered of a request that was parsed in part is no longer true: an earlier one
    /// will be parsed again.
    pub(crate) fn forget_parsed(&mut self) {
        self.unfinished = None;
    }

    /// The memory of what is queued and watched.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, |queue| queue.memory());
        if self.watched.is_empty() {
            return queued;
        }
        let watched = self.watched.iter().map(|watched| watched.key.capacity());
        queued + watched.sum::<usize>() + self.watched.capacity() * size_of::<Watched>()
    }

    /// Shows others what this connection is like now.
    #[inline]
    pub(crate) fn publish(&self, now: Instant) {
        let published = Published {
            database: self.database,
            resp3: self.resp3,
            queued: self.queue.as_ref().map(|queue| queue.commands.len()),
            queued_bytes: self.queue.as_ref().map_or(0, |queue| queue.bytes.len()),
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
        self.authenticated && self.queue.is_none() && self.replies == Replies::On
    }

    /// Whether a request waits while those of a scope are paused.
    pub(crate) fn waits(&self, scope: Scope, kind: Kind, code: u32) -> bool {
        if scope == Scope::All || matches!(kind, Kind::Put { .. }) {
            return true;
        }
        let command = table::COMMANDS.get(code as usize);
        let queue = self.queue.as_ref().map(|queue| queue.commands.as_slice());
        command.is_some_and(|command| {
            let queued = queue.filter(|_| command.name == "EXEC").unwrap_or_default();
            let mut run = queued.iter().map(|(queued, _)| *queued).chain([command]);
            run.any(|command| command.flags.has(Flags::WRITE))
        })
    }

    /// Whether a request can take so long that its own time is taken.
    #[inline]
    pub(crate) fn may_take_long(&self, code: u32, arguments: usize) -> bool {
        let command = table::COMMANDS.get(code as usize);
        command.is_some_and(|command| command.may_take_long(arguments))
    }

    #[inline]
    pub(crate) fn one_by_one(&self) -> bool {
        !self.authenticated
    }

    #[inline]
    pub(crate) fn reply_read(&mut self, row: Option<Row<'_>>, out: &mut ReplyBuffer) {
        let mut reply = Reply::new(out, self.resp3);
        match row {
            None => reply.null(),
            Some(row) => match row.value() {
                Some(value) => reply.bulk(value),
                None => reply.error(&Failure::WrongType.line()),
            },
        }
    }

    #[inline]
    pub(crate) fn reply_put(&mut self, outcome: hedgerow::Result<Commit>, out: &mut ReplyBuffer) {
        match outcome {
            Ok(commit) => {
                self.last_commit = Some(commit);
                out.extend_from_slice(b"+OK\r\n");
            }
            Err(error) => self.reply_error(&error, out),
        }
    }

    #[cold]
    pub(crate) fn reply_error(&mut self, error: &hedgerow::Error, out: &mut ReplyBuffer) {
        Reply::new(out, self.resp3).error(&engine_line(error));
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

    /// Runs one request and replies, unless the client wants no reply.
    pub(crate) fn execute(
        &mut self,
        shared: &Shared,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        out: &mut ReplyBuffer,
    ) -> Ran {
        let (before, start) = (self.replies, out.position());
        let mut ran = self.execute_and_reply(shared, request, input, spans, out);
        if before != Replies::On && self.replies == before {
            out.truncate(start);
            ran.deadline = None;
            if !ran.wrote {
                ran.hold = None;
            }
        }
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            replies => replies,
        };
        ran
    }

    fn execute_and_reply(
        &mut self,
        shared: &Shared,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        out: &mut ReplyBuffer,
    ) -> Ran {
        let arguments = Arguments::new(input, spans);
        let start = out.position();
        out.limit(shared.reply_limit_bytes());
        let ran = self.execute_within(shared, request.code, arguments, out);
        if out.end_limit() {
            out.truncate(start);
            out.shrink();
            Reply::new(out, self.resp3).error(
                "ERR the reply takes more memory than is left for clients (client-memory); what \
                 the command changes is changed; ask for less at once",
            );
        }
        ran
    }

    fn execute_within(
        &mut self,
        shared: &Shared,
        code: u32,
        arguments: Arguments<'_>,
        out: &mut ReplyBuffer,
    ) -> Ran {
        let mut reply = Reply::new(out, self.resp3);
        let command = match self.admit(code, arguments) {
            Ok(command) => command,
            Err(text) => {
                if let Some(queue) = &mut self.queue {
                    queue.failed = true;
                }
                reply.error(&text);
                return Ran::default();
            }
        };
        if !command.flags.has(Flags::IMMEDIATE)
            && let Some(queue) = &mut self.queue
        {
            if command.flags.has(Flags::NO_MULTI) {
                queue.failed = true;
                reply.error("ERR Command not allowed inside a transaction");
            } else if queue.memory_with(arguments) > shared.queue_limit_bytes() {
                queue.failed = true;
                reply.error(
                    "ERR the commands queued since MULTI take more memory than a transaction may; \
                     queue fewer or shorter ones",
                );
            } else {
                queue.push(command, arguments);
                reply.raw(b"+QUEUED\r\n");
            }
            return Ran::default();
        }
        self.run(shared, command, arguments, reply)
    }

    /// The command of a request, if it is one that may run.
    fn admit(&self, code: u32, arguments: Arguments<'_>) -> Result<&'static Command, String> {
        let command = (code != UNKNOWN).then(|| &table::COMMANDS[code as usize]);
        let Some(command) = command else {
            return Err(unknown(arguments));
        };
        if !command.accepts(arguments.len()) {
            return Err(wrong_arity(command.name));
        }
        if !self.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err("NOAUTH Authentication required.".into());
        }
        // Redis knows subcommands before it queues them.
        subcommands::check(command.name, arguments)?;
        Ok(command)
    }

    fn run(
        &mut self,
        shared: &Shared,
        command: &'static Command,
        arguments: Arguments<'_>,
        mut reply: Reply<'_>,
    ) -> Ran {
        let mut ran = Ran::default();
        let start = reply.position();
        let keyspace = match shared.keyspace(self.database) {
            Ok(keyspace) => keyspace,
            Err(error) => {
                reply.error(&Failure::Engine(error).line());
                return ran;
            }
        };
        let outcome = if command.is_transaction(arguments) {
            transactions::run_atomic(shared, self, command, arguments, reply.again(), &mut ran)
        } else {
            let mut data = Data::direct(keyspace, shared.write_options());
            let outcome = (command.run)(&mut Call {
                arguments: arguments.from(1),
                data: &mut data,
                session: self,
                reply: reply.again(),
                shared,
                ran: &mut ran,
            });
            outcome.map(|()| data.committed)
        };
        match outcome {
            Ok(committed) => {
                if committed.is_some() {
                    self.last_commit = self.last_commit.max(committed);
                    ran.hold = ran.hold.max(Ran::wrote(shared, committed).hold);
                    ran.wrote = true;
                }
            }
            Err(failure) => {
                reply.truncate(start);
                reply.error(&failure.line());
            }
        }
        ran
    }
}

/// Finds the command, and whether the loop may batch it.
#[inline]
fn classify(input: &[u8], spans: &[Span]) -> (Kind, u32) {
    let name = spans[0].of(input);
    let code = table::lookup(name).map_or(UNKNOWN, |code| code as u32);
    let key_bytes = spans
        .get(1)
        .map_or(0, |span| (span.end - span.start) as usize);
    let kind = match spans.len() {
        2 if name.eq_ignore_ascii_case(b"GET") && key_bytes <= MAX_KEY_BYTES => {
            Kind::Read { first: 1 }
        }
        3 if name.eq_ignore_ascii_case(b"SET") && key_bytes <= MAX_KEY_BYTES => Kind::Put {
            first: 1,
            expiry_ms: None,
            user_flags: 0,
        },
        _ => Kind::Single {
            key: table::key_argument(code as usize),
        },
    };
    (kind, code)
}

/// The error of a command with a wrong number of arguments.
pub(crate) fn wrong_arity(name: &str) -> String {
    format!(
        "ERR wrong number of arguments for '{}' command",
        name.to_ascii_lowercase()
    )
}

fn unknown(arguments: Arguments<'_>) -> String {
    let shown = |bytes: &[u8], limit: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]).into_owned()
    };
    let mut given = String::new();
    for argument in arguments.from(1).iter() {
        if given.len() >= 128 {
            break;
        }
        given += &format!("'{}' ", shown(argument, 128 - given.len()));
    }
    let name = shown(&arguments[0], 128);
    format!("ERR unknown command '{name}', with args beginning with: {given}")
}
