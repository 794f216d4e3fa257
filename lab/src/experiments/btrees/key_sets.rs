//! The four key sets of the paper, or what stands for them here (§4, "Experimental Setup").
//!
//! Integers are made as there. For URLs (62 bytes) and titles of Wikipedia (23) real paths and
//! words stand in: small samples at smoke scale, whole sets where `hedgerow-lab fetch` has
//! obtained them, else made look-alikes, which their name on the axis says.

use std::io::{BufRead, BufReader};
use std::path::Path;

use hedgerow_lab_data::fetch::{RealSet, cache_folder};

use crate::experiment::{Scale, Settings};

/// The smallest sample has 4,000 keys.
const SMOKE_RECORDS: usize = 3600;

/// Keys to measure with.
pub struct Keys {
    /// What an axis calls them.
    pub label: &'static str,
    /// The key set's name.
    pub set: &'static str,
    /// How many.
    pub records: usize,
}

/// All four; about 300 MB of records each at the source's scale.
pub fn four(settings: &Settings) -> [Keys; 4] {
    let integers = settings.keys(SMOKE_RECORDS, 100_000, 25_000_000);
    let made = |label, set| Keys {
        label,
        set,
        records: integers,
    };
    [
        made("dense", "dense-u32"),
        made("sparse", "sparse-u32"),
        real(
            settings,
            ("paths", "sample:paths", "fetched:paths"),
            ("path look-alikes", "path"),
            4_300_000,
        ),
        real(
            settings,
            ("words", "sample:words", "fetched:words"),
            ("e-mail look-alikes", "email"),
            9_700_000,
        ),
    ]
}

/// A real set (label, sample, whole), or the made one (label, set) that looks like it.
fn real(
    settings: &Settings,
    (label, sample, fetched): (&'static str, &'static str, &'static str),
    (made_label, made): (&'static str, &'static str),
    paper: usize,
) -> Keys {
    let records = settings.keys(SMOKE_RECORDS, 80_000, paper);
    let (label, set, there) = match settings.scale {
        Scale::Smoke => (label, sample, SMOKE_RECORDS),
        Scale::Small | Scale::Paper => match fetched_keys(label) {
            Some(keys) => (label, fetched, keys),
            None => (made_label, made, usize::MAX),
        },
    };
    Keys {
        label,
        set,
        records: records.min(there),
    }
}

/// How many keys of a real set are on this machine.
fn fetched_keys(name: &str) -> Option<usize> {
    let path = RealSet::named(name).ok()?.path_in(&cache_folder().ok()?);
    lines(&path).ok().filter(|lines| *lines > 0)
}

fn lines(path: &Path) -> std::io::Result<usize> {
    let mut file = BufReader::new(std::fs::File::open(path)?);
    let mut lines = 0;
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        let read = bytes.len();
        file.consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_lab_data::KeySet;

    #[test]
    fn smoke_sets_have_as_many_keys_as_they_say() {
        let settings = Settings {
            scale: Scale::Smoke,
            keys: None,
            cores: 1,
            directory: None,
            counters: false,
        };
        for keys in four(&settings) {
            let set: KeySet = keys.set.parse().expect(keys.set);
            assert_eq!(set.keys(keys.records).expect("keys").len(), keys.records);
        }
    }
}
