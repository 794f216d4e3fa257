//! The keys of the records that these experiments load.

/// Of which record a key and a value are: eight bytes, big-endian, spread over all of them so that
/// neighbours in number are no neighbours in order.
pub fn key_of(record: u64) -> [u8; 8] {
    record.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}
