//! What callgrind counts of each instruction, read from its file.
//!
//! The file names objects, functions and, for each instruction, its address and the counts of the
//! events that its head lists. Counts behind a line `calls=` are those of a whole call, which the
//! callee's own lines have, too.

use std::collections::BTreeMap;

/// What an instruction, or a function, did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Misses of the first-level caches, of instructions and of data.
    pub l1_misses: u64,
    /// Misses of the last-level cache.
    pub last_misses: u64,
    /// Branches that were foretold wrongly.
    pub branch_misses: u64,
}

impl Counts {
    /// Adds others to these.
    pub fn add(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.l1_misses += other.l1_misses;
        self.last_misses += other.last_misses;
        self.branch_misses += other.branch_misses;
    }

    /// Cycles, as callgrind's own tools estimate them: one for an instruction, 10 more for a
    /// first-level miss or a branch foretold wrongly, 100 more for a last-level miss.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.instructions + 10 * (self.l1_misses + self.branch_misses) + 100 * self.last_misses
    }

    fn count(&mut self, event: &str, count: u64) {
        match event {
            "Ir" => self.instructions += count,
            "I1mr" | "D1mr" | "D1mw" => self.l1_misses += count,
            "ILmr" | "DLmr" | "DLmw" => self.last_misses += count,
            "Bcm" | "Bim" => self.branch_misses += count,
            _ => {}
        }
    }
}

/// Where an instruction is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file of the program or library.
    pub object: String,
    /// Its address there.
    pub address: u64,
    /// The function in whose code it is, as the symbol table names it.
    pub symbol: String,
}

/// What each instruction did; `None` where this is no file of callgrind with addresses.
#[must_use]
pub fn parse(text: &str) -> Option<BTreeMap<Place, Counts>> {
    let mut events: Vec<&str> = Vec::new();
    let (mut object, mut symbol) = ("", "");
    let mut of_call = false;
    let mut counts: BTreeMap<Place, Counts> = BTreeMap::new();
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("events:") {
            events = names.split_whitespace().collect();
        } else if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            symbol = name;
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            if std::mem::take(&mut of_call) {
                continue;
            }
            let mut words = rest.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let _line = words.next()?;
            let place = Place {
                object: object.to_owned(),
                address,
                symbol: symbol.to_owned(),
            };
            let at = counts.entry(place).or_default();
            // Zeros at the end are left out.
            for (event, count) in events.iter().zip(words) {
                at.count(event, count.parse().ok()?);
            }
        }
    }
    (!counts.is_empty()).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version: 1
positions: instr line
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim

ob=/bin/lab
fl=page.rs
fn=insert
0x1000 12 5 1 1 0 2 1 0 1
0x1004 13 5
cfn=search
calls=7 0x2000 3
0x1008 14 900 1 1 90 90 90 90 90 90
0x1008 14 7 0 0 0 0 0 0 0 0 7 3 1 1
fn=search
fi=line.rs
0x1000 1 2
ob=/lib/libc.so.6
fn=memmove
0x1000 1 4
";

    #[test]
    fn each_instruction_has_its_own_counts_without_those_of_calls() {
        let counts = parse(TEXT).expect("a file with counts");
        let of = |object: &str, address, symbol: &str| {
            counts[&Place {
                object: object.to_owned(),
                address,
                symbol: symbol.to_owned(),
            }]
        };
        let first = of("/bin/lab", 0x1000, "insert");
        assert_eq!(
            (first.instructions, first.l1_misses, first.last_misses),
            (5, 3, 1)
        );
        assert_eq!(first.cycles(), 5 + 30 + 100);
        let last = of("/bin/lab", 0x1008, "insert");
        assert_eq!((last.instructions, last.branch_misses), (7, 4));
        assert_eq!(of("/bin/lab", 0x1000, "search").instructions, 2);
        assert_eq!(of("/lib/libc.so.6", 0x1000, "memmove").instructions, 4);
        let mut all = Counts::default();
        counts.values().for_each(|counts| all.add(counts));
        assert_eq!(all.instructions, 23);
        assert_eq!(parse("events: Ir\n"), None);
    }
}
