//! Verification and statistics of the tree for one writer.

use hedgerow_index::Statistics;

use super::BTree;
use super::pages::Owned;
use crate::configuration::Configuration;
use crate::tree::counts::Counts;
use crate::tree::verify::Seen;

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Checks every structural invariant and returns the first violation in words.
    ///
    /// # Errors
    ///
    /// The violation, with the page where it is.
    pub fn verify(&self) -> Result<(), String> {
        let seen = Seen::of_tree::<C, PAGE>(&Owned(&self.pages), self.root)?;
        if seen.keys != self.len {
            return Err(format!("{} keys, but {} counted", seen.keys, self.len));
        }
        if seen.pages != self.pages.live() {
            let live = self.pages.live();
            return Err(format!("{} pages reached, but {live} in use", seen.pages));
        }
        // Here nothing can be in the way of making them free.
        if seen.unnamed != 0 {
            return Err(format!(
                "{} slots of shared overflow pages are taken in vain",
                seen.unnamed
            ));
        }
        Ok(())
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Bytes of memory that the tree holds, free pages of the last block included.
    #[must_use]
    pub fn resident_bytes(&self) -> usize {
        self.pages.resident_bytes()
    }

    /// Numbers that show every mechanism at work. Walks all pages.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counts = Counts::of_tree::<C, PAGE>(&Owned(&self.pages), self.root);
        // Pages of one's own can be read.
        let counts = counts.unwrap_or_default();
        let mut all = Statistics::new();
        counts.push::<PAGE>(&mut all, self.len, self.pages.live());
        self.conversions.push(&mut all);
        all
    }
}
