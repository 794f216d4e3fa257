//! How verification and statistics read the pages of a tree, whoever has them.

use std::ops::Deref;

use crate::node::page::{Image, PageNumber};

/// Pages to be looked at, of a tree that has them for itself or of one that shares them.
pub(crate) trait ReadPages<const PAGE: usize> {
    /// A page that is looked at.
    type Page<'a>: Deref<Target = Image<PAGE>>
    where
        Self: 'a;
    /// A page, or why it cannot be read.
    fn read(&self, page: PageNumber) -> Result<Self::Page<'_>, String>;
}
