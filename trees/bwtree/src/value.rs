//! Values as records hold them: short ones inline, long ones in a block of their own.
//!
//! ```text
//! length word u32: bit 31 = external, else the length
//! inline:    the bytes
//! external:  address u64, length u64 of an immutable block
//! ```
//!
//! A block belongs to the logical node that is responsible for its key. A consolidation copies the
//! address into the new base node; the blocks of values that it leaves out are retired with the old
//! chain, by the thread whose compare-and-swap replaced it.

use std::ptr::NonNull;

/// The longest value that lies in a record, in bytes.
pub const INLINE_BYTES: usize = 512;

const EXTERNAL: u32 = 1 << 31;
const EXTERNAL_BYTES: usize = 16;

/// A value as it lies in a record: its length word, and its bytes or the name of its block. In an
/// inner node, a child's id is in the place of the length word, and there are no bytes.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    length_word: u32,
    bytes: &'a [u8],
}

/// The block of a long value.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    address: u64,
    length: usize,
}

impl<'a> Stored<'a> {
    /// A value without bytes: what a delta has that needs none.
    pub const EMPTY: Stored<'static> = Stored {
        length_word: 0,
        bytes: &[],
    };

    #[inline(always)]
    pub fn new(length_word: u32, bytes: &'a [u8]) -> Self {
        Self { length_word, bytes }
    }

    /// What an item of an inner node has instead of a value: its child's id.
    #[inline(always)]
    pub fn of_child(id: u32) -> Stored<'static> {
        Stored {
            length_word: id,
            bytes: &[],
        }
    }

    /// The length word of a value.
    #[inline(always)]
    pub fn length_word(&self) -> u32 {
        self.length_word
    }

    /// The id of a child, of an item of an inner node.
    #[inline(always)]
    pub fn child(&self) -> u32 {
        self.length_word
    }

    /// What lies in the record.
    #[inline(always)]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes lie in the record of a leaf behind a length word.
    #[inline(always)]
    pub fn bytes_of(length_word: u32) -> usize {
        if length_word & EXTERNAL == 0 {
            length_word as usize
        } else {
            EXTERNAL_BYTES
        }
    }

    /// The block of a long value.
    #[inline(always)]
    pub fn block(&self) -> Option<Block> {
        if self.length_word & EXTERNAL == 0 {
            return None;
        }
        let word = |at: usize| {
            let bytes = self.bytes[at..at + 8].try_into();
            u64::from_ne_bytes(bytes.expect("an external value names its block in 16 bytes"))
        };
        Some(Block {
            address: word(0),
            length: word(8) as usize,
        })
    }

    /// The value itself.
    #[inline(always)]
    pub fn get(&self) -> &'a [u8] {
        match self.block() {
            None => self.bytes,
            // SAFETY: blocks are immutable, and retired no earlier than the last record that names
            // them becomes unreachable; so they outlive what `'a` borrows.
            Some(block) => unsafe {
                let address = std::ptr::with_exposed_provenance::<u8>(block.address as usize);
                std::slice::from_raw_parts(address, block.length)
            },
        }
    }
}

impl Block {
    /// Bytes of the value.
    pub fn length(self) -> usize {
        self.length
    }

    /// Frees the block.
    ///
    /// # Safety
    ///
    /// No record names it that anyone can still read.
    pub unsafe fn release(self) {
        let address = std::ptr::with_exposed_provenance_mut::<u8>(self.address as usize);
        if let Some(address) = NonNull::new(address) {
            // SAFETY: it came from `NewValue::new` with this length; the caller owns it.
            unsafe { hedgerow_memory::release(address, self.length) };
        }
    }
}

/// A value that is about to be stored: frees its block, if it has one, unless it is published.
pub(crate) struct NewValue<'a> {
    inline: &'a [u8],
    external: Option<[u8; EXTERNAL_BYTES]>,
}

impl<'a> NewValue<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let external = (bytes.len() > INLINE_BYTES).then(|| {
            let block = hedgerow_memory::allocate(bytes.len());
            // SAFETY: the block is new and has this length.
            unsafe { block.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
            let mut name = [0; EXTERNAL_BYTES];
            let address = block.as_ptr().expose_provenance() as u64;
            name[..8].copy_from_slice(&address.to_ne_bytes());
            name[8..].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
            name
        });
        Self {
            inline: bytes,
            external,
        }
    }

    pub fn stored(&self) -> Stored<'_> {
        match &self.external {
            None => Stored::new(self.inline.len() as u32, self.inline),
            Some(name) => Stored::new(EXTERNAL, name),
        }
    }

    /// A record names the block from now on.
    pub fn publish(mut self) {
        self.external = None;
    }
}

impl Drop for NewValue<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.external
            && let Some(block) = Stored::new(EXTERNAL, name).block()
        {
            // SAFETY: no record with it was published.
            unsafe { block.release() };
        }
    }
}
