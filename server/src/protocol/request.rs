//! Requests as the event loop sees them: how each may run, and where its arguments lie.

/// A request of more arguments than this is timed whatever its command is.
pub(crate) const MANY_ARGUMENTS: usize = 16;

/// Large replies that a tick encodes after its first: what would be more waits for the next tick,
/// so that nobody's megabytes hold up others.
pub(crate) const LARGE_REPLIES_BYTES: usize = 2 << 20;

/// The code of a request whose command did not run, or is none.
pub(crate) const NO_COMMAND: u32 = u32::MAX;

/// A range of a connection's input: `Input::bytes()[start..end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// The options bound an input to less than 2 GiB.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    #[inline]
    pub(crate) fn of(self, input: &[u8]) -> &[u8] {
        &input[self.start as usize..self.end as usize]
    }
}

/// How the loop may run a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A read of the keys at spans `first..`; the loop looks them up together with others and
    /// calls `reply_read` for each in order.
    Read { first: u8 },
    /// An unconditional put of the value at span `first + 1` under the key at span `first`.
    Put {
        first: u8,
        expiry_ms: Option<u64>,
        user_flags: u32,
    },
    /// Anything else: the session runs it. Where it begins at a key, the key is at this span, and
    /// the loop fetches what such requests will touch all at once.
    Single { key: Option<KeyArgument> },
}

/// Where a request's key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyArgument {
    /// The span is the key.
    Whole(u8),
    /// The span is a bound of a range: a key that may follow a `[` or `(`.
    Bound(u8),
}

impl KeyArgument {
    /// The key, of a request with these arguments.
    pub(crate) fn of<'i>(self, spans: &[Span], input: &'i [u8]) -> Option<&'i [u8]> {
        let (KeyArgument::Whole(at) | KeyArgument::Bound(at)) = self;
        let key = spans.get(usize::from(at))?.of(input);
        match (self, key) {
            (KeyArgument::Bound(_), [b'[' | b'(', key @ ..]) => Some(key),
            _ => Some(key),
        }
    }
}

/// Which of the keys of its request a key is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPosition {
    /// From 0.
    pub(crate) index: u32,
    /// How many keys the request has.
    pub(crate) count: u32,
}

impl KeyPosition {
    /// Whether no key of the request follows.
    #[inline]
    pub(crate) fn is_last(self) -> bool {
        self.index + 1 == self.count
    }
}

/// A request that lies whole in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The connection.
    pub(crate) slot: u32,
    /// Where the request ends in the input.
    pub(crate) end: u32,
    /// Its arguments: `spans[first_span..end_span]` of the tick.
    pub(crate) first_span: u32,
    pub(crate) end_span: u32,
    pub(crate) kind: Kind,
    /// A number of the protocol's own, for example of the command.
    pub(crate) code: u32,
}

/// What a session found in the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A request of `bytes` bytes, whose arguments were pushed as spans.
    Whole { bytes: usize, kind: Kind, code: u32 },
    /// Bytes that mean nothing.
    Skip(usize),
    /// The request is not whole; this many bytes in all are needed before asking again helps.
    Partial(usize),
    /// No request can begin like this: send these bytes, then close.
    Malformed(Vec<u8>),
}
