//! A database on disk: its directory, catalog and page file, checkpoints, recovery and backups.

pub(crate) mod ahead;
pub(crate) mod backup;
pub(crate) mod catalog;
pub(crate) mod checkpoint;
pub(crate) mod creation;
pub(crate) mod directory;
pub(crate) mod fallback;
pub(crate) mod folder;
pub(crate) mod full_disk;
pub(crate) mod log_dirs;
pub(crate) mod lost;
pub(crate) mod page_file;
pub(crate) mod page_roots;
pub(crate) mod part_folders;
pub(crate) mod progress;
pub(crate) mod recovery;
pub(crate) mod redo;
pub(crate) mod replay;
