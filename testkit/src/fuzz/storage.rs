//! Targets for the files of a database: manifest, log and checkpoint.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hedgerow_log::{
    CheckpointEntry, CheckpointReader, CheckpointWriter, DirectoryEntry, Log, LogOptions, Manifest,
    Operation, OperationKind, PLAIN_FORMAT_VERSION, PartEntry, RecoveredLogs, Timestamp,
};
use hedgerow_vfs::{MemoryVfs, Vfs, read_file};

const DIR: &str = "/db";
const DATABASE_ID: u128 = 0x6865_6467_6572_6f77;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// A manifest as it is, and with its length and checksum put right.
pub(super) fn manifest(data: &[u8]) {
    let path = Path::new("MANIFEST");
    let raw = Manifest::decode(path, data);
    drop(raw.map_err(|error| error.to_string()));
    if data.len() < 20 {
        return;
    }
    let mut repaired = data.to_vec();
    let body = (repaired.len() - 20) as u32;
    repaired[12..16].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&repaired[8..16]), &repaired[20..]);
    repaired[16..20].copy_from_slice(&crc.to_le_bytes());
    if let Ok(mut manifest) = Manifest::decode(path, &repaired) {
        // What decodes must survive being written and read back; formats that are not written any
        // more in the oldest one that is.
        let vfs = MemoryVfs::new();
        vfs.create_dir_all(Path::new(DIR))
            .expect("memory does not fail");
        manifest
            .store(&vfs, Path::new(DIR))
            .expect("memory does not fail");
        let again = Manifest::load(&vfs, Path::new(DIR)).expect("just written");
        manifest.format_version = manifest.format_version.max(PLAIN_FORMAT_VERSION);
        assert_eq!(again, manifest, "a manifest changed by being stored");
    }
}

pub(super) fn manifest_seeds() -> Vec<Vec<u8>> {
    let (disk, manifest) = log_template();
    let dir = Path::new(DIR);
    let mut full = manifest.clone();
    full.add_keyspace("default", "masstree");
    full.add_keyspace("db1", "masstree");
    let mut elsewhere = full.clone();
    elsewhere.place_in(vec![DirectoryEntry {
        id: 1 << 40,
        path: "/disk1".into(),
    }]);
    let mut kept = elsewhere.clone();
    let (_, part) = checkpoint_template();
    for generation in [3, 7, 12] {
        let checkpoint = CheckpointEntry {
            generation,
            timestamp: Timestamp::new(u64::from(generation), 1),
            parts: vec![part.clone(), part.clone()],
        };
        kept.install_checkpoint(checkpoint, 3);
    }
    [manifest, &full, &elsewhere, &kept]
        .map(|manifest| {
            manifest.store(disk, dir).expect("memory does not fail");
            read_file(disk, &Manifest::path(dir)).expect("just written")
        })
        .to_vec()
}

/// A small database's disk whose log file of shard 0 the target replaces, and its manifest.
fn log_template() -> (&'static MemoryVfs, &'static Manifest) {
    static TEMPLATE: OnceLock<(MemoryVfs, Manifest)> = OnceLock::new();
    let (disk, manifest) = TEMPLATE.get_or_init(|| {
        let (disk, dir) = (MemoryVfs::new(), Path::new(DIR));
        disk.create_dir_all(dir).expect("memory does not fail");
        let mut manifest = Manifest::new(DATABASE_ID);
        let options = LogOptions {
            shards: 2,
            flush_interval: Duration::from_millis(1),
            ..LogOptions::default()
        };
        let log = Log::create(Arc::new(disk.clone()), dir, &mut manifest, options, 1)
            .expect("a log in memory");
        for number in 0..20u32 {
            let mut shard = log.shard(number as usize % 2).expect("a healthy log");
            let timestamp = shard.timestamp(Timestamp::ZERO);
            let key = number.to_le_bytes();
            let operations: Vec<Operation<'_>> = (0..=number % 3)
                .map(|keyspace| Operation {
                    keyspace,
                    kind: [
                        OperationKind::Put,
                        OperationKind::PutColumns,
                        OperationKind::Remove,
                    ][keyspace as usize],
                    key: &key,
                    payload: &[7; 40],
                })
                .collect();
            shard.append(timestamp, &operations);
            drop(shard);
            if number % 5 == 0 {
                log.wait_durable(log.epoch()).expect("a healthy log");
            }
        }
        log.close().expect("a healthy log");
        (disk, manifest)
    });
    (disk, manifest)
}

fn log_file(disk: &MemoryVfs) -> (std::path::PathBuf, Vec<u8>) {
    let logs = disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "log"));
    logs.min().expect("the template has a log")
}

