//! One round of one map, in a process of its own: fill it, put it through the user's mix, and
//! time single kinds of operations afterwards.
//!
//! What lookups must find is computed from the operations beforehand, so a map that answers
//! wrongly, or whose answers were optimised away, gets no figure.
//!
//! Reading the clock and the thread's waits takes as long as hundreds of operations. So few keys
//! are put into several maps, and one reading is around what all of them do.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use hedgerow_lab_contender::{Map, MapEntry, NewMap, Tally, value_of};
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

/// Operations that are timed at once, on several maps where one has fewer: reading `/proc` takes
/// about a hundredth of their time, and so many records still fit into a processor's caches.
const OPERATIONS_AT_ONCE: u64 = 50_000;

/// Most maps that are timed at once, and the most memory that they may take.
const MAX_MAPS: u64 = 1000;
const MAX_MAPS_BYTES: u64 = 256 << 20;

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
    /// Adds another pass over the same script, on as many maps.
    fn add(&mut self, pass: Self) {
        let before = self.operations as f64 / pass.operations.max(1) as f64;
        for ((_, ns), (_, again)) in self.single_ns.iter_mut().zip(pass.single_ns) {
            *ns = (*ns * before + again) / (before + 1.0);
        }
        self.loaded += pass.loaded;
        self.load_seconds += pass.load_seconds;
        self.operations += pass.operations;
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

    /// Whether the mix has scans.
    #[must_use]
    pub fn scans(&self) -> bool {
        self.mix[4] > 0.0
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
            self.compare(entry, &keys)?;
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
        Script::new(&workload, &few)?.play(&[new()])?;
        let script = Script::new(&workload, &keys)?;
        script.round(&new)
    }

    /// Compares a map's answers with a model's; its scans only if the mix has some, as a map may be
    /// in order for other keys than these.
    fn compare(&self, entry: &MapEntry, keys: &Keys) -> Result<()> {
        let mut entry = entry.clone();
        entry.entry.promises.ordered &= self.scans();
        verify_entry(&entry, keys)
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

/// How many maps it takes so that enough operations are timed at once, if each map does so many
/// and takes so much memory.
fn maps_at_once(operations: u64, map_bytes: u64) -> usize {
    let wanted = OPERATIONS_AT_ONCE.div_ceil(operations.max(1));
    let affordable = MAX_MAPS_BYTES / map_bytes.max(1);
    wanted.min(affordable).clamp(1, MAX_MAPS) as usize
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

    /// As many passes as it takes, each on fresh maps.
    fn round(&self, new: &dyn Fn() -> Box<dyn Map>) -> Result<Round> {
        let before = resident_bytes(None);
        let alone = [new()];
        let mut round = self.play(&alone)?;
        let map_bytes = resident_bytes(None).saturating_sub(before);
        drop(alone);
        let count = maps_at_once(round.operations, map_bytes);
        let pass = || {
            let maps: Vec<_> = (0..count).map(|_| new()).collect();
            self.play(&maps)
        };
        if count > 1 {
            // One map ends too soon to be timed; how much it grew is what a map takes.
            round = Round {
                bytes_per_key: round.bytes_per_key,
                ..pass()?
            };
        }
        while round.operations < LEAST_OPERATIONS {
            round.add(pass()?);
        }
        Ok(round)
    }

    /// Fills every map, then puts each through the mix, then times single kinds: each step on one
    /// map after the other, in one interval of the clock.
    fn play(&self, maps: &[Box<dyn Map>]) -> Result<Round> {
        let loaded = self.keys.range(0..self.plan.loaded as usize);
        let before = resident_bytes(None);
        let (load_seconds, ()) = timed(|| {
            for map in maps {
                map.put_run(loaded.clone(), 0);
            }
        });
        let grown_bytes = resident_bytes(None).saturating_sub(before);
        let mut tallies = Vec::with_capacity(maps.len());
        let (mix_seconds, ()) = timed(|| tallies.extend(maps.iter().map(|map| self.mix(&**map))));
        let scanned = self.check(&tallies)?;
        let all_loaded = self.plan.loaded * maps.len() as u64;
        Ok(Round {
            loaded: all_loaded,
            load_seconds,
            operations: (self.operations.len().max(1) * maps.len()) as u64,
            mix_seconds,
            bytes_per_key: (grown_bytes >= LEAST_GROWTH_BYTES)
                .then(|| grown_bytes as f64 / all_loaded as f64),
            single_ns: self.singles(maps),
            scanned: (scanned.hits, scanned.sum),
        })
    }

    /// What scans saw, if all maps saw the same and lookups found what they must.
    fn check(&self, tallies: &[(Tally, Tally)]) -> Result<Tally> {
        let mut of_all = None;
        for (seen, scanned) in tallies {
            if *seen != self.expected {
                return Err(LabError::WrongAnswer(format!(
                    "lookups add up to {seen:?}, not {:?}",
                    self.expected
                )));
            }
            let first = *of_all.get_or_insert(*scanned);
            if *scanned != first {
                return Err(LabError::WrongAnswer(format!(
                    "scans add up to {scanned:?} and, on an equal map, to {first:?}"
                )));
            }
        }
        Ok(of_all.unwrap_or_default())
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
    fn singles(&self, maps: &[Box<dyn Map>]) -> Vec<(String, f64)> {
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
            let (seconds, ()) = timed(|| {
                for map in maps {
                    black_box(single(&**map, kind, keys.all(), length));
                }
            });
            let operations = keys.len() * maps.len();
            singles.push((kind.name().to_owned(), seconds * 1e9 / operations as f64));
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use hedgerow_lab_own::BTreeMark;

    use super::*;

    /// A map that cannot scan, and counts how many of its kind there are, now and at most.
    #[derive(Default)]
    struct Unscannable {
        map: BTreeMark,
        alive: Rc<Cell<(usize, usize)>>,
    }

    impl Unscannable {
        fn counted(alive: &Rc<Cell<(usize, usize)>>) -> Self {
            let (now, most) = alive.get();
            alive.set((now + 1, most.max(now + 1)));
            Self {
                map: BTreeMark::default(),
                alive: Rc::clone(alive),
            }
        }
    }

    impl Drop for Unscannable {
        fn drop(&mut self) {
            let (now, most) = self.alive.get();
            self.alive.set((now.saturating_sub(1), most));
        }
    }

    impl Map for Unscannable {
        fn put(&self, key: &[u8], value: u64) {
            self.map.put(key, value);
        }
        fn get(&self, key: &[u8]) -> Option<u64> {
            self.map.get(key)
        }
        fn remove(&self, key: &[u8]) -> bool {
            self.map.remove(key)
        }
        fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], u64)) {}
        fn scan_run(&self, _: KeyRange<'_>, _: usize) -> Tally {
            Tally::default()
        }
    }

    const WITH_SCANS: [f64; 5] = [0.5, 0.2, 0.1, 0.0, 0.2];
    const WITHOUT_SCANS: [f64; 5] = [0.7, 0.2, 0.1, 0.0, 0.0];

    fn job(mix: [f64; 5]) -> Job {
        Job {
            map: String::new(),
            keys: PathBuf::new(),
            count: 0,
            mix,
            distribution: "uniform".to_owned(),
            scan_length: 10,
            verify: false,
        }
    }

    fn decimals(count: usize) -> Keys {
        KeySet::Decimal.keys(count).expect("keys")
    }

    #[test]
    fn enough_maps_are_timed_at_once_but_neither_too_many_nor_too_much_memory() {
        assert_eq!(maps_at_once(60_000, 1), 1);
        assert_eq!(maps_at_once(2000, 1 << 20), 25);
        assert_eq!(maps_at_once(1, 0), 1000);
        assert_eq!(maps_at_once(1, 64 << 20), 4);
        assert_eq!(maps_at_once(1, 1 << 40), 1);
    }

    #[test]
    fn a_pass_over_three_maps_is_three_times_that_over_one() {
        let keys = decimals(300);
        let workload = job(WITH_SCANS).workload().expect("a workload");
        let script = Script::new(&workload, &keys).expect("a script");
        let new = || -> Box<dyn Map> { Box::new(BTreeMark::default()) };
        let one = script.play(&[new()]).expect("one map");
        let three = script.play(&[new(), new(), new()]).expect("three maps");
        assert_eq!(three.loaded, 3 * one.loaded);
        assert_eq!(three.operations, 3 * one.operations);
        assert!(one.scanned.0 > 0 && one.scanned == three.scanned);
        assert_eq!((one.single_ns.len(), three.single_ns.len()), (3, 3));
        // Pairs too many in one of them.
        let other = new();
        other.put_run(decimals(900).all(), 5);
        let error = script.play(&[new(), other]).expect_err("scans see them");
        assert!(error.to_string().contains("on an equal map"), "{error}");
    }

    #[test]
    fn few_keys_are_put_into_several_maps_at_once() {
        let keys = decimals(200);
        let workload = job(WITHOUT_SCANS).workload().expect("a workload");
        let script = Script::new(&workload, &keys).expect("a script");
        let alive: Rc<Cell<(usize, usize)>> = Rc::default();
        let new = || -> Box<dyn Map> { Box::new(Unscannable::counted(&alive)) };
        let round = script.round(&new).expect("a round");
        assert!(round.operations >= LEAST_OPERATIONS, "{round:?}");
        let (now, most) = alive.get();
        assert!(now == 0 && most > 1, "{now}, {most}");
    }

    #[test]
    fn scans_are_compared_only_where_the_mix_has_some() {
        let registry = Registry::new();
        let entry = MapEntry {
            build: Ok(NewMap::Single(|| Box::new(Unscannable::default()))),
            ..registry.map("std BTreeMap").expect("a map").clone()
        };
        let keys = decimals(500);
        let compare = |mix| job(mix).compare(&entry, &keys);
        compare(WITHOUT_SCANS).expect("all else is right");
        let error = compare(WITH_SCANS).expect_err("it cannot scan").to_string();
        assert!(error.contains("a scan of"), "{error}");
    }
}
