//! One round of one map, in a process of its own: fill it, put it through the user's mix, and
//! time single kinds of operations afterwards.
//!
//! What lookups must find is computed from the operations beforehand, so a map that answers
//! wrongly, or whose answers were optimised away, gets no figure.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use hedgerow_lab_contender::{Map, NewMap, Tally, value_of};
use hedgerow_lab_data::workload::{Mix, Operation, ScanLength};
use hedgerow_lab_data::{KeyRange, KeySet, Keys, Kind, Plan, Workload};
use serde::{Deserialize, Serialize};

use crate::machine::{pin_this_thread, resident_bytes, timed};
use crate::registry::Registry;
use crate::verify::verify_entry;
use crate::{LabError, Result};

/// Keys of the throwaway map that pages code in and wakes the allocator.
const WARM_UP_KEYS: usize = 10_000;

/// Fewer operations than these are repeated until there are as many.
pub(super) const LEAST_OPERATIONS: u64 = 200_000;

/// Growth below this is lost in what the allocator keeps.
const LEAST_GROWTH_BYTES: u64 = 4 << 20;

/// Operations of each kind that are timed by themselves after the mix.
const SINGLE_OPERATIONS: usize = 200_000;

/// What the parent asks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The map's name in the registry.
    pub map: String,
    /// The file of distinct keys in the order of their insertion (`write_keys`).
    pub keys: PathBuf,
    /// How many of them take part.
    pub count: usize,
    /// The shares of reads, updates, inserts, removes and scans.
    pub mix: [f64; 5],
    /// Which records are popular.
    pub distribution: String,
    /// Pairs of a scan.
    pub scan_length: u32,
    /// Only compare answers with the model's.
    pub verify: bool,
}

/// What the process answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Records loaded.
    pub loaded: u64,
    /// Seconds that loading took.
    pub load_seconds: f64,
    /// Operations of the mix.
    pub operations: u64,
    /// Seconds that they took.
    pub mix_seconds: f64,
    /// By how much the process grew for each record loaded; none where that was too little to
    /// tell.
    pub bytes_per_key: Option<f64>,
    /// Nanoseconds of each kind by itself, by its name.
    pub single_ns: Vec<(String, f64)>,
    /// Pairs that scans visited and the sum of their values: the same for every map.
    pub scanned: (u64, u64),
}

impl Round {
    /// Adds another pass over the same script.
    fn add(&mut self, pass: Self) {
        let before = self.operations as f64 / pass.operations.max(1) as f64;
        for ((_, ns), (_, again)) in self.single_ns.iter_mut().zip(pass.single_ns) {
            *ns = (*ns * before + again) / (before + 1.0);
        }
        self.loaded += pass.loaded;
        self.load_seconds += pass.load_seconds;
        self.operations += pass.operations.max(1);
        self.mix_seconds += pass.mix_seconds;
    }
}

impl Job {
    /// The workload of the user's mix.
    ///
    /// # Errors
    ///
    /// When the shares do not add up to 1, or the distribution is unknown.
    pub fn workload(&self) -> Result<Workload> {
        let [read, update, insert, remove, scan] = self.mix;
        let mix = Mix {
            read,
            update,
            insert,
            remove,
            scan,
            ..Mix::default()
        };
        let distribution = self.distribution.parse().map_err(LabError::from_display)?;
        let scan_length = ScanLength {
            least: self.scan_length,
            most: self.scan_length,
        };
        Workload::of_mix("the mix", KeySet::Stdin, mix, distribution, scan_length)
            .map_err(|error| LabError::Usage(error.to_string()))
    }

    /// Does the job.
    ///
    /// # Errors
    ///
    /// When the map is not there, or answers wrongly.
    pub fn perform(&self) -> Result<Round> {
        let registry = Registry::new();
        let entry = registry
            .map(&self.map)
            .ok_or_else(|| LabError::Usage(format!("no map is called '{}'", self.map)))?;
        let keys = read_keys(&self.keys, self.count)?;
        if self.verify {
            verify_entry(entry, &keys)?;
            return Ok(Round::default());
        }
        pin_this_thread(0);
        let build = entry.build.as_ref().map_err(LabError::unavailable)?;
        let new = || -> Box<dyn Map> {
            match build {
                NewMap::Single(new) => new(),
                NewMap::Concurrent(new) => new(),
            }
        };
        let workload = self.workload()?;
        let few = keys.select(0..keys.len().min(WARM_UP_KEYS));
        Script::new(&workload, &few)?.play(&*new())?;
        let script = Script::new(&workload, &keys)?;
        let mut round = script.play(&*new())?;
        // Few keys are over too soon to be timed: again, on fresh maps.
        while round.operations < LEAST_OPERATIONS {
            round.add(script.play(&*new())?);
        }
        Ok(round)
    }
}

/// Writes keys for other processes to read: each with its length in front, 4 bytes
/// little-endian.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write_keys(keys: &Keys, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for key in keys.iter() {
        file.write_all(&(key.len() as u32).to_le_bytes())?;
        file.write_all(key)?;
    }
    file.flush()?;
    Ok(())
}

