//! What the registry says about a peer, and where its version comes from.

use hedgerow_lab_contender::{MapEntry, StoreEntry, Unavailable};
use hedgerow_lab_data::Keys;

/// The versions that `Cargo.lock` pins, by crate; written by the build script.
const VERSIONS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/versions.rs"));

/// The version of a crate that this crate depends on.
///
/// # Panics
///
/// If it does not.
pub(crate) fn version(name: &str) -> String {
    let found = VERSIONS.iter().find(|(pinned, _)| *pinned == name);
    let (_, version) = found.unwrap_or_else(|| panic!("{name} is not in Cargo.lock"));
    (*version).to_owned()
}

/// Why a peer cannot be had in a build without its feature.
#[allow(dead_code, reason = "a build with every feature needs it for no peer")]
pub(crate) fn not_built() -> Unavailable {
    Unavailable {
        why: "not compiled into this build".to_owned(),
        remedy: "cargo build --release -p hedgerow-lab --features peers".to_owned(),
    }
}

/// The longest key that a map of short keys holds in place, in bytes.
pub(crate) const LONGEST_SHORT: usize = 15;

/// The keys with which a peer answers rightly, beyond what its promises say.
///
/// Measuring a peer outside these would measure a wrong answer, or a panic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The shortest key in bytes.
    pub shortest_key: usize,
    /// The longest key in bytes.
    pub longest_key: Option<usize>,
    /// No key may hold a zero byte.
    pub no_zero_bytes: bool,
    /// For scans: the most bytes that two neighbouring keys may begin with in common.
    pub scans_share_at_most: Option<usize>,
}

impl Limits {
    /// Exactly 4 bytes: big-endian integers.
    pub const HALVES: Self = Self {
        shortest_key: 4,
        longest_key: Some(4),
        ..Self::WORDS
    };

    /// Exactly 8 bytes: big-endian integers.
    pub const WORDS: Self = Self {
        shortest_key: 8,
        longest_key: Some(8),
        no_zero_bytes: false,
        scans_share_at_most: None,
    };

    /// Any bytes at all.
    pub const NONE: Self = Self {
        shortest_key: 0,
        longest_key: None,
        no_zero_bytes: false,
        scans_share_at_most: None,
    };

    /// Why these keys are beyond the limits, if they are.
    #[must_use]
    pub fn refusal(&self, keys: &Keys) -> Option<String> {
        let longest = self.longest_key.unwrap_or(usize::MAX);
        for key in keys.iter() {
            if key.len() > longest {
                return Some(format!("keys over {longest} bytes"));
            }
            if key.len() < self.shortest_key {
                return Some(format!("keys under {} bytes", self.shortest_key));
            }
            if self.no_zero_bytes && key.contains(&0) {
                return Some("keys with a zero byte".to_owned());
            }
        }
        None
    }

    /// Why scans of these keys are beyond the limits, if they are.
    #[must_use]
    pub fn scan_refusal(&self, keys: &Keys) -> Option<String> {
        let refusal = self.refusal(keys);
        if refusal.is_some() {
            return refusal;
        }
        let most = self.scans_share_at_most?;
        let sorted = keys.sorted();
        let mut pairs = sorted.iter().zip(sorted.iter().skip(1));
        let too_alike = pairs.any(|(one, next)| {
            let equal = one.iter().zip(next).take_while(|(a, b)| a == b);
            equal.count() > most
        });
        too_alike.then(|| format!("scans of keys that share over {most} bytes"))
    }
}

/// An ordered map in memory that is not ours.
#[derive(Clone)]
pub struct MapPeer {
    /// The registry's line.
    pub map: MapEntry,
    /// Its licence.
    pub licence: &'static str,
    /// How the adaptor uses it, in a sentence.
    pub usage: &'static str,
    /// The keys that it can be measured with.
    pub limits: Limits,
}

/// A durable engine that is not ours.
#[derive(Clone)]
pub struct StorePeer {
    /// The registry's line.
    pub store: StoreEntry,
    /// Its licence.
    pub licence: &'static str,
    /// How the adaptor uses it and honours the settings, in a sentence.
    pub usage: &'static str,
    /// The keys that it can be measured with.
    pub limits: Limits,
    /// Whether it writes several pairs as one; its `put_all` is an error otherwise.
    pub atomic_batches: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(list: &[&str]) -> Keys {
        list.iter().collect()
    }

    #[test]
    fn a_limit_refuses_just_what_it_names() {
        assert_eq!(Limits::NONE.refusal(&keys(&["", "\0", "abc"])), None);
        assert_eq!(Limits::WORDS.refusal(&keys(&["12345678"])), None);
        assert!(Limits::WORDS.refusal(&keys(&["1234567"])).is_some());
        assert!(Limits::WORDS.refusal(&keys(&["123456789"])).is_some());
        let text = Limits {
            no_zero_bytes: true,
            ..Limits::NONE
        };
        assert!(text.refusal(&keys(&["a", "b\0"])).is_some());
        let apart = Limits {
            scans_share_at_most: Some(2),
            ..Limits::NONE
        };
        assert_eq!(apart.scan_refusal(&keys(&["abc", "xyz", "abd"])), None);
        let alike = keys(&["abcd", "xyz", "abce"]);
        assert_eq!(apart.refusal(&alike), None);
        let why = apart.scan_refusal(&alike);
        assert_eq!(
            why.as_deref(),
            Some("scans of keys that share over 2 bytes")
        );
    }

    #[test]
    fn versions_are_numbers() {
        for (name, version) in VERSIONS {
            let first = version.chars().next();
            assert!(
                first.is_some_and(|c| c.is_ascii_digit()),
                "{name} {version}"
            );
        }
    }
}
