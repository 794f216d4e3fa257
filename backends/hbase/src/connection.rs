//! One connection to a gateway: whole calls out, whole answers in, all before a deadline.
//!
//! A gateway serves a connection with one thread, which answers calls in their order. So several
//! calls can be under way at once ([`Connection::exchange`]): the gateway finds the next one in its
//! buffer when it has answered the last.
//!
//! Whether a call reached the gateway decides whether it may be repeated. A gateway reads a frame
//! whole before it looks at it, so a call whose frame the operating system did not take to its last
//! byte was not executed ([`Outcome::Unsent`]), and never will be, as the connection is closed. Of
//! any other call without an answer nothing is known ([`Outcome::Lost`]).
//!
//! After any failure the connection is *broken*: its next bytes could belong to another call. Who
//! owns it drops it.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::error::Origin;
use crate::thrift2::TThriftServerType;
use crate::url::GatewayAddress;
use crate::wire::{Answer, Arguments, HEADER_BYTES, INTEGER, Request, Shape, decode};

/// What of calls without an answer is sent at most, in bytes, beyond the first of them. Both sides'
/// socket buffers hold as much, so that sending never waits for a gateway that waits for us to
/// read.
const WINDOW_BYTES: usize = 64 << 10;

/// What is reserved for an answer before its bytes arrive.
const FIRST_RESERVE_BYTES: usize = 64 << 10;

/// What a first frame from a web server announces as its length.
const HTTP: &[u8] = b"HTTP";

/// What a gateway took too long for that never answers.
const NO_FIRST_ANSWER: &str = "a first answer (are all its threads taken, or was it started \
                               without --framed?)";

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The deadline passed during this.
    TimedOut(&'static str),
    /// The connection was refused, closed or reset, or the host is unknown.
    Io(String),
    /// An answer of so many bytes was announced, more than the limit.
    TooLong(usize),
    /// The bytes are no answer.
    Malformed(String),
}

impl Fault {
    fn of(error: &io::Error, doing: &'static str) -> Fault {
        match error.kind() {
            io::ErrorKind::TimedOut => Fault::TimedOut(doing),
            io::ErrorKind::UnexpectedEof => Fault::Io("it closed the connection".to_owned()),
            _ => Fault::Io(format!("{doing}: {error}")),
        }
    }
}

/// What became of one call of an exchange.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// The gateway answered.
    Answer(Answer<T>),
    /// The gateway never got the call.
    Unsent(Fault),
    /// The gateway may have got the call.
    Lost(Fault),
}

/// A socket whose reads and writes end at a deadline.
struct TimedSocket {
    socket: TcpStream,
    deadline: Instant,
}

impl TimedSocket {
    /// The time until the deadline, if any is left.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }

    /// Writes all bytes: `Ok` once the operating system has taken the last one.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.socket.set_write_timeout(Some(self.left()?))?;
            match self.socket.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => rest = &rest[taken..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(timed_out(error)),
            }
        }
        Ok(())
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer).map_err(timed_out)
    }
}

/// The operating system says `WouldBlock` where a timeout of a socket has passed.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// A connection whose gateway has said that it is one.
pub(crate) struct Connection {
    input: BufReader<TimedSocket>,
    /// The sequence number of the next call: from 0 to `i32::MAX`, and then from 0 again.
    next_number: i32,
    reply_limit_bytes: usize,
    is_broken: bool,
}

impl Connection {
    /// Connects, and asks the gateway what it is.
    ///
    /// The question costs a round trip and answers much: that the gateway has a thread for this
    /// connection, that it uses frames and the binary protocol, that it is no gateway of Thrift 1.
    /// As nothing else has been sent yet, a call can go elsewhere where it fails.
    pub(crate) fn open(
        address: &GatewayAddress,
        deadline: Instant,
        reply_limit_bytes: usize,
    ) -> Result<Connection, Fault> {
        let socket = connect(address, deadline)?;
        let prepared = socket.set_nodelay(true);
        prepared.map_err(|error| Fault::of(&error, "setting TCP_NODELAY"))?;
        let mut connection = Connection {
            input: BufReader::with_capacity(16 << 10, TimedSocket { socket, deadline }),
            next_number: 0,
            reply_limit_bytes,
            is_broken: false,
        };
        connection.check_server_type(deadline)?;
        Ok(connection)
    }

    fn check_server_type(&mut self, deadline: Instant) -> Result<(), Fault> {
        let request = Arguments::of("getThriftServerType").finish(usize::MAX);
        let mut request = request.map_err(|error| Fault::Malformed(error.to_string()))?;
        let outcomes = self.exchange(&mut [&mut request], &INTEGER, deadline);
        match outcomes.into_iter().next() {
            Some(Outcome::Answer(Answer::Result(kind))) if kind == TThriftServerType::TWO.0 => {
                Ok(())
            }
            Some(Outcome::Answer(Answer::Result(_))) => Err(Fault::Malformed(
                "it is a gateway of Thrift 1 (hbase thrift instead of hbase thrift2)".to_owned(),
            )),
            Some(Outcome::Answer(Answer::Refusal(refusal))) => {
                let why = match refusal.origin {
                    Origin::UnknownMethod => "it does not say its type: HBase 2.1 or later can",
                    _ => "it refuses to say its type",
                };
                Err(Fault::Malformed(format!("{why} ({refusal})")))
            }
            Some(Outcome::Unsent(fault) | Outcome::Lost(fault)) => Err(match fault {
                Fault::TimedOut(_) => Fault::TimedOut(NO_FIRST_ANSWER),
                fault => fault,
            }),
            None => Err(Fault::Malformed("it has no answer".to_owned())),
        }
    }

