//! The answers of a batch of reads, put into the order of their keys.

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Error, Row};

use super::answers::{KeyOwner, ReadBatch, ReadSums, answer, large_bytes};
use crate::connection::output::Output;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::request::LARGE_REPLIES_BYTES;
use crate::session::Session;
use crate::shared::Shared;

/// What became of a key that came before those in front of it.
#[derive(Clone, Copy)]
enum EarlyAnswer {
    /// Its answer lies in `aside`, between two positions. `large` is the length of its row, if that
    /// is large. Both stay below 4 GiB: large values lie beside the bytes that positions count.
    Encoded {
        from: u32,
        to: u32,
        large: u32,
        is_found: bool,
        is_error: bool,
    },
    /// Its row is too large for this tick, or that of an earlier key of its connection.
    Deferred,
    /// Its row could not be read: the error stands at this place of `errors`.
    Failed(u32),
}

/// Puts the answers of a `get_each`, which come in any order, into the order of their keys. Those
/// that come early are encoded aside. The first key of a request that could not be read ends its
/// reply, whatever became of the keys behind it.
#[derive(Default)]
pub(crate) struct Reorder {
    aside: ReplyBuffer,
    /// Of large rows, what lies aside and in no output.
    aside_bytes: usize,
    early: Vec<Option<EarlyAnswer>>,
    /// Large replies that this tick has encoded.
    pub(crate) large_bytes: usize,
    /// Of each connection that has to wait for the next tick, its first key without an answer.
    pub(crate) deferred: Vec<usize>,
    errors: Vec<Error>,
    /// Of each request whose reply ended in an error, the key that could not be read.
    pub(crate) failed: Vec<KeyOwner>,
}

impl Reorder {
    /// Forgets the batch before.
    pub(crate) fn begin_batch(&mut self) {
        self.deferred.clear();
        self.errors.clear();
        self.failed.clear();
    }

