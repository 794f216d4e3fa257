//! The key sets of the lab by name.
//!
//! A [`KeySet`] is what a user writes on the command line (`decimal`, `prefixed-decimal:24`,
//! `file:urls.txt`) and what a result records; [`KeySet::keys`] makes its [`Keys`]. All sets
//! are free of duplicates, and made sets are the same wherever and whenever they are made.
//! Integers are stored big-endian, so that their bytes sort as they do.

mod lines;
mod made;
mod named;
mod sample;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Keys;
use crate::fetch::RealSet;

pub use lines::{LONGEST_LINE_BYTES, read_every_line, read_lines};
pub use sample::Sample;

/// A family of distinct keys, in the order in which they are inserted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeySet {
    /// The integers below the count, 4 bytes, in random order.
    DenseU32,
    /// Integers below as many as leave this share of them, in percent, 4 bytes, in random order
    /// (B-Trees Are Back, §4.6, "Key Set Density").
    DensityU32(u8),
    /// The integers below the count, 8 bytes, in random order.
    DenseU64,
    /// Random 32-bit integers.
    SparseU32,
    /// Random 64-bit integers.
    SparseU64,
    /// Integers counting up from 0, 4 bytes.
    MonotoneU32,
    /// Integers counting up from 0, 8 bytes.
    MonotoneU64,
    /// Ids from this many partitions, each with a counter of its own: 4 bytes of partition,
    /// drawn at random for each key, and 4 of count (B-Trees Are Back, §4, "Partitioned
    /// Sequential Insert").
    Partitioned(u32),
    /// Random integers below 2^31 in decimal, 1 to 10 bytes (Masstree, §6.1).
    Decimal,
    /// Eight random decimal digits behind this many bytes that all keys share (Masstree,
    /// §6.4, Fig. 9: 0 to 40).
    PrefixedDecimal(u8),
    /// `user` and a random 64-bit integer in decimal, 5 to 24 bytes: YCSB's keys (Masstree, §7).
    Ycsb,
    /// Keys that look like e-mail addresses; some domains are much more frequent than others.
    Email,
    /// Keys that look like file paths, a dozen to a directory, in random order.
    Path,
    /// Real keys that ship with the program, a few thousand, in random order.
    Sample(Sample),
    /// Real keys that [`RealSet::fetch`] obtained, in random order.
    Fetched(&'static RealSet),
    /// The lines of a file, in its order.
    File(PathBuf),
    /// The lines of standard input, in their order.
    Stdin,
}

