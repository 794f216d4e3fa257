//! The threads that serve clients: one accepts connections, and each worker runs an event loop over
//! its share of them. A turn of the loop runs the requests of all its connections together.

pub(crate) mod accept;
mod acknowledge;
pub(crate) mod descriptors;
mod relief;
mod turn;
pub(crate) mod worker;
