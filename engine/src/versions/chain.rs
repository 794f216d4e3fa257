//! The kept versions of one key, oldest first: what the version store has under a key.
//!
//! ```text
//! u64 LE   end: the commit that replaced this version
//! u32 LE   bytes of the row, or 0 where there was none: an absence; or 2^32 - 1: the row is apart
//! the row, whose first 8 bytes are its own commit's timestamp: where the version begins;
//!          of one that is apart these 8 bytes, and u64 LE its number
//! … the next version
//! ```
//!
//! A chain is copied whenever it changes, and is no longer than any value of an index. So long rows
//! lie apart in the version store, by numbers.
//!
//! A version is what the key had from its beginning up to, but without, its end. An absence begins
//! where the version before it ends, as far as this chain knows.

use hedgerow_log::Timestamp;

use crate::row::{Row, TIMESTAMP_BYTES};

const END_BYTES: usize = 8;
const HEADER_BYTES: usize = END_BYTES + 4;
const BEGIN_BYTES: usize = TIMESTAMP_BYTES;
/// In the place of a row's length.
const APART: u32 = u32::MAX;
/// What a chain has of a row that is apart.
const APART_BYTES: usize = BEGIN_BYTES + 8;

/// The longest row that lies within a chain.
pub(super) const MOST_ROW_BYTES: usize = 4 << 10;

// Versions as they are drawn above.
const _: () = assert!(END_BYTES == size_of::<Timestamp>() && HEADER_BYTES == 12);
const _: () = assert!(BEGIN_BYTES == 8 && APART_BYTES == 16 && MOST_ROW_BYTES < APART as usize);

/// One kept version.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) end: Timestamp,
    /// `None`: there was no row.
    pub(crate) row: Option<&'a [u8]>,
    /// The row's number, if it is apart: then `row` has its beginning alone.
    pub(crate) apart: Option<u64>,
}

impl Version<'_> {
    /// Where the version begins, as far as it tells itself.
    pub(crate) fn begin(&self) -> Timestamp {
        begin_of(self.row)
    }
}

/// When a row was written; for an absence, before everything.
pub(crate) fn begin_of(row: Option<&[u8]>) -> Timestamp {
    row.map_or(Timestamp::ZERO, |row| Row::new(row).timestamp())
}

/// What a key's chain says of a moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AtMoment<'a> {
    /// Nothing: the key has not changed since, or had no row then.
    Unknown,
    /// There was no row, and there was one later.
    Absent,
    /// There was this row, and it was replaced.
    Row(&'a [u8]),
    /// The same of the row of this number.
    Apart(u64),
}

/// The versions of a chain, oldest first.
pub(crate) fn versions(chain: &[u8]) -> impl Iterator<Item = Version<'_>> {
    let mut rest = chain;
    std::iter::from_fn(move || {
        let (header, behind) = rest.split_at_checked(HEADER_BYTES)?;
        let (end, bytes) = header.split_at(END_BYTES);
        let end = Timestamp::from_raw(u64::from_le_bytes(end.try_into().ok()?));
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        let (row, behind) = behind.split_at_checked(match bytes {
            APART => APART_BYTES,
            bytes => bytes as usize,
        })?;
        rest = behind;
        let number = row.get(BEGIN_BYTES..).filter(|_| bytes == APART);
        let number = number.and_then(|number| number.try_into().ok());
        Some(Version {
            end,
            row: (bytes > 0).then_some(row),
            apart: number.map(u64::from_le_bytes),
        })
    })
}

/// Appends a version, which ends later than all others.
pub(crate) fn push(chain: &mut Vec<u8>, version: Version<'_>) {
    let row = version.row.unwrap_or_default();
    chain.extend_from_slice(&version.end.raw().to_le_bytes());
    match version.apart {
        Some(number) => {
            chain.extend_from_slice(&APART.to_le_bytes());
            chain.extend_from_slice(&row[..BEGIN_BYTES]);
            chain.extend_from_slice(&number.to_le_bytes());
        }
        None => {
            // The limit of values is far below.
            chain.extend_from_slice(&(row.len() as u32).to_le_bytes());
            chain.extend_from_slice(row);
        }
    }
}

