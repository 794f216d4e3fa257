//! What a tree asks of the place where its pages live.
//!
//! Code that is written against [`Pages`] compiles for each provider. The B-tree's splits and
//! merges are; the rest of the tree for many threads runs on a pool alone. The rules that let one
//! text serve providers with latches and without:
//!
//! * A **guard** ([`Optimistic`](Pages::Optimistic), [`Shared`](Pages::Shared),
//!   [`Exclusive`](Pages::Exclusive)) is a right, and borrows nothing. Several can be held at once,
//!   for example of a parent and its children during a split.
//! * **Bytes** come from the provider for a guard, and borrow the provider: shared for reading,
//!   mutably for a change. A tree can read several pages at once and change one at a time; what it
//!   moves from page to page goes through a copy. This is what makes the provider without latches
//!   sound: its guards are worth nothing, but the borrow checker sees to it that nobody reads a
//!   page while it is changed.
//! * A provider that threads share is a small handle, one for each operation, so that its
//!   `&mut self` excludes no other thread.
//! * **Changes** are made within an [`Operation`](Pages::Operation), which lasts for all of a
//!   change that spans pages: a checkpoint sees all of it or nothing.
//!
//! [`change`](Pages::change) is for what must reach the file. [`touch`](Pages::touch) is for
//! hints, counters and the order of records that are equal in any order: optimistic readers notice
//! it, but the page stays as clean as it was.

use crate::page_id::PageId;
use crate::restart::{Restart, Result};
use crate::view::{Image, View, ViewMut};

/// A provider of pages of `PAGE` bytes.
pub trait Pages<const PAGE: usize> {
    /// Whether other threads may change a page between two looks at it without a latch.
    const IS_SHARED: bool;
    /// Proof that a change is under way, and that no checkpoint cuts through it.
    type Operation;
    /// A version snapshot of a page, by a reader that takes no latch.
    type Optimistic: Copy;
    /// A latch that others may have too: nobody changes the page.
    type Shared;
    /// A latch that nobody else has.
    type Exclusive;
    /// A page's bytes under a version snapshot.
    type Seen<'a>: View
    where
        Self: 'a;
    /// A page under an exclusive latch, to be changed.
    type Change<'a>: ViewMut<PAGE>
    where
        Self: 'a;

    /// Begins a change of any number of pages. Do not begin a second one before the first is
    /// dropped: a checkpoint that waits for the first would make the second wait.
    fn begin(&self) -> Self::Operation;

    /// A page of unspecified content, new to everybody.
    ///
    /// # Errors
    ///
    /// There is no number for another page, or no memory and no way to write others.
    fn allocate(&mut self, operation: &Self::Operation) -> Result<Self::Exclusive>;

    /// Gives back a page to which nothing refers any more. Readers that still have its number
    /// restart.
    ///
    /// # Errors
    ///
    /// Neither a pool nor resident pages fail at it.
    fn release(&mut self, page: Self::Exclusive, operation: &Self::Operation) -> Result<()>;

    /// The number of a page that the caller has for itself.
    fn id(&self, page: &Self::Exclusive) -> PageId;

    /// Takes a version snapshot of a page, after bringing it to memory if need be.
    ///
    /// # Errors
    ///
    /// [`Stop::Restart`] says that the page is not in use: the reader found the reference to it on
    /// a page that was changing. Else why the page cannot be read.
    ///
    /// [`Stop::Restart`]: crate::Stop::Restart
    fn optimistic(&self, id: PageId) -> Result<Self::Optimistic>;

    /// The bytes of a page under a version snapshot. They may be changing.
    fn seen(&self, page: &Self::Optimistic) -> Self::Seen<'_>;

    /// Whether all that was read from the page since the snapshot is true: a fence and a load.
    ///
    /// # Errors
    ///
    /// [`Restart`] if it may not be.
    fn validate(&self, page: &Self::Optimistic) -> std::result::Result<(), Restart>;

    /// Latches a page for reading, after bringing it to memory if need be; waits for a writer.
    ///
    /// # Errors
    ///
    /// As for [`optimistic`](Self::optimistic).
    fn shared(&self, id: PageId) -> Result<Self::Shared>;

    /// Latches a page for itself, after bringing it to memory if need be; waits for others.
    ///
    /// # Errors
    ///
    /// As for [`optimistic`](Self::optimistic).
    fn exclusive(&self, id: PageId) -> Result<Self::Exclusive>;

    /// Latches a page for itself, after bringing it to memory if need be, without waiting for
    /// another thread: `None` if one has it for more than a moment.
    ///
    /// # Errors
    ///
    /// As for [`optimistic`](Self::optimistic).
    fn try_exclusive(&self, id: PageId) -> Result<Option<Self::Exclusive>>;

    /// Latches a page for itself if it was not changed since the snapshot; does not wait.
    ///
    /// # Errors
    ///
    /// [`Restart`] if it was changed, or another thread has it.
    fn upgrade(&self, page: &Self::Optimistic) -> std::result::Result<Self::Exclusive, Restart>;

    /// The bytes of a page under a shared latch.
    fn shared_image<'a>(&'a self, page: &'a Self::Shared) -> &'a Image<PAGE>;

    /// The bytes of a page under an exclusive latch.
    fn image<'a>(&'a self, page: &'a Self::Exclusive) -> &'a Image<PAGE>;

    /// A page under an exclusive latch, for a change that must reach the file.
    ///
    /// # Errors
    ///
    /// Fails before anything was changed, if too many pages are dirty and the disk takes none of
    /// them.
    fn change<'a>(
        &'a mut self,
        page: &'a mut Self::Exclusive,
        operation: &Self::Operation,
    ) -> Result<Self::Change<'a>>;

    /// A page under an exclusive latch, for a change that may be lost: hints and counters.
    fn touch<'a>(&'a mut self, page: &'a mut Self::Exclusive) -> Self::Change<'a>;

    /// The bytes of a page under an exclusive latch, to be changed in any way, where no other
    /// thread reads the page meanwhile; none where optimistic readers may.
    fn image_mut<'a>(&'a mut self, page: &'a mut Self::Exclusive) -> Option<&'a mut Image<PAGE>>;

    /// Asks for pages to be brought to memory soon. Unknown pages are left out.
    fn prefetch(&self, ids: &[PageId]);

    /// Brings several pages to memory, all reads at once, and waits for them: what a batch of
    /// lookups does before it takes its next step. Unknown pages are left out, so that numbers need
    /// not be validated before, and so are pages that cannot be read;
    /// [`optimistic`](Self::optimistic) says why.
    fn load_many(&self, ids: &[PageId]);

    /// How many pages are in use.
    fn live(&self) -> usize;

    /// Bytes of memory that pages take now.
    fn resident_bytes(&self) -> usize;
}
