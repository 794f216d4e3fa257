//! Key sets made from a counter: each key is a function of its position (and, for some sets,
//! of how many there are), so no set has to remember what it drew.

use super::digits::digits;
use super::family::KeySet;
use super::named;
use crate::Keys;
use crate::random::{Permutation, Random, mix64};

/// The seed of every made set. Changing it changes every result that was ever recorded.
pub(super) const SEED: u64 = 0x4865_6467_6572_6F77;

/// What all keys of a prefixed set begin with, repeated to the length wanted.
const SHARED: &[u8] = b"shared/prefix/of/all/keys/";

impl KeySet {
    /// `count` keys of a set that is not read from anywhere; the caller has checked that it
    /// has so many.
    pub(super) fn make(&self, count: u64) -> Keys {
        if count == 0 {
            return Keys::new();
        }
        match self {
            Self::DenseU32 => integers(4, count, permuted(count)),
            Self::DensityU32(percent) => {
                integers(4, count, permuted(count * 100 / u64::from(*percent)))
            }
            Self::DenseU64 => integers(8, count, permuted(count)),
            Self::SparseU32 => integers(4, count, permuted(1 << 32)),
            Self::SparseU64 => integers(8, count, |n| mix64(SEED ^ n)),
            Self::MonotoneU32 => integers(4, count, |n| n),
            Self::MonotoneU64 => integers(8, count, |n| n),
            Self::Partitioned(partitions) => partitioned(*partitions, count),
            Self::Decimal => {
                let number = permuted(1 << 31);
                texts(count, 10, |n, key| digits(number(n), 1, key))
            }
            Self::PrefixedDecimal(bytes) => {
                let number = permuted(100_000_000);
                let prefix: Vec<u8> = SHARED
                    .iter()
                    .copied()
                    .cycle()
                    .take((*bytes).into())
                    .collect();
                texts(count, prefix.len() + 8, |n, key| {
                    key.extend_from_slice(&prefix);
                    digits(number(n), 8, key);
                })
            }
            Self::Letters => {
                let number = permuted(26_u64.pow(8));
                texts(count, 8, |n, key| {
                    let mut rest = number(n);
                    for _ in 0..8 {
                        key.push(b'a' + (rest % 26) as u8);
                        rest /= 26;
                    }
                })
            }
            Self::Ycsb => texts(count, 24, |n, key| {
                key.extend_from_slice(b"user");
                digits(mix64(SEED ^ n), 1, key);
            }),
            Self::Email => {
                let number = permuted(named::EMAILS);
                texts(count, 30, |n, key| named::email(number(n), key))
            }
            Self::Path => {
                let place = permuted(count);
                texts(count, 60, |n, key| named::path(place(n), SEED, key))
            }
            Self::Sample(_) | Self::Fetched(_) | Self::File(_) | Self::Stdin => {
                unreachable!("read, not made")
            }
        }
    }
}

fn permuted(bound: u64) -> impl Fn(u64) -> u64 {
    let permutation = Permutation::new(bound, SEED);
    move |n| permutation.at(n)
}

/// `count` integers, big-endian in their `bytes` low bytes.
fn integers(bytes: usize, count: u64, number: impl Fn(u64) -> u64) -> Keys {
    let mut keys = Keys::with_capacity(count as usize, count as usize * bytes);
    for n in 0..count {
        keys.push(&number(n).to_be_bytes()[8 - bytes..]);
    }
    keys
}

/// `count` keys that `write` appends to an empty buffer.
fn texts(count: u64, typical_bytes: usize, write: impl Fn(u64, &mut Vec<u8>)) -> Keys {
    let mut keys = Keys::with_capacity(count as usize, count as usize * typical_bytes);
    let mut key = Vec::new();
    for n in 0..count {
        key.clear();
        write(n, &mut key);
        keys.push(&key);
    }
    keys
}

fn partitioned(partitions: u32, count: u64) -> Keys {
    let mut random = Random::new(SEED);
    let mut counters = vec![0_u32; partitions as usize];
    let mut keys = Keys::with_capacity(count as usize, count as usize * 8);
    for _ in 0..count {
        let partition = random.below(partitions.into()) as u32;
        let counter = &mut counters[partition as usize];
        let id = u64::from(partition) << 32 | u64::from(*counter);
        keys.push(&id.to_be_bytes());
        *counter += 1;
    }
    keys
}
