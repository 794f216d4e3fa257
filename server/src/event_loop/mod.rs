//! The threads that serve clients: one accepts connections, and each worker runs an event loop over
//! its share of them. A tick of the loop runs the requests of all its connections together.

pub(crate) mod accept;
mod acknowledge;
mod batches;
pub(crate) mod choice;
mod datagram_slots;
mod datagrams;
pub(crate) mod descriptors;
mod idle;
mod peer;
mod relief;
mod tick;
mod transfers;
pub(crate) mod worker;
