//! The key sets of the lab by name.
//!
//! A [`KeySet`] is what a user writes on the command line (`decimal`, `prefixed-decimal:24`,
//! `file:urls.txt`) and what a result records; [`KeySet::keys`] makes its [`Keys`]. All sets
//! are free of duplicates, and made sets are the same wherever and whenever they are made.
//! Integers are stored big-endian, so that their bytes sort as they do.

mod digits;
mod error;
mod family;
mod lines;
mod made;
mod named;
mod parse;
mod sample;

use std::fs::File;

use crate::Keys;
use crate::fetch::{RealSet, cache_folder};

pub use error::{KeySetError, LONGEST_LINE_BYTES};
pub use family::KeySet;
pub use lines::{read_every_line, read_lines};
pub use sample::Sample;

impl KeySet {
    /// The first `count` keys. Sets in which the range or the grouping of keys depends on
    /// their number (dense and path-like ones) differ with `count`; in all others a larger
    /// count only adds keys at the end. Of a longer file the keys are taken evenly from all
    /// over it, in its order.
    ///
    /// # Errors
    ///
    /// When the set has fewer keys, or its file cannot be read.
    pub fn keys(&self, count: usize) -> Result<Keys, KeySetError> {
        let keys = self.up_to(count)?;
        if keys.len() < count {
            return Err(KeySetError::TooFew {
                set: self.to_string(),
                available: keys.len() as u64,
                asked: count as u64,
            });
        }
        Ok(keys)
    }

    /// As [`KeySet::keys`], but all keys where the set has fewer than `count`.
    ///
    /// # Errors
    ///
    /// When the set's file cannot be read or holds no key.
    pub fn up_to(&self, count: usize) -> Result<Keys, KeySetError> {
        match self {
            Self::File(path) => {
                let name = path.display().to_string();
                let file = File::open(path).map_err(|source| KeySetError::Unreadable {
                    file: name.clone(),
                    source,
                })?;
                Ok(lines::spread(
                    read_lines(std::io::BufReader::new(file), &name)?,
                    count,
                ))
            }
            Self::Sample(sample) => {
                let keys = read_lines(sample.text().as_bytes(), sample.name())?;
                Ok(lines::spread(keys, count).shuffled(made::SEED))
            }
            Self::Fetched(set) => {
                let (file, name) = open_fetched(set)?;
                let keys = lines::spread_of_file(file, &name, count)?;
                Ok(keys.shuffled(made::SEED))
            }
            Self::Stdin => {
                let keys = read_lines(std::io::stdin().lock(), "standard input")?;
                Ok(lines::spread(keys, count))
            }
            made => {
                let available = made.available().unwrap_or(u64::MAX);
                Ok(made.make((count as u64).min(available)))
            }
        }
    }
}

/// The text of a real set, if it has been fetched, and what errors call it.
fn open_fetched(set: &RealSet) -> Result<(File, String), KeySetError> {
    let missing = || KeySetError::NotFetched {
        set: format!("fetched:{}", set.name),
    };
    let path = set.path_in(&cache_folder().map_err(|_| missing())?);
    let file = File::open(&path).map_err(|_| missing())?;
    Ok((file, path.display().to_string()))
}
