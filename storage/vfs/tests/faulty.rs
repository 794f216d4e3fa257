//! Planned faults strike exactly where they are planned.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_vfs::{CallKind, Fault, FaultyVfs, MemoryVfs, OpenMode, Vfs, VfsFile, read_file};

const FILE: &str = "/file";

fn faulty() -> (FaultyVfs, Box<dyn VfsFile>) {
    let vfs = FaultyVfs::new(Arc::new(MemoryVfs::new()));
    let file = vfs.open(Path::new(FILE), OpenMode::CreateNew).unwrap();
    (vfs, file)
}

fn contents(vfs: &FaultyVfs) -> Vec<u8> {
    read_file(vfs, Path::new(FILE)).unwrap()
}

#[test]
fn only_the_planned_call_fails() {
    let (vfs, file) = faulty();
    vfs.fail_once(CallKind::Sync, 1, Fault::Error(ErrorKind::Other));
    file.sync().unwrap();
    file.write_at(0, b"x").unwrap();
    assert!(
        file.sync()
            .unwrap_err()
            .to_string()
            .contains("injected fault in Sync")
    );
    file.sync().unwrap();
    assert_eq!(vfs.calls(CallKind::Sync), 3);
}

#[test]
fn lasting_faults_last_until_healed() {
    let (vfs, file) = faulty();
    vfs.fail_from(CallKind::Write, 1, Fault::Error(ErrorKind::StorageFull));
    file.write_at(0, b"a").unwrap();
    for _ in 0..3 {
        assert_eq!(
            file.write_at(1, b"b").unwrap_err().kind(),
            ErrorKind::StorageFull
        );
    }
    vfs.heal();
    file.write_at(1, b"b").unwrap();
    assert_eq!(contents(&vfs), b"ab");
}

#[test]
fn short_and_torn_writes_leave_their_marks() {
    let (vfs, file) = faulty();
    vfs.fail_once(CallKind::Write, 0, Fault::ShortWrite(ErrorKind::Other));
    file.write_at(0, b"abcd").unwrap_err();
    assert_eq!(contents(&vfs), b"ab");
    vfs.fail_once(CallKind::Write, 0, Fault::TornWrite(ErrorKind::Other));
    file.write_at(0, &[7; 1300]).unwrap_err();
    let torn = contents(&vfs);
    assert_eq!(torn.len(), 1300);
    assert_eq!((torn[511], torn[512], torn[1024]), (7, 0, 7));
}

#[test]
fn every_kind_of_call_can_fail() {
    for kind in CallKind::ALL {
        let (vfs, file) = faulty();
        vfs.fail_once(kind, 0, Fault::Error(ErrorKind::Interrupted));
        let path = Path::new(FILE);
        let other = Path::new("/other");
        let failures = [
            vfs.open(path, OpenMode::Read).err(),
            file.read_at(0, &mut [0]).err(),
            file.write_at(0, b"x").err(),
            file.sync().err(),
            file.truncate(1).err(),
            file.allocate(0, 1).err(),
            vfs.create_dir_all(Path::new("/dir")).err(),
            vfs.sync_dir(Path::new("/")).err(),
            vfs.list(Path::new("/")).err(),
            vfs.rename(path, other).err(),
            vfs.remove(if kind == CallKind::Rename {
                path
            } else {
                other
            })
            .err(),
        ];
        assert_eq!(
            failures.iter().flatten().count(),
            1,
            "{kind:?}: {failures:?}"
        );
    }
}

#[test]
fn a_full_disk_takes_what_fits_and_recovers_when_space_comes_back() {
    let (vfs, file) = faulty();
    vfs.set_space(Some(3));
    assert_eq!(
        file.write_at(0, b"abcd").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(contents(&vfs), b"abc");
    file.write_at(0, b"xyz")
        .expect("overwriting needs no space");
    assert!(file.write_at(3, b"d").is_err());
    let other = vfs.open(Path::new("/other"), OpenMode::CreateNew).unwrap();
    assert!(other.truncate(1).is_err());
    file.truncate(1).unwrap();
    other.write_at(0, b"12").unwrap();
    assert!(other.write_at(2, b"3").is_err());
    vfs.remove(Path::new(FILE)).unwrap();
    other.write_at(2, b"3").unwrap();
    vfs.set_space(None);
    other.write_at(3, &[0; 1000]).unwrap();
}

#[test]
fn holes_take_no_space_until_they_are_written() {
    let (vfs, file) = faulty();
    vfs.set_space(Some(4096));
    file.write_at(0, &[1; 4096]).unwrap();
    // Whole sectors only: 1,536 bytes.
    file.punch(1000, 1600).unwrap();
    let other = vfs.open(Path::new("/other"), OpenMode::CreateNew).unwrap();
    assert!(other.write_at(0, &[2; 1537]).is_err());
    other.truncate(0).unwrap();
    other.write_at(0, &[2; 1536]).unwrap();
    vfs.set_full_error(ErrorKind::QuotaExceeded);
    let full = file.write_at(1024, &[3; 512]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::QuotaExceeded);
    assert!(hedgerow_vfs::is_disk_full(&full));
    file.write_at(512, &[3; 512]).expect("it is no hole");
    other.truncate(1024).unwrap();
    file.write_at(1024, &[3; 512]).unwrap();
    file.write_at(1024, &[4; 512]).expect("it is none any more");
    assert!(file.write_at(1536, &[3; 512]).is_err());
    // What is removed had two holes of a sector left, which give nothing back.
    vfs.remove(Path::new(FILE)).unwrap();
    other.write_at(1024, &[2; 3072]).unwrap();
    assert!(other.write_at(4096, b"1").is_err());
}

#[test]
fn a_fault_strikes_only_where_it_is_planned() {
    let (vfs, file) = faulty();
    let other = vfs.open(Path::new("/other"), OpenMode::CreateNew).unwrap();
    let is_behind = |path: &Path, offset: u64| path == Path::new(FILE) && offset >= 4;
    let full = Fault::Error(ErrorKind::StorageFull);
    vfs.fail_from_at(is_behind, CallKind::Write, 1, full);
    file.write_at(4, b"counted").unwrap();
    for _ in 0..2 {
        other.write_at(4, b"another").unwrap();
        file.write_at(3, b"a").unwrap();
        let error = file.write_at(4, b"b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    vfs.heal();
    file.write_at(4, b"b").unwrap();
}

#[test]
fn a_paused_call_waits_until_it_is_let_go() {
    let (vfs, file) = faulty();
    let pause = vfs.pause_once(CallKind::Write, 1);
    file.write_at(0, b"first").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(0, b"later").unwrap());
        assert!(pause.is_reached_within(Duration::from_secs(60)));
        // Others pass, and it has done nothing yet.
        file.sync().unwrap();
        file.write_at(5, b"!").unwrap();
        assert_eq!(contents(&vfs), b"first!");
        pause.release();
        writer.join().unwrap();
    });
    assert_eq!(contents(&vfs), b"later!");
    // One that nobody waits for any more waits for nobody.
    drop(vfs.pause_once(CallKind::Write, 0));
    file.write_at(0, b"x").unwrap();
}
