//! A connection's two buffers.
//!
//! Buffers come from a worker's [`Pool`] when bytes arrive or replies are written, and go back
//! when they are empty: ten thousand silent connections hold no buffer at all.
//!
//! ```text
//! Input   [ consumed | whole requests and a part | room ]      ≤ the longest request
//!                    ^start                     ^end
//! Output  [ sent | may be sent | must wait for a sync ]        ≤ limit + one turn's replies
//!                ^sent         ^first gate
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Instant;

/// The size of a fresh buffer.
const BUFFER_BYTES: usize = 16 << 10;
/// A larger buffer is not kept for reuse.
const KEPT_BYTES: usize = 256 << 10;
/// Buffers kept for reuse.
const KEPT_BUFFERS: usize = 512;

/// Empty buffers waiting to be used again.
#[derive(Default)]
pub(crate) struct Pool {
    /// Zero-filled up to their length at some time: `read` needs initialised bytes.
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

/// What a read from the socket came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// The socket has no more for now.
    Drained,
    /// The socket may have more.
    More,
    /// The peer sends no more.
    End,
}

/// Bytes received and not yet consumed.
#[derive(Default)]
pub(crate) struct Input {
    /// Initialised throughout; what was received lies at `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// What was received and not consumed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Receives once. `wanted` bytes in all are expected; the buffer doubles on the way there,
    /// so that a long request is copied a constant number of times and a client that announces
    /// much but sends little gets little memory.
    pub(crate) fn fill(
        &mut self,
        source: &mut impl Read,
        wanted: usize,
        pool: &mut Pool,
    ) -> io::Result<Filled> {
        if self.bytes.is_empty() {
            self.bytes = pool.inputs.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
        }
        if self.start > 0 && (self.start == self.end || self.bytes.len() - self.end < 4096) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < 4096 {
            let double = self.bytes.len() * 2;
            let grown = wanted
                .saturating_add(64)
                .clamp(BUFFER_BYTES, double)
                .max(double.min(KEPT_BYTES));
            self.bytes.resize(grown.max(self.end + 4096), 0);
        }
        let room = self.bytes.len() - self.end;
        loop {
            return match source.read(&mut self.bytes[self.end..]) {
                Ok(0) => Ok(Filled::End),
                Ok(n) => {
                    self.end += n;
                    Ok(if n < room {
                        Filled::Drained
                    } else {
                        Filled::More
                    })
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Filled::Drained),
                Err(error) => Err(error),
            };
        }
    }

    /// Forgets the first `n` bytes.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len(), "only what was received can be consumed");
        self.start += n;
    }

    /// Replaces some of the received bytes by others.
    pub(crate) fn replace(&mut self, range: std::ops::Range<usize>, bytes: &[u8]) {
        let range = self.start + range.start..self.start + range.end;
        self.end = self.end - range.len() + bytes.len();
        self.bytes.splice(range, bytes.iter().copied());
    }

    /// Gives an empty buffer back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.start == self.end && !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            (self.start, self.end) = (0, 0);
            if bytes.len() <= KEPT_BYTES && pool.inputs.len() < KEPT_BUFFERS {
                pool.inputs.push(bytes);
            }
        }
    }
}

/// Replies not yet sent.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Where replies wait, in order.
    gates: VecDeque<Gate>,
}

/// From a position on, replies wait until an epoch is durable.
struct Gate {
    position: usize,
    epoch: u64,
    /// When waiting ends in any case: the reply at the position is one of `WAITAOF` then, and says
    /// that nothing is known to be durable.
    deadline: Option<Instant>,
}

/// How the reply of `WAITAOF` begins, as far as the digit that tells whether all is durable.
const DURABLE: &[u8] = b"*2\r\n:";

