//! Batches through io_uring.
//!
//! **Why buffers outlive their use.** The kernel uses a buffer from the submission of its entry
//! until the entry's completion. Entries are only kept in a vector while a batch is built; they
//! enter the submission queue in [`Ring::perform`], which [`Batch::run`] calls while it still
//! borrows their buffers, and which returns only when
//!
//! - each entry that the kernel took has completed, and
//! - no entry is left in the submission queue, or the queue is never submitted again (`failed`).
//!
//! A batch that does not run has submitted nothing, and the next one clears its entries.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, Probe, opcode, squeue, types};

/// Entries that are submitted at once.
const DEPTH: usize = 256;
/// The outcome of a transfer that was not begun, which no error number of the kernel equals.
const NOT_DONE: i32 = i32::MIN;

/// A queue of transfers to the kernel. Any thread may use it, one at a time.
pub struct Ring {
    ring: IoUring,
    /// The batch that is being built.
    entries: Vec<squeue::Entry>,
    outcomes: Vec<i32>,
    /// The kernel refused a submission: the ring is not used any more.
    failed: bool,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Transfers that will be done together. It borrows their sockets and buffers until it has run.
pub struct Batch<'r, 'b> {
    ring: &'r mut Ring,
    borrowed: PhantomData<(BorrowedFd<'b>, &'b mut [u8])>,
}

impl fmt::Debug for Batch<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish()
    }
}

/// The outcomes of a batch, by the order in which its transfers were added.
#[derive(Debug)]
pub struct Outcomes<'r>(&'r [i32]);

impl Ring {
    /// Makes a ring and checks that it transfers bytes.
    ///
    /// When a ring ends, the kernel interrupts each thread that has made it or used it: a system
    /// call of that thread may fail with [`Interrupted`](io::ErrorKind::Interrupted). The caller
    /// is spared that, for a thread of its own makes the ring. Those that run batches are not.
    ///
    /// # Errors
    /// The kernel has no io_uring, or none with sends and receives (before Linux 5.6); a policy
    /// forbids it; the process has no file descriptor, locked memory or thread left.
    pub fn new() -> io::Result<Ring> {
        let maker = std::thread::Builder::new().name("hedgerow-ring".into());
        let made = maker.spawn(Ring::make)?.join();
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn make() -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        // Before Linux 5.18 a submission ends at the first entry that fails, and goes on.
        let ring = builder.setup_submit_all().build(DEPTH as u32);
        let ring = ring.or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::new(DEPTH as u32),
            _ => Err(error),
        })?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Recv::CODE, opcode::Send::CODE];
        if !needed.iter().all(|&code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring {
            ring,
            entries: Vec::new(),
            outcomes: Vec::new(),
            failed: false,
        })
    }

    /// Whether the kernel refused a submission: from then on batches do nothing.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Begins a batch.
    #[inline]
    pub fn batch<'b>(&mut self) -> Batch<'_, 'b> {
        // Those of a batch that did not run.
        self.entries.clear();
        Batch {
            ring: self,
            borrowed: PhantomData,
        }
    }

    /// Does all entries.
    ///
    /// # Safety
    ///
    /// The sockets and buffers of the entries stay valid, and nothing else uses the buffers, until
    /// this returns.
    unsafe fn perform(&mut self) {
        self.outcomes.clear();
        self.outcomes.resize(self.entries.len(), NOT_DONE);
        let mut begun = 0;
        while begun < self.entries.len() && !self.failed {
            let end = self.entries.len().min(begun + DEPTH);
            let part = &self.entries[begun..end];
            // SAFETY: the caller keeps what the entries refer to valid until `finish` has waited
            // for those that the kernel takes; the others are never submitted.
            let pushed = unsafe { self.ring.submission().push_multiple(part) };
            // The queue is empty here, and has room for so many.
            self.failed |=
                pushed.is_err() || !finish(&mut self.ring, end - begun, &mut self.outcomes);
            begun = end;
        }
        self.entries.clear();
    }
}

