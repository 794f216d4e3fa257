//! One HTTP connection: it reads a request, and sends the answer before it reads the next one. So a
//! connection never has more than one head and one answer in memory.
//!
//! ```text
//!        ┌────────────── kept alive ──────────────┐
//!        ▼                                        │
//!     Reading ── whole head, or a refusal ──► Writing ── to be closed ──► Draining ──► gone
//! ```
//!
//! Each state has a deadline. Before a connection closes, it is drained for a moment: closing a
//! socket with unread bytes resets it, and the client might never see its answer.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use crate::sockets::stream::Stream;

use super::request::{HttpRequest, MAX_HEAD_BYTES, ParsedHead, parse};

/// How long a client may take to send a request, also the first one.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may take to fetch an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what a refused client still sends is read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers in one visit, so that a connection with many requests does not hold up the others.
const ANSWERS_PER_VISIT: usize = 4;
/// Reads in one visit of a connection that is drained.
const DRAINS_PER_VISIT: usize = 16;

/// What a request is answered with.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) body: String,
    /// Asks the client for the password.
    pub(super) challenge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpState {
    /// Waits for a request, of which `begun` says whether some bytes are there.
    Reading {
        begun: bool,
    },
    Writing,
    Draining,
}

/// What a visit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitResult {
    /// The socket must become ready first.
    Waits,
    /// There is more to do at once.
    Again,
    /// The connection is over.
    Over,
}

/// What a connection needs of its socket.
pub(super) trait Socket: Read + Write {
    /// Tells the peer that nothing more will come.
    fn end_writing(&self);
}

impl Socket for Stream {
    fn end_writing(&self) {
        Stream::end_writing(self);
    }
}

/// One connection. `S` is its socket.
pub(super) struct Connection<S> {
    pub(super) socket: S,
    state: HttpState,
    /// Since when the connection is in its state.
    since: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    close: bool,
    /// Another request has been answered here.
    used: bool,
}

impl<S: Socket> Connection<S> {
    pub(super) fn new(socket: S, now: Instant) -> Connection<S> {
        Connection {
            socket,
            state: HttpState::Reading { begun: false },
            since: now,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            close: false,
            used: false,
        }
    }

    pub(super) fn state(&self) -> HttpState {
        self.state
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// When the connection has taken too long.
    pub(super) fn deadline(&self) -> Instant {
        self.since
            + match self.state {
                HttpState::Reading { begun: false } if self.used => IDLE_TIMEOUT,
                HttpState::Reading { .. } => READ_TIMEOUT,
                HttpState::Writing => WRITE_TIMEOUT,
                HttpState::Draining => DRAIN_TIMEOUT,
            }
    }

    fn enter(&mut self, state: HttpState, now: Instant) {
        (self.state, self.since) = (state, now);
    }

    /// Does what can be done without waiting.
    pub(super) fn visit(
        &mut self,
        now: Instant,
        answer: &dyn Fn(&HttpRequest) -> Answer,
    ) -> VisitResult {
        let mut answers = 0;
        loop {
            let step = match self.state {
                HttpState::Reading { .. } if answers == ANSWERS_PER_VISIT => {
                    return VisitResult::Again;
                }
                HttpState::Reading { .. } => self.read(now, answer),
                HttpState::Writing => {
                    answers += 1;
                    self.write(now)
                }
                HttpState::Draining => return self.drain(),
            };
            match step {
                Ok(true) => {}
                Ok(false) => return VisitResult::Waits,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return VisitResult::Waits;
                }
                Err(_) => return VisitResult::Over,
            }
        }
    }

