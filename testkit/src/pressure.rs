//! More data than memory: the rows that campaigns put into page files to have pages come and go,
//! and the proof that they did.
//!
//! A pool of the least memory holds 128 pages; the rows here take ten times its budget. Some are
//! in leaves, some in pages of their own. What happened to the page file is read from the
//! database's counters, and a campaign that met none of what it is for is red.

use hedgerow::Db;

/// The least budget of a pool with as many pages as [`ROWS`] rows take, and some more.
pub const LEAST_MEMORY: usize = 704 << 10;

/// Rows that together take ten times [`LEAST_MEMORY`].
pub const ROWS: u32 = 1_200;

/// Bytes of values, in turn.
const LENGTHS: [usize; 5] = [600, 1_500, 3_000, 9_000, 16_000];

/// The key of a row: neighbours in number are not neighbours in the tree.
pub fn key(prefix: &str, number: u32) -> Vec<u8> {
    format!("{prefix}{:08x}", number.wrapping_mul(0x9e37_79b9)).into_bytes()
}

/// A value of a row, another one for each `version`.
pub fn value(number: u32, version: &str) -> Vec<u8> {
    let mut value = format!("{number}.{version}.").into_bytes();
    let sum: u32 = version.bytes().map(u32::from).sum();
    value.resize(
        LENGTHS[(number as usize) % LENGTHS.len()],
        b'a' + (sum % 26) as u8,
    );
    value
}

/// What page files went through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Pages whose memory was given back.
    pub evictions: u64,
    /// Pages read from files.
    pub page_reads: u64,
    /// Pages written to files.
    pub page_writes: u64,
    /// How often a file was seen longer than before.
    pub growths: u64,
    /// How often a file was seen shorter than before.
    pub shrinks: u64,
    /// The longest file.
    pub longest_file_bytes: u64,
}

impl Pressure {
    /// Adds what another page file went through.
    pub fn add(&mut self, other: &Pressure) {
        self.evictions += other.evictions;
        self.page_reads += other.page_reads;
        self.page_writes += other.page_writes;
        self.growths += other.growths;
        self.shrinks += other.shrinks;
        self.longest_file_bytes = self.longest_file_bytes.max(other.longest_file_bytes);
    }

    /// An error, if a page file missed anything that it was to go through.
    pub fn judge(&self) -> Result<(), String> {
        let met = [
            ("evictions", self.evictions),
            ("reads of pages", self.page_reads),
            ("writes of pages", self.page_writes),
            ("growth of a page file", self.growths),
            ("shrinking of a page file", self.shrinks),
        ];
        if let Some((what, _)) = met.iter().find(|(_, times)| *times == 0) {
            return Err(format!("the campaign met no {what}: {self:?}"));
        }
        let expected = 8 * LEAST_MEMORY as u64;
        if self.longest_file_bytes < expected {
            return Err(format!(
                "no page file was as long as eight times the memory, {expected} bytes: {self:?}"
            ));
        }
        Ok(())
    }
}

/// Follows the counters of one open database.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    seen: Pressure,
    file_bytes: Option<u64>,
}

impl Watch {
    /// Reads the counters.
    pub fn read_counters(&mut self, db: &Db) {
        let statistics = db.statistics();
        let number = |name: &str| statistics.get(name).map_or(0, |value| value as u64);
        self.record(number);
    }

    /// Takes counters by name, wherever they were read.
    pub fn record(&mut self, number: impl Fn(&str) -> u64) {
        self.seen.evictions = number("pages_evicted_total");
        self.seen.page_reads = number("pages_read_total");
        self.seen.page_writes = number("pages_written_total");
        let now = number("pages_file_bytes");
        if let Some(before) = self.file_bytes.replace(now) {
            self.seen.growths += u64::from(now > before);
            self.seen.shrinks += u64::from(now < before);
        }
        self.seen.longest_file_bytes = self.seen.longest_file_bytes.max(now);
    }

    /// What it saw.
    pub fn seen(&self) -> Pressure {
        self.seen
    }

    /// What it saw; the next database has the same file, with counters of its own.
    pub fn take(&mut self) -> Pressure {
        std::mem::take(&mut self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_ten_times_the_memory_and_versions_differ() {
        let bytes: usize = (0..ROWS).map(|n| value(n, "0.1").len()).sum();
        assert!(bytes >= 10 * LEAST_MEMORY, "{bytes}");
        assert_ne!(value(3, "0.1"), value(3, "0.2"));
    }

    #[test]
    fn what_was_not_met_is_named() {
        let mut watch = Watch::default();
        for file_bytes in [0, 8 * LEAST_MEMORY as u64, 4096] {
            watch.record(|name| {
                if name == "pages_file_bytes" {
                    file_bytes
                } else {
                    1
                }
            });
        }
        assert_eq!(watch.seen().judge(), Ok(()));
        let calm = Pressure {
            shrinks: 0,
            ..watch.seen()
        };
        assert!(calm.judge().unwrap_err().contains("no shrinking"));
        let little = Pressure {
            longest_file_bytes: 4096,
            ..watch.seen()
        };
        assert!(little.judge().unwrap_err().contains("eight times"));
    }
}
