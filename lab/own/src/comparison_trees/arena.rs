//! Nodes in pieces of about 2 MiB that never move.

/// No position: "nothing here" among links.
pub const NONE: u32 = u32::MAX;

/// A growing list of nodes; its pieces are as large as a superpage, so that the system can
/// give them one (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`).
#[derive(Debug)]
pub struct Arena<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Arena<T> {
    /// Nodes per piece: a power of two, to tell piece and place by shifting.
    const PER_PIECE: usize = {
        let fitting = (2 << 20) / size_of::<T>();
        1 << fitting.ilog2()
    };

    /// Adds a node; its position.
    pub fn push(&mut self, node: T) -> u32 {
        if self
            .pieces
            .last()
            .is_none_or(|last| last.len() == Self::PER_PIECE)
        {
            self.pieces.push(Vec::with_capacity(Self::PER_PIECE));
        }
        let full = (self.pieces.len() - 1) * Self::PER_PIECE;
        let last = self.pieces.last_mut().expect("a piece was just made");
        last.push(node);
        u32::try_from(full + last.len() - 1).expect("fewer nodes than 4-byte links can name")
    }

    /// The node at a position.
    #[inline(always)]
    pub fn get(&self, at: u32) -> &T {
        let at = at as usize;
        &self.pieces[at / Self::PER_PIECE][at % Self::PER_PIECE]
    }

    /// The node at a position, to change it.
    #[inline(always)]
    pub fn get_mut(&mut self, at: u32) -> &mut T {
        let at = at as usize;
        &mut self.pieces[at / Self::PER_PIECE][at % Self::PER_PIECE]
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}
