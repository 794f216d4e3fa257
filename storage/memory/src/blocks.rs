//! Where blocks come from: the pools, or the standard allocator alone.

#[cfg(not(any(feature = "system-allocator", miri)))]
pub(crate) use crate::pool::{allocate, classes, release, reserved_bytes};
#[cfg(any(feature = "system-allocator", miri))]
pub(crate) use crate::system::{allocate, classes, release, reserved_bytes};
