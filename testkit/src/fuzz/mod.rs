//! Fuzz targets: arbitrary bytes in, a clear error or a success out; never a panic, a hang or
//! memory out of proportion.
//!
//! `fuzz/` hands these functions to libFuzzer (`cargo +nightly fuzz run NAME`); the test
//! `fuzz_corpus` runs each of them over the stored corpus and a bounded number of mutations of
//! it, with an eye on memory, wherever `cargo test` runs. File formats are protected by
//! checksums, behind which blind mutations never get: so those targets repair the checksums of
//! what they were given and try both forms.

mod commands;
mod mutation;
mod protocols;
mod storage;

pub use mutation::Mutator;

/// A target and its name, which is also that of its corpus directory and of its libFuzzer shell.
#[derive(Clone, Copy)]
pub struct Target {
    /// As in `fuzz/corpus/NAME`.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
    /// Inputs to begin with, made by the code under test.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something in its inputs.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "resp",
        run: protocols::resp,
        seeds: protocols::resp_seeds,
        words: commands::WORDS,
    },
    Target {
        name: "commands",
        run: commands::run,
        seeds: commands::seeds,
        words: commands::WORDS,
    },
    Target {
        name: "memcached",
        run: protocols::memcached,
        seeds: protocols::memcached_seeds,
        words: &[],
    },
    Target {
        name: "manifest",
        run: storage::manifest,
        seeds: storage::manifest_seeds,
        words: &[],
    },
    Target {
        name: "log",
        run: storage::log,
        seeds: storage::log_seeds,
        words: &[],
    },
    Target {
        name: "checkpoint",
        run: storage::checkpoint,
        seeds: storage::checkpoint_seeds,
        words: &[],
    },
];

/// The target called `name`.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
