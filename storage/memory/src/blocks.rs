//! Where blocks come from: the pools, or the standard allocator alone.

#[cfg(not(any(feature = "system-allocator", miri)))]
pub(crate) use crate::pool::{
    Kind, allocate, allocate_kind, classes, kind, live_bytes, release, release_kind, reserved_bytes,
};
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) use crate::system::{
    Kind, allocate, allocate_kind, classes, kind, live_bytes, release, release_kind, reserved_bytes,
};
