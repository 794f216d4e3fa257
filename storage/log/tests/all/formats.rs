//! What is written comes back: manifests, checkpoints and logs of random contents.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointRecord, CheckpointWriter, DATA_FOLDER,
    DirectoryEntry, Error, IncarnationEnd, IncarnationEntry, KeyspaceEntry, Log, LogOptions,
    MIXED_FORMAT_VERSION, Manifest, Operation, OperationKind, PartEntry, RecoveredLogs, Timestamp,
};
use hedgerow_vfs::{Vfs, read_file};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{dir, memory};

/// No epoch of a file is as late as this one.
const EPOCHS: u64 = (1 << 40) - (1 << 32);

fn incarnation() -> impl Strategy<Value = IncarnationEntry> {
    let numbers = (any::<u32>(), 1..9_u16, 0..u32::MAX, 1..EPOCHS);
    let end = (0..EPOCHS, 0..EPOCHS, any::<u16>(), 64..=u64::MAX);
    (numbers, prop::option::of(end)).prop_map(
        |((incarnation, shards, first_generation, first_epoch), end)| IncarnationEntry {
            incarnation,
            shards,
            first_generation,
            first_epoch,
            directories: Vec::new(),
            end: end.map(|(cutoff_epoch, max_epoch, more, length)| IncarnationEnd {
                incarnation,
                cutoff_epoch,
                max_epoch,
                last_generation: (first_generation
                    + u32::from(more).min(u32::MAX - 1 - first_generation)),
                lengths: vec![length; usize::from(shards)],
            }),
        },
    )
}

fn checkpoint() -> impl Strategy<Value = CheckpointEntry> {
    let part = (
        "[a-z0-9-]{1,20}[.]ckpt",
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
    )
        .prop_map(|(file, len, records, crc)| PartEntry {
            file,
            directory: DATA_FOLDER,
            len,
            records,
            crc,
        });
    let raw = 0..EPOCHS << 24;
    (0..u32::MAX, raw, vec(part, 0..4)).prop_map(|(generation, raw, parts)| CheckpointEntry {
        generation,
        timestamp: Timestamp::from_raw(raw),
        parts,
    })
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let keyspace = (any::<u32>(), ".{0,255}", "[a-z]{1,8}")
        .prop_map(|(id, name, index)| KeyspaceEntry { id, name, index });
    let lists = (
        vec(incarnation(), 0..4),
        vec(keyspace, 0..5),
        vec(checkpoint(), 0..4),
    );
    let numbers = (
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        0..EPOCHS,
        any::<u64>(),
    );
    (any::<u128>(), numbers, any::<bool>(), lists).prop_map(
        |(database_id, numbers, clean_shutdown, (incarnations, keyspaces, mut checkpoints))| {
            Manifest {
                database_id,
                format_version: MIXED_FORMAT_VERSION,
                incarnation: numbers.0,
                log_floor: numbers.1,
                next_keyspace_id: numbers.2,
                epoch_floor: numbers.3,
                sequence: numbers.4,
                incarnations,
                keyspaces,
                checkpoints: {
                    checkpoints.sort_by_key(|entry| Reverse(entry.generation));
                    checkpoints.dedup_by_key(|entry| entry.generation);
                    checkpoints
                },
                clean_shutdown,
                directories: Vec::new(),
                log_directories: Vec::new(),
            }
        },
    )
}

/// A manifest that lists directories, with its files in some of them and in the data folder.
fn manifest_with_directories() -> impl Strategy<Value = Manifest> {
    let paths = vec(vec(1..=255_u8, 0..20), 1..5);
    (manifest(), paths, vec(any::<u8>(), 1..20)).prop_map(|(mut manifest, paths, choices)| {
        let number = 1 + u64::from(manifest.incarnation);
        let paths = paths.into_iter().map(OsString::from_vec).zip(0..);
        let directories = paths.map(|(path, at)| DirectoryEntry {
            id: number << 8 | at,
            path: path.into(),
        });
        manifest.directories = directories.collect();
        let ids = manifest.directories.iter().map(|entry| entry.id);
        let ids: Vec<u64> = [DATA_FOLDER].into_iter().chain(ids).collect();
        let mut choices = choices.into_iter().cycle().map(usize::from);
        let mut choose = || ids[choices.next().unwrap() % ids.len()];
        manifest.log_directories = vec![choose(), choose()];
        for entry in &mut manifest.incarnations {
            entry.directories = vec![choose()];
        }
        for part in manifest
            .checkpoints
            .iter_mut()
            .flat_map(|entry| &mut entry.parts)
        {
            part.directory = choose();
        }
        manifest
    })
}

