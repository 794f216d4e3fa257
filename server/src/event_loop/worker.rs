//! A worker: one thread, one event loop, its connections.
//!
//! ```text
//! poll ─► adopt new connections, note who is readable
//!      ─► read each ready socket once ─► parse ─► run (tick/) ─► write once per connection
//! ```
//!
//! Sockets are registered edge-triggered, for reading alone; for writing, too, while one could not
//! take all ([`Peer::watch_sent`]). So the worker remembers which connections still have something
//! to read (`queue`). With synchronous durability a tick's writes share one request to the log;
//! replies from the first write on stay in the output until the log reports that their epoch is
//! durable, which wakes the poll. A worker never waits for a disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use hedgerow::backend::Backend;
use hedgerow_ring::Ring;
use mio::{Events, Poll, Token, Waker};

use crate::clients::memory::RELIEF_INTERVAL;
use crate::connection::input::{Filled, Input, Pool};
use crate::connection::output::{Flushed, Output};
use crate::error::{Error, Result};
use crate::event_loop::batches::{Batches, Sink};
use crate::event_loop::datagrams::Datagrams;
use crate::event_loop::peer::{Incoming, Peer};
use crate::event_loop::tick::{Active, ConnectionSlots, Tick};
use crate::monitoring::metrics::{self, WorkerMetrics};
use crate::session::Session;
use crate::shared::{Shared, WorkerHandle};
use crate::sockets::stream::Stream;
use crate::sockets::udp_port::UdpPort;

const WAKER: Token = Token(usize::MAX);
const UDP: Token = Token(usize::MAX - 1);
/// The room for events that a worker runs with.
pub(crate) const EVENTS: usize = 1024;
/// How often idle connections are closed.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a stopping worker tries to deliver the last replies.
const LINGER: Duration = Duration::from_secs(2);

/// One event loop.
pub(crate) struct Worker<B: Backend> {
    pub(crate) shared: Arc<Shared<B>>,
    pub(crate) index: usize,
    pub(crate) handle: Arc<WorkerHandle>,
    poll: Poll,
    incoming: Receiver<Incoming<B>>,
    // By slot.
    pub(crate) peers: Vec<Option<Peer>>,
    pub(crate) sessions: Vec<Option<Session<B>>>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    free: Vec<usize>,
    queue: Vec<usize>,
    /// Connections whose replies wait for a sync.
    pub(crate) waiting: Vec<usize>,
    /// Connections whose sockets accept more.
    unsent: Vec<usize>,
    /// Blocked connections, and when to check whether they fetch anything.
    pub(crate) blocked: Vec<usize>,
    pub(crate) look_at: Option<Instant>,
    /// When the first of them has waited for long enough.
    pub(crate) overdue_at: Option<Instant>,
    /// When the pause that connections wait for ends, if any do.
    paused_until: Option<Instant>,
    /// When the first transaction may be idle for too long.
    pub(super) transactions_due_at: Option<Instant>,
    /// Connections that were to end, so far.
    kills_seen: u64,
    pub(crate) pool: Pool,
    pub(crate) tick: Tick,
    /// Receives and sends for several connections at once; `None`: one call for each.
    pub(super) batches: Option<Batches>,
    /// The worker's UDP port, if it has one.
    pub(super) datagrams: Option<Datagrams>,
    /// Read once per tick.
    pub(crate) now: Instant,
}

impl<B: Backend> Worker<B> {
    pub(crate) fn new(
        shared: Arc<Shared<B>>,
        index: usize,
        incoming: Receiver<Incoming<B>>,
        ring: Option<Ring>,
        mut udp: Option<UdpPort>,
    ) -> Result<Worker<B>> {
        let poll = Poll::new().map_err(Error::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("create a waker"))?;
        if let Some(udp) = &mut udp {
            udp.watch(poll.registry(), UDP)
                .map_err(Error::system("watch a UDP port"))?;
        }
        let handle = Arc::new(WorkerHandle {
            waker,
            waits_for_sync: AtomicBool::new(false),
        });
        Ok(Worker {
            shared,
            index,
            handle,
            poll,
            incoming,
            peers: Vec::new(),
            sessions: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            free: Vec::new(),
            queue: Vec::new(),
            waiting: Vec::new(),
            unsent: Vec::new(),
            blocked: Vec::new(),
            look_at: None,
            overdue_at: None,
            paused_until: None,
            transactions_due_at: None,
            kills_seen: 0,
            pool: Pool::default(),
            tick: Tick::default(),
            batches: ring.map(Batches::new),
            datagrams: udp.map(Datagrams::new),
            now: Instant::now(),
        })
    }

