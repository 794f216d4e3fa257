//! The buffers of a connection: what it sent, and the replies that it is to be sent.

pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod reply_buffer;