proptest! {
    #[test]
    fn manifests_come_back(manifest in manifest(), again in manifest_with_directories()) {
        let vfs = memory();
        manifest.store(&vfs, dir()).unwrap();
        prop_assert_eq!(&Manifest::load(&vfs, dir()).unwrap(), &manifest);
        again.store(&vfs, dir()).unwrap();
        prop_assert_eq!(&Manifest::load(&vfs, dir()).unwrap(), &again);
        prop_assert_eq!(vfs.list(dir()).unwrap(), ["MANIFEST"]);
    }

    #[test]
    fn cut_manifests_are_damaged(
        manifest in manifest_with_directories(),
        at in any::<prop::sample::Index>(),
    ) {
        let vfs = memory();
        manifest.store(&vfs, dir()).unwrap();
        let bytes = read_file(&vfs, &Manifest::path(dir())).unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(matches!(
            Manifest::decode(&Manifest::path(dir()), cut),
            Err(Error::Corrupt(_))
        ));
    }

    #[test]
    fn any_bytes_are_no_manifest(bytes in vec(any::<u8>(), 0..100)) {
        prop_assert!(Manifest::decode(Path::new("MANIFEST"), &bytes).is_err());
    }

    #[test]
    fn checkpoints_come_back(
        records in vec((any::<u32>(), vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..300)), 0..900),
    ) {
        let vfs = memory();
        let mut writer = CheckpointWriter::create(Arc::new(vfs.clone()), dir(), 1, 2, 3).unwrap();
        for (keyspace, key, record) in &records {
            writer.append(*keyspace, key, record).unwrap();
        }
        let part = writer.finish().unwrap();
        prop_assert_eq!(part.records, records.len() as u64);
        let mut reader = CheckpointReader::open(&vfs, dir(), 1, 2, &part).unwrap();
        for (keyspace, key, record) in &records {
            let keyspace = *keyspace;
            let expected = CheckpointRecord { keyspace, key, row: record };
            prop_assert_eq!(reader.next().unwrap(), Some(expected));
        }
        prop_assert_eq!(reader.next().unwrap(), None);
        prop_assert_eq!(reader.bytes_read(), part.len);
    }

    #[test]
    fn any_bytes_are_no_checkpoint(bytes in vec(any::<u8>(), 0..300)) {
        let vfs = memory();
        let file = "00000002-0003.ckpt".to_owned();
        vfs.insert_file(&dir().join("checkpoint").join(&file), bytes.clone());
        let (len, directory) = (bytes.len() as u64, DATA_FOLDER);
        let part = PartEntry { file, directory, len, records: 0, crc: 0 };
        prop_assert!(CheckpointReader::open(&vfs, dir(), 1, 2, &part).is_err());
    }

    #[test]
    fn logs_come_back_merged(
        shards in 1..5_u16,
        commits in vec((any::<u16>(), vec((any::<u32>(), vec(any::<u8>(), 0..40)), 1..4)), 0..60),
        waits in vec(any::<bool>(), 60),
    ) {
        let vfs = memory();
        let mut manifest = Manifest::new(1);
        let flush_interval = Duration::from_secs(3600);
        let options = LogOptions { shards, flush_interval, ..LogOptions::default() };
        let log =
            Log::create(Arc::new(vfs.clone()), dir(), &mut manifest, options, 1).unwrap();
        let mut expected = Vec::new();
        let mut floor = Timestamp::ZERO;
        for ((shard, operations), wait) in commits.iter().zip(waits) {
            let kinds = [OperationKind::Put, OperationKind::PutColumns, OperationKind::Remove];
            let operations: Vec<_> = operations
                .iter()
                .enumerate()
                .map(|(at, (keyspace, bytes))| Operation {
                    keyspace: *keyspace,
                    kind: kinds[at % 3],
                    key: bytes,
                    payload: &bytes[bytes.len() / 2..],
                })
                .collect();
            let mut guard = log.shard(usize::from(shard % shards)).unwrap();
            // As one key's stripe does: every commit above the one before.
            floor = guard.timestamp(floor);
            guard.append(floor, &operations);
            drop(guard);
            expected.push((floor, operations));
            if wait {
                log.wait_durable(floor.epoch()).unwrap();
            }
        }
        manifest.record_end(log.close().unwrap());
        let logs = RecoveredLogs::open(Arc::new(vfs), dir(), &mut manifest).unwrap();
        let mut found = logs.commits();
        for (timestamp, operations) in &expected {
            let commit = found.next().unwrap().expect("all commits come back");
            prop_assert_eq!(commit.timestamp(), *timestamp);
            prop_assert!(commit.operations().eq(operations.iter().copied()));
        }
        prop_assert!(found.next().unwrap().is_none());
    }
}

