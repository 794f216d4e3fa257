//! How the requests of a RESP connection are taken out of its input, and run.

use hedgerow::backend::{Backend, Capability};
use hedgerow::{Commit, MAX_KEY_BYTES, Row};

use crate::clients::pause::Scope;
use crate::connection::input::Input;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::effects::Effects;
use crate::protocol::request::{Kind, Parsed, Request, Span};
use crate::resp::arguments::Arguments;
use crate::resp::command::{Call, Command, Flags};
use crate::resp::commands::subcommands;
use crate::resp::data::Data;
use crate::resp::failure::{Failure, Outcome, wrong_arity};
use crate::resp::frame::{self, Frame, Limits};
use crate::resp::interactive;
use crate::resp::reply::Reply;
use crate::resp::session::{Replies, Session, UNKNOWN};
use crate::resp::table::{self, COMMANDS};
use crate::resp::transactions;
use crate::shared::Shared;

impl<B: Backend> Session<B> {
    #[inline]
    pub(crate) fn parse(
        &mut self,
        shared: &Shared<B>,
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

    /// Whether a request waits while those of a scope are paused.
    pub(crate) fn waits(&self, scope: Scope, kind: Kind, code: u32) -> bool {
        if !self.authenticated {
            // It is refused.
            return false;
        }
        if scope == Scope::All || matches!(kind, Kind::Put { .. }) {
            return true;
        }
        let command = COMMANDS.get(code as usize);
        let queue = self.queue.as_ref().map(|queue| queue.commands.as_slice());
        command.is_some_and(|command| {
            let queued = queue.filter(|_| command.name == "EXEC").unwrap_or_default();
            let queued = queued.iter().map(|&(code, _)| &COMMANDS[code as usize]);
            let mut run = queued.chain([command]);
            run.any(|command| command.flags.has(Flags::WRITE))
        })
    }

    /// Whether a request can take so long that its own time is taken.
    #[inline]
    pub(crate) fn may_take_long(&self, code: u32, arguments: usize) -> bool {
        let command = COMMANDS.get(code as usize);
        command.is_some_and(|command| command.may_take_long(arguments))
    }

    /// Runs one request and replies, unless the client wants no reply.
    pub(crate) fn execute(
        &mut self,
        shared: &Shared<B>,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        out: &mut ReplyBuffer,
    ) -> Effects {
        let (before, start) = (self.replies, out.position());
        let mut ran = self.execute_and_reply(shared, request, input, spans, out);
        if before != Replies::On && self.replies == before {
            out.truncate(start);
            ran.deadline = None;
            if !ran.wrote {
                ran.awaits = None;
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
        shared: &Shared<B>,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        out: &mut ReplyBuffer,
    ) -> Effects {
        let arguments = Arguments::new(input, spans);
        let start = out.position();
        let failed = self.tally.as_ref().map_or(0, |tally| tally.failed.len());
        out.limit(shared.reply_limit_bytes());
        let ran = self.execute_within(shared, request.code, arguments, out);
        if out.end_limit() {
            out.truncate(start);
            self.refuse_reply(shared, ran.wrote, out);
            let tally = self.tally();
            tally.failed.truncate(failed);
            tally.failed.push(request.code);
        }
        ran
    }

    /// Replies to a `GET` of a batch whose row is large: with an error if less memory is left for
    /// replies.
    pub(crate) fn reply_large(
        &mut self,
        shared: &Shared<B>,
        code: u32,
        row: Row<'_>,
        out: &mut ReplyBuffer,
    ) {
        let start = out.position();
        out.limit(shared.reply_limit_bytes());
        let is_answered = self.reply_read(Some(row), out);
        if out.end_limit() {
            out.truncate(start);
            self.refuse_read(shared, code, out);
        } else if !is_answered {
            self.count_wrong_type(code);
        }
    }

    /// Replies to a `GET` of a batch that there is no room for the row.
    #[cold]
    pub(crate) fn refuse_read(&mut self, shared: &Shared<B>, code: u32, out: &mut ReplyBuffer) {
        let line = self.refuse_reply(shared, false, out);
        self.count_failed(code, &line);
    }

    /// Replies that there is no room for the reply, which was taken back; returns what it says.
    #[cold]
    fn refuse_reply(&self, shared: &Shared<B>, wrote: bool, out: &mut ReplyBuffer) -> String {
        out.shrink();
        shared.client_memory.refused();
        let changed = match wrote {
            true => "what the command changes is changed",
            false => "no row was changed",
        };
        let line = format!(
            "ERR the reply takes more memory than is left for clients (client-memory); {changed}; \
             ask for less at once"
        );
        Reply::new(out, self.resp3).error(&line);
        line
    }

    fn execute_within(
        &mut self,
        shared: &Shared<B>,
        code: u32,
        arguments: Arguments<'_>,
        out: &mut ReplyBuffer,
    ) -> Effects {
        let mut reply = Reply::new(out, self.resp3);
        let command = match self.admit(code, arguments) {
            Ok(command) => command,
            // Whatever is wrong with it, it ends the transaction.
            Err(text) if code != UNKNOWN && COMMANDS[code as usize].name == "EXEC" => {
                self.queue = None;
                self.watched.clear();
                let why = text.strip_prefix("ERR ").unwrap_or(&text);
                let aborted = "EXECABORT Transaction discarded because of:";
                reply.error(&format!("{aborted} {why}"));
                self.tally().rejected.push(code);
                return Effects::default();
            }
            Err(text) => {
                if let Some(queue) = &mut self.queue {
                    queue.failed = true;
                }
                reply.error(&text);
                self.tally().rejected.push(code);
                return Effects::default();
            }
        };
        if !command.flags.has(Flags::IMMEDIATE)
            && let Some(queue) = &mut self.queue
        {
            if command.flags.has(Flags::NO_MULTI) {
                queue.failed = true;
                reply.error("ERR Command not allowed inside a transaction");
                self.tally().rejected.push(code);
            } else if queue.memory_with(arguments) > shared.queue_limit_bytes() {
                queue.failed = true;
                reply.error(
                    "ERR the commands queued since MULTI take more memory than a transaction may; \
                     queue fewer or shorter ones",
                );
                self.tally().rejected.push(code);
            } else {
                queue.push(code, arguments);
                reply.raw(b"+QUEUED\r\n");
            }
            return Effects::default();
        }
        let mut ran = self.run(shared, code, arguments, reply);
        ran.called = true;
        ran
    }

    /// The command of a request, if it is one that may run.
    fn admit(&self, code: u32, arguments: Arguments<'_>) -> Result<&'static Command, String> {
        let command = (code != UNKNOWN).then(|| &COMMANDS[code as usize]);
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
        shared: &Shared<B>,
        code: u32,
        arguments: Arguments<'_>,
        mut reply: Reply<'_>,
    ) -> Effects {
        let commands = table::commands();
        let command = commands.command(code);
        let mut ran = Effects::default();
        let start = reply.position();
        let keyspace = match shared.keyspace(self.database) {
            Ok(keyspace) => keyspace,
            Err(error) => {
                reply.error(&Failure::Engine(error).line());
                self.tally().failed.push(code);
                return ran;
            }
        };
        let inside = match interactive::concerns(command) {
            true => self.transaction.take(),
            false => None,
        };
        let outcome = if let Some(inside) = inside {
            let request = (code, arguments);
            let again = reply.again();
            interactive::run_inside(shared, self, commands, request, again, &mut ran, inside)
                .map(|()| None)
        } else if command.is_transaction(arguments)
            && (shared.db.lacks(Capability::SeveralRows).is_none()
                || !command.flags.has(Flags::SEPARABLE))
        {
            transactions::run_atomic(
                shared,
                self,
                commands,
                code,
                arguments,
                reply.again(),
                &mut ran,
            )
        } else {
            self.run_directly(shared, keyspace, code, arguments, reply.again(), &mut ran)
        };
        match outcome {
            Ok(None) => {}
            Ok(committed) => {
                self.last_commit = self.last_commit.max(committed);
                ran.awaits = ran.awaits.max(Effects::wrote(shared, committed).awaits);
                ran.wrote = true;
            }
            Err(failure) => {
                reply.truncate(start);
                reply.error(&failure.line());
                self.tally().failed.push(code);
            }
        }
        ran
    }

    /// Runs a command of one key, or of several keys each by itself: each change is a commit. The
    /// last of them.
    #[inline]
    fn run_directly(
        &mut self,
        shared: &Shared<B>,
        keyspace: &B::Keyspace,
        code: u32,
        arguments: Arguments<'_>,
        reply: Reply<'_>,
        ran: &mut Effects,
    ) -> Outcome<Option<Commit>> {
        let commands = table::commands();
        let mut data = Data::direct(keyspace, shared.write_options());
        let mut call = Call {
            commands,
            arguments: arguments.from(1),
            data: &mut data,
            session: self,
            reply,
            shared,
            ran,
        };
        let outcome = commands.run(code, &mut call);
        if outcome.is_err() {
            // Some of its keys, each by itself.
            self.last_commit = self.last_commit.max(data.committed);
        }
        outcome.map(|()| data.committed)
    }
}

/// Finds the command, and whether the loop may batch it.
#[inline]
fn classify(input: &[u8], spans: &[Span]) -> (Kind, u32) {
    let name = spans[0].of(input);
    let command = table::lookup(name);
    let code = command.map_or(UNKNOWN, |code| code as u32);
    let key_bytes = spans
        .get(1)
        .map_or(0, |span| (span.end - span.start) as usize);
    let kind = match (command, spans.len()) {
        (Some(table::GET), 2) if key_bytes <= MAX_KEY_BYTES => Kind::Read { first: 1 },
        (Some(table::SET), 3) if key_bytes <= MAX_KEY_BYTES => Kind::Put {
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
