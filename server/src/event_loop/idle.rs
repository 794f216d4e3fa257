//! What ends because nothing came for it in time: silent connections, idle transactions, snapshots.
//!
//! A transaction is idle while its connection sends nothing. Time in which the server did not read
//! or run what was sent is no such time: a worker asks its poll first, and ends no transaction
//! whose connection has something to read or run. So what arrived before a worker looked counts,
//! however long the worker was busy, or a pause lasted.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::event_loop::worker::Worker;
use hedgerow::backend::Backend;

impl<B: Backend> Worker<B> {
    /// Notes that requests of a connection have run, or came in part.
    #[inline]
    pub(super) fn touch_transaction(&mut self, slot: usize) {
        if let Some(session) = &mut self.sessions[slot] {
            session.touch();
            let due_at = session.due_at(self.shared.options.transaction_idle_timeout);
            let others = self.transactions_due_at;
            self.transactions_due_at = due_at.into_iter().chain(others).min();
        }
    }

    /// Rolls idle transactions back. What the last poll told of was read, as far as it could be.
    pub(super) fn end_idle_transactions(&mut self) {
        let longest_idle = self.shared.options.transaction_idle_timeout;
        let mut next: Option<Instant> = None;
        for slot in 0..self.sessions.len() {
            let (Some(session), Some(peer)) = (&mut self.sessions[slot], &self.peers[slot]) else {
                continue;
            };
            // Once it has run, the time begins anew.
            if peer.has_input() {
                continue;
            }
            if session.end_if_idle(self.now, longest_idle) {
                self.count_memory(slot);
            } else if let Some(at) = session.due_at(longest_idle) {
                next = next.into_iter().chain([at]).min();
            }
        }
        self.transactions_due_at = next;
    }

    /// Ends snapshots whose time is over.
    pub(super) fn end_due(&mut self) {
        for session in self.sessions.iter_mut().flatten() {
            session.end_due(self.now);
        }
        drop(self.shared.snapshots.lock());
    }

    /// Closes connections that have been silent for longer than they may. One that waits for a
    /// reply is not silent. What the last poll told of was read, as far as it could be.
    pub(super) fn close_idle(&mut self) {
        let Some(timeout) = self.shared.settings.idle_timeout() else {
            return;
        };
        for slot in 0..self.peers.len() {
            let Some(peer) = self.peers[slot].as_ref().filter(|peer| !peer.paused) else {
                continue;
            };
            let is_silent = self.now.saturating_duration_since(peer.active_at) > timeout;
            if is_silent && !self.outputs[slot].has_waiting() {
                self.shared
                    .metrics
                    .timed_out
                    .fetch_add(1, Ordering::Relaxed);
                self.close(slot);
            }
        }
    }
}
