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
        RealOrMade {
            label: "paths",
            sample: "sample:paths",
            fetched: "fetched:paths",
            made_label: "path look-alikes",
            made: "path",
            paper_records: 4_300_000,
        }
        .keys(settings),
        RealOrMade {
            label: "words",
            sample: "sample:words",
            fetched: "fetched:words",
            made_label: "e-mail look-alikes",
            made: "email",
            paper_records: 9_700_000,
        }
        .keys(settings),
    ]
}

/// A real set, or the made one that looks like it.
struct RealOrMade {
    /// The real set's name.
    label: &'static str,
    /// The part of it that is in the program.
    sample: &'static str,
    /// All of it, where it was fetched.
    fetched: &'static str,
    made_label: &'static str,
    made: &'static str,
    /// Records in the source.
    paper_records: usize,
}

impl RealOrMade {
    fn keys(&self, settings: &Settings) -> Keys {
        let records = settings.keys(SMOKE_RECORDS, 80_000, self.paper_records);
        let (label, set, there) = match settings.scale {
            Scale::Smoke => (self.label, self.sample, SMOKE_RECORDS),
            Scale::Small | Scale::Paper => match fetched_keys(self.label) {
                Some(keys) => (self.label, self.fetched, keys),
                None => (self.made_label, self.made, usize::MAX),
            },
        };
        Keys {
            label,
            set,
            records: records.min(there),
        }
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
        let settings = Settings::smoke(1);
        for keys in four(&settings) {
            let set: KeySet = keys.set.parse().expect(keys.set);
            assert_eq!(set.keys(keys.records).expect("keys").len(), keys.records);
        }
    }
}