    pub(crate) fn handle(&self) -> Arc<WorkerHandle> {
        Arc::clone(&self.handle)
    }

    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        &self.shared.metrics.workers[self.index]
    }

    /// Runs until the server stops, with room for as many events at once as these can take.
    ///
    /// # Errors
    /// The poll has failed. The worker has delivered what it had answered, and has closed its
    /// connections.
    pub(crate) fn run(mut self, mut events: Events) -> io::Result<()> {
        if self.shared.options.pin_cores {
            pin_to_core(self.index);
        }
        let mut outcome = Ok(());
        let mut next_housekeeping = Instant::now() + HOUSEKEEPING_INTERVAL;
        while !self.shared.is_stopping() {
            let timeout = if self.shared.client_memory.is_pressed() {
                RELIEF_INTERVAL
            } else if self.has_nothing_to_do() {
                let due = [
                    self.overdue_at,
                    self.paused_until,
                    self.look_at,
                    self.transactions_due_at,
                ];
                let wake_at = due
                    .into_iter()
                    .flatten()
                    .fold(next_housekeeping, Instant::min);
                wake_at.saturating_duration_since(self.now)
            } else {
                Duration::ZERO
            };
            let is_polled = match self.poll.poll(&mut events, Some(timeout)) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            self.now = Instant::now();
            self.take_events(&events);
            self.adopt_datagrams();
            self.resume_paused();
            for slot in std::mem::take(&mut self.unsent) {
                self.flush(slot);
            }
            self.tick();
            self.send_datagrams();
            self.read_from_blocked();
            if self.shared.client_memory.is_pressed() {
                self.relieve();
            }
            // Else there may be more to read.
            let is_all = || is_polled && events.iter().count() < events.capacity();
            if self.transactions_due_at.is_some_and(|at| at <= self.now) && is_all() {
                self.end_idle_transactions();
            }
            if self.now >= next_housekeeping {
                next_housekeeping = self.now + HOUSEKEEPING_INTERVAL;
                if is_all() {
                    self.close_idle();
                }
                self.end_due();
                self.shared.flush_if_due();
                self.close_over_soft_limit();
            }
        }
        self.finish(&mut events);
        outcome
    }

    /// Whether only an event or the clock brings more to do.
    fn has_nothing_to_do(&self) -> bool {
        let has_datagrams = self.datagrams.as_ref().is_some_and(Datagrams::is_ready);
        self.queue.is_empty() && self.unsent.is_empty() && !has_datagrams
    }

    fn take_events(&mut self, events: &Events) {
        let mut woken = false;
        for event in events {
            if event.token() == WAKER {
                woken = true;
                continue;
            }
            if event.token() == UDP {
                if let Some(datagrams) = &mut self.datagrams {
                    datagrams.is_readable = true;
                }
                continue;
            }
            let slot = event.token().0;
            let Some(Some(peer)) = self.peers.get_mut(slot) else {
                continue;
            };
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                peer.readable = true;
                peer.hung_up |= event.is_read_closed() || event.is_error();
                if peer.hung_up && peer.paused {
                    self.drop_paused(slot);
                    continue;
                }
                self.enqueue(slot);
            }
            if event.is_writable() && self.peers[slot].as_ref().is_some_and(|peer| peer.pending) {
                self.flush(slot);
            }
        }
        if woken {
            self.adopt();
            self.close_killed();
        }
        if !self.waiting.is_empty() {
            self.send_durable();
        }
    }

    pub(super) fn enqueue(&mut self, slot: usize) {
        if let Some(peer) = &mut self.peers[slot]
            && !peer.queued
            && !peer.blocked
            && !peer.paused
            && !peer.closing
        {
            peer.queued = true;
            self.queue.push(slot);
        }
    }

    /// Takes over the connections that the accepting thread sent.
    fn adopt(&mut self) {
        while let Ok(Incoming { stream, session }) = self.incoming.try_recv() {
            // Others know of it since it was accepted.
            let is_killed = session.is_killed();
            let slot = self.occupy(Peer::new(stream, self.now), session);
            if let Some(peer) = &mut self.peers[slot]
                && (is_killed || peer.register(self.poll.registry(), slot).is_err())
            {
                self.close(slot);
            }
        }
    }

    /// Puts a peer into a slot, and says which.
    pub(super) fn occupy(&mut self, peer: Peer, session: Session<B>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.sessions.push(None);
            self.inputs.push(Input::default());
            self.outputs.push(Output::default());
            self.peers.len() - 1
        });
        self.sessions[slot] = Some(session);
        self.peers[slot] = Some(peer);
        slot
    }

    /// Reads, runs and answers what is there.
    fn tick(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        self.tick.begin(self.shared.options.slow_command);
        let mut queue = std::mem::take(&mut self.queue);
        self.receive_together(&queue);
        for &slot in &queue {
            self.receive(slot);
            let (shared, tick, mut slots) = self.parts();
            tick.parse(shared, slot, &mut slots);
            self.outputs[slot].prepare(&mut self.pool);
        }
        let (shared, tick, mut slots) = self.parts();
        tick.run(shared, &mut slots);
        if let Some(commit) = tick.awaited.last_commit {
            // One group commit for the whole tick.
            self.shared.db.request_durable(&commit);
        }
        if self.tick.awaited.needs_write_out {
            self.write_out();
        }
        self.end_tick();
        // Uses the queue's buffer again, with what was queued meanwhile.
        queue.clear();
        queue.append(&mut self.queue);
        self.queue = queue;
        self.count_tick();
    }

    /// The parts that a tick works on.
    #[inline]
    fn parts(&mut self) -> (&Shared<B>, &mut Tick, ConnectionSlots<'_, B>) {
        let slots = ConnectionSlots {
            inputs: &mut self.inputs,
            outputs: &mut self.outputs,
            sessions: &mut self.sessions,
        };
        (&self.shared, &mut self.tick, slots)
    }

    /// Sends a tick's answers, and decides what each of its connections does next.
    fn end_tick(&mut self) {
        let active = std::mem::take(&mut self.tick.active);
        self.send_together(active.iter().map(|active| active.slot));
        // Those that had to leave something for the next tick are the first in it; the one that was
        // the first in this tick is the last of them.
        let was_first = usize::from(active.first().is_some_and(|first| first.deferred));
        let (first, others) = active.split_at(was_first);
        let deferred = others.iter().chain(first).filter(|active| active.deferred);
        let rest = active.iter().filter(|active| !active.deferred);
        for active in deferred.chain(rest) {
            self.end_tick_of(active);
            self.shared.client_memory.counted(active.encoded_bytes);
        }
        self.tick.active = active;
        if !self.waiting.is_empty() {
            self.send_durable();
        }
    }

    /// Adds a tick to the counters, and logs it if it was slow.
    fn count_tick(&self) {
        let took = self.now.elapsed();
        let duration_ns = took.as_nanos() as u64;
        self.metrics().add(&self.tick.counts, duration_ns);
        let commands = &self.metrics().commands;
        commands.add(&self.tick.commands, duration_ns);
        commands.add_failed(&self.tick.failed_commands);
        commands.add_rejected(&self.tick.rejected_commands);
        let threshold = self.shared.options.slow_command;
        if threshold.is_some_and(|threshold| took >= threshold) && self.tick.counts.requests > 0 {
            self.log_slow(took);
        }
    }

    /// Logs what took longer than the threshold: commands by themselves, or all of them together.
    #[cold]
    fn log_slow(&self, took: Duration) {
        for slow in self.tick.stopwatch.slow() {
            let peer = self.peers[slow.slot].as_ref();
            let peer = peer.and_then(|peer| peer.stream.peer());
            self.shared.events.slow(peer, &slow.command, slow.took);
        }
        if !self.tick.stopwatch.slow().is_empty() {
            return;
        }
        let peer = match self.tick.active.as_slice() {
            [alone] => self.peers[alone.slot].as_ref(),
            _ => None,
        };
        let peer = peer.and_then(|peer| peer.stream.peer());
        let names = &self.shared.metrics.command_names;
        let commands = self.tick.commands.iter();
        let commands = commands.filter_map(|&code| names.get(code as usize).copied());
        let requests = self.tick.counts.requests;
        let events = &self.shared.events;
        events.slow_together(peer, commands, requests, took);
    }

    /// Whether a connection is to be read from, and may have the memory for it.
    #[inline]
    pub(super) fn may_receive(&self, slot: usize) -> bool {
        let Some(peer) = &self.peers[slot] else {
            return false;
        };
        if !peer.readable || peer.unparsed {
            return false;
        }
        let growth = self.inputs[slot].growth(peer.wanted);
        // If not, the largest connection is closed; then there is room, or this was it.
        growth == 0 || self.shared.client_memory.admits(growth)
    }

    /// Reads from a socket once, or takes what a batch has read from it.
    fn receive(&mut self, slot: usize) {
        let may_receive = self.may_receive(slot);
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        peer.queued = false;
        peer.active_at = self.now;
        let input = &mut self.inputs[slot];
        let before = input.len();
        let filled = match peer.received.take() {
            Some(outcome) => input.filled(outcome),
            None if may_receive => input.fill(&mut peer.stream, peer.wanted, &mut self.pool),
            None => return,
        };
        self.tick.counts.received_bytes += (input.len() - before) as u64;
        if let Stream::Datagram(_) = peer.stream {
            // Its client sends no more.
            (peer.readable, peer.ended) = (false, true);
            return;
        }
        match filled {
            // An end that was announced before this read is still to be read.
            Ok(Filled::Drained) => peer.readable = peer.hung_up,
            Ok(Filled::More) => {}
            Ok(Filled::End) | Err(_) => {
                peer.readable = false;
                peer.ended = true;
            }
        }
    }

    /// After a tick: consumes what ran, sends what can be sent, and decides what comes next.
    fn end_tick_of(&mut self, active: &Active) {
        let slot = active.slot;
        self.touch_transaction(slot);
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        self.inputs[slot].consume(active.ran_bytes);
        peer.wanted = active.wanted;
        let is_given_up = match &peer.stream {
            // A reply that cannot be sent anyway is not computed to its end.
            Stream::Datagram(exchange) => exchange.is_too_long(),
            Stream::Tcp(_) | Stream::Unix(_) => active.paused && (peer.hung_up || peer.ended),
        };
        peer.unparsed = (active.more || active.paused) && !is_given_up;
        peer.paused = active.paused && !is_given_up;
        if peer.paused {
            let pause = &self.shared.pause;
            self.paused_until = Some(pause.next_look(self.now, HOUSEKEEPING_INTERVAL));
        }
        peer.closing |= active.close || ((peer.ended || is_given_up) && !peer.unparsed);
        if let Stream::Datagram(exchange) = &mut peer.stream
            && peer.closing
            && !(active.close || is_given_up)
            && self.inputs[slot].len() > 0
        {
            exchange.cut_short();
        }
        if active.blocked && !peer.blocked {
            (peer.blocked, peer.buffers, peer.fetched) = (true, false, true);
            if !self.blocked.contains(&slot) {
                self.blocked.push(slot);
            }
        }
        if self.outputs[slot].has_waiting() && !peer.waiting {
            peer.waiting = true;
            self.waiting.push(slot);
        }
        if let Some(session) = &self.sessions[slot] {
            let output_bytes = self.outputs[slot].pending();
            session.publish(self.now, self.inputs[slot].len(), output_bytes);
            if let Some(error) = &active.offence {
                let reason = String::from_utf8_lossy(error.trim_ascii());
                let events = &self.shared.events;
                events.closed(session.speaks(), peer.stream.peer(), &reason);
            }
        }
        let again = peer.unparsed || peer.readable;
        self.flush(slot);
        self.inputs[slot].release(&mut self.pool);
        self.count_memory(slot);
        if again {
            self.enqueue(slot);
        }
    }

    /// Closes a connection that hung up while its requests waited for the end of a pause. They do
    /// not run: whoever was told nothing for so long may have asked again, here or elsewhere.
    fn drop_paused(&mut self, slot: usize) {
        if let Some(peer) = &mut self.peers[slot] {
            (peer.paused, peer.unparsed, peer.closing) = (false, false, true);
            self.flush(slot);
        }
    }

    /// Runs the requests that waited for the end of a pause, if it is over.
    fn resume_paused(&mut self) {
        let Some(until) = self.paused_until else {
            return;
        };
        if self.now < until && self.shared.pause.scope().is_some() {
            return;
        }
        // If the pause was made longer, they will wait again.
        self.paused_until = None;
        for slot in 0..self.peers.len() {
            if let Some(peer) = &mut self.peers[slot]
                && std::mem::take(&mut peer.paused)
            {
                self.enqueue(slot);
            }
        }
    }

    /// Sends what can be sent. Unblocks or closes the connection if that was the obstacle.
    pub(crate) fn flush(&mut self, slot: usize) {
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        let output = &mut self.outputs[slot];
        let before = output.pending();
        let mut sink = Sink {
            stream: &mut peer.stream,
            sent: peer.sent.take(),
        };
        let Ok(flushed) = output.flush(&mut sink) else {
            return self.close(slot);
        };
        debug_assert!(
            sink.sent.is_none(),
            "what was sent is taken from the output"
        );
        if peer
            .watch_sent(flushed, self.poll.registry(), slot)
            .is_err()
        {
            return self.close(slot);
        }
        let sent = before - output.pending();
        if flushed == Flushed::More && !self.unsent.contains(&slot) {
            self.unsent.push(slot);
        }
        if sent > 0 {
            // Who fetches a long reply is not silent.
            peer.active_at = self.now;
            (peer.fetched, peer.buffers) = (true, false);
        }
        // A connection without memory between ticks is not counted.
        let is_counted = peer.memory_bytes > 0;
        let left = output.pending();
        output.release(&mut self.pool);
        // An error may still take the place of a write's silence, which by UDP has no other way.
        let is_awaited = matches!(peer.stream, Stream::Datagram(_)) && output.has_waiting();
        let finished = peer.closing && left == 0 && !is_awaited;
        let unblocked = peer.blocked && left <= self.shared.options.output_limit_bytes;
        if unblocked {
            peer.blocked = false;
        }
        metrics::add(&self.metrics().sent_bytes, sent as u64);
        if finished {
            self.answer_datagram(slot);
            self.close(slot);
            return;
        }
        if sent > 0 && is_counted {
            self.count_memory(slot);
        }
        if unblocked {
            self.enqueue(slot);
        }
    }

    pub(crate) fn close(&mut self, slot: usize) {
        let Some(mut peer) = self.peers[slot].take() else {
            return;
        };
        self.shared.client_memory.change(peer.memory_bytes, 0);
        let _ = self.poll.registry().deregister(&mut peer.stream);
        self.sessions[slot] = None;
        self.inputs[slot] = Input::default();
        self.outputs[slot] = Output::default();
        self.waiting.retain(|&waits| waits != slot);
        self.queue.retain(|&queued| queued != slot);
        self.unsent.retain(|&unsent| unsent != slot);
        self.blocked.retain(|&blocked| blocked != slot);
        self.free.push(slot);
        match peer.stream {
            Stream::Datagram(exchange) => self.forget_datagram(&exchange),
            Stream::Tcp(_) | Stream::Unix(_) => {
                self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Closes the connections that `CLIENT KILL` named since the last check.
    fn close_killed(&mut self) {
        let kills = self.shared.clients.kills();
        if kills == self.kills_seen {
            return;
        }
        self.kills_seen = kills;
        for slot in 0..self.sessions.len() {
            if self.sessions[slot].as_ref().is_some_and(Session::is_killed) {
                self.close(slot);
            }
        }
    }

    /// Delivers what was answered, within reason, and closes everything.
    fn finish(&mut self, events: &mut Events) {
        let deadline = Instant::now() + LINGER;
        let unsent = |worker: &Worker<B>| worker.outputs.iter().any(|output| output.pending() > 0);
        while unsent(self) && Instant::now() < deadline {
            for slot in 0..self.peers.len() {
                if self.outputs[slot].pending() > 0 {
                    self.flush(slot);
                }
            }
            if unsent(self) {
                let interval = Duration::from_millis(20);
                if self.poll.poll(events, Some(interval)).is_err() {
                    // It has not waited.
                    std::thread::sleep(interval);
                }
                self.send_durable();
            }
            self.send_datagrams();
        }
        self.send_datagrams();
        for slot in 0..self.peers.len() {
            self.close(slot);
        }
    }
}

fn pin_to_core(index: usize) {
    if let Some(cores) = core_affinity::get_core_ids()
        && let Some(core) = cores.get(index % cores.len().max(1))
    {
        core_affinity::set_for_current(*core);
    }
}
