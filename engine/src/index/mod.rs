//! A keyspace in memory: its tree, its rows that expire, its bounds, what adapts its leaves.

pub(crate) mod any_index;
pub(crate) mod bounds;
pub(crate) mod catalog;
pub(crate) mod cursors;
pub(crate) mod expiry;
pub(crate) mod key_adaption;
pub(crate) mod kind;
pub(crate) mod retired;
pub(crate) mod space;
