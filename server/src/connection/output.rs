//! The replies of a connection that are not sent yet.
//!
//! ```text
//! [ sent | may be sent | a reply that waits | and what is behind it ]    ≤ limit + one tick's replies
//!        ^sent         ^waiting[0].start    ^waiting[0].end
//! ```
//!
//! Large values lie beside the bytes: see [`reply_buffer`](crate::connection::reply_buffer).
//!
//! The reply of a write waits until its commit is written out to the operating system, or durable.
//! If that fails, the session replaces it by an error; the replies around it stay as they are.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Instant;

use hedgerow::Commit;

use crate::connection::input::{BUFFER_BYTES, MAX_POOLED_BUFFERS, MAX_POOLED_BYTES, Pool};
use crate::connection::reply_buffer::ReplyBuffer;

/// Places for waiting replies that an idle connection keeps allocated.
const MAX_IDLE_WAITING: usize = 64;

/// The most bytes that one connection is sent at once, so that others are served too.
const FLUSH_BYTES: usize = 1 << 20;

/// The result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All that may be sent was sent.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// It might take more.
    More,
}

/// What a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedState {
    /// Its commit has been written out: a kill of the process does not lose it. Known at the end
    /// of the tick.
    WrittenOut,
    /// It is durable.
    Durable(Commit),
}

/// A reply that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingReply {
    /// Its positions in the buffer.
    start: usize,
    end: usize,
    until: AwaitedState,
    /// Whether its request did nothing but wait (`WAITAOF`), and when that ends in any case.
    only_waits: bool,
    deadline: Option<Instant>,
    /// The code of its request.
    pub(crate) code: u32,
}

impl WaitingReply {
    /// Whether the client gets no reply if all goes well.
    pub(crate) fn is_silent(&self) -> bool {
        self.start == self.end
    }

    /// The commit that must be durable before the reply is sent.
    pub(crate) fn awaited(&self) -> Option<Commit> {
        match self.until {
            AwaitedState::Durable(commit) => Some(commit),
            AwaitedState::WrittenOut => None,
        }
    }

    /// Whether it waits for the end of its tick.
    pub(crate) fn waits_for_write_out(&self) -> bool {
        self.until == AwaitedState::WrittenOut
    }

    /// Whether it is the reply of a request that does nothing but wait.
    pub(crate) fn only_waits(&self) -> bool {
        self.only_waits
    }

    /// Whether what it waits for is durable if `durable_epoch` is.
    fn is_covered(&self, durable_epoch: u64) -> bool {
        self.awaited()
            .is_some_and(|commit| commit.epoch() <= durable_epoch)
    }
}

/// Replies not yet sent.
#[derive(Default)]
pub(crate) struct Output {
    buffer: ReplyBuffer,
    /// The replies that wait, in order.
    waiting: VecDeque<WaitingReply>,
    /// Keys of the next request that were answered already.
    pub(crate) answered_keys: usize,
    /// The last request that ran by itself got a small reply.
    pub(crate) had_small: bool,
}