/// Why a key set cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// The name is none of those that exist.
    #[error("no key set is called '{0}'; there are {names}", names = KeySet::NAMES.join(", "))]
    UnknownName(String),
    /// The number behind the colon does not fit.
    #[error("'{name}' needs {expected}")]
    BadParameter {
        /// What was asked for.
        name: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// The set has fewer keys than were asked for.
    #[error("key set {set} has only {available} keys, {asked} were asked for")]
    TooFew {
        /// The set's name.
        set: String,
        /// How many keys it has.
        available: u64,
        /// How many were wanted.
        asked: u64,
    },
    /// A real set is not on this machine.
    #[error("key set {set} is not here; `hedgerow-lab fetch` obtains real key sets")]
    NotFetched {
        /// The set's name.
        set: String,
    },
    /// A file holds no key.
    #[error("{0} holds no keys (a key is a line that is not empty)")]
    Empty(String),
    /// A line is longer than any key can be.
    #[error("{file}: line {line} is longer than {LONGEST_LINE_BYTES} bytes; is it a list of keys?")]
    LongLine {
        /// Where.
        file: String,
        /// The line's number, from 1.
        line: u64,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// Which.
        file: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

/// Partitions beyond this number would cost more memory for counters than for keys.
const MOST_PARTITIONS: u32 = 1 << 20;

impl KeySet {
    /// The names on the command line; letters in capitals stand for what the user fills in.
    pub const NAMES: [&'static str; 17] = [
        "dense-u32",
        "density-u32:PERCENT",
        "dense-u64",
        "sparse-u32",
        "sparse-u64",
        "monotone-u32",
        "monotone-u64",
        "partitioned:COUNT",
        "decimal",
        "prefixed-decimal:BYTES",
        "ycsb",
        "email",
        "path",
        "sample:NAME",
        "fetched:NAME",
        "file:PATH",
        "stdin",
    ];

    /// How many distinct keys the set has; `None` where only reading it can tell.
    #[must_use]
    pub fn available(&self) -> Option<u64> {
        match self {
            Self::DenseU32 | Self::SparseU32 | Self::MonotoneU32 => Some(1 << 32),
            Self::DensityU32(percent) => Some((1 << 32) * u64::from(*percent) / 100),
            Self::DenseU64 | Self::Path => Some(1 << 40),
            Self::SparseU64 | Self::MonotoneU64 | Self::Ycsb => Some(u64::MAX),
            Self::Partitioned(_) => Some(1 << 32),
            Self::Decimal => Some(1 << 31),
            Self::PrefixedDecimal(_) => Some(100_000_000),
            Self::Email => Some(named::EMAILS),
            Self::Sample(_) | Self::Fetched(_) | Self::File(_) | Self::Stdin => None,
        }
    }

    /// The width of the set's keys in bytes where all are integers of one width: 4 or 8.
    /// Such sets can be given to maps that know integers only.
    #[must_use]
    pub fn integer_bytes(&self) -> Option<usize> {
        match self {
            Self::DenseU32 | Self::DensityU32(_) | Self::SparseU32 | Self::MonotoneU32 => Some(4),
            Self::DenseU64 | Self::SparseU64 | Self::MonotoneU64 | Self::Partitioned(_) => Some(8),
            _ => None,
        }
    }

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
                let file = std::fs::File::open(path).map_err(|source| KeySetError::Unreadable {
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
                let (file, name) = set.open()?;
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

impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DenseU32 => f.write_str("dense-u32"),
            Self::DensityU32(percent) => write!(f, "density-u32:{percent}"),
            Self::DenseU64 => f.write_str("dense-u64"),
            Self::SparseU32 => f.write_str("sparse-u32"),
            Self::SparseU64 => f.write_str("sparse-u64"),
            Self::MonotoneU32 => f.write_str("monotone-u32"),
            Self::MonotoneU64 => f.write_str("monotone-u64"),
            Self::Partitioned(partitions) => write!(f, "partitioned:{partitions}"),
            Self::Decimal => f.write_str("decimal"),
            Self::PrefixedDecimal(bytes) => write!(f, "prefixed-decimal:{bytes}"),
            Self::Ycsb => f.write_str("ycsb"),
            Self::Email => f.write_str("email"),
            Self::Path => f.write_str("path"),
            Self::Sample(sample) => write!(f, "sample:{}", sample.name()),
            Self::Fetched(set) => write!(f, "fetched:{}", set.name),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Stdin => f.write_str("stdin"),
        }
    }
}

impl FromStr for KeySet {
    type Err = KeySetError;

    fn from_str(name: &str) -> Result<Self, KeySetError> {
        let bad = |expected| KeySetError::BadParameter {
            name: name.to_owned(),
            expected,
        };
        if let Some(path) = name.strip_prefix("file:") {
            return match path {
                "" => Err(bad("a path, as in file:keys.txt")),
                "-" => Ok(Self::Stdin),
                path => Ok(Self::File(PathBuf::from(path))),
            };
        }
        let (family, parameter) = match name.split_once(':') {
            Some((family, parameter)) => (family, Some(parameter)),
            None => (name, None),
        };
        let set = match (family, parameter) {
            ("dense-u32", None) => Self::DenseU32,
            ("density-u32", Some(number)) => match number.parse() {
                Ok(percent) if (1..=100).contains(&percent) => Self::DensityU32(percent),
                _ => return Err(bad("1 to 100 percent, as in density-u32:50")),
            },
            ("dense-u64", None) => Self::DenseU64,
            ("sparse-u32", None) => Self::SparseU32,
            ("sparse-u64", None) => Self::SparseU64,
            ("monotone-u32", None) => Self::MonotoneU32,
            ("monotone-u64", None) => Self::MonotoneU64,
            ("partitioned", Some(number)) => match number.parse() {
                Ok(partitions) if (1..=MOST_PARTITIONS).contains(&partitions) => {
                    Self::Partitioned(partitions)
                }
                _ => return Err(bad("1 to 1048576 partitions, as in partitioned:100")),
            },
            ("decimal", None) => Self::Decimal,
            ("prefixed-decimal", Some(number)) => match number.parse() {
                Ok(bytes) => Self::PrefixedDecimal(bytes),
                Err(_) => return Err(bad("0 to 255 bytes of prefix, as in prefixed-decimal:24")),
            },
            ("ycsb", None) => Self::Ycsb,
            ("email", None) => Self::Email,
            ("path", None) => Self::Path,
            ("sample", Some(name)) => match Sample::ALL.into_iter().find(|s| s.name() == name) {
                Some(sample) => Self::Sample(sample),
                None => return Err(bad("paths, words or titles, as in sample:paths")),
            },
            ("fetched", Some(name)) => match RealSet::named(name) {
                Ok(set) => Self::Fetched(set),
                Err(_) => {
                    return Err(bad(
                        "a set that `hedgerow-lab fetch` lists, as in fetched:paths",
                    ));
                }
            },
            ("stdin", None) => Self::Stdin,
            _ => return Err(KeySetError::UnknownName(name.to_owned())),
        };
        Ok(set)
    }
}
