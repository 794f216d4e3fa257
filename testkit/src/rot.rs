//! Bit rot and old files: a database at rest, one bit flipped or one file as it was earlier.
//!
//! Wherever the bit is, opening must either fail with an error that names the file, or succeed
//! with exactly what was there (the bit belongs to nothing that counts, or to a checkpoint with an
//! older one behind it). `Db::check` must find
//! whatever opening finds. After an unclean end, the very tail of a log may also be taken for a
//! write that the crash tore: then what is recovered must be a state that existed.
//!
//! The same holds where an earlier version of a file is put back, or one that is gone: an old
//! manifest above all, which is whole in itself.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hedgerow::{Db, Durability, IndexKind, KeyspaceOptions, WriteOptions};
use hedgerow_log::MANIFEST_FILE;
use hedgerow_vfs::{MemoryVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::databases::{builder_of, key_of};
use crate::powercut::workload::contents;
use crate::pressure::{self, LEAST_MEMORY, Pressure, Watch};

const DATA: &str = "/data";

/// A campaign's settings.
#[derive(Debug, Clone)]
pub struct RotCampaign {
    /// How many bits to flip, one at a time; as many in each file.
    pub flips: usize,
    /// Seed of the choice of bits.
    pub seed: u64,
    /// The index of the database; `None` for the default one.
    pub index: Option<IndexKind>,
    /// Ten times as much data as memory, in a page file that grew and shrank; for B-trees.
    pub under_pressure: bool,
    /// Keyspaces in memory beside one that is a B-tree.
    pub mixed: bool,
    /// Logs and checkpoints in two directories besides the data folder.
    pub log_dirs: bool,
}

/// What a campaign did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RotReport {
    /// Bits flipped.
    pub flips: usize,
    /// Flips that opening reported, naming the file.
    pub refused: usize,
    /// Flips that changed nothing that counts.
    pub harmless: usize,
    /// Of these, flips in room that a log was written ahead by.
    pub unused: usize,
    /// Flips in the tail of a log after an unclean end, taken for a torn write.
    pub torn: usize,
    /// Flips of the newest checkpoint that opening did without, from an older one and the logs.
    pub passed_over: usize,
    /// Flips in what only an older checkpoint needs: opening has nothing to do with them.
    pub of_older: usize,
    /// Flips that `Db::check` reported.
    pub found_by_check: usize,
    /// For each file: flips, and how many of them were refused.
    pub files: BTreeMap<PathBuf, (usize, usize)>,
    /// Earlier versions of files that were put back, one at a time.
    pub stale: usize,
    /// Of those, earlier manifests that opening refused.
    pub stale_manifests_refused: usize,
    /// What happened to page files, before the flips and while they were read, if that counts.
    pub pressure: Option<Pressure>,
}

/// One flip in so many may be anywhere in a log that has room ahead, which may be most of it.
const ROOM_EVERY: usize = 8;

/// Bytes of a file before the zeros that a log may end with.
fn used_of(path: &Path, bytes: &[u8]) -> usize {
    match path.extension().is_some_and(|extension| extension == "log") {
        true => bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(1, |last| last + 1),
        false => bytes.len(),
    }
}

/// Runs the campaign; the error names file, byte and bit.
pub fn run(campaign: &RotCampaign) -> Result<RotReport, String> {
    let mut rng = StdRng::seed_from_u64(campaign.seed);
    let mut report = RotReport::default();
    for ending in Ending::ALL {
        let rest = at_rest(ending, campaign, &mut report)?;
        let files: Vec<(PathBuf, Vec<u8>)> = rest
            .disk
            .files()
            .into_iter()
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect();
        let earlier = rest.earlier.iter();
        for (path, bytes) in earlier.filter(|(path, _)| ending.tells_age_of(path)) {
            put_back(&rest, path, bytes, &mut report).map_err(|error| {
                let path = path.display();
                format!("{ending:?}: an earlier {path} was put back: {error}")
            })?;
        }
        let each = campaign.flips.div_ceil(Ending::ALL.len() * files.len());
        for (path, bytes) in &files {
            let used = used_of(path, bytes);
            for nth in 0..each {
                let most = match nth % ROOM_EVERY {
                    0 => bytes.len(),
                    _ => used,
                };
                let (byte, bit) = (rng.random_range(0..most), rng.random_range(0..8));
                report.unused += usize::from(byte >= used);
                flip(&rest, path, bytes, byte, bit, &mut report).map_err(|error| {
                    format!(
                        "{ending:?}: {} byte {byte} bit {bit} (seed {}): {error}",
                        path.display(),
                        campaign.seed
                    )
                })?;
            }
        }
    }
    if let Some(pressure) = &report.pressure {
        pressure.judge()?;
    }
    Ok(report)
}

