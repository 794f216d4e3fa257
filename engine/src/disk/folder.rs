//! A directory that has files of a database: the data folder, or one of its log directories.

use std::path::PathBuf;

/// A directory by its id, and its path.
pub(crate) type Folder = (u64, PathBuf);
