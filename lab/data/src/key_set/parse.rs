//! A key set from its name.

use std::path::PathBuf;
use std::str::FromStr;

use super::error::KeySetError;
use super::family::KeySet;
use super::sample::Sample;
use crate::fetch::RealSet;

/// Partitions beyond this number would cost more memory for counters than for keys.
const MOST_PARTITIONS: u32 = 1 << 20;

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
            ("letters", None) => Self::Letters,
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
