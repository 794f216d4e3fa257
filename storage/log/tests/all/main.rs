//! What a log promises. One program, so that each is linked once.

mod ahead;
mod commit;
mod faults;
mod formats;
mod power_cuts;
mod recover;
mod rot;

use std::path::Path;

use hedgerow_vfs::{MemoryVfs, Vfs};

/// Where the database is on the disks of the tests.
const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// A disk in memory with the database's directory.
fn memory() -> MemoryVfs {
    let vfs = MemoryVfs::new();
    vfs.create_dir_all(dir()).unwrap();
    vfs
}
