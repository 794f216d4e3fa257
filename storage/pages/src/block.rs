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
