//! Crash images show everything that a power cut may leave, and nothing that it may not.

use std::collections::BTreeSet;
use std::path::Path;

use hedgerow_vfs::{MemoryVfs, OpenMode, RecordingVfs, Vfs, read_file};

const FILE: &str = "/d/file";

/// A small generator (splitmix64), so that this crate needs no other for its tests.
fn decider(mut state: u64) -> impl FnMut(usize) -> usize {
    move |n| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// All contents of [`FILE`] seen in many images of one cut; `None` when it is missing.
fn outcomes(vfs: &RecordingVfs, cut: usize) -> BTreeSet<Option<Vec<u8>>> {
    let images = (0..500).map(|seed| vfs.crash_image(cut, &mut decider(seed)));
    images
        .map(|image| read_file(&image, Path::new(FILE)).ok())
        .collect()
}

fn disk_with_durable_file(bytes: &[u8]) -> MemoryVfs {
    let disk = MemoryVfs::new();
    disk.insert_file(Path::new(FILE), bytes.to_vec());
    disk
}

#[test]
fn what_was_synced_is_in_every_image() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(b"old"));
    let file = vfs.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.write_at(0, b"new!").unwrap();
    file.sync().unwrap();
    assert_eq!(
        outcomes(&vfs, vfs.operations()),
        BTreeSet::from([Some(b"new!".to_vec())])
    );
    assert_eq!(outcomes(&vfs, 0), BTreeSet::from([Some(b"old".to_vec())]));
}

#[test]
fn sectors_and_length_survive_independently() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(&[1; 1024]));
    let file = vfs.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.write_at(0, &[2; 1536]).unwrap();
    let seen = outcomes(&vfs, vfs.operations());
    let file = |sectors: &[u8]| {
        Some(
            sectors
                .iter()
                .flat_map(|&byte| [byte; 512])
                .collect::<Vec<u8>>(),
        )
    };
    let expected: BTreeSet<_> = [1u8, 2]
        .into_iter()
        .flat_map(|a| [1u8, 2].map(|b| (a, b)))
        .flat_map(|(a, b)| [file(&[a, b]), file(&[a, b, 0]), file(&[a, b, 2])])
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_sector_may_be_of_any_version_since_the_sync() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(b"0"));
    let file = vfs.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    for version in [b"1", b"2", b"3"] {
        file.write_at(0, version).unwrap();
    }
    let all = [b"0", b"1", b"2", b"3"].map(|v| Some(v.to_vec()));
    assert_eq!(outcomes(&vfs, 3), BTreeSet::from(all.clone()));
    assert_eq!(
        outcomes(&vfs, 2),
        BTreeSet::from_iter(all[..3].iter().cloned())
    );
}

#[test]
fn a_truncation_is_not_durable_before_the_sync() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(&[7; 600]));
    let file = vfs.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.truncate(10).unwrap();
    let lengths: BTreeSet<usize> = outcomes(&vfs, 1)
        .into_iter()
        .map(|bytes| bytes.unwrap().len())
        .collect();
    assert_eq!(lengths, BTreeSet::from([10, 600]));
    file.sync().unwrap();
    assert_eq!(outcomes(&vfs, 2), BTreeSet::from([Some(vec![7; 10])]));
}

#[test]
fn a_name_is_durable_only_after_its_directory_is_synced() {
    let vfs = RecordingVfs::new(&MemoryVfs::new());
    vfs.create_dir_all(Path::new("/d")).unwrap();
    let file = vfs.open(Path::new(FILE), OpenMode::CreateNew).unwrap();
    file.write_at(0, b"x").unwrap();
    file.sync().unwrap();
    let either = BTreeSet::from([None, Some(b"x".to_vec())]);
    assert_eq!(outcomes(&vfs, vfs.operations()), either);
    vfs.sync_dir(Path::new("/d")).unwrap();
    // The directory's own name is still in the air.
    assert_eq!(outcomes(&vfs, vfs.operations()), either);
    vfs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(
        outcomes(&vfs, vfs.operations()),
        BTreeSet::from([Some(b"x".to_vec())])
    );
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(b"old"));
    let new = vfs.open(Path::new("/d/new"), OpenMode::CreateNew).unwrap();
    new.write_at(0, b"new").unwrap();
    new.sync().unwrap();
    vfs.rename(Path::new("/d/new"), Path::new(FILE)).unwrap();
    let either = [b"old", b"new"].map(|v| Some(v.to_vec()));
    assert_eq!(outcomes(&vfs, vfs.operations()), BTreeSet::from(either));
    vfs.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(
        outcomes(&vfs, vfs.operations()),
        BTreeSet::from([Some(b"new".to_vec())])
    );
}

#[test]
fn a_removal_may_be_undone_and_directories_go_with_their_files() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(b"x"));
    vfs.remove_dir_all(Path::new("/d")).unwrap();
    assert!(!vfs.exists(Path::new(FILE)).unwrap());
    assert_eq!(
        outcomes(&vfs, vfs.operations()),
        BTreeSet::from([None, Some(b"x".to_vec())])
    );
    vfs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&vfs, vfs.operations()), BTreeSet::from([None]));
}

#[test]
fn images_are_disks_of_their_own() {
    let vfs = RecordingVfs::new(&disk_with_durable_file(b"x"));
    let lock = vfs.lock(Path::new("/d/lock")).unwrap();
    let image = vfs.crash_image(vfs.operations(), &mut |n| n - 1);
    drop(
        image
            .lock(Path::new("/d/lock"))
            .expect("a lock does not outlive its process"),
    );
    image.remove(Path::new(FILE)).unwrap();
    assert!(vfs.exists(Path::new(FILE)).unwrap());
    drop(lock);
}