/// What a database did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Commits,
    /// Keyspaces were cleared, dropped and created.
    CatalogChanges,
    /// In each of its process runs.
    Checkpoint,
}

/// How a database came to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ending {
    closed: bool,
    last: Last,
}

impl Ending {
    /// Whether an earlier version of this file can be told, or shows a state that existed. After a
    /// crash an older copy of the last log looks like one whose last writes were lost; where the
    /// catalog changed after these, that is a state that never was (docs/durability.md).
    fn tells_age_of(self, path: &Path) -> bool {
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        self.closed || self.last != Last::CatalogChanges || !is_log
    }

    const ALL: [Ending; 6] = {
        use Last::{CatalogChanges, Checkpoint, Commits};
        const fn ending(closed: bool, last: Last) -> Ending {
            Ending { closed, last }
        }
        [
            ending(true, Commits),
            ending(true, CatalogChanges),
            ending(true, Checkpoint),
            ending(false, Commits),
            ending(false, CatalogChanges),
            ending(false, Checkpoint),
        ]
    };
}

/// A disk and what its database shows: at the end, and (if it was not closed) after each commit.
struct AtRest<'a> {
    disk: MemoryVfs,
    campaign: &'a RotCampaign,
    states: Vec<Fingerprint>,
    /// Every other version that files had, also of files that are gone.
    earlier: BTreeSet<(PathBuf, Vec<u8>)>,
}

/// Stands for contents, of which there may be many and large ones.
type Fingerprint = u64;

fn fingerprint(db: &Db) -> Result<Fingerprint, String> {
    let mut hasher = DefaultHasher::new();
    contents(db)?.hash(&mut hasher);
    Ok(hasher.finish())
}

fn open(vfs: Arc<dyn Vfs>, campaign: &RotCampaign) -> hedgerow::Result<Db> {
    let index = match campaign.mixed {
        true => None,
        false => campaign.index,
    };
    let builder = builder_of(index);
    let builder = match campaign.under_pressure {
        true => builder.memory_limit(Some(LEAST_MEMORY)),
        false => builder,
    };
    let builder = match campaign.log_dirs {
        true => builder.log_dirs(["/disk1", "/disk2"]),
        false => builder,
    };
    builder
        .vfs(vfs)
        .workers(2)
        .flush_interval(Duration::from_millis(100))
        .open(DATA)
}

/// In all process runs of the database, at first.
const KEYSPACES: [&str; 3] = ["main", "cleared", "dropped"];
/// Their indexes, where there are several kinds.
const MIXTURE: [IndexKind; 3] = [IndexKind::BTree, IndexKind::Masstree, IndexKind::BwTree];
/// The last of a database's process runs, from 0.
const LAST_ROUND: usize = 2;

/// A disk on which a database is made, and what is remembered of it on the way.
struct Making {
    disk: MemoryVfs,
    ending: Ending,
    states: Vec<Fingerprint>,
    earlier: BTreeSet<(PathBuf, Vec<u8>)>,
    /// Earlier versions are for small files; page files under pressure are not.
    keeps_earlier: bool,
    index: Option<IndexKind>,
    mixed: bool,
}

/// Builds a small database with all kinds of files: a checkpoint, logs before and behind it.
fn at_rest<'a>(
    ending: Ending,
    campaign: &'a RotCampaign,
    report: &mut RotReport,
) -> Result<AtRest<'a>, String> {
    let failed = |error: hedgerow::Error| format!("building the database: {error}");
    let mut making = Making {
        disk: MemoryVfs::new(),
        ending,
        states: Vec::new(),
        earlier: BTreeSet::new(),
        keeps_earlier: !campaign.under_pressure,
        index: campaign.index,
        mixed: campaign.mixed,
    };
    let disk = making.disk.clone();
    if campaign.under_pressure {
        let db = open(Arc::new(disk.clone()), campaign).map_err(failed)?;
        let pressure = press(&db).map_err(failed)?;
        report.pressure.get_or_insert_default().add(&pressure);
        db.close().map_err(failed)?;
    }
    let mut killed = None;
    for round in 0..=LAST_ROUND {
        let db = open(Arc::new(disk.clone()), campaign).map_err(failed)?;
        making.remember_files();
        making.live(&db, round)?;
        if round < LAST_ROUND || ending.closed {
            db.close().map_err(failed)?;
            making.remember_files();
        } else {
            // What a kill leaves: everything synced is on the disk, nothing was closed.
            killed = Some(disk.deep_clone());
        }
    }
    let disk = killed.unwrap_or(disk);
    Ok(AtRest::new(disk, campaign, making.states, making.earlier))
}

