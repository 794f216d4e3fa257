//! What the protocols share, and what is below each of them: requests, ports, the password.

pub(crate) mod effects;
pub(crate) mod password;
pub(crate) mod port;
pub(crate) mod request;
pub(crate) mod web;
