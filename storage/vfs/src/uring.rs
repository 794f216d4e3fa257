//! Batches of reads and writes through io_uring: all of a batch is under way at once, so the disk
//! sees its depth, however few threads there are.
//!
//! Rings are taken from a shared stock for the time of a batch and returned. None is closed but
//! one that failed: when a ring is closed the kernel interrupts each thread that has used it, among
//! them threads of whoever embeds the store. A batch is always waited for, so its buffers are
//! borrowed for as long as the kernel uses them. Where the kernel has no io_uring, or a policy
//! forbids it, nothing here does anything and callers go on with one call after the other; so they
//! also do with whatever a ring reports as failed or cut short, and while all rings are in use.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::{IoUring, opcode, squeue, types};

use crate::{ReadAt, WriteAt};

/// Entries of a ring: how much of a batch is under way at once.
const DEPTH: usize = 128;
/// How many rings there are at most. Batches beyond go on with one call after the other: so many
/// others keep the disk busy.
const MOST_RINGS: usize = 64;

/// All rings of the process.
struct Stock {
    /// Those that no batch uses.
    spare: Vec<IoUring>,
    /// How many there are, used or spare.
    made: usize,
}

static STOCK: Mutex<Stock> = Mutex::new(Stock {
    spare: Vec::new(),
    made: 0,
});
static UNAVAILABLE: AtomicBool = AtomicBool::new(false);

const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();
const ENOSYS: i32 = rustix::io::Errno::NOSYS.raw_os_error();

fn stock() -> MutexGuard<'static, Stock> {
    STOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take() -> Option<IoUring> {
    if UNAVAILABLE.load(Ordering::Relaxed) {
        return None;
    }
    {
        let mut stock = stock();
        if let Some(ring) = stock.spare.pop() {
            return Some(ring);
        }
        if stock.made == MOST_RINGS {
            return None;
        }
        stock.made += 1;
    }
    let ring = IoUring::new(DEPTH as u32);
    if let Err(error) = &ring {
        stock().made -= 1;
        if [ENOSYS, EPERM].contains(&error.raw_os_error().unwrap_or(0)) {
            UNAVAILABLE.store(true, Ordering::Relaxed);
        }
    }
    ring.ok()
}

/// Puts a ring back that a batch has used. One that failed may hold entries that were never
/// submitted: it is closed instead.
fn put_back(ring: IoUring, failed: bool) {
    let mut stock = stock();
    if failed {
        stock.made -= 1;
    } else {
        stock.spare.push(ring);
    }
}

/// Reads as much of a batch as a ring takes. Those that were done have their result; returns the
/// indices of the others.
pub(crate) fn read(file: &File, reads: &mut [ReadAt<'_>]) -> Vec<usize> {
    let fd = types::Fd(file.as_raw_fd());
    let entries: Vec<squeue::Entry> = reads
        .iter_mut()
        .map(|read| {
            let bytes = u32::try_from(read.buffer.len()).unwrap_or(u32::MAX);
            opcode::Read::new(fd, read.buffer.as_mut_ptr(), bytes)
                .offset(read.offset)
                .build()
        })
        .collect();
    // SAFETY: each entry reads from a file that is borrowed into a buffer that is borrowed
    // mutably, for longer than this call.
    let done = unsafe { run(entries) };
    let mut left = Vec::new();
    for (i, (read, bytes)) in reads.iter_mut().zip(done).enumerate() {
        if usize::try_from(bytes).is_ok_and(|bytes| bytes == read.buffer.len()) {
            read.result = Ok(read.buffer.len());
        } else {
            left.push(i);
        }
    }
    left
}

/// Writes as much of a batch as a ring takes; returns the indices of the others.
pub(crate) fn write(file: &File, writes: &mut [WriteAt<'_>]) -> Vec<usize> {
    let fd = types::Fd(file.as_raw_fd());
    let entries: Vec<squeue::Entry> = writes
        .iter()
        .map(|write| {
            let bytes = u32::try_from(write.bytes.len()).unwrap_or(u32::MAX);
            opcode::Write::new(fd, write.bytes.as_ptr(), bytes)
                .offset(write.offset)
                .build()
        })
        .collect();
    // SAFETY: each entry writes to a file that is borrowed from bytes that are borrowed, for
    // longer than this call.
    let done = unsafe { run(entries) };
    let mut left = Vec::new();
    for (i, (write, bytes)) in writes.iter_mut().zip(done).enumerate() {
        if usize::try_from(bytes).is_ok_and(|bytes| bytes == write.bytes.len()) {
            write.result = Ok(());
        } else {
            left.push(i);
        }
    }
    left
}

/// Does all entries and returns their results; -1 for those that were not done.
///
/// # Safety
///
/// The files and buffers of the entries stay valid until this returns.
unsafe fn run(entries: Vec<squeue::Entry>) -> Vec<i32> {
    let mut results = vec![-1; entries.len()];
    let Some(mut ring) = take() else {
        return results;
    };
    let mut waiting = entries.into_iter().enumerate();
    let mut whole = true;
    loop {
        let mut pushed = 0;
        for (i, entry) in waiting.by_ref().take(DEPTH) {
            let entry = entry.user_data(i as u64);
            // SAFETY: the caller keeps what the entry refers to valid until all are done, which
            // the loop below waits for.
            if unsafe { ring.submission().push(&entry) }.is_ok() {
                pushed += 1;
            }
        }
        if pushed == 0 {
            break;
        }
        whole &= finish(&mut ring, pushed, &mut results);
        if !whole {
            break;
        }
    }
    put_back(ring, !whole);
    results
}

/// Submits what was pushed and waits for it. False if the kernel refused a part.
fn finish(ring: &mut IoUring, pushed: usize, results: &mut [i32]) -> bool {
    let (mut done, mut refused) = (0, false);
    loop {
        for completion in ring.completion() {
            done += 1;
            if let Some(result) = results.get_mut(completion.user_data() as usize) {
                *result = completion.result();
            }
        }
        let unsubmitted = ring.submission().len();
        if done + unsubmitted >= pushed && (refused || unsubmitted == 0) {
            return unsubmitted == 0;
        }
        let wanted = if refused { 0 } else { pushed - done };
        if refused {
            std::thread::yield_now();
        }
        match ring.submit_and_wait(wanted) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Those under way still complete; nothing new is begun.
            Err(_) => refused = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_batches_at_once_interrupt_nobody_later() {
        let taken: Vec<Option<IoUring>> = (0..MOST_RINGS + 16).map(|_| take()).collect();
        if taken[0].is_none() {
            eprintln!("skipped: there is no io_uring here");
            return;
        }
        assert!(taken[MOST_RINGS..].iter().all(Option::is_none));
        taken
            .into_iter()
            .flatten()
            .for_each(|ring| put_back(ring, false));
        let (waiting, _other) = UnixStream::pair().unwrap();
        // A wait for input that has an end is not begun again after an interruption.
        waiting
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        for _ in 0..40 {
            let error = (&waiting).read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        assert!(take().map(|ring| put_back(ring, false)).is_some());
    }
}