impl Output {
    /// Where replies are appended. Nothing before may be changed.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes a buffer from the pool, if there is none yet.
    pub(crate) fn prepare(&mut self, pool: &mut Pool) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool
                .outputs
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        }
    }

    /// The position where the next reply begins.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Replies from `position` on (a length of the buffer) wait for `epoch` to be durable, or for
    /// a moment after which a `WAITAOF` at that position does not wait any more.
    pub(crate) fn hold(&mut self, position: usize, epoch: u64, deadline: Option<Instant>) {
        let covers = |last: &Gate| last.epoch >= epoch && last.deadline.is_none();
        if !self.gates.back().is_some_and(covers) {
            self.gates.push_back(Gate {
                position,
                epoch,
                deadline,
            });
        }
    }

    /// Whether some replies wait for a sync.
    pub(crate) fn is_held(&self) -> bool {
        !self.gates.is_empty()
    }

    /// Lets go what `durable_epoch` covers, and what has waited for long enough.
    pub(crate) fn release_held(&mut self, durable_epoch: u64, now: Instant) {
        while let Some(gate) = self.gates.front() {
            if gate.epoch > durable_epoch {
                if gate.deadline.is_none_or(|deadline| deadline > now) {
                    return;
                }
                let digit = gate.position + DURABLE.len();
                debug_assert_eq!(&self.bytes[gate.position..digit], DURABLE);
                self.bytes[digit] = b'0';
            }
            self.gates.pop_front();
        }
    }

    /// When to let go what waits first, whatever is durable then.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.gates.front()?.deadline
    }

    /// Replaces the replies that wait for a sync, which will never come, by an error.
    pub(crate) fn fail_held(&mut self, error: &[u8]) {
        if let Some(gate) = self.gates.pop_front() {
            self.bytes.truncate(gate.position);
            self.bytes.extend_from_slice(error);
            self.gates.clear();
        }
    }

    /// Sends once what may be sent; whether all of that went out.
    pub(crate) fn flush(&mut self, sink: &mut impl Write) -> io::Result<bool> {
        let end = self
            .gates
            .front()
            .map_or(self.bytes.len(), |gate| gate.position);
        while self.sent < end {
            match sink.write(&self.bytes[self.sent..end]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        Ok(true)
    }

    /// Gives an empty buffer back, and room in a half-sent one.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            let bytes = std::mem::take(&mut self.bytes);
            if bytes.capacity() <= KEPT_BYTES && pool.outputs.len() < KEPT_BUFFERS {
                pool.outputs.push(bytes);
            }
        } else if self.sent > KEPT_BYTES && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            for gate in &mut self.gates {
                gate.position -= self.sent;
            }
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_is_received_in_a_doubling_buffer() {
        let sent: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let (mut input, mut pool) = (Input::default(), Pool::default());
        let mut source = &sent[..];
        let mut reads = 0;
        while input.len() < sent.len() {
            input.fill(&mut source, sent.len(), &mut pool).unwrap();
            reads += 1;
            assert!(
                input.bytes.len() <= (2 * input.len()).max(2 * KEPT_BYTES),
                "room is bounded"
            );
        }
        assert_eq!(input.bytes(), sent);
        assert!(reads < 20, "{reads} reads");
        assert_eq!(input.fill(&mut source, 1, &mut pool).unwrap(), Filled::End);
        input.consume(sent.len());
        input.release(&mut pool);
        assert!(
            input.bytes.is_empty() && pool.inputs.is_empty(),
            "a long buffer is not kept"
        );
    }

    #[test]
    fn replies_wait_for_their_epoch_and_keep_their_order() {
        let (mut output, mut pool) = (Output::default(), Pool::default());
        output.prepare(&mut pool);
        output.buffer().extend_from_slice(b"a");
        output.hold(1, 5, None);
        output.buffer().extend_from_slice(b"b");
        output.hold(2, 4, None);
        output.buffer().extend_from_slice(b"c");
        output.hold(3, 7, None);
        output.buffer().extend_from_slice(b"d");
        let mut sink = Vec::new();
        assert!(output.flush(&mut sink).unwrap());
        assert_eq!(sink, b"a");
        output.release_held(5, Instant::now());
        assert!(output.flush(&mut sink).unwrap());
        assert_eq!(sink, b"abc");
        assert!(output.is_held() && output.pending() == 1);
        output.fail_held(b"!");
        assert!(output.flush(&mut sink).unwrap());
        assert_eq!((sink.as_slice(), output.pending()), (&b"abc!"[..], 0));
        output.release(&mut pool);
        assert_eq!(pool.outputs.len(), 1);
    }

    #[test]
    fn a_wait_that_takes_too_long_says_that_nothing_is_durable() {
        let (mut output, mut pool) = (Output::default(), Pool::default());
        output.prepare(&mut pool);
        let begin = Instant::now();
        let at = |seconds| begin + std::time::Duration::from_secs(seconds);
        let reply = b"*2\r\n:1\r\n:0\r\n";
        for (epoch, deadline) in [
            (5, Some(at(1))),
            (5, Some(at(2))),
            (6, Some(at(3))),
            (6, None),
        ] {
            output.hold(output.len(), epoch, deadline);
            output.buffer().extend_from_slice(reply);
        }
        let sent = |output: &mut Output| {
            let mut sink = Vec::new();
            output.flush(&mut sink).unwrap();
            let digits = sink.chunks(reply.len()).map(|reply| char::from(reply[5]));
            digits.collect::<String>()
        };
        output.release_held(4, begin);
        assert_eq!(sent(&mut output), "");
        assert_eq!(output.deadline(), Some(at(1)));
        output.release_held(4, at(1));
        assert_eq!(sent(&mut output), "0");
        output.release_held(5, at(1));
        assert_eq!(sent(&mut output), "1");
        assert_eq!(output.deadline(), Some(at(3)));
        output.release_held(5, at(9));
        assert_eq!(sent(&mut output), "0");
        assert_eq!(output.deadline(), None);
        output.release_held(5, at(99));
        assert_eq!(
            sent(&mut output),
            "",
            "without a timeout for as long as it takes"
        );
        output.release_held(6, at(99));
        assert_eq!(sent(&mut output), "1");
    }
}
