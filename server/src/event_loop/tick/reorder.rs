//! The answers of a batch of reads, put into the order of their keys.

use hedgerow::Row;
use hedgerow::backend::{Backend, BackendKeyspace};

use super::answers::{KeyOwner, ReadBatch, SMALL_REPLY_BYTES, answer};
use crate::connection::output::Output;
use crate::connection::reply_buffer::ReplyBuffer;
use crate::protocol::request::LARGE_REPLIES_BYTES;
use crate::session::Session;
use crate::shared::Shared;

/// What became of a key that came before those in front of it.
#[derive(Clone, Copy)]
enum EarlyAnswer {
    /// Its answer lies in `aside`, between two positions. `large` is the length of its row, if that
    /// is large. A tick's large rows, and with them all positions, stay far below 4 GiB.
    Encoded {
        from: u32,
        to: u32,
        large: u32,
        is_found: bool,
        is_error: bool,
    },
    /// Its row is too large for this tick.
    Deferred,
}

/// Puts the answers of a `get_many`, which come in any order, into the order of their keys. Those
/// that come early are encoded aside.
#[derive(Default)]
pub(crate) struct Reorder {
    aside: ReplyBuffer,
    early: Vec<Option<EarlyAnswer>>,
    /// Large replies that this tick has encoded.
    pub(crate) large_bytes: usize,
    /// Of each connection that has to wait for the next tick, its first key without an answer.
    pub(crate) deferred: Vec<usize>,
}

impl Reorder {
    /// Answers all keys, or those before the first that has no answer since the batch failed; how
    /// many. Connections whose rows are too large for this tick are `deferred`.
    pub(crate) fn get_many<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        keyspace: &B::Keyspace,
        batch: ReadBatch<'_>,
        hits: &mut u64,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) -> usize {
        let ReadBatch { keys, owners, .. } = batch;
        self.early.clear();
        self.early.resize(keys.len(), None);
        let mut next = 0;
        let mut aside_bytes = 0;
        let done = keyspace.get_many(keys, |i, row| {
            let found = row.is_some();
            let row_bytes = row.as_ref().map_or(0, Row::size_bytes);
            if i == next && row_bytes <= SMALL_REPLY_BYTES && self.deferred.is_empty() {
                // Nearly all answers are small, and most come in order.
                *hits += u64::from(found);
                answer(shared, batch, i, row, sessions, outputs);
                next += 1;
                self.answer_early(shared, &mut next, batch, hits, sessions, outputs);
                return;
            }
            let is_small = row_bytes <= SMALL_REPLY_BYTES;
            let large = if is_small { 0 } else { row_bytes };
            // What came from elsewhere is not fetched again.
            let is_admitted = B::IS_REMOTE
                || is_small
                || self.large_bytes + aside_bytes + large <= LARGE_REPLIES_BYTES
                || (i == next && self.large_bytes == 0);
            // What is put back is looked up again, and counts when it is answered.
            if i == next && is_admitted && !self.is_deferred(owners[i].slot, owners) {
                self.large_bytes += large;
                *hits += u64::from(found);
                answer(shared, batch, i, row, sessions, outputs);
                next += 1;
            } else if is_admitted {
                aside_bytes += large;
                let from = self.aside.position();
                let is_error = match &mut sessions[owners[i].slot as usize] {
                    Some(session) => !batch.reply(i, row, session, &mut self.aside),
                    None => false,
                };
                self.early[i] = Some(EarlyAnswer::Encoded {
                    from: from as u32,
                    to: self.aside.position() as u32,
                    large: large as u32,
                    is_found: found,
                    is_error,
                });
            } else {
                self.early[i] = Some(EarlyAnswer::Deferred);
            }
            self.answer_early(shared, &mut next, batch, hits, sessions, outputs);
        });
        // Large values are the outputs' alone from here on.
        self.aside.clear();
        if self.aside.capacity() > 1 << 20 {
            self.aside = ReplyBuffer::default();
        }
        debug_assert!(
            done.is_err() || next == keys.len(),
            "every key is answered once"
        );
        next
    }

    /// Answers the keys, from the next one in the order on, that were found early.
    #[inline]
    fn answer_early<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        next: &mut usize,
        batch: ReadBatch<'_>,
        hits: &mut u64,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) {
        while let Some(&Some(early)) = self.early.get(*next) {
            *hits += u64::from(self.take_early(shared, early, *next, batch, sessions, outputs));
            *next += 1;
        }
    }

    /// The order has come to a key that was looked up early; whether its row is in the replies.
    fn take_early<B: Backend>(
        &mut self,
        shared: &Shared<B>,
        early: EarlyAnswer,
        at: usize,
        batch: ReadBatch<'_>,
        sessions: &mut [Option<Session<B>>],
        outputs: &mut [Output],
    ) -> bool {
        let owners = batch.owners;
        let slot = owners[at].slot;
        match early {
            // An earlier one of its connection has to come first.
            _ if self.is_deferred(slot, owners) => {}
            EarlyAnswer::Deferred => self.deferred.push(at),
            EarlyAnswer::Encoded {
                from,
                to,
                large,
                is_found,
                is_error,
            } => {
                self.large_bytes += large as usize;
                let output = &mut outputs[slot as usize];
                if large > 0
                    && !is_error
                    && large as usize > shared.reply_limit_bytes()
                    && let Some(Session::Resp(session)) = &mut sessions[slot as usize]
                {
                    session.refuse_read(shared, batch.code(at), output.buffer());
                    return is_found;
                }
                output
                    .buffer()
                    .append(&self.aside, from as usize..to as usize);
                if is_error && let Some(session) = &mut sessions[slot as usize] {
                    session.count_wrong_type(batch.code(at));
                }
                return is_found;
            }
        }
        false
    }

    fn is_deferred(&self, slot: u32, owners: &[KeyOwner]) -> bool {
        let mut deferred = self.deferred.iter();
        deferred.any(|&key| owners[key].slot == slot)
    }

    /// Defers all keys from a place on.
    pub(crate) fn defer_rest(&mut self, from: usize, owners: &[KeyOwner]) {
        for (key, owner) in owners.iter().enumerate().skip(from) {
            if !self.is_deferred(owner.slot, owners) {
                self.deferred.push(key);
            }
        }
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
