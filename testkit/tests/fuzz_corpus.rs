//! Every fuzz target over its stored corpus and a bounded number of mutations, with an eye on
//! memory: a parser that believes a length it read would show here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_testkit::fuzz::{Mutator, TARGETS, Target};

/// Mutations of each target: seconds in CI; `HEDGEROW_FUZZ_RUNS` asks for more.
const RUNS: usize = 3_000;

/// The largest single allocation that an input of at most 16 KiB may cause.
const MAX_ALLOCATION_BYTES: usize = 64 << 20;

/// Remembers the largest allocation asked for.
struct Watching;

static LARGEST_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system allocator, which upholds the contract
// of `GlobalAlloc`; the counter does not touch the memory.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST_BYTES.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: our caller upholds the contract of `alloc`, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System` through `alloc` or `realloc` of this type.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        LARGEST_BYTES.fetch_max(new_size, Ordering::Relaxed);
        // SAFETY: the pointer came from `System`, and our caller upholds the same contract.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn corpus_dir(target: &Target) -> PathBuf {
    let testkit = Path::new(env!("CARGO_MANIFEST_DIR"));
    testkit
        .parent()
        .expect("in the workspace")
        .join("fuzz/corpus")
        .join(target.name)
}

fn stored(target: &Target) -> Vec<(String, Vec<u8>)> {
    let dir = corpus_dir(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("a readable corpus").path();
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path.display().to_string(), bytes)
        })
        .collect();
    inputs.sort();
    inputs
}

/// Runs one input and says which it was if it panics or swallows memory.
fn run(target: &Target, name: &str, input: &[u8]) {
    LARGEST_BYTES.store(0, Ordering::Relaxed);
    let result = std::panic::catch_unwind(|| (target.run)(input));
    let largest = LARGEST_BYTES.load(Ordering::Relaxed);
    if result.is_err() || largest > MAX_ALLOCATION_BYTES {
        let kept = std::env::temp_dir().join(format!("hedgerow-fuzz-{}", target.name));
        fs::write(&kept, input).expect("a writable temporary directory");
        panic!(
            "{name}: panicked: {}, largest allocation {largest} bytes; the input is in {}",
            result.is_err(),
            kept.display()
        );
    }
}

// One test for all targets: the allocation watch is global, so they must not run at once.
#[test]
fn targets_take_their_corpus_and_its_mutations() {
    let runs = std::env::var("HEDGEROW_FUZZ_RUNS").map_or(RUNS, |runs| {
        runs.parse().expect("HEDGEROW_FUZZ_RUNS is a number")
    });
    for target in TARGETS {
        let corpus = stored(target);
        assert!(!corpus.is_empty(), "no corpus for {}", target.name);
        for (name, input) in &corpus {
            run(target, name, input);
        }
        let mut inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
        inputs.extend((target.seeds)());
        let seed = 0x5eed;
        let mut mutator = Mutator::new(seed, target.words);
        for number in 0..runs {
            let input = mutator.mutate(&inputs);
            run(
                target,
                &format!("{} mutation {number} of seed {seed}", target.name),
                &input,
            );
        }
        println!("{}: {} inputs, {runs} mutations", target.name, inputs.len());
    }
}

/// Writes the seeds as corpus files: run once when a format changes.
#[test]
#[ignore = "writes into fuzz/corpus: cargo test -p hedgerow-testkit --test fuzz_corpus -- \
    --ignored"]
fn write_seed_corpus() {
    for target in TARGETS {
        let dir = corpus_dir(target);
        fs::create_dir_all(&dir).expect("a writable checkout");
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            fs::write(dir.join(format!("seed-{number}")), seed).expect("a writable checkout");
        }
    }
}