    /// Takes a request from what is there, or reads more.
    fn read(&mut self, now: Instant, answer: &dyn Fn(&HttpRequest) -> Answer) -> io::Result<bool> {
        match parse(&self.input) {
            ParsedHead::Whole(request) => {
                // A body is never read: the connection ends behind the answer.
                self.close = !request.keep_alive || request.has_body;
                let known = matches!(request.method.as_str(), "GET" | "HEAD");
                let found = match (known, request.has_body) {
                    (false, _) => refusal(405, "only GET and HEAD are known here\n"),
                    (true, true) => refusal(413, "requests have no body here\n"),
                    (true, false) => answer(&request),
                };
                self.input.drain(..request.bytes);
                self.begin_answer(&found, request.method == "HEAD", now);
                Ok(true)
            }
            ParsedHead::TooLong => {
                self.refuse(&refusal(431, "the request is too long\n"), now);
                Ok(true)
            }
            ParsedHead::Malformed => {
                self.refuse(&refusal(400, "this is no HTTP request\n"), now);
                Ok(true)
            }
            ParsedHead::Partial => {
                let start = self.input.len();
                self.input.resize(MAX_HEAD_BYTES, 0);
                let read = self.socket.read(&mut self.input[start..]);
                self.input.truncate(start + *read.as_ref().unwrap_or(&0));
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if self.state == (HttpState::Reading { begun: false }) {
                    self.enter(HttpState::Reading { begun: true }, now);
                }
                Ok(true)
            }
        }
    }

    fn refuse(&mut self, answer: &Answer, now: Instant) {
        self.close = true;
        self.input = Vec::new();
        self.begin_answer(answer, false, now);
    }

    fn begin_answer(&mut self, answer: &Answer, head_only: bool, now: Instant) {
        let reason = match answer.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let mut text = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
            answer.status,
            answer.content_type,
            answer.body.len()
        );
        if answer.challenge {
            text += "WWW-Authenticate: Bearer realm=\"hedgerow\"\r\n";
        }
        if answer.status == 405 {
            text += "Allow: GET, HEAD\r\n";
        }
        text += if self.close {
            "Connection: close\r\n\r\n"
        } else {
            "Connection: keep-alive\r\n\r\n"
        };
        if !head_only {
            text += &answer.body;
        }
        (self.output, self.sent) = (text.into_bytes(), 0);
        self.enter(HttpState::Writing, now);
    }

    fn write(&mut self, now: Instant) -> io::Result<bool> {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => self.sent += n,
            }
        }
        self.output = Vec::new();
        self.used = true;
        if self.close {
            self.input = Vec::new();
            self.socket.end_writing();
            self.enter(HttpState::Draining, now);
        } else {
            let begun = !self.input.is_empty();
            self.enter(HttpState::Reading { begun }, now);
        }
        Ok(true)
    }

    fn drain(&mut self) -> VisitResult {
        let mut scratch = [0; 4096];
        for _ in 0..DRAINS_PER_VISIT {
            match self.socket.read(&mut scratch) {
                Ok(0) => return VisitResult::Over,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return VisitResult::Waits;
                }
                Err(_) => return VisitResult::Over,
            }
        }
        VisitResult::Again
    }
}