/// Submits what was pushed and waits for it. `false`: the kernel refused a part, which is left in
/// the submission queue; what it took has completed.
fn finish(ring: &mut IoUring, pushed: usize, outcomes: &mut [i32]) -> bool {
    let (mut done, mut refused) = (0, false);
    loop {
        let left = ring.submission().len();
        if done + left == pushed && (refused || left == 0) {
            return left == 0;
        }
        // Transfers that do not wait have completed when they are submitted.
        let outcome = match (refused, left) {
            (false, 1..) => ring.submit(),
            (false, 0) => ring.submit_and_wait(1),
            // Whatever may be wrong with the ring: what is under way uses borrowed buffers.
            (true, _) => {
                std::thread::yield_now();
                Ok(0)
            }
        };
        match outcome {
            Ok(0) if left > 0 => refused = true,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Also where the kernel is short of memory: its caller goes on with single calls.
            Err(_) => refused = true,
        }
        for completion in ring.completion() {
            done += 1;
            if let Some(outcome) = outcomes.get_mut(completion.user_data() as usize) {
                *outcome = completion.result();
            }
        }
    }
}

impl<'r, 'b> Batch<'r, 'b> {
    /// Adds a receive into a buffer.
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'b>, buffer: &'b mut [u8]) {
        let bytes = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let fd = types::Fd(socket.as_raw_fd());
        let entry = opcode::Recv::new(fd, buffer.as_mut_ptr(), bytes);
        self.push(entry.flags(libc::MSG_DONTWAIT).build());
    }

    /// Adds a send of some bytes.
    #[inline]
    pub fn send(&mut self, socket: BorrowedFd<'b>, bytes: &'b [u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let fd = types::Fd(socket.as_raw_fd());
        let entry = opcode::Send::new(fd, bytes.as_ptr(), length);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.push(entry.flags(flags).build());
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry) {
        let nth = self.ring.entries.len() as u64;
        self.ring.entries.push(entry.user_data(nth));
    }

    /// How many transfers were added.
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does all of it: one system call for each 256 transfers.
    pub fn run(self) -> Outcomes<'r> {
        // SAFETY: the entries are those of this batch, as `Ring::batch` left none, and `'b`, for
        // which their sockets and buffers are borrowed (the buffers of receives mutably), lasts at
        // least as long as this call.
        unsafe { self.ring.perform() };
        Outcomes(&self.ring.outcomes)
    }
}

impl Outcomes<'_> {
    /// How many bytes the transfer that was added as the `nth` has moved, or why it has not:
    /// `WouldBlock` where it would have to wait. `None` if it was not done, for then the ring has
    /// failed.
    #[inline]
    pub fn get(&self, nth: usize) -> Option<io::Result<usize>> {
        match *self.0.get(nth)? {
            NOT_DONE => None,
            error @ ..0 => Some(Err(io::Error::from_raw_os_error(-error))),
            bytes => Some(Ok(bytes as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Puts a file in the place of a ring's, so that the kernel refuses whatever is submitted.
    fn break_ring(ring: &Ring) {
        let other = File::open("/dev/null").unwrap();
        // SAFETY: `dup2` takes two descriptors that are open, and touches no memory; the ring's
        // queues stay mapped.
        let outcome = unsafe { libc::dup2(other.as_raw_fd(), ring.ring.as_raw_fd()) };
        assert!(outcome >= 0);
    }

    #[test]
    fn a_ring_that_fails_says_what_it_has_not_done() {
        let Ok(mut ring) = Ring::new() else {
            eprintln!("skipped: there is no io_uring here");
            return;
        };
        let (server, client) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        break_ring(&ring);
        for _ in 0..2 {
            let mut batch = ring.batch();
            batch.send(server.as_fd(), b"one");
            batch.send(server.as_fd(), b"two");
            let outcomes = batch.run();
            assert!(outcomes.get(0).is_none() && outcomes.get(1).is_none());
            assert!(ring.has_failed());
        }
        let nothing = io::Read::read(&mut &client, &mut [0; 8]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
