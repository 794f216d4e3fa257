//! Logical nodes: a base node and the delta records in front of it.

pub(crate) mod base;
pub(crate) mod draft;
pub(crate) mod item;
pub(crate) mod key;
pub(crate) mod links;
pub(crate) mod ordered;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod route;
pub(crate) mod splice;
pub(crate) mod view;

pub(crate) use draft::Draft;
pub(crate) use item::{Item, KeyParts};
pub(crate) use record::{Body, Header, Kind, RecordRef};
