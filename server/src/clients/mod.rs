//! What concerns all clients of the server: their list, their memory, and a pause of their
//! requests.

pub(crate) mod list;
pub(crate) mod memory;
pub(crate) mod pause;
