//! The direct serialization graph (Adya 1999, section 3.1): which transaction must precede which,
//! by what they wrote and read.
//!
//! * ww, write dependency: one installed a version, the other the next version of the key.
//! * wr, read dependency: the other read the version.
//! * rw, anti-dependency: one read a version, the other installed the next one. A range read has
//!   read the absence of every key that it lacks, so whoever inserts such a key comes after it:
//!   that is the predicate anti-dependency, and a cycle through it a phantom.
//!
//! A read of an absent register does not say whether the key was never written, or which of its
//! removals it saw. Such reads are handed to [`absences`](super::absences).

use super::graph::{Edge, Reason};
use super::model::Model;
use super::reads::{Read, Seen};
use super::versions::{NONE, Versions};
use super::writes::Writes;

/// A read of an absent register that several versions of the key explain.
#[derive(Debug, Clone, Copy)]
pub(super) struct AbsentRead {
    pub transaction: u32,
    pub key: u32,
    pub range: u32,
    /// Whether the transaction writes the key later, which bounds what it can have read.
    pub is_before_write: bool,
}

/// The graph's edges, and the reads that do not determine theirs.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    pub edges: Vec<Edge>,
    pub absent_reads: Vec<AbsentRead>,
    /// Reads of absent registers whose version order is not known: they give no edge.
    pub undetermined: usize,
}

/// All dependencies of a history.
pub(super) fn of(
    versions: &Versions,
    writes: &Writes,
    reads: &[Vec<Read<'_>>],
    participants: &[bool],
    model: Model,
) -> Dependencies {
    let mut dependencies = Dependencies::default();
    dependencies.add_writes(versions);
    for (reader, reads) in reads.iter().enumerate() {
        if !participants[reader] {
            continue;
        }
        for read in reads {
            dependencies.add_read(versions, writes, reader as u32, read, model);
        }
    }
    dependencies
}

impl Dependencies {
    fn add_writes(&mut self, versions: &Versions) {
        for (before, version) in (0..).zip(&versions.all) {
            if version.next != NONE && version.writer != NONE {
                self.add_write(versions, before, version.next);
            }
        }
        for key in &versions.keys {
            if versions.version(key.follows).writer != NONE {
                for head in &key.loose {
                    self.add_write(versions, key.follows, *head);
                }
            }
        }
    }

    fn add_write(&mut self, versions: &Versions, before: u32, after: u32) {
        let from = versions.version(before).writer;
        let to = versions.version(after).writer;
        self.add(from, to, Reason::Write { before, after });
    }

    fn add(&mut self, from: u32, to: u32, reason: Reason) {
        if from != to {
            self.edges.push(Edge { from, to, reason });
        }
    }

    fn add_read(
        &mut self,
        versions: &Versions,
        writes: &Writes,
        reader: u32,
        read: &Read<'_>,
        model: Model,
    ) {
        let key = &versions.keys[read.key as usize];
        let version = match read.seen {
            Seen::Value(value) => {
                let write = writes.find(read.key, value);
                write.map_or(NONE, |write| versions.of_write(write))
            }
            Seen::Elements(elements) => key.chain[elements.len()],
            Seen::Absent if !key.may_be_removed && has_no_removal(versions, read.key) => {
                key.chain[0]
            }
            Seen::Absent if key.may_be_removed || !key.loose.is_empty() => {
                self.undetermined += 1;
                return;
            }
            Seen::Absent => {
                self.absent_reads.push(AbsentRead {
                    transaction: reader,
                    key: read.key,
                    range: read.range,
                    is_before_write: read.is_before_write,
                });
                return;
            }
        };
        let range = read.range;
        let writer = versions.version(version).writer;
        if writer != NONE {
            self.add(writer, reader, Reason::Read { version, range });
        }
        if !model.has_anti_dependencies() {
            return;
        }
        let anti = |next| Reason::Anti {
            version,
            next,
            range,
            is_predicate: read.is_predicate(),
        };
        let next = versions.version(version).next;
        if next != NONE {
            self.add(reader, versions.version(next).writer, anti(next));
        }
        if version == key.follows {
            for head in &key.loose {
                self.add(reader, versions.version(*head).writer, anti(*head));
            }
        }
    }
}

/// Whether a key, also in its loose versions, is absent at its beginning alone.
fn has_no_removal(versions: &Versions, key: u32) -> bool {
    let key = &versions.keys[key as usize];
    let mut loose = key.loose.iter().copied();
    key.absences.len() == 1
        && loose.all(|head| {
            let mut version = head;
            loop {
                let Some(at) = versions.all.get(version as usize) else {
                    return true;
                };
                if at.value.is_none() {
                    return false;
                }
                version = at.next;
            }
        })
}