impl Making {
    /// Remembers the files as they are.
    fn remember_files(&mut self) {
        if self.keeps_earlier {
            self.earlier.extend(self.disk.files());
        }
    }

    /// One process run of the database, without its end.
    fn live(&mut self, db: &Db, round: usize) -> Result<(), String> {
        let failed = |error: hedgerow::Error| format!("building the database: {error}");
        for (name, kind) in KEYSPACES.into_iter().zip(MIXTURE) {
            let index = self.mixed.then_some(kind);
            db.keyspace_with(name, KeyspaceOptions { index })
                .map_err(failed)?;
            self.remember_files();
        }
        let keyspace = db.keyspace("main").map_err(failed)?;
        let options = WriteOptions::default().durability(Durability::Sync);
        // Where commits come last, the last process run takes no checkpoint: its logs stand beside
        // those that older manifests name.
        let checkpoint_at = match self.ending.last {
            Last::Checkpoint => None,
            _ => (round < LAST_ROUND).then_some(15),
        };
        for number in 0..30 {
            let value = format!("{round}.{number} ").repeat(number);
            let key = key_of(self.index, format!("key{number}"));
            let put = keyspace.put_with(&key, value.as_bytes(), &options);
            put.map_err(failed)?;
            self.record(db, round)?;
            let columns: [(&[u8], &[u8]); 2] = [(b"a", value.as_bytes()), (b"b", b"-")];
            let row = key_of(self.index, format!("row{number}"));
            let put = keyspace.put_columns(&row, &columns);
            put.map_err(failed)?;
            self.record(db, round)?;
            if checkpoint_at == Some(number) {
                self.checkpoint(db)?;
            }
        }
        for name in KEYSPACES {
            let keyspace = db.keyspace(name).map_err(failed)?;
            let put = keyspace.put_with(&key_of(self.index, "last"), b"synced", &options);
            put.map_err(failed)?;
            self.record(db, round)?;
        }
        match self.ending.last {
            Last::Commits => {}
            Last::CatalogChanges => self.change_catalog(db, round)?,
            Last::Checkpoint => self.checkpoint(db)?,
        }
        self.record(db, LAST_ROUND)
    }

    /// Records what the last process run of the database shows: a crash may go back to it.
    fn record(&mut self, db: &Db, round: usize) -> Result<(), String> {
        if round == LAST_ROUND {
            self.states.push(fingerprint(db)?);
        }
        Ok(())
    }

    fn checkpoint(&mut self, db: &Db) -> Result<(), String> {
        self.remember_files();
        db.checkpoint()
            .map_err(|error| format!("a checkpoint: {error}"))?;
        self.remember_files();
        Ok(())
    }

    /// Changes the catalog in every way, with a look behind each.
    fn change_catalog(&mut self, db: &Db, round: usize) -> Result<(), String> {
        let failed = |error: hedgerow::Error| format!("changing the catalog: {error}");
        self.remember_files();
        db.clear_keyspace("cleared").map_err(failed)?;
        self.remember_files();
        db.drop_keyspace("dropped").map_err(failed)?;
        self.remember_files();
        db.keyspace(&format!("late{round}")).map_err(failed)?;
        self.remember_files();
        Ok(())
    }
}

impl<'a> AtRest<'a> {
    fn new(
        disk: MemoryVfs,
        campaign: &'a RotCampaign,
        states: Vec<Fingerprint>,
        mut earlier: BTreeSet<(PathBuf, Vec<u8>)>,
    ) -> AtRest<'a> {
        for now in disk.files() {
            earlier.remove(&now);
        }
        AtRest {
            disk,
            campaign,
            states,
            earlier,
        }
    }
}

/// Puts an earlier version of a file back.
fn put_back(
    rest: &AtRest,
    path: &Path,
    bytes: &[u8],
    report: &mut RotReport,
) -> Result<(), String> {
    let disk = rest.disk.deep_clone();
    disk.insert_file(path, bytes.to_vec());
    report.stale += 1;
    let refused = judge(rest, path, disk, report)?;
    let is_manifest = path.ends_with(MANIFEST_FILE);
    report.stale_manifests_refused += usize::from(refused && is_manifest);
    Ok(())
}

