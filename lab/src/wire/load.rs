//! Playing scripts: throughput over several connections, latency over one.
//!
//! Connections are blocking and visited in turn: while the client handles one connection's
//! replies, the server works on the others' requests.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::operations::Records;
use super::place::{Place, Stream, connect};
use super::script::{Exchange, Script};
use crate::machine::used_cpu_seconds;
use crate::{LabError, Result};

/// One blocking connection that plays exchanges.
struct Connection<'a> {
    stream: Stream,
    waiting: Option<Exchange<'a>>,
    buffer: Vec<u8>,
}

impl<'a> Connection<'a> {
    fn open(place: &Place) -> Result<Self> {
        Ok(Self {
            stream: connect(place)?,
            waiting: None,
            buffer: Vec::new(),
        })
    }

    fn send(&mut self, exchange: Exchange<'a>) -> Result<()> {
        self.stream.write_all(exchange.request)?;
        self.waiting = Some(exchange);
        Ok(())
    }

    /// Waits for the outstanding replies, if any, and compares them. Returns how many.
    fn receive(&mut self) -> Result<usize> {
        let Some(exchange) = self.waiting.take() else {
            return Ok(0);
        };
        if self.buffer.len() < exchange.reply.len() {
            self.buffer.resize(exchange.reply.len(), 0);
        }
        let got = &mut self.buffer[..exchange.reply.len()];
        let mut filled = 0;
        while filled < got.len() {
            let more = read_some(&mut self.stream, &mut got[filled..])?;
            if more == 0 {
                return Err(difference(&got[..filled], &exchange));
            }
            filled += more;
            // An error reply is shorter than the right one: do not wait for the rest.
            if got[..filled] != exchange.reply[..filled] {
                return Err(difference(&got[..filled], &exchange));
            }
        }
        Ok(exchange.requests)
    }
}

/// Reads what there is. A read with a limit of time is broken off when the process is stopped and
/// continued, as by job control.
pub(super) fn read_some(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(to) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn difference(got: &[u8], exchange: &Exchange<'_>) -> LabError {
    let at = got
        .iter()
        .zip(exchange.reply)
        .take_while(|(got, right)| got == right)
        .count();
    let show = |bytes: &[u8]| {
        let from = at.saturating_sub(20).min(bytes.len());
        bytes[from..bytes.len().min(at + 60)]
            .escape_ascii()
            .to_string()
    };
    let request = exchange.request[..exchange.request.len().min(80)].escape_ascii();
    LabError::WrongAnswer(format!(
        "byte {at} of the replies to \"{request}…\": got \"{}\", expected \"{}\"",
        show(got),
        show(exchange.reply)
    ))
}

/// Plays `script` over and over on `connections` for `duration`; requests per second.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn throughput(
    place: impl Into<Place>,
    script: &Script,
    connections: usize,
    duration: Duration,
) -> Result<f64> {
    let place = place.into();
    let mut connections = (0..connections)
        .map(|_| Connection::open(&place))
        .collect::<Result<Vec<_>>>()?;
    let mut next = 0;
    let mut answered = 0;
    let start = Instant::now();
    // Once at least, however late this thread gets its turn.
    loop {
        for connection in &mut connections {
            answered += connection.receive()?;
            connection.send(script.exchange(next))?;
            next = if next + 1 == script.len() {
                0
            } else {
                next + 1
            };
        }
        if start.elapsed() >= duration {
            break;
        }
    }
    for connection in &mut connections {
        answered += connection.receive()?;
    }
    Ok(answered as f64 / start.elapsed().as_secs_f64())
}

/// Plays `script` once from beginning to end over `connections`; requests per second.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn play_once(address: SocketAddr, script: &Script, connections: usize) -> Result<f64> {
    let place = address.into();
    let mut connections = (0..connections)
        .map(|_| Connection::open(&place))
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let mut answered = 0;
    let count = connections.len();
    for index in 0..script.len() {
        let connection = &mut connections[index % count];
        answered += connection.receive()?;
        connection.send(script.exchange(index))?;
    }
    for connection in &mut connections {
        answered += connection.receive()?;
    }
    Ok(answered as f64 / start.elapsed().as_secs_f64())
}

/// Plays each script once on a connection of its own, all at once; requests per second.
///
/// Preambles are said before the clock starts. Connections are visited in turn. One that has
/// played its script is left open.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn play_each(address: SocketAddr, scripts: &[Script]) -> Result<f64> {
    let place = address.into();
    let mut connections = scripts
        .iter()
        .map(|_| Connection::open(&place))
        .collect::<Result<Vec<_>>>()?;
    for (connection, script) in connections.iter_mut().zip(scripts) {
        if let Some(preamble) = script.preamble() {
            connection.send(preamble)?;
            connection.receive()?;
        }
    }
    let longest = scripts.iter().map(Script::len).max().unwrap_or(0);
    let start = Instant::now();
    let mut answered = 0;
    for index in 0..=longest {
        for (connection, script) in connections.iter_mut().zip(scripts) {
            answered += connection.receive()?;
            if index < script.len() {
                connection.send(script.exchange(index))?;
            }
        }
    }
    Ok(answered as f64 / start.elapsed().as_secs_f64())
}

/// Records of a slice of a load: enough to keep a server busy, few enough to hold as a script.
const SLICE_RECORDS: usize = 1 << 18;

/// Sets the first `count` records in slices, `depth` to an exchange; records per second.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn load_records(
    address: SocketAddr,
    records: &Records<'_>,
    count: usize,
    depth: usize,
    connections: usize,
) -> Result<f64> {
    load_scripts(address, count, connections, |range| {
        records.load(range, depth)
    })
}

