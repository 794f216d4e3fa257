//! Connections with much memory: how a worker counts it, continues to read from clients that send
//! everything before they read, and closes the connection with the most.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::connection::input::Filled;
use crate::event_loop::worker::Worker;
use crate::monitoring::metrics;
use hedgerow::backend::Backend;

/// How often blocked connections are checked: a client that has fetched nothing in between may be
/// waiting for its requests to be read.
const LOOK: Duration = Duration::from_millis(50);
/// The most bytes of waiting requests of a connection: their places are 32-bit numbers.
const LONGEST_INPUT_BYTES: usize = (u32::MAX / 2) as usize;

impl<B: Backend> Worker<B> {
    /// Counts a connection's memory, if it changed, and closes the connection if that is too much.
    pub(crate) fn count_memory(&mut self, slot: usize) {
        let (Some(peer), Some(session)) = (&mut self.peers[slot], &self.sessions[slot]) else {
            return;
        };
        let buffers = self.inputs[slot].capacity() + self.outputs[slot].capacity();
        let bytes = buffers + session.memory() + peer.stream.memory();
        if bytes == peer.memory_bytes {
            return;
        }
        self.shared.client_memory.change(peer.memory_bytes, bytes);
        peer.memory_bytes = bytes;
        let options = &self.shared.options;
        let is_over = |limit: usize| limit > 0 && bytes > limit;
        if !is_over(options.client_soft_limit_bytes) {
            peer.over_soft_limit_since = None;
        } else if peer.over_soft_limit_since.is_none() {
            peer.over_soft_limit_since = Some(self.now);
        }
        if is_over(options.client_hard_limit_bytes) {
            self.close_for_memory(slot, "it holds more than the hard limit of a connection");
        }
    }

    /// Closes connections that have been over the soft limit for long enough.
    pub(crate) fn close_over_soft_limit(&mut self) {
        if self.shared.options.client_soft_limit_bytes == 0 {
            return;
        }
        let time = self.shared.options.client_soft_limit_time;
        for slot in 0..self.peers.len() {
            let since = self.peers[slot].as_ref();
            let since = since.and_then(|peer| peer.over_soft_limit_since);
            if since.is_some_and(|since| self.now.saturating_duration_since(since) >= time) {
                self.close_for_memory(slot, "it holds more than the soft limit for too long");
            }
        }
    }

    /// Closes this worker's largest connection if no other worker has a larger one.
    pub(crate) fn relieve(&mut self) {
        let peers = self.peers.iter().enumerate();
        let held = peers.filter_map(|(slot, peer)| Some((peer.as_ref()?.memory_bytes, slot)));
        let (bytes, slot) = held.max().unwrap_or_default();
        let shared = &self.shared;
        match shared.client_memory.is_largest(self.index, bytes) {
            Some(true) => {
                let shared = std::sync::Arc::clone(shared);
                if bytes > 0 {
                    let reason = "the memory for clients is used up, and it holds most";
                    self.close_for_memory(slot, reason);
                }
                shared.client_memory.relieved(bytes);
            }
            // Workers that have not reported, or that have to close a connection, may be asleep.
            _ => shared.wake_other_workers(self.index),
        }
    }

    fn close_for_memory(&mut self, slot: usize, reason: &str) {
        if let Some(peer) = &self.peers[slot] {
            let bytes = peer.memory_bytes;
            let reason = format!("{reason}; it held {bytes} bytes");
            let address = peer.stream.peer();
            if let Some(session) = &self.sessions[slot] {
                self.shared
                    .events
                    .closed(session.speaks(), address, &reason);
            }
        }
        let closed = &self.shared.metrics.closed_for_memory;
        closed.fetch_add(1, Ordering::Relaxed);
        self.close(slot);
    }

    /// Reads from connections that are blocked and fetch nothing.
    pub(crate) fn read_from_blocked(&mut self) {
        if self.blocked.is_empty() {
            self.look_at = None;
            return;
        }
        let looks = self.look_at.is_none_or(|at| at <= self.now);
        for slot in std::mem::take(&mut self.blocked) {
            let Some(peer) = &mut self.peers[slot] else {
                continue;
            };
            if !peer.blocked {
                continue;
            }
            self.blocked.push(slot);
            if looks {
                peer.buffers = !std::mem::take(&mut peer.fetched);
            }
            if peer.buffers && peer.readable && !peer.ended {
                self.buffer(slot);
            }
        }
        if looks {
            self.look_at = Some(self.now + LOOK);
        }
    }

    /// Reads what a connection sends, as far as there is memory, without running it.
    fn buffer(&mut self, slot: usize) {
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        let input = &mut self.inputs[slot];
        let wanted = input.len() * 2;
        if input.capacity() > LONGEST_INPUT_BYTES / 2 {
            return self.close_for_memory(slot, "its requests wait for it to fetch replies");
        }
        if !self.shared.client_memory.admits(input.growth(wanted)) {
            return;
        }
        let before = input.len();
        let filled = input.fill(&mut peer.stream, wanted, &mut self.pool);
        let received = (input.len() - before) as u64;
        match filled {
            Ok(Filled::Drained) => peer.readable = peer.hung_up,
            // The rest comes after the others.
            Ok(Filled::More) => self.look_at = Some(self.now),
            Ok(Filled::End) | Err(_) => {
                peer.readable = false;
                peer.ended = true;
            }
        }
        if received > 0 {
            peer.active_at = self.now;
        }
        metrics::add(&self.metrics().received_bytes, received);
        self.count_memory(slot);
    }
}
