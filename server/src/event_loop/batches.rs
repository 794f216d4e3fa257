//! What a worker's batches of receives and sends need: a [`Ring`], vectors that they use again, and
//! the way of a send's outcome into the output. `transfers.rs` makes the batches.

use std::io::{self, IoSlice, Write};

use hedgerow_ring::Ring;

use crate::connection::input::Input;
use crate::sockets::stream::Stream;

/// A worker's ring, and vectors that its batches use again and again.
pub(crate) struct Batches {
    pub(super) ring: Ring,
    /// Inputs that are being received into, with their slots.
    pub(super) receiving: Vec<(usize, Input)>,
    /// The slots whose outputs are being sent.
    pub(super) sending: Vec<usize>,
}

impl Batches {
    pub(super) fn new(ring: Ring) -> Batches {
        Batches {
            ring,
            receiving: Vec::new(),
            sending: Vec::new(),
        }
    }
}

/// A stream for a flush, which finds its first write done if a batch did it.
pub(super) struct Sink<'s> {
    pub(super) stream: &'s mut Stream,
    /// What the first write came to.
    pub(super) sent: Option<io::Result<usize>>,
}

impl Write for Sink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.sent.take() {
            Some(outcome) => outcome,
            None => self.stream.write(bytes),
        }
    }

    #[inline]
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