/// Plays the load of the first `count` records in slices, each as a script; records per second.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn load_scripts(
    address: SocketAddr,
    count: usize,
    connections: usize,
    load: impl Fn(Range<usize>) -> Script,
) -> Result<f64> {
    let mut seconds = 0.0;
    for from in (0..count).step_by(SLICE_RECORDS) {
        let to = count.min(from + SLICE_RECORDS);
        let script = load(from..to);
        seconds += (to - from) as f64 / play_once(address, &script, connections)?;
    }
    Ok(count as f64 / seconds)
}

/// What `play` returns, and the share of a core that this process used meanwhile.
///
/// # Errors
///
/// Those of `play`.
pub fn watched<T>(play: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let (start, before) = (Instant::now(), used_cpu_seconds());
    let played = play()?;
    let busy = (used_cpu_seconds() - before) / start.elapsed().as_secs_f64();
    Ok((played, busy))
}

/// How long single requests took on one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// The median in microseconds.
    pub p50_us: f64,
    /// The 99th percentile in microseconds.
    pub p99_us: f64,
}

/// Plays `script` on one connection for `duration`, one exchange in flight, each timed.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn latency(place: impl Into<Place>, script: &Script, duration: Duration) -> Result<Latency> {
    let mut connection = Connection::open(&place.into())?;
    let mut times = Vec::with_capacity(1 << 20);
    let start = Instant::now();
    let mut next = 0;
    // Once at least, however late this thread gets its turn.
    loop {
        let sent = Instant::now();
        connection.send(script.exchange(next % script.len()))?;
        connection.receive()?;
        times.push(sent.elapsed());
        next += 1;
        if start.elapsed() >= duration {
            break;
        }
    }
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() - 1) as f64 * share) as usize;
        times[index].as_nanos() as f64 / 1000.0
    };
    Ok(Latency {
        p50_us: at(0.5),
        p99_us: at(0.99),
    })
}

/// Plays `script` on one connection at a fixed pace for `duration` and times each exchange in
/// nanoseconds, from the moment when it was *due*.
///
/// A client that waits for a late reply before it sends on leaves out the requests that a real
/// one would have sent meanwhile, and with them the worst latencies (coordinated omission).
/// Here a late reply delays what follows, and the delay counts.
///
/// # Errors
///
/// A connection that fails, or the first reply that differs.
pub fn scheduled_latency(
    address: SocketAddr,
    script: &Script,
    pace: Duration,
    duration: Duration,
) -> Result<Histogram<u64>> {
    let mut connection = Connection::open(&address.into())?;
    let mut histogram = Histogram::new(3).map_err(LabError::from_display)?;
    let start = Instant::now();
    let mut due = Duration::ZERO;
    let mut next = 0;
    while due < duration {
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        connection.send(script.exchange(next % script.len()))?;
        connection.receive()?;
        let late = start.elapsed().saturating_sub(due);
        let ns = late.as_nanos().max(1) as u64;
        histogram.record(ns).map_err(LabError::from_display)?;
        due += pace;
        next += 1;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Protocol;
    use hedgerow_lab_data::{KeySet, Keys};
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    /// A server that answers every memcached set with `reply`.
    fn start(reply: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut lines = BufReader::new(stream.try_clone().expect("clone")).lines();
                    while let (Some(Ok(_)), Some(Ok(_))) = (lines.next(), lines.next()) {
                        if (&stream).write_all(reply).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn a_read_that_was_broken_off_is_begun_again() {
        struct Stopped(bool);
        impl Read for Stopped {
            fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
                match std::mem::replace(&mut self.0, false) {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => Ok(to.len()),
                }
            }
        }
        let read = read_some(&mut Stopped(true), &mut [0; 3]);
        assert_eq!(read.expect("the second time"), 3);
    }

    #[test]
    fn right_replies_are_counted_and_wrong_ones_end_the_run() {
        let keys = KeySet::Decimal.keys(100).expect("keys");
        let records = Records {
            keys: &keys,
            sorted: Keys::new(),
            value_bytes: 8,
            update_bytes: 8,
            protocol: Protocol::Memcached,
        };
        let script = records.load(0..100, 8);
        let good = start(b"STORED\r\n");
        assert!(play_once(good, &script, 3).expect("right replies") > 0.0);
        let (rate, busy) = watched(|| load_records(good, &records, 100, 8, 3)).expect("replies");
        assert!(rate > 0.0 && busy >= 0.0);
        let unequal = [script.clone(), Script::default(), script.clone()];
        assert!(play_each(good, &unequal).expect("right replies") > 0.0);
        let short = Duration::from_millis(20);
        assert!(throughput(good, &script, 2, short).expect("right replies") > 0.0);
        let latency = latency(good, &script, short).expect("right replies");
        assert!(latency.p50_us <= latency.p99_us);
        let pace = Duration::from_micros(500);
        let paced = scheduled_latency(good, &script, pace, short).expect("right replies");
        assert_eq!(paced.len(), 40, "as many as were due, however late");
        assert!(
            paced.max() > 1000,
            "a round trip takes microseconds: {}",
            paced.max()
        );
        let bad = start(b"ERROR\r\n");
        let error = play_once(bad, &script, 1)
            .expect_err("wrong replies")
            .to_string();
        assert!(
            error.contains("ERROR") && error.contains("STORED"),
            "{error}"
        );
    }
}
