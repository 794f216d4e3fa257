//! What the protocols share, below each of them.

pub(crate) mod password;
pub(crate) mod web;
