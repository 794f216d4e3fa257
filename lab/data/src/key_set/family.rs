//! The families of key sets: their names and how many keys each has.

use std::fmt;
use std::path::PathBuf;

use super::named::EMAILS;
use super::sample::Sample;
use crate::fetch::RealSet;

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
    /// Eight random letters from a to z (Masstree, §6.4: keys of the hash table).
    Letters,
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

impl KeySet {
    /// The names on the command line; letters in capitals stand for what the user fills in.
    pub const NAMES: [&'static str; 18] = [
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
        "letters",
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
            Self::Letters => Some(26_u64.pow(8)),
            Self::Email => Some(EMAILS),
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
            Self::Letters => f.write_str("letters"),
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
