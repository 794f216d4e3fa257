//! The buffer of whoever reads a file block by block. Blocks are short, but for those of one long
//! commit or row, and for those that programs wrote before blocks were cut.

/// What a buffer keeps, whatever the next block needs.
pub(crate) const RETAINED_BYTES: usize = 1 << 20;

/// The buffer with this length, and any bytes in it. What a long block took is freed before more is
/// allocated, and as soon as a block is short.
pub(crate) fn resized(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    let capacity = bytes.capacity();
    if capacity < length || capacity > length.max(RETAINED_BYTES) {
        drop(bytes);
        return vec![0; length];
    }
    bytes.resize(length, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_little_behind_a_long_block() {
        let mut bytes = Vec::new();
        for length in [100, 6 << 20, 4 << 20, 100, RETAINED_BYTES, 0] {
            bytes = resized(bytes, length);
            assert_eq!(bytes.len(), length);
            assert!(bytes.capacity() <= length.max(RETAINED_BYTES), "{length}");
        }
        let room = bytes.capacity();
        assert_eq!(
            resized(bytes, 100).capacity(),
            room,
            "short blocks share one"
        );
    }
}