/// A log file as it is, and with the checksums of its header and blocks put right.
pub(super) fn log(data: &[u8]) {
    recover_log(data.to_vec());
    let mut repaired = data.to_vec();
    if repaired.len() >= 64 {
        let crc = crc32c::crc32c(&repaired[..60]);
        repaired[60..64].copy_from_slice(&crc.to_le_bytes());
    }
    repair_blocks(
        &mut repaired,
        64,
        64,
        crc32c::crc32c(&DATABASE_ID.to_le_bytes()),
    );
    recover_log(repaired);
}

/// Gives every block the checksum that its bytes deserve. A length that is out of bounds is made
/// to reach the end of the file.
fn repair_blocks(bytes: &mut [u8], mut at: usize, header: usize, seed: u32) {
    while at + header <= bytes.len() {
        let claimed = u64::from(u32_at(bytes, at + 8)) | u64::from(u32_at(bytes, at + 12)) << 32;
        let left = bytes.len() - at;
        let length = usize::try_from(claimed).unwrap_or(usize::MAX);
        let length = if length < header || length > left {
            left
        } else {
            length
        };
        bytes[at + 8..at + 16].copy_from_slice(&(length as u64).to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &bytes[at + 8..at + length]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at += length;
    }
}

fn recover_log(bytes: Vec<u8>) {
    let (template, manifest) = log_template();
    let disk = template.deep_clone();
    disk.insert_file(&log_file(template).0, bytes);
    let mut manifest = manifest.clone();
    let recovered = RecoveredLogs::open(Arc::new(disk), Path::new(DIR), &mut manifest);
    let Ok(recovered) = recovered.map_err(|error| error.to_string()) else {
        return;
    };
    let mut commits = recovered.commits();
    let mut last = Timestamp::ZERO;
    while let Ok(Some(commit)) = commits.next() {
        assert!(commit.timestamp() >= last, "commits out of order");
        last = commit.timestamp();
        assert!(
            commit.timestamp().epoch() <= recovered.cutoff_epoch(),
            "beyond the cutoff"
        );
        assert!(commit.operations().count() > 0, "an empty commit");
    }
}

pub(super) fn log_seeds() -> Vec<Vec<u8>> {
    let (_, bytes) = log_file(log_template().0);
    let cut = bytes[..bytes.len() * 2 / 3].to_vec();
    vec![bytes, cut]
}

const GENERATION: u32 = 3;

/// A checkpoint part with its manifest entry.
fn checkpoint_template() -> &'static (MemoryVfs, PartEntry) {
    static TEMPLATE: OnceLock<(MemoryVfs, PartEntry)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let (disk, dir) = (MemoryVfs::new(), Path::new(DIR));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut writer = CheckpointWriter::create(vfs, dir, DATABASE_ID, GENERATION, 0)
            .expect("memory does not fail");
        for number in 0..30u32 {
            writer
                .append(number % 3, &number.to_be_bytes(), &[9; 33])
                .expect("memory");
        }
        let entry = writer.finish().expect("memory does not fail");
        (disk, entry)
    })
}

/// A checkpoint file as it is, and with its checksums put right.
pub(super) fn checkpoint(data: &[u8]) {
    read_checkpoint(data.to_vec());
    let mut repaired = data.to_vec();
    if repaired.len() >= 64 {
        let crc = crc32c::crc32c(&repaired[..60]);
        repaired[60..64].copy_from_slice(&crc.to_le_bytes());
        let seed = crc32c::crc32c(&repaired[..64]);
        repair_blocks(&mut repaired, 64, 32, seed);
    }
    read_checkpoint(repaired);
}

fn read_checkpoint(bytes: Vec<u8>) {
    let (template, entry) = checkpoint_template();
    let disk = template.deep_clone();
    let (path, _) = template
        .files()
        .into_iter()
        .next()
        .expect("the template has its file");
    let entry = PartEntry {
        len: bytes.len() as u64,
        ..entry.clone()
    };
    disk.insert_file(&path, bytes);
    let reader = CheckpointReader::open(&disk, Path::new(DIR), DATABASE_ID, GENERATION, &entry);
    let Ok(mut reader) = reader.map_err(|error| error.to_string()) else {
        return;
    };
    let mut records = 0u64;
    while let Ok(Some(record)) = reader.next() {
        records += 1;
        assert!(
            record.key.len() + record.row.len() <= entry.len as usize,
            "a record larger than its file"
        );
    }
    assert!(records <= entry.len, "more records than bytes");
}

pub(super) fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let files = checkpoint_template().0.files();
    files.into_iter().map(|(_, bytes)| bytes).collect()
}
