//! What stands for rings where there is no io_uring: none can be made.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

/// A ring, which cannot be made here.
#[derive(Debug)]
pub struct Ring(Infallible);

/// A batch of a ring.
#[derive(Debug)]
pub struct Batch<'r, 'b>(&'r mut Ring, PhantomData<&'b mut [u8]>);

/// The outcomes of a batch.
#[derive(Debug)]
pub struct Outcomes<'r>(&'r Ring);

impl Ring {
    /// Always an error.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`].
    pub fn new() -> io::Result<Ring> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether the ring has failed.
    pub fn has_failed(&self) -> bool {
        match self.0 {}
    }

    /// Begins a batch.
    pub fn batch<'b>(&mut self) -> Batch<'_, 'b> {
        match self.0 {}
    }
}

impl<'r, 'b> Batch<'r, 'b> {
    /// Adds a receive.
    pub fn receive(&mut self, _socket: BorrowedFd<'b>, _buffer: &'b mut [u8]) {
        match self.0.0 {}
    }

    /// Adds a send.
    pub fn send(&mut self, _socket: BorrowedFd<'b>, _bytes: &'b [u8]) {
        match self.0.0 {}
    }

    /// How many transfers there are.
    pub fn len(&self) -> usize {
        match self.0.0 {}
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match self.0.0 {}
    }

    /// Does all of it.
    pub fn run(self) -> Outcomes<'r> {
        match self.0.0 {}
    }
}

impl Outcomes<'_> {
    /// The outcome of a transfer.
    pub fn get(&self, _nth: usize) -> Option<io::Result<usize>> {
        match self.0.0 {}
    }
}
