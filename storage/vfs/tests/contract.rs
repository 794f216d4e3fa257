//! What every file layer must do, run on all that can stand in for a disk.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hedgerow_vfs::{
    MemoryVfs, OpenMode, ReadAt, SystemVfs, Vfs, WriteAt, read_exact_at, read_file, read_up_to_at,
};

/// Runs a check on each file layer, with an empty directory to work in.
fn on_each(check: impl Fn(Arc<dyn Vfs>, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    check(Arc::new(SystemVfs), dir.path());
    let memory = MemoryVfs::new();
    memory.create_dir_all(Path::new("/work")).unwrap();
    check(Arc::new(memory), Path::new("/work"));
}

#[test]
fn bytes_come_back_and_holes_are_zero() {
    on_each(|vfs, dir| {
        let path = dir.join("file");
        let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(10, b"hello").unwrap();
        file.sync().unwrap();
        assert_eq!(
            read_file(&*vfs, &path).unwrap(),
            b"\0\0\0\0\0\0\0\0\0\0hello"
        );
        let mut buffer = [1; 8];
        assert_eq!(read_up_to_at(&*file, 12, &mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"llo");
        assert_eq!(
            read_exact_at(&*file, 12, &mut buffer).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(file.read_at(100, &mut buffer).unwrap(), 0);
        file.truncate(12).unwrap();
        file.truncate(14).unwrap();
        assert_eq!(
            read_file(&*vfs, &path).unwrap(),
            b"\0\0\0\0\0\0\0\0\0\0he\0\0"
        );
    });
}

#[test]
fn opening_says_what_is_wrong() {
    on_each(|vfs, dir| {
        let path = dir.join("file");
        let kind = |mode| vfs.open(&path, mode).err().map(|error| error.kind());
        assert_eq!(kind(OpenMode::Read), Some(ErrorKind::NotFound));
        assert_eq!(kind(OpenMode::ReadWrite), Some(ErrorKind::NotFound));
        assert_eq!(kind(OpenMode::CreateNew), None);
        assert_eq!(kind(OpenMode::CreateNew), Some(ErrorKind::AlreadyExists));
        let missing = vfs.open(&dir.join("no/file"), OpenMode::CreateNew);
        assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
        let read_only = vfs.open(&path, OpenMode::Read).unwrap();
        assert!(read_only.write_at(0, b"x").is_err());
        assert_eq!(read_file(&*vfs, &path).unwrap(), b"");
    });
}

#[test]
fn names_move_and_handles_stay() {
    on_each(|vfs, dir| {
        let (old, new) = (dir.join("old"), dir.join("new"));
        let first = vfs.open(&old, OpenMode::CreateNew).unwrap();
        first.write_at(0, b"first").unwrap();
        let second = vfs.open(&new, OpenMode::CreateNew).unwrap();
        second.write_at(0, b"second").unwrap();
        vfs.rename(&old, &new).unwrap();
        vfs.sync_dir(dir).unwrap();
        assert!(!vfs.exists(&old).unwrap());
        assert_eq!(read_file(&*vfs, &new).unwrap(), b"first");
        let mut buffer = [0; 6];
        read_exact_at(&*second, 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"second");
        assert_eq!(vfs.list(dir).unwrap(), ["new"]);
        vfs.remove(&new).unwrap();
        assert_eq!(vfs.remove(&new).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            vfs.rename(&old, &new).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert!(vfs.list(dir).unwrap().is_empty());
    });
}

#[test]
fn directories_nest_and_go() {
    on_each(|vfs, dir| {
        vfs.create_dir_all(&dir.join("a/b")).unwrap();
        vfs.create_dir_all(&dir.join("a/b")).unwrap();
        vfs.open(&dir.join("a/b/file"), OpenMode::CreateNew)
            .unwrap();
        assert_eq!(vfs.list(dir).unwrap(), ["a"]);
        assert_eq!(vfs.list(&dir.join("a/b")).unwrap(), ["file"]);
        vfs.remove_dir_all(&dir.join("a")).unwrap();
        assert!(!vfs.exists(&dir.join("a/b/file")).unwrap());
        assert_eq!(
            vfs.list(&dir.join("a")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            vfs.sync_dir(&dir.join("a")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_lock_excludes_until_dropped() {
    on_each(|vfs, dir| {
        let path = dir.join("LOCK");
        let lock = vfs.lock(&path).unwrap();
        assert_eq!(vfs.lock(&path).err().unwrap().kind(), ErrorKind::WouldBlock);
        drop(lock);
        vfs.lock(&path).unwrap();
    });
}

/// A buffer that direct files accept.
#[repr(align(4096))]
#[derive(Clone)]
struct Block([u8; 4096]);

#[test]
fn batches_read_what_batches_wrote_and_holes_are_zero() {
    on_each(|vfs, dir| {
        let path = dir.join("direct");
        let file = vfs.open_direct(&path, OpenMode::CreateNew).unwrap();
        let blocks: Vec<Block> = (1..=9).map(|n| Block([n; 4096])).collect();
        let at = |n: usize| (n * 8192) as u64;
        let mut writes: Vec<WriteAt<'_>> =
            (0..9).map(|n| WriteAt::new(at(n), &blocks[n].0)).collect();
        file.write_many(&mut writes);
        assert!(writes.iter().all(|write| write.result.is_ok()));
        file.sync().unwrap();
        file.punch(at(3), 4096).unwrap();
        let mut read = vec![Block([77; 4096]); 10];
        let mut reads: Vec<ReadAt<'_>> = read
            .iter_mut()
            .enumerate()
            .map(|(n, block)| ReadAt::new(at(n), &mut block.0))
            .collect();
        file.read_many(&mut reads);
        let lengths: Vec<usize> = reads.iter().map(|r| *r.result.as_ref().unwrap()).collect();
        assert_eq!(lengths, [[4096; 9].as_slice(), &[0]].concat());
        for (n, block) in read.iter().enumerate().take(9) {
            let expected = if n == 3 { 0 } else { n as u8 + 1 };
            assert!(block.0.iter().all(|&byte| byte == expected), "block {n}");
        }
        assert_eq!(file.len().unwrap(), at(8) + 4096);
        assert!(vfs.open_direct(&dir.join("none"), OpenMode::Read).is_err());
    });
}