impl Output {
    /// Where replies are appended. Nothing before may be changed.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut ReplyBuffer {
        &mut self.buffer
    }

    /// Takes a buffer from the pool, if there is none yet.
    pub(crate) fn prepare(&mut self, pool: &mut Pool) {
        if self.buffer.capacity() == 0 {
            let bytes = pool.outputs.pop();
            let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
            self.buffer = ReplyBuffer::reuse(bytes);
        }
    }

    /// The position where the next reply begins.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.buffer.position()
    }

    /// The memory that the output uses.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity() + self.waiting.capacity() * size_of::<WaitingReply>()
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.buffer.unsent()
    }

    /// Whether the next request may well get a large reply: a connection that asked for small ones
    /// tends to ask for more of them.
    pub(crate) fn expects_large(&self) -> bool {
        !self.had_small || self.pending() > 0
    }

    /// Delays the reply from the position `start` to the end, and all replies behind it.
    #[inline]
    pub(crate) fn delay(&mut self, start: usize, until: AwaitedState, code: u32) {
        self.waiting.push_back(WaitingReply {
            start,
            end: self.buffer.position(),
            until,
            only_waits: false,
            deadline: None,
            code,
        });
    }

    /// [`delay`](Output::delay) of a request that does nothing but wait, perhaps until a deadline.
    pub(crate) fn delay_until(
        &mut self,
        start: usize,
        until: AwaitedState,
        deadline: Option<Instant>,
    ) {
        self.delay(start, until, 0);
        if let Some(reply) = self.waiting.back_mut() {
            reply.only_waits = true;
            reply.deadline = deadline;
        }
    }

    /// Whether some replies wait.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Releases the replies that waited for their commits to be written out.
    #[inline]
    pub(crate) fn release_written_out(&mut self) {
        self.waiting
            .retain(|reply| reply.until != AwaitedState::WrittenOut);
    }

    /// Releases the first waiting replies, as far as `durable_epoch` covers them.
    pub(crate) fn release_durable(&mut self, durable_epoch: u64) {
        let covered = |reply: &WaitingReply| reply.is_covered(durable_epoch);
        while self.waiting.front().is_some_and(covered) {
            self.waiting.pop_front();
        }
    }

    /// What the last reply that waits, waits for.
    pub(crate) fn awaited(&self) -> Option<Commit> {
        self.waiting.back()?.awaited()
    }

    /// When to release the first waiting reply, whatever is durable then.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.front()?.deadline
    }

    /// Lets `write` replace the waiting replies whose deadlines have passed, up to the first that
    /// waits on: one whose deadline has not passed, and that `durable_epoch` does not cover. Those
    /// before it wait no more. One copy of the buffer, however many they are.
    pub(crate) fn replace_overdue(
        &mut self,
        now: Instant,
        durable_epoch: u64,
        mut write: impl FnMut(&mut ReplyBuffer),
    ) {
        self.release_durable(durable_epoch);
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let mut is_free = true;
        self.replace_waiting(
            |reply| {
                let is_covered = reply.is_covered(durable_epoch);
                is_free &= is_covered || reply.deadline.is_some_and(|deadline| deadline <= now);
                is_free && !is_covered
            },
            |_, buffer| write(buffer),
        );
        self.release_durable(durable_epoch);
    }

    /// Lets `write` replace the waiting replies that are `chosen`; these wait no more. Costs a copy
    /// of the buffer, large values left out, if there are any.
    pub(crate) fn replace_waiting(
        &mut self,
        chosen: impl FnMut(&WaitingReply) -> bool,
        mut write: impl FnMut(&WaitingReply, &mut ReplyBuffer),
    ) {
        let chosen: Vec<bool> = self.waiting.iter().map(chosen).collect();
        if !chosen.contains(&true) {
            return;
        }
        let old = std::mem::take(&mut self.buffer);
        let mut copied = 0;
        for (reply, is_chosen) in std::mem::take(&mut self.waiting).into_iter().zip(chosen) {
            self.buffer.append(&old, copied..reply.start);
            let start = self.buffer.position();
            if is_chosen {
                write(&reply, &mut self.buffer);
            } else {
                self.buffer.append(&old, reply.start..reply.end);
                let end = self.buffer.position();
                self.waiting.push_back(WaitingReply {
                    start,
                    end,
                    ..reply
                });
            }
            copied = reply.end;
        }
        self.buffer.append(&old, copied..old.position());
        // Nothing behind the first that waited has been sent.
        self.buffer.resume(&old);
    }

    /// The position up to which everything may be sent.
    #[inline]
    fn released(&self) -> usize {
        let first_waiting = self.waiting.front().map(|reply| reply.start);
        first_waiting.unwrap_or(self.buffer.position())
    }

    /// The bytes that [`flush`](Output::flush) would write first, if there are any. `None` also
    /// where it would write several pieces at once.
    #[inline]
    pub(crate) fn next(&self) -> Option<&[u8]> {
        let bytes = self.buffer.next(self.released(), FLUSH_BYTES)?;
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Sends what may be sent, up to `FLUSH_BYTES`.
    pub(crate) fn flush(&mut self, sink: &mut impl Write) -> io::Result<Flushed> {
        let end = self.released();
        let mut left = FLUSH_BYTES;
        while self.buffer.sent() < end {
            if left == 0 {
                return Ok(Flushed::More);
            }
            match self.buffer.write(sink, end, left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => left -= n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Flushed::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
        if self.buffer.unsent() == 0 && self.waiting.is_empty() {
            self.buffer.clear();
        }
        Ok(Flushed::All)
    }

    /// Returns an empty buffer to the pool, and frees room in a half-sent one.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.waiting.is_empty() && self.waiting.capacity() > MAX_IDLE_WAITING {
            self.waiting = VecDeque::new();
        }
        if self.buffer.unsent() == 0 && self.waiting.is_empty() && self.buffer.capacity() > 0 {
            self.buffer.clear();
            let bytes = std::mem::take(&mut self.buffer).into_bytes();
            if bytes.capacity() <= MAX_POOLED_BYTES && pool.outputs.len() < MAX_POOLED_BUFFERS {
                pool.outputs.push(bytes);
            }
        } else if self.buffer.sent() > MAX_POOLED_BYTES && self.buffer.sent() > self.pending() / 2 {
            let dropped = self.buffer.drop_sent();
            for reply in &mut self.waiting {
                reply.start -= dropped;
                reply.end -= dropped;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reply waits for, and how long at most.
    type Waits = Option<(AwaitedState, Option<Instant>)>;

    fn holding(replies: &[(&str, Waits)]) -> Output {
        let mut output = Output::default();
        output.prepare(&mut Pool::default());
        for (code, (reply, waits)) in replies.iter().enumerate() {
            let start = output.position();
            output.buffer().extend_from_slice(reply.as_bytes());
            match waits {
                Some((until, Some(deadline))) => output.delay_until(start, *until, Some(*deadline)),
                Some((until, None)) => output.delay(start, *until, code as u32),
                None => {}
            }
        }
        output
    }

    fn sent(output: &mut Output) -> String {
        let mut sink = Vec::new();
        assert_eq!(output.flush(&mut sink).unwrap(), Flushed::All);
        String::from_utf8(sink).unwrap()
    }

    /// What is sent of more than one flush sends.
    fn sent_in_parts(output: &mut Output) -> String {
        let mut sink = Vec::new();
        while output.flush(&mut sink).unwrap() == Flushed::More {}
        String::from_utf8(sink).unwrap()
    }

    fn commit(epoch: u64) -> Commit {
        let timestamp = hedgerow::Timestamp::new(epoch, 0);
        Commit { timestamp }
    }

    fn durable(epoch: u64) -> Waits {
        Some((AwaitedState::Durable(commit(epoch)), None))
    }

    #[test]
    fn replies_wait_for_their_epoch_and_keep_their_order() {
        let replies = [
            ("a", None),
            ("b", durable(5)),
            ("c", durable(4)),
            ("d", durable(7)),
        ];
        let mut output = holding(&replies);
        assert_eq!(sent(&mut output), "a");
        output.release_durable(5);
        assert_eq!(sent(&mut output), "bc");
        assert!(output.has_waiting() && output.pending() == 1);
        output.replace_waiting(|_| true, |_, buffer| buffer.extend_from_slice(b"!!"));
        assert_eq!(sent(&mut output), "!!");
        let mut pool = Pool::default();
        output.release(&mut pool);
        assert_eq!((pool.outputs.len(), output.pending()), (1, 0));
    }

    #[test]
    fn what_failed_is_replaced_and_what_is_around_it_stays() {
        let written = Some((AwaitedState::WrittenOut, None));
        let replies = [
            ("read ", None),
            ("write ", written),
            ("read ", None),
            ("wait ", durable(1)),
            ("", written),
            ("write ", written),
            ("read", None),
        ];
        let mut output = holding(&replies);
        let mut silent = Vec::new();
        output.replace_waiting(
            |reply| reply.until == AwaitedState::WrittenOut,
            |reply, buffer| {
                silent.push((reply.code, reply.is_silent()));
                buffer.extend_from_slice(b"failed ");
            },
        );
        assert_eq!(silent, [(1, false), (4, true), (5, false)]);
        assert_eq!(sent(&mut output), "read failed read ");
        output.release_durable(1);
        assert_eq!(sent(&mut output), "wait failed failed read");

        let mut output = holding(&replies);
        let buffer = output.buffer().bytes().as_ptr();
        output.replace_waiting(|_| false, |_, _| panic!("none is chosen"));
        assert_eq!(output.buffer().bytes().as_ptr(), buffer, "none, no copy");
        output.release_written_out();
        assert_eq!(sent(&mut output), "read write read ");
        output.release_durable(1);
        assert_eq!(sent(&mut output), "wait write read");
    }

    #[test]
    fn a_reply_whose_deadline_passed_is_replaced() {
        let begin = Instant::now();
        let at = |seconds| Some(begin + std::time::Duration::from_secs(seconds));
        let until = |epoch, deadline| Some((AwaitedState::Durable(commit(epoch)), deadline));
        let mut output = holding(&[
            ("1", until(5, at(1))),
            ("2", until(6, at(3))),
            ("3", until(6, None)),
        ]);
        assert_eq!((sent(&mut output).as_str(), output.deadline()), ("", at(1)));
        let early = begin + std::time::Duration::from_millis(999);
        output.replace_overdue(early, 4, |_| panic!("its time is not up"));
        let late = early + std::time::Duration::from_millis(1);
        output.replace_overdue(late, 4, |buffer| buffer.extend_from_slice(b"late "));
        assert_eq!(
            (sent(&mut output).as_str(), output.deadline()),
            ("late ", at(3))
        );
        output.release_durable(6);
        assert_eq!(
            (sent(&mut output).as_str(), output.deadline()),
            ("23", None)
        );
    }

    #[test]
    fn replies_whose_deadlines_passed_are_replaced_at_once_up_to_one_that_waits() {
        let begin = Instant::now();
        let at = |seconds| begin + std::time::Duration::from_secs(seconds);
        let until =
            |epoch, seconds| Some((AwaitedState::Durable(commit(epoch)), Some(at(seconds))));
        let late = |buffer: &mut ReplyBuffer| buffer.extend_from_slice(b"late ");
        let mut output = holding(&[
            ("1 ", until(5, 1)),
            ("2 ", until(4, 9)),
            ("3 ", None),
            ("4 ", until(6, 2)),
            ("5 ", durable(6)),
            ("6 ", until(6, 1)),
            ("7 ", durable(4)),
        ]);
        output.replace_overdue(at(2), 4, late);
        assert_eq!(sent(&mut output), "late 2 3 late ");
        output.replace_overdue(at(3), 5, |_| panic!("one before it waits"));
        output.replace_overdue(at(3), 6, |_| panic!("all are durable"));
        assert_eq!(sent(&mut output), "5 6 7 ");

        // As many as a pipeline can have: to copy the others for each of them would take hours.
        let overdue = 300_000;
        let mut output = holding(&vec![("1 ", until(5, 1)); overdue]);
        output.replace_overdue(at(1), 4, late);
        assert!(!output.has_waiting());
        assert_eq!(sent_in_parts(&mut output), "late ".repeat(overdue));
    }
}
