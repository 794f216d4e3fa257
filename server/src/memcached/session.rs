//! One memcached connection: its requests and their replies.

use hedgerow::backend::Backend;
use hedgerow::{Commit, Row};

use super::frame::RefusedItem;
use super::outcome::{Done, Failure, server_error, server_error_line};
use super::request::{Code, Words};
use super::{classic, frame, items, meta, stats};
use crate::clients::pause::Scope;
use crate::connection::input::Input;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::effects::Effects;
use crate::protocol::password;
use crate::protocol::port::PortProtocol;
use crate::protocol::request::{KeyPosition, Kind, MANY_ARGUMENTS, Parsed, Request, Span};
use crate::shared::Shared;

/// A connection's state.
pub(crate) struct Session {
    refused: RefusedItem,
    authenticated: bool,
    /// The last commit of a `gat` that is answered in several ticks.
    touched: Option<Commit>,
}

/// The longest data block of a client that has not authenticated.
const STRANGER_VALUE_BYTES: usize = 2048;

impl Session {
    pub(crate) fn new(authenticated: bool) -> Session {
        Session {
            refused: RefusedItem::default(),
            authenticated,
            touched: None,
        }
    }

    /// Takes one request out of the input; its words (and its data block) become spans.
    pub(crate) fn parse<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        input: &mut Input,
        at: usize,
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let max_value_bytes = if self.authenticated {
            shared.settings.max_bulk_bytes()
        } else {
            STRANGER_VALUE_BYTES
        };
        frame::parse(&mut self.refused, max_value_bytes, input.bytes(), at, spans)
    }

    /// An earlier request will be parsed again: what it refuses is passed over anew.
    pub(crate) fn forget_parsed(&mut self) {
        self.refused = RefusedItem::default();
    }

    /// Whether a request can take so long that its own time is taken.
    pub(crate) fn may_take_long(&self, input: &[u8], spans: &[Span]) -> bool {
        let command = spans.first().map(|word| word.of(input));
        spans.len() > MANY_ARGUMENTS || matches!(command, Some(b"mr" | b"stats" | b"flush_all"))
    }

    /// memcached knows one database.
    pub(crate) fn database(&self) -> usize {
        0
    }

    pub(crate) fn may_batch(&self) -> bool {
        self.authenticated
    }

    pub(crate) fn one_by_one(&self) -> bool {
        !self.authenticated
    }

    /// Whether a request waits while those of a scope are paused. That of a stranger is refused, or
    /// is the `set` that gives the password, which writes nothing.
    pub(crate) fn waits(&self, scope: Scope, kind: Kind, input: &[u8], spans: &[Span]) -> bool {
        let words = Words { input, spans };
        match (scope, kind) {
            _ if !self.authenticated => false,
            (Scope::All, _) | (Scope::Writes, Kind::Put { .. }) => true,
            (Scope::Writes, Kind::Read { .. }) => false,
            (Scope::Writes, Kind::Single { .. }) => classic::writes(words) || meta::writes(words),
        }
    }

    /// Replies to a key of a `get` or `gets`.
    #[inline]
    pub(crate) fn reply_read(
        &mut self,
        code: u32,
        key: &[u8],
        position: KeyPosition,
        row: Option<Row<'_>>,
        out: &mut ReplyBuffer,
    ) {
        if let Some((row, value)) = row.and_then(|row| Some((row, row.value()?))) {
            let cas = (code == Code::Versions as u32).then(|| items::cas(&row));
            classic::value_head(key, row.user_flags(), value.len(), cas, out);
            out.put_value(value);
            out.extend_from_slice(b"\r\n");
        }
        if position.is_last() {
            out.extend_from_slice(b"END\r\n");
        }
    }

    /// Replies to a plain `set`.
    #[inline]
    pub(crate) fn reply_put(
        &mut self,
        code: u32,
        outcome: hedgerow::Result<Commit>,
        out: &mut ReplyBuffer,
    ) {
        match outcome {
            _ if code == Code::QuietSet as u32 => {}
            Ok(_) => out.extend_from_slice(b"STORED\r\n"),
            Err(error) => self.reply_error(&error, out),
        }
    }

    pub(crate) fn too_long(&self) -> Vec<u8> {
        b"CLIENT_ERROR line too long\r\n".to_vec()
    }

    pub(crate) fn reply_error(&mut self, error: &hedgerow::Error, out: &mut ReplyBuffer) {
        server_error(error, out);
    }

    #[cold]
    pub(crate) fn reply_not_on_disk(
        &mut self,
        code: u32,
        is_silent: bool,
        text: &str,
        out: &mut ReplyBuffer,
    ) {
        // A quiet meta command takes silence for success; `noreply` wants to hear nothing at all.
        if !is_silent || code == Code::Meta as u32 {
            server_error_line(text, out);
        }
    }

    /// Runs a request by itself, from its first key on that was not answered yet.
    pub(crate) fn execute<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        request: &Request,
        input: &[u8],
        spans: &[Span],
        answered_keys: usize,
        out: &mut ReplyBuffer,
    ) -> Effects {
        let words = Words { input, spans };
        if !self.authenticated {
            return self.authenticate(shared, request.code, words, out);
        }
        let start = out.position();
        let has_data = matches!(request.code, code if code == Code::Classic as u32)
            && words.get(0).is_some_and(frame::stores);
        let line = if has_data {
            words.split_data().0
        } else {
            words
        };
        let is_meta = request.code == Code::Meta as u32;
        out.limit(shared.reply_limit_bytes());
        let mut outcome = run(shared, request.code, words, answered_keys, out);
        let touched = self.touched.take();
        if out.end_limit() {
            out.truncate(start);
            out.shrink();
            shared.client_memory.refused();
            outcome = Err(Failure::Line(
                "SERVER_ERROR out of memory writing get response",
            ));
        }
        match outcome {
            Ok(Done::Nothing) => Effects::default(),
            Ok(Done::Wrote(commit)) => Effects::wrote(shared, commit.max(touched)),
            // The end of the reply is what acknowledges all of it.
            Ok(Done::Partly {
                commit,
                answered_keys,
            }) => {
                self.touched = commit.max(touched);
                Effects {
                    answered_keys: Some(answered_keys),
                    ..Effects::default()
                }
            }
            Ok(Done::Quit) => Effects {
                close: true,
                ..Effects::default()
            },
            Err(failure) => {
                out.truncate(start);
                // A client that wants no reply would take an error for the reply to another
                // request.
                if is_meta || !classic::is_quiet(line) {
                    failure.reply(out);
                }
                Effects {
                    malformed: request.code == Code::Wrong as u32,
                    ..Effects::default()
                }
            }
        }
    }

    /// A request of a client that has not said the password yet: as in memcached, that is a `set`
    /// of any key, whose data are a user name, a blank and the password. The user is `default`, as
    /// for Redis clients.
    fn authenticate<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        code: u32,
        words: Words<'_>,
        out: &mut ReplyBuffer,
    ) -> Effects {
        let has_data = code == Code::Classic as u32 || code == Code::QuietSet as u32;
        let (line, data) = words.split_data();
        let reply: &[u8] = match words.get(0) {
            Some(b"quit") => {
                return Effects {
                    close: true,
                    ..Effects::default()
                };
            }
            Some(b"set") if has_data && line.len() >= 5 => {
                let expected = shared.settings.password();
                self.authenticated = data
                    .strip_prefix(b"default ")
                    .is_some_and(|given| password::is_right(expected.as_deref(), given));
                if self.authenticated {
                    b"STORED\r\n"
                } else {
                    shared.events.wrong_password(PortProtocol::Memcached, None);
                    b"CLIENT_ERROR authentication failure\r\n"
                }
            }
            _ => b"CLIENT_ERROR unauthenticated\r\n",
        };
        out.extend_from_slice(reply);
        Effects::default()
    }
}

/// Runs a request of an authenticated client.
fn run<B: Backend>(
    shared: &Shared<B>,
    code: u32,
    words: Words<'_>,
    answered_keys: usize,
    out: &mut ReplyBuffer,
) -> Result<Done, Failure> {
    match code {
        code if code == Code::Wrong as u32 => Err(classic::malformed(words)),
        code if code == Code::BadData as u32 => Err(Failure::Line("CLIENT_ERROR bad data chunk")),
        code if code == Code::TooLarge as u32 => {
            Err(Failure::Line("SERVER_ERROR object too large for cache"))
        }
        code if code == Code::Meta as u32 => {
            stats::count_meta(shared);
            meta::run(shared, words, out)
        }
        _ => {
            let ran = classic::run(shared, words, answered_keys, out);
            let is_command = !matches!(ran, Err(Failure::Line("ERROR")));
            if answered_keys == 0 && is_command {
                stats::count_classic(shared, words.get(0).unwrap_or_default());
            }
            ran
        }
    }
}
