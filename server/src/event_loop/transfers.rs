//! Receives and sends of several connections in one system call each, through io_uring.
//!
//! A tick's receives have completed before its requests are parsed, and its sends before the fate
//! of its connections is decided; both then go the same way as those by single calls, which take
//! the outcome instead of calling. So nothing is under way between two ticks, and whatever holds
//! of the loop with single calls (limits of memory, order, closing) holds with batches. Single
//! calls remain for a tick with one connection, for large values, and for what a socket did not
//! take at once.

use crate::event_loop::batches::Batches;
use crate::event_loop::worker::Worker;
use crate::monitoring::metrics;
use hedgerow::backend::Backend;

/// Fewer connections are served by single calls: a batch costs more than a call.
const WORTH_A_BATCH: usize = 2;

impl<B: Backend> Worker<B> {
    /// Receives from several connections, each into the room of its input.
    /// [`receive`](Worker::receive) takes the outcomes.
    #[inline]
    pub(super) fn receive_together(&mut self, queue: &[usize]) {
        if queue.len() < WORTH_A_BATCH {
            return;
        }
        if let Some(batches) = self.batches.take() {
            self.batches = self.receive_by(batches, queue);
        }
    }

    fn receive_by(&mut self, mut batches: Batches, queue: &[usize]) -> Option<Batches> {
        for &slot in queue {
            let peer = self.peers[slot].as_ref();
            let has_socket = peer.is_some_and(|peer| peer.stream.descriptor().is_some());
            if has_socket && self.may_receive(slot) {
                let input = std::mem::take(&mut self.inputs[slot]);
                batches.receiving.push((slot, input));
            }
        }
        if batches.receiving.len() < WORTH_A_BATCH {
            for (slot, input) in batches.receiving.drain(..) {
                self.inputs[slot] = input;
            }
            return Some(batches);
        }
        let mut batch = batches.ring.batch();
        for (slot, input) in &mut batches.receiving {
            // All of them are connected: nothing has closed one meanwhile.
            if let Some(peer) = &self.peers[*slot]
                && let Some(socket) = peer.stream.descriptor()
            {
                batch.receive(socket, input.room(peer.wanted, &mut self.pool));
            }
        }
        self.count(batch.len());
        let outcomes = batch.run();
        for (nth, (slot, input)) in batches.receiving.drain(..).enumerate() {
            self.inputs[slot] = input;
            if let Some(peer) = &mut self.peers[slot] {
                peer.received = outcomes.get(nth);
            }
        }
        self.unless_failed(batches)
    }

    /// Sends the next bytes of several connections. [`flush`](Worker::flush), which must be called
    /// for each of them before anything else happens to its output, takes the outcomes.
    #[inline]
    pub(super) fn send_together(&mut self, slots: impl ExactSizeIterator<Item = usize>) {
        if slots.len() < WORTH_A_BATCH {
            return;
        }
        if let Some(batches) = self.batches.take() {
            self.batches = self.send_by(batches, slots);
        }
    }

    fn send_by(
        &mut self,
        mut batches: Batches,
        slots: impl Iterator<Item = usize>,
    ) -> Option<Batches> {
        batches.sending.clear();
        let mut batch = batches.ring.batch();
        for slot in slots {
            if let Some(peer) = &self.peers[slot]
                && let Some(socket) = peer.stream.descriptor()
                && let Some(bytes) = self.outputs[slot].next()
            {
                batch.send(socket, bytes);
                batches.sending.push(slot);
            }
        }
        if batch.len() < WORTH_A_BATCH {
            return Some(batches);
        }
        self.count(batch.len());
        let outcomes = batch.run();
        for (nth, &slot) in batches.sending.iter().enumerate() {
            if let Some(peer) = &mut self.peers[slot] {
                peer.sent = outcomes.get(nth);
            }
        }
        self.unless_failed(batches)
    }

    fn count(&self, transfers: usize) {
        metrics::add(&self.metrics().batched_transfers, transfers as u64);
    }

    /// A ring that has failed is given up: single calls do what it did not.
    fn unless_failed(&self, batches: Batches) -> Option<Batches> {
        if !batches.ring.has_failed() {
            return Some(batches);
        }
        let worker = self.index;
        metrics::add(&self.metrics().failed_rings, 1);
        tracing::warn!(worker, "io_uring has failed: going on with single calls");
        None
    }
}
