//! How a worker takes datagrams into slots, beside its connections, and answers them.

use crate::event_loop::peer::Peer;
use crate::event_loop::worker::Worker;
use crate::memcached;
use crate::monitoring::metrics;
use crate::session::Session;
use crate::sockets::datagram::Exchange;
use crate::sockets::stream::Stream;
use crate::sockets::udp_port::Received;
use hedgerow::backend::Backend;

/// Datagrams that are taken before connections have their turn.
const MOST_PER_TICK: usize = 64;

impl<B: Backend> Worker<B> {
    /// Takes datagrams that have arrived, each to a slot of its own.
    pub(super) fn adopt_datagrams(&mut self) {
        for _ in 0..MOST_PER_TICK {
            let Some(datagrams) = &mut self.datagrams else {
                return;
            };
            if !datagrams.is_ready() {
                return;
            }
            match datagrams.port.receive() {
                Received::Exchange(exchange) => {
                    datagrams.open += 1;
                    self.adopt_datagram(exchange);
                }
                Received::Nothing => metrics::add(&self.metrics().lost_datagrams, 1),
                Received::Drained => datagrams.is_readable = false,
            }
        }
    }

    fn adopt_datagram(&mut self, exchange: Exchange) {
        metrics::add(&self.metrics().datagrams, 1);
        let may_ask = !self.shared.settings.has_password();
        let session = Session::Memcached(Box::new(memcached::Session::new(may_ask)));
        let mut peer = Peer::new(Stream::Datagram(Box::new(exchange)), self.now);
        peer.readable = true;
        let slot = self.occupy(peer, session);
        self.enqueue(slot);
    }

    /// Makes a reply of what a slot whose requests are all answered has written, if it is that of a
    /// datagram.
    pub(super) fn answer_datagram(&mut self, slot: usize) {
        let Some(datagrams) = &mut self.datagrams else {
            return;
        };
        if let Some(peer) = &mut self.peers[slot]
            && let Stream::Datagram(exchange) = &mut peer.stream
        {
            exchange.end(&mut datagrams.port.outgoing);
            let input = &mut self.inputs[slot];
            input.consume(input.len());
            input.release(&mut self.pool);
        }
    }

    /// A datagram has left its slot, answered or not.
    pub(super) fn forget_datagram(&mut self, exchange: &Exchange) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.open -= 1;
        }
        if !exchange.is_ended() {
            metrics::add(&self.metrics().lost_datagrams, 1);
        }
    }

    /// Sends the replies that are ready.
    pub(super) fn send_datagrams(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            let lost = datagrams.port.send();
            metrics::add(&self.metrics().lost_datagrams, lost as u64);
        }
    }
}
