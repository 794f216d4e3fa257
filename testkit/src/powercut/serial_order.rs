//! Transactions that meet in few keys, over several log shards, under power cuts: what survives is
//! a prefix of their serial order.
//!
//! Each key holds a version, a number that each write raises by one. Batches write one key, behind
//! many others, so that each has its log shard locked for long. Transactions that lock nothing
//! read all keys, remember what they saw, and raise a key of their thread's and sometimes one that
//! they share. Another thread has every write of its own synced, so that epochs pass meanwhile.
//!
//! A transaction comes after all whose writes it read, and before all that replaced what it read.
//! So with the last transaction of a thread that a cut left, there is every version that it read or
//! wrote; and no version is newer than what the first that the cut took had read. The
//! second is what goes wrong where a transaction does not wait for the commits of an earlier epoch
//! that are under way: one of these may replace what it read, and survive without it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use hedgerow::{Db, Durability, Error, Isolation, Keyspace, WriteOptions};
use hedgerow_vfs::{MemoryVfs, RecordingVfs, Vfs};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const DATA: &str = "/data";
const NAME: &str = "k";

/// Threads that run transactions.
const THREADS: usize = 2;
/// One for each thread that writes, and one more.
const LOG_SHARDS: usize = THREADS + 3;

/// The key that batches write.
const BATCHED: usize = 0;
/// The key that all transactions may write.
const SHARED: usize = 1;
/// The first of those that one thread's transactions write.
const OWN: usize = 2;
const KEYS: usize = OWN + THREADS;

/// Rows that a batch writes before that key.
const ROWS_BEFORE: u32 = 300;
/// Batches of a process run, at least and at most; in between it goes on until so many transactions
/// have committed.
const LEAST_BATCHES: u64 = 12;
const MOST_BATCHES: u64 = 100;
const TRANSACTIONS: usize = 20;
/// Syncs of a process run that are asked for; the others come by the clock.
const MOST_SYNCS: usize = 60;

/// The version of each key.
type Versions = [u64; KEYS];

/// What a campaign did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SerialOrderReport {
    /// Images recovered and judged.
    pub images: usize,
    /// Of those, how many lacked a transaction that had committed.
    pub incomplete: usize,
    /// Process runs of databases.
    pub process_runs: usize,
    /// Transactions that committed in all of them.
    pub transactions: usize,
}

/// A transaction that committed.
#[derive(Debug, Clone, Copy)]
struct Committed {
    /// What it read.
    read: Versions,
    /// The same, with what it wrote.
    left: Versions,
}

/// A process run, and what its crash images are judged by.
struct Recorded {
    disk: RecordingVfs,
    /// File operations done when all keys were there, durably.
    prepared: usize,
    /// Each thread's transactions, in order.
    committed: Vec<Vec<Committed>>,
}

/// Images for each that must lack a transaction; and how many times as many are judged at most,
/// where a busy machine commits few transactions beside the batches.
const IMAGES_FOR_INCOMPLETE: usize = 10;
const MOST_TIMES: usize = 10;

/// Cuts process runs at each of their file operations, until so many images were judged, and a
/// tenth as many of them lacked a transaction.
///
/// # Errors
/// What was wrong first, with the seed; the interleaving of threads is the machine's.
pub fn run(images: usize, seed: u64) -> Result<SerialOrderReport, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut report = SerialOrderReport::default();
    let goes_on = |report: &SerialOrderReport| {
        let lacks_some = report.incomplete * IMAGES_FOR_INCOMPLETE < images;
        report.images < images || lacks_some && report.images < MOST_TIMES * images
    };
    while goes_on(&report) {
        let recorded = record(&mut rng).map_err(|error| format!("seed {seed}: {error}"))?;
        let committed = recorded.committed.iter().map(Vec::len);
        report.transactions += committed.sum::<usize>();
        report.process_runs += 1;
        let end = recorded.disk.operations();
        for cut in recorded.prepared..=end {
            let disk = &recorded.disk;
            let image = disk.crash_image(cut, &mut |n| rng.random_range(0..n));
            let judged =
                recover(image).and_then(|found| judge(&found, &recorded.committed).map(|()| found));
            let found = judged.map_err(|error| {
                format!("seed {seed}, cut behind operation {cut} of {end}: {error}")
            })?;
            report.images += 1;
            report.incomplete += usize::from(is_incomplete(&found, &recorded.committed));
        }
    }
    Ok(report)
}

