//! What can go wrong with pages.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::page_id::PageId;

/// What can go wrong with pages, in words that say where and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// All page numbers that there is room for are in use.
    #[error(
        "all {pages} pages that there is address space for are in use; remove data, or open again \
         with more address space (ulimit -v)"
    )]
    OutOfPages {
        /// How many there are.
        pages: u64,
    },
    /// The kernel did not give address space.
    #[error(
        "could not reserve {bytes} bytes of address space ({source}); raise the \
         limit of the process (ulimit -v)"
    )]
    AddressSpace {
        /// How much was asked for.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file operation failed.
    #[error("could not {operation} {}: {source}", file.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the file layer said.
        source: io::Error,
    },
    /// A page is not in memory, and the file is not used any more.
    #[error("{} is closed, and {page} is not in memory; open the database again", file.display())]
    Closed {
        /// The page file.
        file: PathBuf,
        /// The page.
        page: PageId,
    },
    /// A page could not be read, this time.
    #[error("could not read {page} at byte {offset} of {}: {source}; try again, and check the \
        disk", file.display())]
    PageRead {
        /// The page file.
        file: PathBuf,
        /// The page.
        page: PageId,
        /// Where it is in the file.
        offset: u64,
        /// What the file layer said.
        source: io::Error,
    },
    /// A page's bytes are not those that were written. Other pages can be read.
    #[error("{}: {page} at byte {offset} {what}; restore it from a backup, other pages can be \
        read", file.display())]
    CorruptPage {
        /// The page file.
        file: PathBuf,
        /// The page.
        page: PageId,
        /// Where it should be in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The page table is damaged, and with it the way to some pages.
    #[error("{}: the page table at byte {offset} {what}, so {} to {} cannot be found; restore a \
        backup, or dump the other rows, which can still be read",
        file.display(), pages.start(), pages.end())]
    CorruptTable {
        /// The page file.
        file: PathBuf,
        /// Where the damaged part should be.
        offset: u64,
        /// What is wrong.
        what: String,
        /// The first and the last page concerned.
        pages: RangeInclusive<PageId>,
    },
    /// The file ends before a page that should be in it.
    #[error("{} was truncated: it has {found} of {expected} bytes, and {page} is missing; restore \
        a backup, or dump the other rows, which can still be read", file.display())]
    Truncated {
        /// The page file.
        file: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// Its length when it was last written, in bytes.
        expected: u64,
        /// The lowest missing page.
        page: PageId,
    },
    /// No page file, or neither of its roots is whole.
    #[error("{} is not a Hedgerow page file, or its beginning is damaged ({what}); check the \
        path, or restore it from a backup", file.display())]
    NotAPageFile {
        /// The file.
        file: PathBuf,
        /// Why it is not taken for one.
        what: &'static str,
    },
    /// A page file of another database.
    #[error("{} belongs to the database {found:016x}, not to {expected:016x}; put the right file \
        in its place", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The database it says it belongs to.
        found: u64,
        /// The database that was opened.
        expected: u64,
    },
    /// A page file with pages of another size.
    #[error("{} has pages of {found} bytes, not of {expected}; open it with the page size it was \
        created with", file.display())]
    PageSize {
        /// The file.
        file: PathBuf,
        /// Its page size.
        found: u32,
        /// The page size asked for.
        expected: u32,
    },
    /// A file of a newer version of this software.
    #[error("{} has format version {found}, this program reads up to {supported}; use a newer \
        program", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// The version it says.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// A file of an older version of this software, whose pages are laid out otherwise.
    #[error("{} has format version {found}, this program reads {supported}; export its rows with \
        the program that wrote it", file.display())]
    OlderFormat {
        /// The file.
        file: PathBuf,
        /// The version it says.
        found: u32,
        /// The version known here.
        supported: u32,
    },
    /// A memory budget that the pool cannot work in.
    #[error("a memory budget of {asked} bytes is too small for {}: at least {minimum} bytes are \
        needed; raise it (`--memory`)", file.display())]
    BudgetTooSmall {
        /// The file.
        file: PathBuf,
        /// The budget.
        asked: u64,
        /// The least budget for this file.
        minimum: u64,
    },
    /// All pages in memory are latched, and none can be evicted.
    #[error(
        "all {pages} pages that fit the memory budget are in use at once; raise it (`--memory`), \
         or use fewer threads"
    )]
    OutOfMemory {
        /// How many pages the budget holds.
        pages: u64,
    },
    /// What a caller wants to keep in a root does not fit.
    #[error("a root holds {limit} bytes of its owner, not {asked}")]
    RootTooLarge {
        /// Bytes given.
        asked: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// A checkpoint that was begun is not the one under way any more.
    #[error("another checkpoint began before this one was finished; take it again")]
    GivenUp,
    /// A sync failed, or the write of a root for another reason than want of space: which writes
    /// reached the disk is not known, and no checkpoint can be promised until the file is opened
    /// again.
    #[error(
        "checkpoints stopped after a failure: {0}; check the disk, then open the database again"
    )]
    Poisoned(String),
}

impl Error {
    /// Whether the cause is a full disk: then trying again later can succeed.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Error::Io { source, .. } => hedgerow_vfs::is_disk_full(source),
            _ => false,
        }
    }
}
