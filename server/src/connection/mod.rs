//! The buffers of a connection: what its client sent, and the replies that the client has not
//! fetched.

pub(crate) mod input;
pub(crate) mod large_values;
pub(crate) mod output;
pub(crate) mod reply_buffer;
