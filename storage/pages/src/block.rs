//! A block: the bytes of one page on their way from or to the file, aligned as direct I/O wants.

#[repr(C, align(4096))]
#[derive(Clone)]
pub(crate) struct Block<const PAGE: usize>(pub(crate) [u8; PAGE]);

impl<const PAGE: usize> Block<PAGE> {
    pub(crate) fn zeroed() -> Self {
        Self([0; PAGE])
    }

    pub(crate) fn several(count: usize) -> Vec<Self> {
        vec![Self::zeroed(); count]
    }

    /// The bytes of blocks, one behind the other; none if there is padding between.
    pub(crate) fn bytes_of(blocks: &[Self]) -> Option<&[u8]> {
        if size_of::<Self>() != PAGE {
            return None;
        }
        // SAFETY: a block has the size of its only field, an array of bytes; so a slice of blocks
        // is that many initialised bytes, borrowed for as long.
        Some(unsafe { std::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks)) })
    }

    pub(crate) fn crc(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }

    /// What is wrong with a block that was read, if anything.
    pub(crate) fn fault(&self, bytes: usize, crc: u32) -> Option<String> {
        match bytes {
            bytes if bytes < PAGE => Some("lies beyond the end of the file".to_owned()),
            _ if self.crc() != crc => Some("does not have its checksum".to_owned()),
            _ => None,
        }
    }
}

/// Where a block begins in the file.
pub(crate) fn offset<const PAGE: usize>(block: u32) -> u64 {
    u64::from(block) * PAGE as u64
}
