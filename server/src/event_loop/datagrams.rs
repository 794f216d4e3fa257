//! Requests that come to a worker by UDP. Each worker has a port of its own (Masstree, §5), so that
//! a client that knows the ports can choose the core that runs its requests.
//!
//! A datagram takes a slot, as a connection does whose client sends a request, or several, and
//! hangs up. Whatever holds of those holds of it: its requests run in the batches of a tick, beside
//! those of other clients, and its reply waits for the disk where it has to. Once all is answered,
//! the reply goes out together with those to others. `datagram_slots.rs` is the worker's part.

use crate::sockets::udp_port::UdpPort;

/// Datagrams that are not answered yet, such as those whose writes wait for the disk. Beyond, the
/// system keeps what arrives, or drops it.
const MOST_OPEN: usize = 1024;

/// A worker's port, and how many of the datagrams that came there are not answered yet.
pub(super) struct Datagrams {
    pub(super) port: UdpPort,
    /// The port may have more.
    pub(super) is_readable: bool,
    pub(super) open: usize,
}

impl Datagrams {
    pub(super) fn new(port: UdpPort) -> Datagrams {
        Datagrams {
            port,
            is_readable: false,
            open: 0,
        }
    }

    /// Whether there may be something to take, and room for it.
    pub(super) fn is_ready(&self) -> bool {
        self.is_readable && self.open < MOST_OPEN
    }
}
