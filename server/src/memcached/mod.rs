//! The memcached protocol: classic text commands, meta commands, and an ordered scan beside them.
//!
//! Items are plain rows of database 0, the same that RESP clients see: the client flags are the
//! row's user flags, the cas value is the row's commit timestamp, the exptime its expiry. Single
//! `get`s and unconditional `set`s run through the worker's batches like their RESP twins.
//!
//! | module | what |
//! |---|---|
//! | `session` | a connection: taking its requests out of the input, running them, their replies |
//! | `frame` | where a request ends, and its words |
//! | `classic` | `get set add … flush_all stats` |
//! | `meta`, `scan` | `mg ms md ma mn me`, and `mr`, the ordered scan |
//! | `flags`, `item_reply` | the flags of meta commands, and what they return |
//! | `stats` | `stats` and its groups |
//! | `items` | what both do to rows: store conditionally, count, touch, delete |
//! | `request`, `outcome` | the words of a request; its result |

mod classic;
mod flags;
mod frame;
mod item_reply;
mod items;
mod meta;
mod outcome;
mod request;
mod scan;
mod session;
mod stats;

pub(crate) use frame::{RefusedItem, parse as parse_request};
pub(crate) use request::Code;
pub(crate) use session::Session;