/// What the key had at a moment: the first version that ends later has it.
pub(crate) fn at(chain: &[u8], moment: Timestamp) -> AtMoment<'_> {
    match versions(chain).find(|version| version.end > moment) {
        Some(Version { row: None, .. }) => AtMoment::Absent,
        Some(version) if version.begin() <= moment => match (version.apart, version.row) {
            (Some(number), _) => AtMoment::Apart(number),
            (None, Some(row)) => AtMoment::Row(row),
            (None, None) => AtMoment::Absent,
        },
        _ => AtMoment::Unknown,
    }
}

/// Whether the key was written after a moment of which the chain keeps all versions.
pub(crate) fn changed_since(chain: &[u8], moment: Timestamp) -> bool {
    at(chain, moment) != AtMoment::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::write_header;

    fn row(sequence: u32) -> Vec<u8> {
        let mut row = Vec::new();
        write_header(&mut row, time(sequence), None, 0, false);
        row.extend_from_slice(&sequence.to_le_bytes());
        row
    }

    fn time(sequence: u32) -> Timestamp {
        Timestamp::new(1, sequence)
    }

    #[test]
    fn each_moment_has_the_version_that_ends_next() {
        let (first, second) = (row(10), row(20));
        let mut chain = Vec::new();
        // Written at 10, replaced at 20, removed at 30, written again at 40.
        for (end, row) in [(20, Some(&first)), (30, Some(&second)), (40, None)] {
            let row = row.map(Vec::as_slice);
            push(
                &mut chain,
                Version {
                    end: time(end),
                    row,
                    apart: None,
                },
            );
        }
        assert_eq!(versions(&chain).count(), 3);
        assert_eq!(at(&chain, time(9)), AtMoment::Unknown);
        assert_eq!(at(&chain, time(10)), AtMoment::Row(&first));
        assert_eq!(at(&chain, time(19)), AtMoment::Row(&first));
        assert_eq!(at(&chain, time(20)), AtMoment::Row(&second));
        assert_eq!(at(&chain, time(30)), AtMoment::Absent);
        assert_eq!(at(&chain, time(40)), AtMoment::Unknown);
        assert!(changed_since(&chain, time(39)) && !changed_since(&chain, time(40)));
    }

    #[test]
    fn a_version_in_the_middle_may_be_gone() {
        let newer = row(20);
        let mut chain = Vec::new();
        let row = Some(newer.as_slice());
        let version = Version {
            end: time(30),
            row,
            apart: None,
        };
        push(&mut chain, version);
        // The key had no row then, or one that nobody needs.
        assert_eq!(at(&chain, time(15)), AtMoment::Unknown);
        assert_eq!(at(&chain, time(25)), AtMoment::Row(&newer));
    }

    #[test]
    fn of_a_row_that_is_apart_a_chain_has_its_beginning_and_its_number() {
        let (first, second, third) = (row(10), row(20), row(30));
        let mut chain = Vec::new();
        for (end, row, apart) in [
            (20, &first, None),
            (30, &second, Some(7)),
            (40, &third, None),
        ] {
            let version = Version {
                end: time(end),
                row: Some(row),
                apart,
            };
            push(&mut chain, version);
        }
        let copy = |chain: &[u8]| {
            let mut copy = Vec::new();
            versions(chain).for_each(|version| push(&mut copy, version));
            copy
        };
        assert_eq!(copy(&chain), chain);
        assert_eq!(at(&chain, time(19)), AtMoment::Row(&first));
        assert_eq!(at(&chain, time(20)), AtMoment::Apart(7));
        assert_eq!(at(&chain, time(30)), AtMoment::Row(&third));
        assert!(changed_since(&chain, time(25)));
    }
}
