//! What a lossy disk loses, and what it keeps.

use std::fs::{self, File};
use std::io::Write;

use hedgerow_lossy_disk::{Error, FileSystem, LossyDisk};

#[test]
fn a_cut_loses_what_was_not_synced_and_nothing_else() {
    for system in FileSystem::ALL {
        let mut disk = match LossyDisk::create(system) {
            Ok(disk) => disk,
            Err(Error::Unavailable(why)) => {
                println!("skipped: {} ({why})", system.name());
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let write = |name: &str, sync: bool| {
            let mut file = File::create(disk.path().join(name)).unwrap();
            file.write_all(name.as_bytes()).unwrap();
            if sync {
                file.sync_all().unwrap();
                File::open(disk.path()).unwrap().sync_all().unwrap();
            }
        };
        write("synced", true);
        write("unsynced", false);
        disk.cut().unwrap();
        assert!(
            File::create(disk.path().join("late")).is_err(),
            "{} after the cut",
            system.name()
        );
        disk.mount_again().unwrap();
        assert_eq!(fs::read(disk.path().join("synced")).unwrap(), b"synced");
        let bytes = fs::read(disk.path().join("unsynced")).unwrap_or_default();
        assert!(bytes.is_empty(), "{} kept {bytes:?}", system.name());
        assert!(!disk.path().join("late").exists());
    }
}