    /// Whether calls may still be sent.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether the gateway has neither closed the connection nor sent what nobody asked for, as far
    /// as is known here. Costs three system calls.
    pub(crate) fn is_quiet(&self) -> bool {
        let socket = &self.input.get_ref().socket;
        if self.is_broken || !self.input.buffer().is_empty() {
            return false;
        }
        let waits = socket.set_nonblocking(true).is_ok()
            && socket
                .peek(&mut [0])
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        socket.set_nonblocking(false).is_ok() && waits
    }

    /// Sends calls and reads their answers, several under way at once. Returns what became of each,
    /// in their order.
    ///
    /// Answers are read before all is sent, where that is more than sockets can hold.
    pub(crate) fn exchange<T>(
        &mut self,
        requests: &mut [&mut Request],
        shape: &Shape<T>,
        deadline: Instant,
    ) -> Vec<Outcome<T>> {
        if Instant::now() >= deadline {
            // The connection stays as it is.
            let late = |_: &&mut Request| Outcome::Unsent(Fault::TimedOut("sending the call"));
            return requests.iter().map(late).collect();
        }
        self.input.get_mut().deadline = deadline;
        let first_number = self.take_numbers(requests.len());
        let number = |nth: usize| first_number.wrapping_add(nth as i32) & i32::MAX;
        let mut outcomes: Vec<Outcome<T>> = Vec::with_capacity(requests.len());
        let mut sent = 0;
        let mut unanswered_bytes = 0;
        let mut fault_of_sending = None;
        while outcomes.len() < requests.len() {
            while sent < requests.len() && fault_of_sending.is_none() {
                let bytes = requests[sent].bytes();
                if sent > outcomes.len() && unanswered_bytes + bytes > WINDOW_BYTES {
                    break;
                }
                match self.send(requests[sent], number(sent)) {
                    Ok(()) => {
                        sent += 1;
                        unanswered_bytes += bytes;
                    }
                    Err(fault) => fault_of_sending = Some(fault),
                }
            }
            let nth = outcomes.len();
            if nth == sent {
                // Nothing is under way, and nothing could be sent.
                let fault = fault_of_sending.unwrap_or(Fault::Io("nothing was sent".to_owned()));
                outcomes.resize_with(requests.len(), || Outcome::Unsent(fault.clone()));
                break;
            }
            match self.receive(requests[nth].method(), number(nth), shape) {
                Ok(answer) => outcomes.push(Outcome::Answer(answer)),
                Err(fault) => {
                    outcomes.resize_with(sent, || Outcome::Lost(fault.clone()));
                    outcomes.resize_with(requests.len(), || Outcome::Unsent(fault.clone()));
                }
            }
            unanswered_bytes -= requests[nth].bytes();
        }
        outcomes
    }

    /// The first of as many sequence numbers, from 0 on again behind the last one.
    fn take_numbers(&mut self, count: usize) -> i32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count as i32) & i32::MAX;
        first
    }

    /// Hands a whole frame to the operating system; where that fails, the gateway does not get it.
    fn send(&mut self, request: &mut Request, number: i32) -> Result<(), Fault> {
        let sent = self.input.get_mut().send(request.frame(number));
        self.is_broken |= sent.is_err();
        sent.map_err(|error| Fault::of(&error, "sending the call"))
    }

    fn receive<T>(
        &mut self,
        method: &'static str,
        number: i32,
        shape: &Shape<T>,
    ) -> Result<Answer<T>, Fault> {
        let answer = self
            .receive_frame()
            .and_then(|message| decode(&message, method, number, shape).map_err(Fault::Malformed));
        self.is_broken |= answer.is_err();
        answer
    }

    /// Reads the message of a frame. Memory grows with the bytes that arrive, not with the length
    /// that was announced.
    fn receive_frame(&mut self) -> Result<Vec<u8>, Fault> {
        const DOING: &str = "waiting for the answer";
        let mut header = [0; HEADER_BYTES];
        let read = self.input.read_exact(&mut header);
        read.map_err(|error| Fault::of(&error, DOING))?;
        if header == HTTP {
            return Err(Fault::Malformed("it answers in HTTP".to_owned()));
        }
        let announced = i32::from_be_bytes(header);
        let Ok(bytes) = usize::try_from(announced) else {
            return Err(Fault::Malformed(format!("a frame of {announced} bytes")));
        };
        if bytes > self.reply_limit_bytes {
            return Err(Fault::TooLong(bytes));
        }
        let mut message = Vec::with_capacity(bytes.min(FIRST_RESERVE_BYTES));
        let rest = self.input.by_ref().take(bytes as u64);
        let read = read_all(rest, &mut message);
        read.map_err(|error| Fault::of(&error, DOING))?;
        match message.len() == bytes {
            true => Ok(message),
            false => Err(Fault::Io(format!(
                "it closed the connection {} bytes before the end of an answer",
                bytes - message.len()
            ))),
        }
    }
}

fn read_all(mut from: impl Read, to: &mut Vec<u8>) -> io::Result<usize> {
    from.read_to_end(to)
}

/// Tries the addresses of a host one after the other.
fn connect(address: &GatewayAddress, deadline: Instant) -> Result<TcpStream, Fault> {
    let addresses = (address.host(), address.port()).to_socket_addrs();
    let addresses = addresses.map_err(|error| Fault::of(&error, "looking up the host"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    let mut last = Fault::Io("the host has no address".to_owned());
    for (nth, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - nth) as u32;
        if share.is_zero() {
            return Err(Fault::TimedOut("connecting"));
        }
        match TcpStream::connect_timeout(address, share) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Fault::of(&error, "connecting"),
        }
    }
    Err(last)
}