/// The first `count` keys of such a file.
fn read_keys(path: &Path, count: usize) -> Result<Keys> {
    let mut file = BufReader::new(File::open(path)?);
    let mut keys = Keys::new();
    let mut key = Vec::new();
    while keys.len() < count && !file.fill_buf()?.is_empty() {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        key.resize(u32::from_le_bytes(length) as usize, 0);
        file.read_exact(&mut key)?;
        keys.push(&key);
    }
    Ok(keys)
}

/// The largest number of records that a workload can load so that the keys suffice for its
/// inserts as well.
pub fn plan(workload: &Workload, keys: u64) -> Result<Plan> {
    let too_few = || LabError::Usage(format!("{keys} keys are too few for this mix"));
    let (mut low, mut high) = (0, keys);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match workload.plan(middle, 1).keys <= keys {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    match low {
        0 => Err(too_few()),
        records => Ok(workload.plan(records, 1)),
    }
}

/// The mix written out: keys in the order of use, so that fetching them costs no map a miss.
struct Script<'a> {
    keys: &'a Keys,
    plan: Plan,
    operations: Vec<Operation>,
    used: Keys,
    /// What lookups must add up to.
    expected: Tally,
}

impl<'a> Script<'a> {
    fn new(workload: &Workload, keys: &'a Keys) -> Result<Self> {
        let plan = plan(workload, keys.len() as u64)?;
        let operations: Vec<Operation> = workload.operations(&plan, 0, 1).collect();
        let used = keys.select(operations.iter().map(|operation| operation.record as usize));
        let mut expected = Tally::default();
        // By how much each record's value is raised, while it is there.
        let mut raised = vec![None; keys.len()];
        raised[..plan.loaded as usize].fill(Some(0));
        for operation in &operations {
            let record = operation.record as usize;
            match operation.kind {
                Kind::Read => {
                    let value =
                        raised[record].map(|by| value_of(keys.get(record)).wrapping_add(by));
                    expected.count(value);
                }
                Kind::Insert => raised[record] = Some(0),
                Kind::Remove => raised[record] = None,
                Kind::Scan => {}
                _ => raised[record] = Some(1),
            }
        }
        Ok(Self {
            keys,
            plan,
            operations,
            used,
            expected,
        })
    }

    fn play(&self, map: &dyn Map) -> Result<Round> {
        let loaded = self.keys.range(0..self.plan.loaded as usize);
        let before = resident_bytes(None);
        let (load_seconds, ()) = timed(|| map.put_run(loaded.clone(), 0));
        let grown_bytes = resident_bytes(None).saturating_sub(before);
        let (mix_seconds, (seen, scanned)) = timed(|| self.mix(map));
        if seen != self.expected {
            return Err(LabError::WrongAnswer(format!(
                "lookups add up to {seen:?}, not {:?}",
                self.expected
            )));
        }
        Ok(Round {
            loaded: self.plan.loaded,
            load_seconds,
            operations: self.operations.len() as u64,
            mix_seconds,
            bytes_per_key: (grown_bytes >= LEAST_GROWTH_BYTES)
                .then(|| grown_bytes as f64 / self.plan.loaded as f64),
            single_ns: self.singles(map),
            scanned: (scanned.hits, scanned.sum),
        })
    }

    fn mix(&self, map: &dyn Map) -> (Tally, Tally) {
        let (mut seen, mut scanned) = (Tally::default(), Tally::default());
        for (index, operation) in self.operations.iter().enumerate() {
            let key = self.used.get(index);
            match operation.kind {
                Kind::Read => seen.count(map.get(key)),
                Kind::Insert => map.put(key, value_of(key)),
                Kind::Remove => {
                    black_box(map.remove(key));
                }
                Kind::Scan => {
                    let from = self.used.range(index..index + 1);
                    scanned = scanned.and(map.scan_run(from, operation.scan_length as usize));
                }
                _ => map.put(key, value_of(key).wrapping_add(1)),
            }
        }
        (seen, scanned)
    }

    /// Each kind of the mix by itself, on the keys that the mix used for it.
    fn singles(&self, map: &dyn Map) -> Vec<(String, f64)> {
        let mut singles = Vec::new();
        for kind in [Kind::Read, Kind::Update, Kind::Scan] {
            let of_kind = self
                .operations
                .iter()
                .filter(|operation| operation.kind == kind);
            let limit = match kind {
                Kind::Scan => SINGLE_OPERATIONS / 10,
                _ => SINGLE_OPERATIONS,
            };
            let of_kind: Vec<&Operation> = of_kind.take(limit).collect();
            let Some(first) = of_kind.first() else {
                continue;
            };
            let keys = self
                .keys
                .select(of_kind.iter().map(|operation| operation.record as usize));
            let length = first.scan_length as usize;
            let (seconds, _) = timed(|| black_box(single(map, kind, keys.all(), length)));
            singles.push((kind.name().to_owned(), seconds * 1e9 / keys.len() as f64));
        }
        singles
    }
}

fn single(map: &dyn Map, kind: Kind, keys: KeyRange<'_>, length: usize) -> Tally {
    match kind {
        Kind::Read => map.get_run(keys),
        Kind::Scan => map.scan_run(keys, length),
        _ => {
            map.put_run(keys, 2);
            Tally::default()
        }
    }
}