/// Has the page file grow, shrink, and grow again.
fn press(db: &Db) -> hedgerow::Result<Pressure> {
    let keyspace = db.keyspace("main")?;
    let mut watch = Watch::default();
    for version in ["first", "second"] {
        for first in (0..pressure::ROWS).step_by(100) {
            let mut batch = db.batch();
            for number in first..first + 100 {
                let value = pressure::value(number, version);
                batch.put(&keyspace, &pressure::key("row/", number), &value);
            }
            batch.commit(WriteOptions::default())?;
            watch.read_counters(db);
        }
        if version == "first" {
            keyspace.delete_range("row/1".."row/~")?;
            for _ in 0..4 {
                db.checkpoint()?;
                watch.read_counters(db);
            }
        }
    }
    Ok(watch.seen())
}

fn flip(
    rest: &AtRest,
    path: &Path,
    bytes: &[u8],
    byte: usize,
    bit: u32,
    report: &mut RotReport,
) -> Result<(), String> {
    let disk = rest.disk.deep_clone();
    let mut rotten = bytes.to_vec();
    rotten[byte] ^= 1 << bit;
    disk.insert_file(path, rotten);
    report.flips += 1;
    let refused = judge(rest, path, disk, report)?;
    let counted = report.files.entry(path.to_path_buf()).or_default();
    counted.0 += 1;
    counted.1 += usize::from(refused);
    Ok(())
}

/// Copies a database in which a file may be damaged: the copy is whole, or there is none.
fn judge_backup(disk: &MemoryVfs, campaign: &RotCampaign) -> Result<(), String> {
    const COPY: &str = "/backup";
    let vfs: Arc<dyn Vfs> = Arc::new(disk.deep_clone());
    let Ok(db) = open(Arc::clone(&vfs), campaign) else {
        return Ok(());
    };
    let copied = db.backup(COPY);
    drop(db);
    match copied {
        Ok(_) => {
            let checked = Db::builder().vfs(vfs).check(COPY);
            let checked = checked.map_err(|error| format!("a backup is none: {error}"))?;
            match checked.problems.first() {
                None => Ok(()),
                Some(problem) => Err(format!("a backup has what is damaged: {problem}")),
            }
        }
        Err(error) => match vfs.list(Path::new(COPY)) {
            Ok(left) if !left.is_empty() => {
                Err(format!("a backup failed ({error}) and left {left:?}"))
            }
            _ => Ok(()),
        },
    }
}

/// What opening and `Db::check` say of a checkpoint that recovery did without.
fn check_passed_over(
    path: &Path,
    passed_over: &[String],
    complaint: Option<&str>,
) -> Result<(), String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let names = |said: &str| said.contains(name);
    match (passed_over, complaint) {
        ([said], Some(complaint)) if names(said) && names(complaint) => Ok(()),
        _ => Err(format!(
            "opening did without {passed_over:?}, and check says {complaint:?}"
        )),
    }
}

/// Checks and opens a disk on which the file `path` is not as it was; whether opening refused it.
fn judge(
    rest: &AtRest,
    path: &Path,
    disk: MemoryVfs,
    report: &mut RotReport,
) -> Result<bool, String> {
    let checked = Db::builder().vfs(Arc::new(disk.clone())).check(DATA);
    let complaint = match checked {
        Err(error) => Some(error.to_string()),
        Ok(found) => found.problems.first().map(ToString::to_string),
    };
    report.found_by_check += usize::from(complaint.is_some());
    if rest.campaign.index == Some(IndexKind::BTree) {
        judge_backup(&disk, rest.campaign)?;
    }
    // A page is read when it is needed, so that its damage may show only then.
    let opened = open(Arc::new(disk), rest.campaign).map_err(|error| error.to_string());
    let mut passed_over = Vec::new();
    let found = opened.and_then(|db| {
        passed_over = db.damaged_checkpoints();
        fingerprint(&db)
    });
    match found {
        Err(error) => {
            report.refused += 1;
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if !error.contains(name) {
                return Err(format!("the error does not name the file: {error}"));
            }
            if complaint.is_none() {
                return Err(format!("check finds nothing, but opening says: {error}"));
            }
            Ok(true)
        }
        Ok(found) => {
            let is_last = rest.states.last() == Some(&found);
            if is_last && !passed_over.is_empty() {
                report.passed_over += 1;
                check_passed_over(path, &passed_over, complaint.as_deref())?;
            } else if is_last && complaint.is_some() {
                report.of_older += 1;
                let said = complaint.unwrap_or_default();
                if !said.contains("as long as the newest checkpoint is whole") {
                    return Err(format!("opening does not mind, but check says: {said}"));
                }
            } else if is_last {
                report.harmless += 1;
            } else if rest.states.contains(&found) && path.extension().is_some_and(|e| e == "log") {
                report.torn += 1;
            } else {
                return Err(format!(
                    "it opens with other contents than before; check says {complaint:?}"
                ));
            }
            Ok(false)
        }
    }
}
