//! Key sets for measurements.
//!
//! Two contenders are comparable only if they see the same keys in the same order, today and
//! on another machine. This crate holds such keys ([`Keys`], one arena in operation order, so
//! that walking it costs no cache miss that the processor does not foresee) and makes them
//! ([`KeySet`]), from seeds that never change.

#![forbid(unsafe_code)]

pub mod key_set;
mod keys;
pub mod random;

pub use key_set::{KeySet, KeySetError};
pub use keys::{KeyRange, Keys};