fn refusal(status: u16, body: &str) -> Answer {
    Answer {
        status,
        content_type: "text/plain; charset=utf-8",
        body: body.to_owned(),
        challenge: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket whose peer sent `received`, and takes `room` bytes.
    #[derive(Default)]
    struct Peer {
        received: Vec<u8>,
        room: usize,
        sent: Vec<u8>,
        ended: std::cell::Cell<bool>,
    }

    impl Read for Peer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.received.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = buffer.len().min(self.received.len());
            buffer[..n].copy_from_slice(&self.received[..n]);
            self.received.drain(..n);
            Ok(n)
        }
    }

    impl Write for Peer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(self.room);
            self.room -= n;
            self.sent.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Socket for Peer {
        fn end_writing(&self) {
            self.ended.set(true);
        }
    }

    fn answer(request: &HttpRequest) -> Answer {
        refusal(200, &format!("{}\n", request.path))
    }

    fn connection(received: &[u8], room: usize, now: Instant) -> Connection<Peer> {
        let peer = Peer {
            received: received.to_vec(),
            room,
            ..Peer::default()
        };
        Connection::new(peer, now)
    }

    fn sent(connection: &Connection<Peer>) -> String {
        String::from_utf8(connection.socket.sent.clone()).unwrap()
    }

    #[test]
    fn requests_are_answered_one_after_the_other() {
        let now = Instant::now();
        let head = b"GET /a HTTP/1.1\r\n\r\n";
        let mut connection = connection(&head.repeat(100), 1 << 20, now);
        let mut visits = 1;
        while connection.visit(now, &answer) == VisitResult::Again {
            visits += 1;
        }
        assert!(visits >= 100 / ANSWERS_PER_VISIT, "{visits} visits");
        assert_eq!(sent(&connection).matches("\r\n\r\n/a\n").count(), 100);
        assert_eq!(connection.state(), HttpState::Reading { begun: false });
        assert_eq!(connection.deadline(), now + IDLE_TIMEOUT);
    }

    #[test]
    fn answers_that_are_not_fetched_stop_the_reading_of_requests() {
        let now = Instant::now();
        let head = b"GET /a HTTP/1.1\r\n\r\n";
        let mut connection = connection(&head.repeat(10_000), 100, now);
        assert_eq!(connection.visit(now, &answer), VisitResult::Waits);
        assert_eq!(connection.state(), HttpState::Writing);
        assert_eq!(connection.deadline(), now + WRITE_TIMEOUT);
        assert!(connection.socket.received.len() > 9_000 * head.len());
        assert!(connection.input.capacity() <= MAX_HEAD_BYTES && connection.output.len() < 1000);
    }

    #[test]
    fn a_slow_head_has_one_deadline_however_often_a_byte_arrives() {
        let start = Instant::now();
        let mut connection = connection(b"GET", 1000, start);
        assert_eq!(connection.visit(start, &answer), VisitResult::Waits);
        for second in 1..9 {
            connection.socket.received = b"x".to_vec();
            let now = start + Duration::from_secs(second);
            assert_eq!(connection.visit(now, &answer), VisitResult::Waits);
            assert_eq!(connection.deadline(), start + READ_TIMEOUT);
        }
    }

    #[test]
    fn a_body_is_refused_unread_and_the_connection_ends() {
        let long = format!("GET / HTTP/1.1\r\na: {}", "x".repeat(MAX_HEAD_BYTES));
        for (head, status) in [
            (
                "POST / HTTP/1.1\r\nContent-Length: 1000000000000000\r\n\r\n",
                "405 Method Not Allowed\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
                "413 Content Too Large\r\n",
            ),
            (
                "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "413 Content Too Large\r\n",
            ),
            ("\0\0\0", "400 Bad Request\r\n"),
            (&long, "431 Request Header Fields Too Large\r\n"),
        ] {
            let now = Instant::now();
            let mut connection = connection(head.as_bytes(), 1000, now);
            assert_eq!(connection.visit(now, &answer), VisitResult::Waits, "{head}");
            assert!(
                sent(&connection).starts_with(&format!("HTTP/1.1 {status}")),
                "{head}"
            );
            assert!(sent(&connection).contains("Connection: close"), "{head}");
            assert!(connection.socket.ended.get());
            assert_eq!(connection.deadline(), now + DRAIN_TIMEOUT);
            connection.socket.received = vec![b'x'; 1 << 20];
            assert_eq!(connection.visit(now, &answer), VisitResult::Again);
            assert_eq!(sent(&connection).matches("HTTP/1.1").count(), 1);
        }
    }

    #[test]
    fn a_head_request_gets_no_body() {
        let now = Instant::now();
        let mut connection = connection(b"HEAD /abc HTTP/1.1\r\n\r\n", 1000, now);
        assert_eq!(connection.visit(now, &answer), VisitResult::Waits);
        assert!(sent(&connection).contains("Content-Length: 5\r\n"));
        assert!(sent(&connection).ends_with("\r\n\r\n"));
    }
}
