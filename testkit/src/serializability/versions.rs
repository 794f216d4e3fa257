//! The version order: for each key, in which order its versions were installed.
//!
//! A key has one *chain* of versions, which begins with the initial one (absent). The versions
//! whose place is unknown stand in *loose* chains of their own, of which only is known which
//! version of the chain they come after.

use super::writes::Writes;

/// No version, or no transaction.
pub(super) const NONE: u32 = u32::MAX;

/// One version of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    pub key: u32,
    /// The transaction that installed it, or [`NONE`] of the initial version.
    pub writer: u32,
    /// The register's value or the list's last element; `None` is absence.
    pub value: Option<u64>,
    /// Its place in its chain.
    pub place: u32,
    /// The version that replaced it, or [`NONE`].
    pub next: u32,
}

/// The versions of one key, by their numbers.
#[derive(Debug, Default)]
pub(super) struct KeyVersions {
    pub chain: Vec<u32>,
    /// The first versions of loose chains.
    pub loose: Vec<u32>,
    /// The version of the chain after which loose ones come.
    pub follows: u32,
    /// The versions of the chain at which a register is absent, in order.
    pub absences: Vec<u32>,
    /// Whether a transaction without an answer removed the register, if it took part: of such a
    /// removal no reader can say that it saw it, and nothing says what its place is.
    pub may_be_removed: bool,
}

/// The order of writes of one key, as found from its reads or its timestamps.
#[derive(Debug, Default)]
pub(super) struct WriteOrder {
    /// Those in the chain, without the initial version.
    pub chain: Vec<u32>,
    /// Loose chains.
    pub loose: Vec<Vec<u32>>,
    /// How many of the chain come before loose ones.
    pub follows: usize,
}

/// All versions of all keys.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub all: Vec<Version>,
    pub keys: Vec<KeyVersions>,
    /// The version that each write installed, or [`NONE`].
    of_write: Vec<u32>,
}

impl Versions {
    pub fn new(writes: &Writes) -> Self {
        Versions {
            all: Vec::with_capacity(writes.all.len() + writes.keys.len()),
            keys: Vec::with_capacity(writes.keys.len()),
            of_write: vec![NONE; writes.all.len()],
        }
    }

    /// Adds the next key with the versions that its writes installed.
    pub fn add(&mut self, writes: &Writes, order: &WriteOrder, may_be_removed: bool) {
        let key = self.keys.len() as u32;
        let mut versions = KeyVersions {
            may_be_removed,
            ..KeyVersions::default()
        };
        versions.chain.push(self.push(key, NONE, None, 0));
        for write in &order.chain {
            let place = versions.chain.len() as u32;
            let version = self.install(writes, *write, place);
            let before = versions.chain[place as usize - 1];
            self.all[before as usize].next = version;
            versions.chain.push(version);
        }
        versions.follows = versions.chain[order.follows];
        for chain in &order.loose {
            let mut before = NONE;
            for (place, write) in (0..).zip(chain) {
                let version = self.install(writes, *write, place);
                match before {
                    NONE => versions.loose.push(version),
                    before => self.all[before as usize].next = version,
                }
                before = version;
            }
        }
        let absent = |version: &&u32| self.all[**version as usize].value.is_none();
        versions.absences = versions.chain.iter().filter(absent).copied().collect();
        self.keys.push(versions);
    }

    fn install(&mut self, writes: &Writes, number: u32, place: u32) -> u32 {
        let write = writes.all[number as usize];
        let version = self.push(write.key, write.transaction, write.value, place);
        self.of_write[number as usize] = version;
        version
    }

    fn push(&mut self, key: u32, writer: u32, value: Option<u64>, place: u32) -> u32 {
        self.all.push(Version {
            key,
            writer,
            value,
            place,
            next: NONE,
        });
        self.all.len() as u32 - 1
    }

    pub fn version(&self, number: u32) -> &Version {
        &self.all[number as usize]
    }

    /// The version that a write installed, or [`NONE`].
    pub fn of_write(&self, write: u32) -> u32 {
        self.of_write[write as usize]
    }
}
