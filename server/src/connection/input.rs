//! What a connection received, and the pool of buffers; [`output`](crate::connection::output) has
//! the connection's replies. A connection takes buffers from its worker's [`Pool`] when bytes
//! arrive or replies are written, and returns them when they are empty: ten thousand silent
//! connections have no buffer at all.
//!
//! ```text
//! Input   [ consumed | whole requests and a part | room ]      ≤ the longest request
//!                    ^start                     ^end
//! ```

use std::io::{self, Read};

/// The size of a fresh buffer.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;
/// A larger buffer is not kept for reuse.
pub(crate) const MAX_POOLED_BYTES: usize = 256 << 10;
/// Buffers kept for reuse.
pub(crate) const MAX_POOLED_BUFFERS: usize = 512;

/// Empty buffers waiting to be used again.
#[derive(Default)]
pub(crate) struct Pool {
    /// Zero-filled up to their length at some time: `read` needs initialised bytes.
    inputs: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
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

    /// The memory that is taken up.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// By how much [`fill`](Input::fill) will have the buffer grow.
    pub(crate) fn growth(&self, wanted: usize) -> usize {
        let moves =
            self.start > 0 && (self.start == self.end || self.bytes.len() - self.end < 4096);
        let end = if moves {
            self.end - self.start
        } else {
            self.end
        };
        if self.bytes.is_empty() || self.bytes.len() - end >= 4096 {
            return 0;
        }
        self.grown(wanted).max(end + 4096) - self.bytes.len()
    }

    fn grown(&self, wanted: usize) -> usize {
        let double = self.bytes.len() * 2;
        wanted
            .saturating_add(64)
            .min(double)
            .max(BUFFER_BYTES)
            .max(double.min(MAX_POOLED_BYTES))
    }

    /// Receives once into the [`room`](Input::room).
    pub(crate) fn fill(
        &mut self,
        source: &mut impl Read,
        wanted: usize,
        pool: &mut Pool,
    ) -> io::Result<Filled> {
        loop {
            match source.read(self.room(wanted, pool)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return self.filled(outcome),
            }
        }
    }

    /// Where the next bytes are to be received; then [`filled`](Input::filled) takes them. `wanted`
    /// bytes in all are expected; the buffer doubles on the way there, so that a long request is
    /// copied a constant number of times and a client that announces much but sends little gets
    /// little memory.
    pub(crate) fn room(&mut self, wanted: usize, pool: &mut Pool) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = pool.inputs.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
        }
        if self.start > 0 && (self.start == self.end || self.bytes.len() - self.end < 4096) {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < 4096 {
            let grown = self.grown(wanted).max(self.end + 4096);
            self.bytes.reserve_exact(grown - self.bytes.len());
            self.bytes.resize(grown, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Takes what a read into the [`room`](Input::room) came to.
    pub(crate) fn filled(&mut self, outcome: io::Result<usize>) -> io::Result<Filled> {
        match outcome {
            Ok(0) => Ok(Filled::End),
            Ok(n) => {
                self.end += n;
                debug_assert!(
                    self.end <= self.bytes.len(),
                    "no more than there was room for"
                );
                Ok(if self.end < self.bytes.len() {
                    Filled::Drained
                } else {
                    Filled::More
                })
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Ok(Filled::Drained),
                // To be read again.
                io::ErrorKind::Interrupted => Ok(Filled::More),
                _ => Err(error),
            },
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
        // The buffer's length is its size, also for whoever has it next.
        let size = self.bytes.len();
        self.bytes.splice(range, bytes.iter().copied());
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
    }

    /// Gives an empty buffer back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.start == self.end && !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            (self.start, self.end) = (0, 0);
            if bytes.len() <= MAX_POOLED_BYTES && pool.inputs.len() < MAX_POOLED_BUFFERS {
                pool.inputs.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_in_which_bytes_were_replaced_by_fewer_is_as_large_as_before() {
        let (mut input, mut pool) = (Input::default(), Pool::default());
        for length in [12_010, 20_000, 16_000] {
            let sent = vec![b'x'; length];
            let mut source = &sent[..];
            while input.len() < sent.len() {
                input.fill(&mut source, sent.len(), &mut pool).unwrap();
            }
            input.replace(1..length - 1, b"short");
            assert_eq!(input.bytes(), b"xshortx");
            input.consume(input.len());
            input.release(&mut pool);
            assert!(pool.inputs.iter().all(|bytes| bytes.len() >= BUFFER_BYTES));
        }
    }

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
                input.bytes.len() <= (2 * input.len()).max(2 * MAX_POOLED_BYTES),
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
}