#[test]
fn foreign_newer_and_missing_manifests_are_named() {
    let vfs = memory();
    let load = || Manifest::load(&vfs, dir()).unwrap_err();
    assert!(matches!(load(), Error::NotADatabase { .. }));
    vfs.insert_file(
        &Manifest::path(dir()),
        b"[package]\nname = \"something else\"".to_vec(),
    );
    assert!(matches!(load(), Error::NotADatabase { .. }));
    Manifest::new(1).store(&vfs, dir()).unwrap();
    let mut bytes = read_file(&vfs, &Manifest::path(dir())).unwrap();
    bytes[8] = 9;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..16]), &bytes[20..]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    vfs.insert_file(&Manifest::path(dir()), bytes);
    let error = load();
    assert!(matches!(error, Error::NewerFormat { found: 9, .. }));
    assert!(error.to_string().contains("newer program"), "{error}");
}

#[test]
fn manifests_of_version_1_are_read() {
    let vfs = memory();
    let manifest = Manifest::new(7);
    manifest.store(&vfs, dir()).unwrap();
    let mut bytes = read_file(&vfs, &Manifest::path(dir())).unwrap();
    // It ended before the sequence, which is one byte here.
    assert_eq!(bytes.pop(), Some(0));
    let body = u32::try_from(bytes.len() - 20).unwrap();
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..16]), &bytes[20..]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    vfs.insert_file(&Manifest::path(dir()), bytes);
    let found = Manifest::load(&vfs, dir()).unwrap();
    let format_version = 1;
    assert_eq!(
        found,
        Manifest {
            format_version,
            ..manifest
        }
    );
}

fn bytes_of(manifest: &Manifest) -> Vec<u8> {
    let vfs = memory();
    manifest.store(&vfs, dir()).unwrap();
    read_file(&vfs, &Manifest::path(dir())).unwrap()
}

fn version_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[8..12].try_into().unwrap())
}

fn checkpoint_of(generation: u32, parts: u64) -> CheckpointEntry {
    let parts = (0..parts).map(|part| PartEntry {
        file: format!("{generation:08}-{part:04}.ckpt"),
        directory: DATA_FOLDER,
        len: 100 + part,
        records: part,
        crc: 7,
    });
    CheckpointEntry {
        generation,
        timestamp: Timestamp::new(u64::from(generation), 0),
        parts: parts.collect(),
    }
}

#[test]
fn only_a_manifest_with_older_checkpoints_has_the_newest_version() {
    let mut manifest = Manifest::new(7);
    assert_eq!(version_of(&bytes_of(&manifest)), 2);
    manifest.install_checkpoint(checkpoint_of(3, 2), 1);
    assert_eq!(version_of(&bytes_of(&manifest)), 2);
    manifest.directories = vec![DirectoryEntry {
        id: 9,
        path: "/disk".into(),
    }];
    let version_4 = bytes_of(&manifest);
    assert_eq!(version_of(&version_4), 4);
    let path = Manifest::path(dir());
    assert_eq!(Manifest::decode(&path, &version_4).unwrap(), manifest);
    manifest.install_checkpoint(checkpoint_of(5, 2), 2);
    assert_eq!(version_of(&bytes_of(&manifest)), 5);
    // Bytes of version 5 that say another one list too many checkpoints for it.
    for version in 1..5_u32 {
        let mut bytes = bytes_of(&manifest);
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..16]), &bytes[20..]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        let refused = Manifest::decode(&path, &bytes);
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{version}");
    }
    manifest.directories.clear();
    assert_eq!(version_of(&bytes_of(&manifest)), 5);
    // The other way round, one checkpoint is too few, and their order counts.
    for checkpoints in [
        vec![checkpoint_of(3, 1), checkpoint_of(5, 1)],
        vec![checkpoint_of(5, 1), checkpoint_of(5, 1)],
    ] {
        let wrong = Manifest {
            checkpoints,
            ..manifest.clone()
        };
        let refused = Manifest::decode(&path, &bytes_of(&wrong));
        assert!(matches!(refused, Err(Error::Corrupt(_))));
    }
}

