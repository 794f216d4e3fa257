//! One tick of the event loop: it runs the requests that it parsed. Requests of one connection run
//! in their order; those of different connections in any. A tick runs rounds until every request
//! has run:
//!
//! 1. the leading reads of all connections become one `get_many`, whose cache misses overlap;
//! 2. the leading puts of connections are prefetched together, then applied;
//! 3. leading requests of any other kind run one by one, after the nodes around their keys were
//!    prefetched together.
//!
//! With a remote backend, the puts of all connections become one call, and the other requests of
//! different connections run at the same time.

mod answers;
mod joined_puts;
mod parse;
mod puts;
mod reads;
mod reorder;
mod requests;
mod run;
mod simultaneous;
mod singles;
mod stopwatch;

pub(crate) use requests::{Active, ConnectionSlots, Tick};
