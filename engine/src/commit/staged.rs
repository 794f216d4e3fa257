//! The rows that a transaction wrote and has not committed yet, whichever kind of transaction it
//! is.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::iter::Peekable;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;

use hedgerow_index::{Direction, is_inverted};
use hedgerow_log::{Operation, OperationKind};

use crate::commit::Action;
use crate::engine::Engine;
use crate::error::Result;
use crate::index::bounds::Bounds;
use crate::index::space::Space;
use crate::row::builder::RowBuilder;
use crate::row::{Row, TIMESTAMP_BYTES};

/// A visitor of rows, whose type is forgotten.
pub(crate) type VisitRow<'v> = dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()> + 'v;

/// Everything that a transaction wrote.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    keyspaces: BTreeMap<u32, StagedRows>,
    /// What the log's record will take at most, in bytes.
    bytes: usize,
    /// About what the rows take in memory, in bytes.
    memory_bytes: usize,
    /// What to undo if the nested part under way fails.
    replaced: Option<ReplacedRows>,
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    /// How many rows were written.
    pub(crate) fn rows(&self) -> usize {
        let keyspaces = self.keyspaces.values();
        keyspaces.map(|staged| staged.rows.len()).sum()
    }

    /// Discards all rows. A nested part that fails undoes that, too.
    pub(crate) fn clear(&mut self) {
        (self.bytes, self.memory_bytes) = (0, 0);
        let Some(replaced) = &mut self.replaced else {
            return self.keyspaces.clear();
        };
        for (&keyspace, staged) in &mut self.keyspaces {
            for (key, row) in mem::take(&mut staged.rows) {
                replaced.remember(keyspace, &key, Some(row));
            }
        }
    }

    /// About what the rows take in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// By keyspace, those in which any row was written.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = &StagedRows> {
        let keyspaces = self.keyspaces.values();
        // A nested part that failed leaves its keyspaces without rows.
        keyspaces.filter(|staged| !staged.rows.is_empty())
    }

    pub(crate) fn row(&self, keyspace: u32, key: &[u8]) -> Option<&Staged> {
        self.keyspaces.get(&keyspace)?.rows.get(key)
    }

    /// Lets `decide` make another row of the present one: what was written before, or what `stored`
    /// passes to its argument, if it calls that.
    pub(crate) fn decide<R>(
        &self,
        (keyspace, key): (u32, &[u8]),
        now_ms: u64,
        stored: impl FnOnce(&mut dyn FnMut(Row<'_>)) -> Result<()>,
        decide: impl FnOnce(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Staged>)> {
        let live = |row: Row<'_>| !row.is_expired(|| now_ms);
        if let Some(staged) = self.row(keyspace, key) {
            let row = staged.row.as_deref().map(Row::new);
            let (result, mut decided) = decide_staged(row.filter(|row| live(*row)), decide);
            if let Some(decided) = &mut decided {
                // Relative to a row that the log never sees.
                decided.delta = None;
            }
            return Ok((result, decided));
        }
        let (mut pending, mut decided) = (Some(decide), None);
        stored(&mut |row| {
            let row = Some(row).filter(|row| live(*row));
            let decide = pending.take();
            decided = decide
                .map(|decide| decide_staged(row, decide))
                .or(decided.take());
        })?;
        match (decided, pending) {
            (Some(decided), _) => Ok(decided),
            (None, Some(decide)) => Ok(decide_staged(None, decide)),
            (None, None) => unreachable!("who took the closure left its answer"),
        }
    }

    /// Stores a row's new contents, replacing an earlier write of the transaction.
    ///
    /// # Errors
    /// Value or commit would be too large, memory is short, or the index cannot have the key: the
    /// row stays as it was.
    pub(crate) fn stage(
        &mut self,
        engine: &Engine,
        space: &Arc<Space>,
        key: &[u8],
        staged: Staged,
    ) -> Result<()> {
        if let Some(bytes) = staged.adds {
            engine.check_value(bytes)?;
        }
        if staged.row.is_some() {
            space.check_key_width(key)?;
            if staged.grows {
                engine.check_memory(space)?;
            }
        }
        let replaced = self.row(space.id, key);
        let others = self.bytes - replaced.map_or(0, |staged| staged.log_bytes(key));
        let bytes = others + staged.log_bytes(key);
        engine.check_commit_size(bytes, others > 0)?;
        let freed = replaced.map_or(0, |staged| staged.memory_bytes(key));
        self.bytes = bytes;
        self.memory_bytes = self.memory_bytes - freed + staged.memory_bytes(key);
        let rows = self
            .keyspaces
            .entry(space.id)
            .or_insert_with(|| StagedRows {
                space: Arc::clone(space),
                rows: BTreeMap::new(),
            });
        let before = rows.rows.insert(key.to_vec(), staged);
        if let Some(replaced) = &mut self.replaced {
            replaced.remember(space.id, key, before);
        }
        Ok(())
    }

    /// Visits the rows of a range, what was written among them, in the order of `direction`, until
    /// `visit` breaks. `scan` visits the rows that are stored, in that order.
    pub(crate) fn scan(
        &self,
        keyspace: u32,
        (bounds, direction): (Bounds<'_>, Direction),
        now_ms: u64,
        scan: impl FnOnce(&mut VisitRow<'_>) -> Result<()>,
        visit: &mut VisitRow<'_>,
    ) -> Result<()> {
        let empty = BTreeMap::new();
        let rows = self.keyspaces.get(&keyspace);
        let rows = rows.map_or(&empty, |staged| &staged.rows);
        let mut own = StagedWrites::new(rows, direction, bounds).peekable();
        let visit_own = |row: &Staged, key: &[u8], visit: &mut VisitRow<'_>| {
            let row = row.row.as_deref().map(Row::new);
            let live = row.filter(|row| !row.is_expired(|| now_ms));
            live.map_or(ControlFlow::Continue(()), |row| visit(key, row))
        };
        let mut broke = false;
        scan(&mut |key, row| {
            let mut replaced = false;
            let flow = before(&mut own, key, direction, |own_key, staged| {
                replaced |= own_key == key;
                visit_own(staged, own_key, visit)
            });
            let flow = match flow.is_continue() && !replaced {
                true => visit(key, row),
                false => flow,
            };
            broke = flow.is_break();
            flow
        })?;
        if !broke {
            let _ = own.try_for_each(|(key, staged)| visit_own(staged, key, visit));
        }
        Ok(())
    }

    /// Begins a part of the transaction that can be undone by itself.
    pub(crate) fn begin_nested(&mut self) -> Nested {
        Nested {
            bytes: self.bytes,
            memory_bytes: self.memory_bytes,
            outer: self.replaced.replace(ReplacedRows::default()),
        }
    }

    /// Ends it: keeps what it wrote, or undoes that.
    pub(crate) fn end_nested(&mut self, nested: Nested, keeps: bool) {
        let inner = mem::replace(&mut self.replaced, nested.outer).unwrap_or_default();
        if !keeps {
            inner.take_back(&mut self.keyspaces);
            (self.bytes, self.memory_bytes) = (nested.bytes, nested.memory_bytes);
        } else if let Some(outer) = &mut self.replaced {
            outer.append(inner);
        }
    }
}

/// What a transaction was before a nested part began.
pub(crate) struct Nested {
    bytes: usize,
    memory_bytes: usize,
    outer: Option<ReplacedRows>,
}

/// A row that the transaction wrote.
pub(crate) struct Staged {
    /// Without a timestamp yet; `None` if removed.
    pub(crate) row: Option<Vec<u8>>,
    /// The changed columns, if that is all that the log needs.
    pub(crate) delta: Option<Vec<u8>>,
    /// As in [`BuiltRow`](crate::row::builder::BuiltRow).
    pub(crate) adds: Option<usize>,
    /// As there.
    pub(crate) grows: bool,
}

/// The rows that a transaction wrote in one keyspace.
pub(crate) struct StagedRows {
    pub(crate) space: Arc<Space>,
    pub(crate) rows: BTreeMap<Vec<u8>, Staged>,
}

/// What a nested part replaced, by keyspace and key: of each key the write that it had when the
/// part began, or `None` if it had none.
#[derive(Default)]
pub(crate) struct ReplacedRows(BTreeMap<u32, BTreeMap<Vec<u8>, Option<Staged>>>);

impl ReplacedRows {
    /// Remembers what a write replaces, unless it is what the part wrote itself.
    pub(crate) fn remember(&mut self, keyspace: u32, key: &[u8], before: Option<Staged>) {
        let rows = self.0.entry(keyspace).or_default();
        if !rows.contains_key(key) {
            rows.insert(key.to_vec(), before);
        }
    }

    /// Adds what a later part replaced.
    pub(crate) fn append(&mut self, later: ReplacedRows) {
        for (keyspace, rows) in later.0 {
            let own = self.0.entry(keyspace).or_default();
            for (key, before) in rows {
                own.entry(key).or_insert(before);
            }
        }
    }

    /// Puts back what was replaced.
    pub(crate) fn take_back(self, staged: &mut BTreeMap<u32, StagedRows>) {
        for (keyspace, rows) in self.0 {
            let Some(staged) = staged.get_mut(&keyspace) else {
                continue;
            };
            for (key, before) in rows {
                match before {
                    Some(before) => drop(staged.rows.insert(key, before)),
                    None => drop(staged.rows.remove(&key)),
                }
            }
        }
    }
}

/// What the log's record has for a row besides key and payload, at most: the operation's kind and
/// three numbers, rounded up.
pub(crate) const ROW_BYTES_IN_LOG: usize = 32;

/// What a staged row takes besides the bytes of its key and contents: its place in a node of the
/// map, which is two thirds full on average, and the headers of three allocations.
const ROW_BYTES_IN_MEMORY: usize = size_of::<(Vec<u8>, Staged)>() * 3 / 2 + 3 * 16;

impl Staged {
    /// About what this row takes in memory, in bytes.
    fn memory_bytes(&self, key: &[u8]) -> usize {
        let row = self.row.as_ref().map_or(0, Vec::capacity);
        let delta = self.delta.as_ref().map_or(0, Vec::capacity);
        ROW_BYTES_IN_MEMORY + key.len() + row + delta
    }

    /// What the log's record has for this row at most, in bytes.
    pub(crate) fn log_bytes(&self, key: &[u8]) -> usize {
        let row = self.row.as_ref().map_or(0, Vec::len);
        let delta = self.delta.as_ref().map_or(0, Vec::len);
        ROW_BYTES_IN_LOG + key.len() + row.max(delta)
    }

    pub(crate) fn operation<'a>(&'a self, keyspace: u32, key: &'a [u8]) -> Operation<'a> {
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
enum StagedWrites<'a> {
    Forward(btree_map::Range<'a, Vec<u8>, Staged>),
    Reverse(btree_map::Range<'a, Vec<u8>, Staged>),
    Empty,
}

impl<'a> StagedWrites<'a> {
    fn new(
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
fn before<'a>(
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
pub(crate) fn decide_staged<R>(
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
                grows: false,
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
                    grows: built.grows,
                }),
            )
        }
    }
}
