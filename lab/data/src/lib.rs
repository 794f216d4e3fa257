//! Key sets for measurements.
//!
//! Two contenders are comparable only if they see the same keys in the same order, today and
//! on another machine. This crate holds such keys ([`Keys`], one arena in operation order, so
//! that walking it costs no cache miss that the processor does not foresee) and makes them.

#![forbid(unsafe_code)]

mod keys;

pub use keys::{KeyRange, Keys};