fn failed(error: Error) -> String {
    error.to_string()
}

fn open(vfs: Arc<dyn Vfs>, workers: usize) -> Result<Db, String> {
    Db::builder()
        .vfs(vfs)
        .workers(workers)
        .flush_interval(Duration::from_millis(1))
        .sweep_interval(None)
        .checkpoint_log_bytes(None)
        .open(DATA)
        .map_err(failed)
}

/// The name of a key: behind all other rows of a batch, and so written last.
fn key(number: usize) -> String {
    format!("z{number}")
}

fn version(value: Option<Vec<u8>>) -> Result<u64, String> {
    let value = value.ok_or("a key has no row")?;
    let bytes: [u8; 8] = value.try_into().map_err(|_| "a row is no version")?;
    Ok(u64::from_be_bytes(bytes))
}

/// What the threads of a process run share.
struct ProcessRun<'a> {
    db: &'a Db,
    keyspace: &'a Keyspace,
    start: Barrier,
    over: AtomicBool,
    committed: AtomicUsize,
}

/// Ends the process run, also where its batches panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn record(rng: &mut StdRng) -> Result<Recorded, String> {
    let disk = RecordingVfs::new(&MemoryVfs::new());
    let db = open(Arc::new(disk.clone()), LOG_SHARDS)?;
    let keyspace = db.keyspace(NAME).map_err(failed)?;
    let mut batch = db.batch();
    for number in 0..KEYS {
        batch.put(&keyspace, key(number).as_bytes(), &0_u64.to_be_bytes());
    }
    batch.commit(Durability::Sync).map_err(failed)?;
    let prepared = disk.operations();
    let process_run = ProcessRun {
        db: &db,
        keyspace: &keyspace,
        start: Barrier::new(THREADS + 2),
        over: AtomicBool::new(false),
        committed: AtomicUsize::new(0),
    };
    let committed = std::thread::scope(|scope| {
        let process_run = &process_run;
        let batches = scope.spawn(move || process_run.write_batches());
        let syncs = scope.spawn(move || process_run.sync());
        let transactions: Vec<_> = (0..THREADS)
            .map(|thread| {
                let rng = StdRng::seed_from_u64(rng.random());
                scope.spawn(move || process_run.transact(thread, rng))
            })
            .collect();
        batches.join().expect("the thread of batches panicked")?;
        syncs.join().expect("the thread of syncs panicked")?;
        let threads = transactions.into_iter();
        threads
            .map(|thread| thread.join().expect("a thread of transactions panicked"))
            .collect::<Result<Vec<_>, String>>()
    })?;
    db.close().map_err(failed)?;
    Ok(Recorded {
        disk,
        prepared,
        committed,
    })
}

impl ProcessRun<'_> {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn write_batches(&self) -> Result<(), String> {
        let _end = End(&self.over);
        self.start.wait();
        for version in 1..=MOST_BATCHES {
            let committed = self.committed.load(Ordering::Relaxed);
            if version > LEAST_BATCHES && committed >= TRANSACTIONS {
                break;
            }
            let value = version.to_be_bytes();
            let mut batch = self.db.batch();
            for row in 0..ROWS_BEFORE {
                batch.put(self.keyspace, &row.to_be_bytes(), &value);
            }
            batch.put(self.keyspace, key(BATCHED).as_bytes(), &value);
            batch.commit(Durability::Periodic).map_err(failed)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), String> {
        let options = WriteOptions::from(Durability::Sync);
        self.start.wait();
        for _ in 0..MOST_SYNCS {
            if self.is_over() {
                break;
            }
            let put = self.keyspace.put_with(b"synced", b"", &options);
            put.map_err(failed)?;
        }
        Ok(())
    }

    fn transact(&self, thread: usize, mut rng: StdRng) -> Result<Vec<Committed>, String> {
        let mut committed = Vec::new();
        self.start.wait();
        while !self.is_over() {
            match self.attempt(thread, &mut rng) {
                Ok(one) => {
                    committed.push(one);
                    self.committed.fetch_add(1, Ordering::Relaxed);
                }
                Err(Error::TransactionTooOld { .. }) => {}
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(format!("a transaction failed: {error}")),
            }
        }
        Ok(committed)
    }

    fn attempt(&self, thread: usize, rng: &mut StdRng) -> hedgerow::Result<Committed> {
        let mut transaction = self.db.begin(Isolation::Serializable)?;
        let mut read = [0; KEYS];
        for (number, read) in read.iter_mut().enumerate() {
            let value = transaction.get(self.keyspace, key(number).as_bytes())?;
            *read = version(value).expect("every key has a version");
        }
        // A batch may begin meanwhile, and an epoch end.
        let pauses = 1_u32 << rng.random_range(0..12_u32);
        (0..pauses).for_each(|_| std::thread::yield_now());
        let mut left = read;
        let shared = rng.random_bool(0.5).then_some(SHARED);
        for number in shared.into_iter().chain([OWN + thread]) {
            left[number] += 1;
            let value = left[number].to_be_bytes();
            transaction.put(self.keyspace, key(number).as_bytes(), &value)?;
        }
        transaction.commit(Durability::Periodic)?;
        Ok(Committed { read, left })
    }
}

