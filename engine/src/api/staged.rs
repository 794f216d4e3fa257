//! The rows that a transaction wrote and has not committed yet.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow_index::{Direction, is_inverted};
use hedgerow_log::{Operation, OperationKind};

use crate::commit::Action;
use crate::index::space::Space;
use crate::row::builder::RowBuilder;
use crate::row::{Row, TIMESTAMP_BYTES};

/// A row that the transaction wrote.
pub(super) struct Staged {
    /// Without a timestamp yet; `None` if removed.
    pub(super) row: Option<Vec<u8>>,
    /// The changed columns, if that is all that the log needs.
    pub(super) delta: Option<Vec<u8>>,
    /// As in [`BuiltRow`](crate::row::builder::BuiltRow).
    pub(super) adds: Option<usize>,
}

/// The rows that a transaction wrote in one keyspace.
pub(super) struct StagedRows {
    pub(super) space: Arc<Space>,
    pub(super) rows: BTreeMap<Vec<u8>, Staged>,
}

/// A write that another one replaced, or `None` if the key had none.
struct ReplacedRow {
    keyspace: u32,
    key: Vec<u8>,
    before: Option<Staged>,
}

/// The writes that a nested part replaced, oldest first.
#[derive(Default)]
pub(super) struct ReplacedRows(Vec<ReplacedRow>);

impl ReplacedRows {
    pub(super) fn remember(&mut self, keyspace: u32, key: &[u8], before: Option<Staged>) {
        self.0.push(ReplacedRow {
            keyspace,
            key: key.to_vec(),
            before,
        });
    }

    /// Adds the writes of a later part.
    pub(super) fn append(&mut self, later: ReplacedRows) {
        self.0.extend(later.0);
    }

    /// Puts back what was replaced.
    pub(super) fn take_back(self, staged: &mut BTreeMap<u32, StagedRows>) {
        for row in self.0.into_iter().rev() {
            let Some(staged) = staged.get_mut(&row.keyspace) else {
                continue;
            };
            match row.before {
                Some(before) => drop(staged.rows.insert(row.key, before)),
                None => drop(staged.rows.remove(&row.key)),
            }
        }
    }
}

/// What the log's record has for a row besides key and payload, at most: the operation's kind and
/// three numbers, rounded up.
pub(crate) const ROW_BYTES_IN_LOG: usize = 32;

impl Staged {
    /// What the log's record has for this row at most, in bytes.
    pub(super) fn log_bytes(&self, key: &[u8]) -> usize {
        let row = self.row.as_ref().map_or(0, Vec::len);
        let delta = self.delta.as_ref().map_or(0, Vec::len);
        ROW_BYTES_IN_LOG + key.len() + row.max(delta)
    }

    pub(super) fn operation<'a>(&'a self, keyspace: u32, key: &'a [u8]) -> Operation<'a> {
        let (kind, payload): (_, &[u8]) = match (&self.row, &self.delta) {
            (None, _) => (OperationKind::Remove, &[]),
            (Some(_), Some(delta)) => (OperationKind::PutColumns, delta),
            (Some(row), None) => (OperationKind::Put, &row[TIMESTAMP_BYTES..]),
        };
        Operation {
            keyspace,
            kind,
            key,
            payload,
        }
    }
}

/// Own writes in scan order.
pub(super) enum StagedWrites<'a> {
    Forward(btree_map::Range<'a, Vec<u8>, Staged>),
    Reverse(btree_map::Range<'a, Vec<u8>, Staged>),
    Empty,
}

impl<'a> StagedWrites<'a> {
    pub(super) fn new(
        rows: &'a BTreeMap<Vec<u8>, Staged>,
        direction: Direction,
        bounds: (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>),
    ) -> StagedWrites<'a> {
        // `BTreeMap::range` panics on ranges that are inside out; to a scan they are just empty.
        if is_inverted(bounds.0, bounds.1) {
            return StagedWrites::Empty;
        }
        let range = rows.range::<[u8], _>(bounds);
        if direction == Direction::Forward {
            StagedWrites::Forward(range)
        } else {
            StagedWrites::Reverse(range)
        }
    }
}

impl<'a> Iterator for StagedWrites<'a> {
    type Item = (&'a Vec<u8>, &'a Staged);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            StagedWrites::Forward(range) => range.next(),
            StagedWrites::Reverse(range) => range.next_back(),
            StagedWrites::Empty => None,
        }
    }
}

/// Visits own writes up to and including `key`.
pub(super) fn before<'a>(
    own: &mut Peekable<StagedWrites<'a>>,
    key: &[u8],
    direction: Direction,
    mut visit: impl FnMut(&[u8], &Staged) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let passed = |own: &[u8]| match direction {
        Direction::Forward => own <= key,
        Direction::Reverse => own >= key,
    };
    while let Some((own_key, staged)) = own.next_if(|(own_key, _)| passed(own_key)) {
        visit(own_key, staged)?;
    }
    ControlFlow::Continue(())
}

/// What `decide` makes of a row: its answer, and the new row, if there is one.
pub(super) fn decide_staged<R>(
    row: Option<Row<'_>>,
    decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
) -> (R, Option<Staged>) {
    let mut builder = RowBuilder::new(row);
    match decide(row, &mut builder) {
        Action::Keep(result) => (result, None),
        Action::Remove(result) => (
            result,
            Some(Staged {
                row: None,
                delta: None,
                adds: None,
            }),
        ),
        Action::Put(result) => {
            let (mut row, mut delta) = (Vec::new(), Vec::new());
            let built = builder.build(&mut row, &mut delta);
            let delta = built.delta.then_some(delta);
            (
                result,
                Some(Staged {
                    row: Some(row),
                    delta,
                    adds: built.adds,
                }),
            )
        }
    }
}