/// Its checksum is right, and nobody writes such a one: reading it must not take for ever, nor
/// touch files elsewhere.
#[test]
fn a_manifest_of_absurd_numbers_and_names_is_damaged() {
    let path = Manifest::path(dir());
    let entry = IncarnationEntry {
        incarnation: 1,
        shards: 1,
        first_generation: 1,
        first_epoch: 1,
        directories: Vec::new(),
        end: Some(IncarnationEnd {
            incarnation: 1,
            cutoff_epoch: 1,
            max_epoch: 1,
            last_generation: 1,
            lengths: vec![64],
        }),
    };
    let decode = |entry: IncarnationEntry| {
        let mut manifest = Manifest::new(7);
        manifest.incarnations = vec![entry];
        Manifest::decode(&path, &bytes_of(&manifest))
    };
    assert!(decode(entry.clone()).is_ok());
    let ends_with = |generation| {
        let mut wrong = entry.clone();
        wrong.end.as_mut().unwrap().last_generation = generation;
        wrong
    };
    let no_shards = IncarnationEntry {
        shards: 0,
        end: None,
        ..entry.clone()
    };
    let no_epoch = IncarnationEntry {
        first_epoch: 0,
        ..entry.clone()
    };
    let last = IncarnationEntry {
        first_generation: u32::MAX,
        end: None,
        ..entry.clone()
    };
    // The timestamps of later commits would not fit their bits.
    let begins_late = IncarnationEntry {
        first_epoch: 1 << 40,
        ..entry.clone()
    };
    let ends_as = |change: fn(&mut IncarnationEnd)| {
        let mut wrong = entry.clone();
        change(wrong.end.as_mut().unwrap());
        wrong
    };
    for wrong in [
        begins_late,
        ends_as(|end| end.max_epoch = (1 << 40) - 1),
        ends_as(|end| end.cutoff_epoch = u64::MAX),
        ends_as(|end| end.lengths = vec![63]),
        no_shards,
        no_epoch,
        last,
        ends_with(u32::MAX - 1),
        ends_with(u32::MAX),
    ] {
        let context = format!("{wrong:?}");
        assert!(matches!(decode(wrong), Err(Error::Corrupt(_))), "{context}");
    }
}

#[test]
fn a_manifest_of_absurd_checkpoints_is_damaged() {
    let path = Manifest::path(dir());
    let last = checkpoint_of(u32::MAX, 1);
    let late = CheckpointEntry {
        timestamp: Timestamp::from_raw(u64::MAX),
        ..checkpoint_of(5, 1)
    };
    for wrong in [last, late] {
        let mut manifest = Manifest::new(7);
        manifest.checkpoints = vec![wrong];
        let refused = Manifest::decode(&path, &bytes_of(&manifest));
        assert!(matches!(refused, Err(Error::Corrupt(_))));
    }
    let mut late = Manifest::new(7);
    late.epoch_floor = (1 << 40) - 1;
    let refused = Manifest::decode(&path, &bytes_of(&late));
    assert!(matches!(refused, Err(Error::Corrupt(_))));
    for name in ["", ".", "..", "../5.ckpt", "/5.ckpt", "a/b", "a\0"] {
        let mut manifest = Manifest::new(7);
        let mut checkpoint = checkpoint_of(5, 1);
        checkpoint.parts[0].file = name.to_owned();
        manifest.checkpoints = vec![checkpoint];
        let refused = Manifest::decode(&path, &bytes_of(&manifest));
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{name:?}");
    }
}

#[test]
fn the_log_floor_is_the_generation_of_the_oldest_checkpoint() {
    let mut manifest = Manifest::new(7);
    let generations = |manifest: &Manifest| {
        let checkpoints = manifest.checkpoints.iter();
        checkpoints
            .map(|entry| entry.generation)
            .collect::<Vec<_>>()
    };
    manifest.incarnations = vec![IncarnationEntry {
        incarnation: 1,
        shards: 1,
        first_generation: 1,
        first_epoch: 1,
        directories: Vec::new(),
        end: None,
    }];
    // The empty database is the first.
    for (generation, kept) in [(3, [3, 1]), (4, [4, 3]), (9, [9, 4])] {
        manifest.install_checkpoint(checkpoint_of(generation, 1), 2);
        assert_eq!(generations(&manifest), kept);
        assert_eq!(
            (manifest.replayed_from(), manifest.log_floor),
            (kept[0], kept[1])
        );
        assert_eq!(manifest.incarnations[0].first_generation, kept[1]);
    }
    assert_eq!(manifest.epoch_floor, 0);
    manifest.drop_damaged(1);
    assert_eq!((generations(&manifest), manifest.log_floor), (vec![4], 4));
    assert_eq!(manifest.epoch_floor, 9, "no epoch of it is used again");
    manifest.install_checkpoint(checkpoint_of(11, 1), 3);
    assert_eq!(generations(&manifest), [11, 4]);
    manifest.keep_checkpoints(1);
    assert_eq!((generations(&manifest), manifest.log_floor), (vec![11], 11));
    // One without parts needs none behind it.
    manifest.install_checkpoint(checkpoint_of(12, 0), 3);
    assert_eq!(generations(&manifest), [12]);
}