fn recover(image: MemoryVfs) -> Result<Versions, String> {
    let db = open(Arc::new(image), 1)?;
    let keyspace = db.open_keyspace(NAME).map_err(failed)?;
    let mut found = [0; KEYS];
    for (number, found) in found.iter_mut().enumerate() {
        let value = keyspace.get(key(number).as_bytes()).map_err(failed)?;
        *found = version(value)?;
    }
    db.close().map_err(failed)?;
    Ok(found)
}

/// How many of a thread's transactions are there: each has raised the thread's key by one.
fn survivors(found: &Versions, thread: usize) -> usize {
    found[OWN + thread] as usize
}

fn is_incomplete(found: &Versions, committed: &[Vec<Committed>]) -> bool {
    let mut threads = committed.iter().enumerate();
    threads.any(|(thread, committed)| survivors(found, thread) < committed.len())
}

/// Whether what was found is a prefix of the serial order of what committed.
fn judge(found: &Versions, committed: &[Vec<Committed>]) -> Result<(), String> {
    for (thread, committed) in committed.iter().enumerate() {
        let there = survivors(found, thread);
        if there > committed.len() {
            return Err(format!(
                "thread {thread} has {there} transactions, and committed {}",
                committed.len()
            ));
        }
        let last = there.checked_sub(1).map(|last| &committed[last]);
        let lost = committed.get(there);
        for (number, &found) in found.iter().enumerate() {
            if let Some(last) = last
                && found < last.left[number]
            {
                return Err(format!(
                    "transaction {there} of thread {thread} is there and had version {} of key \
                     {number}, which is at version {found}",
                    last.left[number]
                ));
            }
            if let Some(lost) = lost
                && found > lost.read[number]
            {
                return Err(format!(
                    "transaction {} of thread {thread} is lost, and had read version {} of key \
                     {number}, of which version {found} is there",
                    there + 1,
                    lost.read[number]
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 0 reads version 1 of the batches' key; thread 1 reads what thread 0 wrote, and
    /// version 2 of the batches.
    fn committed() -> Vec<Vec<Committed>> {
        let one = |read, left| vec![Committed { read, left }];
        vec![
            one([1, 0, 0, 0], [1, 1, 1, 0]),
            one([2, 1, 1, 0], [2, 2, 1, 1]),
        ]
    }

    #[test]
    fn prefixes_of_the_serial_order_pass() {
        for found in [
            [0, 0, 0, 0],
            [1, 0, 0, 0],
            [1, 1, 1, 0],
            [2, 1, 1, 0],
            [2, 2, 1, 1],
            [3, 2, 1, 1],
        ] {
            assert_eq!(judge(&found, &committed()), Ok(()), "{found:?}");
        }
    }

    #[test]
    fn states_that_lack_something_earlier_do_not() {
        for (found, complaint) in [
            // A batch replaced what a lost transaction had read.
            ([2, 0, 0, 0], "transaction 1 of thread 0 is lost"),
            ([3, 1, 1, 0], "transaction 1 of thread 1 is lost"),
            // A transaction is there without what it read, or without all that it wrote.
            ([2, 2, 0, 1], "transaction 1 of thread 0 is lost"),
            ([1, 2, 1, 1], "transaction 1 of thread 1 is there"),
            ([2, 1, 1, 1], "transaction 1 of thread 1 is there"),
            ([2, 2, 2, 1], "thread 0 has 2 transactions"),
        ] {
            let error = judge(&found, &committed()).expect_err("no prefix");
            assert!(error.contains(complaint), "{found:?}: {error}");
        }
    }
}
