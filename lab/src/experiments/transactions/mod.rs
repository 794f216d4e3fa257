//! Snapshots and transactions: what they cost where nobody is in their way, and where many are.

mod short;
mod snapshots;
mod threads;

use crate::experiment::Experiment;

/// All experiments of this module.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![Box::new(snapshots::Snapshots), Box::new(short::Short)]
}

/// Of which record a key and a value are: eight bytes, big-endian, spread over all of them so that
/// neighbours in number are no neighbours in order.
fn key_of(record: u64) -> [u8; 8] {
    record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}
