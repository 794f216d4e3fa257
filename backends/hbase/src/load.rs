//! Loading rows into a keyspace that has no other writer: many rows in a call.
//!
//! HBase has no call for several checked writes, but one for several puts. A put is not checked; so
//! it takes the place of nothing here: a load reads the headers of its keys first, and replaces
//! what has one, be it a tombstone's, by checked writes. A put that is sent again carries the same
//! cells with the same version, and changes nothing.

use hedgerow::backend::BackendKeyspace;
use hedgerow::{Action, Commit, Result, RowBuilder, WriteOptions};

use crate::at_once::at_once;
use crate::failure;
use crate::keyspace::{Found, HEADERS_TOGETHER, HbaseKeyspace};
use crate::retry::Repeat;
use crate::stored_row::CELL_BYTES;
use crate::thrift2::{TMutation, TPut};

/// About how many bytes of cells a call has: half of what gateways take.
const CALL_BYTES: usize = 1 << 20;
/// The most rows of a call.
const CALL_ROWS: usize = 256;

impl HbaseKeyspace {
    /// Stores rows of different keys; see [`BackendKeyspace::load`].
    pub(crate) fn load_rows(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        mut write: impl FnMut(usize, &mut RowBuilder<'_>),
    ) -> Result<Option<Commit>> {
        let mut last = None;
        for (chunk, first) in keys
            .chunks(HEADERS_TOGETHER)
            .zip((0..).step_by(HEADERS_TOGETHER))
        {
            let write = |i: usize, new: &mut RowBuilder<'_>| write(first + i, new);
            last = last.max(self.load_chunk(chunk, options, write)?);
        }
        Ok(last)
    }

    fn load_chunk(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        mut write: impl FnMut(usize, &mut RowBuilder<'_>),
    ) -> Result<Option<Commit>> {
        keys.iter().try_for_each(|key| self.check_key(key))?;
        let states = self.states(keys, self.cluster.deadline())?;
        let (mut puts, mut last) = (Vec::new(), None);
        for (i, (key, state)) in keys.iter().zip(states).enumerate() {
            if state?.is_some() {
                let ((), commit) = self.update(key, options, |_, new| {
                    write(i, new);
                    Action::Put(())
                })?;
                last = last.max(commit);
                continue;
            }
            let mut new = RowBuilder::over(None);
            write(i, &mut new);
            let made = self.made(key, &Found::nothing(), &new, options)?;
            last = last.max(Some(Commit {
                timestamp: made.version,
            }));
            // What takes the place of nothing removes nothing.
            puts.extend(
                made.mutations
                    .mutations
                    .into_iter()
                    .filter_map(|made| match made {
                        TMutation::Put(put) => Some(put),
                        TMutation::DeleteSingle(_) => None,
                    }),
            );
        }
        self.put_all(&puts)?;
        Ok(last)
    }

    /// Sends puts, several calls at once.
    fn put_all(&self, puts: &[TPut]) -> Result<()> {
        let split = split(puts);
        let sent = at_once(split.len(), self.cluster.connections(), |nth| {
            self.cluster
                .write(|calls| calls.put_multiple(&self.table, split[nth], Repeat::Freely))
        });
        sent.into_iter()
            .collect::<crate::error::Result<()>>()
            .map_err(failure::of)
    }
}

/// The puts of each call, in their order.
fn split(puts: &[TPut]) -> Vec<&[TPut]> {
    let (mut calls, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (i, put) in puts.iter().enumerate() {
        let of_cell = |cell: &crate::thrift2::TColumnValue| {
            cell.qualifier.len() + cell.value.len() + CELL_BYTES
        };
        let own = put.row.len() + put.column_values.iter().map(of_cell).sum::<usize>();
        if i > start && (bytes + own > CALL_BYTES || i - start == CALL_ROWS) {
            calls.push(&puts[start..i]);
            (start, bytes) = (i, 0);
        }
        bytes += own;
    }
    if start < puts.len() {
        calls.push(&puts[start..]);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored_row::{self, cell};
    use crate::thrift2::TDurability;
    use hedgerow::Timestamp;

    #[test]
    fn calls_have_as_many_rows_as_fit() {
        let put = |bytes: usize| {
            let cell = cell(b"c".to_vec(), vec![0; bytes]);
            stored_row::put(b"k", vec![cell], Timestamp::ZERO, &TDurability::SYNC_WAL)
        };
        let sizes = |puts: &[TPut]| {
            split(puts)
                .iter()
                .map(|call| call.len())
                .collect::<Vec<_>>()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(
            sizes(&vec![put(1); 2 * CALL_ROWS + 1]),
            [CALL_ROWS, CALL_ROWS, 1]
        );
        let large = [
            put(1),
            put(CALL_BYTES),
            put(1),
            put(CALL_BYTES / 2),
            put(CALL_BYTES / 2),
        ];
        assert_eq!(sizes(&large), [1, 1, 2, 1]);
    }
}