    /// Answers all keys of a batch. Connections whose rows are too large for this tick are
    /// `deferred`, requests of which a row cannot be read `failed`.
    pub(crate) fn get_each<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        keyspace: &B::Keyspace,
        batch: ReadBatch<'_>,
        sums: &mut ReadSums<'_>,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        let ReadBatch { keys, owners, .. } = batch;
        self.early.clear();
        self.early.resize(keys.len(), None);
        self.aside_bytes = 0;
        let mut next = 0;
        keyspace.get_each(keys, |i, outcome| {
            let row = match outcome {
                Ok(row) => row,
                Err(error) => {
                    self.early[i] = Some(EarlyAnswer::Failed(self.errors.len() as u32));
                    self.errors.push(error);
                    self.answer_early(shared, &mut next, batch, sums, sessions, outputs);
                    return;
                }
            };
            let large = row.map_or(0, large_bytes);
            let is_plain = large == 0 && self.deferred.is_empty() && self.failed.is_empty();
            if i == next && is_plain {
                // Nearly all answers are small, and most come in order.
                answer(shared, batch, i, row, sums, sessions, outputs);
                next += 1;
                self.answer_early(shared, &mut next, batch, sums, sessions, outputs);
                return;
            }
            let is_deferred = self.is_deferred(owners[i].slot, owners);
            if i == next && self.has_ended(owners[i]) {
                next += 1;
            } else if is_deferred || !self.admits(shared, large, i == next) {
                // What is put back is looked up again, and counts when it is answered.
                self.early[i] = Some(EarlyAnswer::Deferred);
            } else if i == next {
                self.large_bytes += answer(shared, batch, i, row, sums, sessions, outputs);
                next += 1;
            } else {
                self.encode_aside(i, row, batch, sessions);
            }
            self.answer_early(shared, &mut next, batch, sums, sessions, outputs);
        });
        // Large values are the outputs' alone from here on.
        self.aside.clear();
        if self.aside.capacity() > 1 << 20 {
            self.aside = ReplyBuffer::default();
        }
        debug_assert!(next == keys.len(), "every key is answered once");
    }

    /// Answers the keys of a batch one by one, however large their rows are.
    pub(crate) fn get_alone<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        keyspace: &hedgerow::Result<&B::Keyspace>,
        batch: ReadBatch<'_>,
        sums: &mut ReadSums<'_>,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        for at in 0..batch.keys.len() {
            if self.has_ended(batch.owners[at]) {
                continue;
            }
            let read = match keyspace {
                Ok(keyspace) => keyspace.read(batch.keys[at], |row| {
                    answer(shared, batch, at, Some(row), sums, sessions, outputs);
                }),
                Err(error) => {
                    self.fail(batch, at, error, sessions, outputs);
                    continue;
                }
            };
            match read {
                Ok(Some(())) => {}
                Ok(None) => {
                    answer(shared, batch, at, None, sums, sessions, outputs);
                }
                Err(error) => self.fail(batch, at, &error, sessions, outputs),
            }
        }
    }

    /// Ends the reply to the request of a key that cannot be read.
    fn fail<B: Backend>(
        &mut self,
        batch: ReadBatch<'_>,
        at: usize,
        error: &Error,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        let owner = batch.owners[at];
        let slot = owner.slot as usize;
        if let Some(session) = &mut sessions[slot] {
            session.fail(batch.code(at), error, outputs[slot].buffer());
        }
        self.failed.push(owner);
    }

    /// Whether the reply to the request of the next key in the order has ended in an error: a batch
    /// has the keys of a request side by side.
    fn has_ended(&self, owner: KeyOwner) -> bool {
        let last = self.failed.last();
        last.is_some_and(|last| (last.slot, last.request) == (owner.slot, owner.request))
    }

    /// Whether this tick answers a key; `large` is the length of its row, if that is large.
    fn admits<B: Backend>(&self, shared: &Shared<B>, large: usize, is_next: bool) -> bool {
        // However large: each tick answers one.
        if large == 0 || (is_next && self.large_bytes == 0) {
            return true;
        }
        let aside_bytes = self.aside_bytes + large;
        // What came from elsewhere is not fetched again, as long as there is room for it.
        aside_bytes <= shared.reply_limit_bytes()
            && (B::IS_REMOTE || self.large_bytes + aside_bytes <= LARGE_REPLIES_BYTES)
    }

    /// Encodes the answer to a key, as one in front of it has none yet.
    fn encode_aside<B: Backend>(
        &mut self,
        at: usize,
        row: Option<Row<'_>>,
        batch: ReadBatch<'_>,
        sessions: &mut [Option<Session<B>>],
    ) {
        let from = self.aside.position();
        let is_error = match &mut sessions[batch.owners[at].slot as usize] {
            Some(session) => !batch.reply(at, row, session, &mut self.aside),
            None => false,
        };
        // An error is short, whatever the row is.
        let large = row.filter(|_| !is_error).map_or(0, large_bytes);
        self.aside_bytes += large;
        self.early[at] = Some(EarlyAnswer::Encoded {
            from: from as u32,
            to: self.aside.position() as u32,
            large: large as u32,
            is_found: row.is_some(),
            is_error,
        });
    }

    /// Answers the keys, from the next one in the order on, that were found early.
    #[inline]
    fn answer_early<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        next: &mut usize,
        batch: ReadBatch<'_>,
        sums: &mut ReadSums<'_>,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        while let Some(Some(_)) = self.early.get(*next) {
            self.take_early(shared, *next, batch, sums, sessions, outputs);
            *next += 1;
        }
    }

    /// The order has come to a key that was looked up early.
    fn take_early<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        at: usize,
        batch: ReadBatch<'_>,
        sums: &mut ReadSums<'_>,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        let owners = batch.owners;
        let slot = owners[at].slot;
        let early = self.early[at];
        match early {
            // An earlier one of its connection has to come first.
            _ if self.is_deferred(slot, owners) => {}
            _ if self.has_ended(owners[at]) => {}
            None => {}
            Some(EarlyAnswer::Deferred) => self.deferred.push(at),
            Some(EarlyAnswer::Failed(nth)) => {
                let errors = std::mem::take(&mut self.errors);
                self.fail(batch, at, &errors[nth as usize], sessions, outputs);
                self.errors = errors;
            }
            Some(EarlyAnswer::Encoded {
                from,
                to,
                large,
                is_found,
                is_error,
            }) => {
                *sums.hits += u64::from(is_found);
                let (slot, large) = (slot as usize, large as usize);
                self.aside_bytes -= large;
                let output = &mut outputs[slot];
                if large > 0
                    && large > shared.reply_limit_bytes()
                    && let Some(Session::Resp(session)) = &mut sessions[slot]
                {
                    return session.refuse_read(shared, batch.code(at), output.buffer());
                }
                let before = output.capacity();
                let range = from as usize..to as usize;
                output.buffer().append(&self.aside, range);
                if large > 0 {
                    self.large_bytes += large;
                    sums.count_growth(shared, slot, before, output);
                }
                if is_error && let Some(session) = &mut sessions[slot] {
                    session.count_wrong_type(batch.code(at));
                }
            }
        }
    }

    fn is_deferred(&self, slot: u32, owners: &[KeyOwner]) -> bool {
        let mut deferred = self.deferred.iter();
        deferred.any(|&key| owners[key].slot == slot)
    }

    /// Takes the first of the deferred keys out, whose connection is then to go on behind it.
    pub(crate) fn take_first_deferred(&mut self, owners: &[KeyOwner]) -> Option<usize> {
        let first = *self.deferred.first()?;
        let goes_on = owners.get(first + 1).map(|next| next.slot) == Some(owners[first].slot);
        if goes_on {
            self.deferred[0] = first + 1;
        } else {
            self.deferred.remove(0);
        }
        Some(first)
    }
}
