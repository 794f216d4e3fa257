//! A keyspace: one table of HBase.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::backend::{BackendKeyspace, Capability, OwnedRow, Put, RowAttributes};
use hedgerow::{
    Action, Commit, Direction, Durability, Error, KeyRange, Result, Row, RowBuilder, Statistics,
    Timestamp, WriteOptions,
};

use crate::capabilities;
use crate::cells::{column, get, scan};
use crate::clock::now_ms;
use crate::cluster::Cluster;
use crate::failure;
use crate::range::Remaining;
use crate::retry::Repeat;
use crate::rows::Check;
use crate::stored_row::{self, FAMILY, Foreign, HEADER, Replacement, RowState, Stamp, StoredRow};
use crate::table_name::TableName;
use crate::thrift2::{TDurability, TGet, TMutation, TPut, TResult, TScan};

/// The longest key. HBase's row keys have up to 32,767 bytes, but it looks for their regions by
/// keys that have the table's name and a number, too.
pub const MAX_ROW_KEY_BYTES: usize = 32_000;

/// Rows whose removal is one call.
const REMOVED_TOGETHER: usize = 1024;

/// Puts of about so many bytes are sent together.
const PUT_BYTES: usize = 1 << 20;
/// About what the cells of a put take besides key and value.
const CELL_BYTES: usize = 200;

/// Between attempts to read a row of which a write may have happened.
const PAUSE_IN_DOUBT: Duration = Duration::from_millis(50);

/// A keyspace of an HBase cluster: a table.
#[derive(Clone)]
pub struct HbaseKeyspace {
    pub(crate) cluster: Arc<Cluster>,
    name: Arc<str>,
    table: Arc<TableName>,
}

impl std::fmt::Debug for HbaseKeyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HbaseKeyspace")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// A row that was found in a state, to be replaced only if it is still in that state.
pub(crate) struct Found {
    pub(crate) stored: Option<StoredRow>,
    pub(crate) now_ms: u64,
}

impl Found {
    /// The row, unless it is removed or has expired.
    pub(crate) fn live(&self) -> Option<Row<'_>> {
        self.stored.as_ref()?.live(self.now_ms)
    }

    fn header(&self) -> Option<Vec<u8>> {
        self.stored.as_ref().map(|stored| stored.header.clone())
    }

    fn version(&self) -> Timestamp {
        self.stored
            .as_ref()
            .map_or(Timestamp::ZERO, |stored| stored.version)
    }
}

/// What became of a checked write.
pub(crate) enum Replaced {
    Done(Commit),
    /// Another write came in between.
    Overtaken,
}

/// What a write asks HBase to do before it answers.
fn durability(options: &WriteOptions) -> TDurability {
    match options.durability.unwrap_or_default() {
        Durability::Sync => TDurability::FSYNC_WAL,
        Durability::Periodic => TDurability::SYNC_WAL,
        Durability::None => TDurability::ASYNC_WAL,
    }
}

/// How many of these puts are sent in one call: each key once, as the cells of one call have no
/// order, and no more than fit a request.
fn one_call(puts: &[Put<'_>]) -> usize {
    let mut keys = HashSet::new();
    let mut bytes = 0;
    for (i, put) in puts.iter().enumerate() {
        bytes += put.key.len() + put.value.len() + CELL_BYTES;
        if !keys.insert(put.key) || (i > 0 && bytes > PUT_BYTES) {
            return i;
        }
    }
    puts.len()
}

impl HbaseKeyspace {
    pub(crate) fn new(cluster: Arc<Cluster>, name: &str, table: TableName) -> HbaseKeyspace {
        HbaseKeyspace {
            cluster,
            name: name.into(),
            table: Arc::new(table),
        }
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        if key.is_empty() {
            return Err(Error::Backend(
                "the key is empty, and HBase has no row of an empty key; use a longer key".into(),
            ));
        }
        if key.len() > MAX_ROW_KEY_BYTES {
            return Err(Error::KeyTooLong {
                bytes: key.len(),
                limit: MAX_ROW_KEY_BYTES,
            });
        }
        Ok(())
    }

    fn check_value(&self, row: Row<'_>) -> Result<()> {
        let bytes = match row.value() {
            Some(value) => value.len(),
            None => row
                .columns()
                .map(|(name, value)| name.len() + value.len())
                .sum(),
        };
        let limit = self.cluster.options.max_value_bytes;
        if bytes > limit {
            return Err(Error::ValueTooLong { bytes, limit });
        }
        Ok(())
    }

    fn foreign(&self, key: &[u8], foreign: Foreign) -> Error {
        Error::Backend(
            format!(
                "the row {:?} of HBase's table {} was not written by this program ({}); remove it \
                 there, or serve another namespace",
                key.escape_ascii().to_string(),
                self.table,
                foreign.0
            )
            .into(),
        )
    }

    fn stored(&self, key: &[u8], cells: TResult) -> Result<Option<StoredRow>> {
        stored_row::decode(cells).map_err(|foreign| self.foreign(key, foreign))
    }

    fn get(key: &[u8]) -> TGet {
        TGet {
            columns: Some(vec![column(FAMILY, None)]),
            ..get(key)
        }
    }

    /// Reads a row as it is stored.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Found> {
        let wanted = HbaseKeyspace::get(key);
        let cells = self.cluster.call(|calls| calls.get(&self.table, &wanted));
        Ok(Found {
            stored: self.stored(key, cells.map_err(failure::of)?)?,
            now_ms: now_ms(),
        })
    }

    fn stamp_above(&self, seen: Timestamp) -> Stamp {
        Stamp {
            version: self.cluster.clock.version_above(seen),
            writer: self.cluster.writer,
        }
    }

    /// Puts a row in the place of the one that was found.
    pub(crate) fn replace(
        &self,
        key: &[u8],
        found: &Found,
        new: &RowBuilder<'_>,
        options: &WriteOptions,
    ) -> Result<Replaced> {
        let stamp = self.stamp_above(found.version());
        let row = OwnedRow::built(new, stamp.version);
        self.check_value(row.row())?;
        let replacement = stored_row::replace(
            key,
            found.stored.as_ref(),
            found.live(),
            row.row(),
            stamp,
            &durability(options),
        );
        self.check_and_write(key, found, &replacement, stamp)
    }

    /// Removes the row that was found: leaves a tombstone.
    pub(crate) fn remove(
        &self,
        key: &[u8],
        found: &Found,
        options: &WriteOptions,
    ) -> Result<Replaced> {
        let stamp = self.stamp_above(found.version());
        let replacement = stored_row::remove(key, stamp, &durability(options));
        let removed = self.check_and_write(key, found, &replacement, stamp)?;
        if matches!(removed, Replaced::Done(_)) {
            self.cluster
                .tombstones
                .add(&self.table, key, replacement.header, stamp.version);
        }
        Ok(removed)
    }

    /// Writes, if what is stored is still what was found. A call whose answer was lost is followed
    /// by a read: the header that it would have left behind says that it happened, and the one
    /// that was found that it did not, so that it can be sent again: the first to arrive changes
    /// the header, and the other does nothing.
    fn check_and_write(
        &self,
        key: &[u8],
        found: &Found,
        replacement: &Replacement,
        stamp: Stamp,
    ) -> Result<Replaced> {
        let commit = Commit {
            timestamp: stamp.version,
        };
        let expected = found.header();
        let check = match &expected {
            Some(header) => Check::equals(key, FAMILY, HEADER, header),
            None => Check::absent(key, FAMILY, HEADER),
        };
        let deadline = Instant::now() + self.cluster.options.deadline;
        let mut may_have_happened = false;
        loop {
            let outcome = self.cluster.call(|calls| {
                let unsent = Repeat::OnlyIfUnsent;
                match &replacement.mutations.mutations[..] {
                    // A gateway of HBase 2.6 fails at a `checkAndMutate` that wants no cell.
                    [TMutation::Put(put)] => calls.check_and_put(&self.table, &check, put, unsent),
                    _ => {
                        let mutations = &replacement.mutations;
                        calls.check_and_mutate(&self.table, &check, mutations, unsent)
                    }
                }
            });
            match outcome {
                Ok(true) => return Ok(Replaced::Done(commit)),
                Ok(false) if !may_have_happened => return Ok(Replaced::Overtaken),
                Err(error) if error.is_unknown() => may_have_happened = true,
                Err(error) if !may_have_happened => return Err(failure::of(error)),
                // An earlier attempt may have happened.
                Ok(false) | Err(_) => {}
            }
            let header = self.header_in_doubt(key, deadline)?;
            if header.as_ref() == Some(&replacement.header) {
                return Ok(Replaced::Done(commit));
            }
            if header != expected {
                return Err(failure::overtaken_in_doubt(key));
            }
            if Instant::now() >= deadline {
                return Err(failure::in_doubt(key));
            }
            std::thread::sleep(PAUSE_IN_DOUBT);
        }
    }

    /// The header of a row of which a write may or may not have happened, once it can be read.
    fn header_in_doubt(&self, key: &[u8], deadline: Instant) -> Result<Option<Vec<u8>>> {
        loop {
            match self.find(key) {
                Ok(found) => return Ok(found.header()),
                Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE_IN_DOUBT),
                Err(_) => return Err(failure::in_doubt(key)),
            }
        }
    }

    /// Stores plain values, in one call. It may be sent again: the puts are the same.
    fn put_all(&self, puts: &[TPut]) -> crate::error::Result<()> {
        self.cluster
            .call(|calls| calls.put_multiple(&self.table, puts, Repeat::Freely))
    }

    /// What is known of rows: of each key its state, if there is a row.
    fn states(&self, keys: &[&[u8]]) -> Result<Vec<Option<RowState>>> {
        let header = |key: &&[u8]| TGet {
            columns: Some(vec![column(FAMILY, Some(HEADER))]),
            ..get(key)
        };
        let gets: Vec<TGet> = keys.iter().map(header).collect();
        let found = self
            .cluster
            .call(|calls| calls.get_multiple(&self.table, &gets));
        let found = found.map_err(failure::of)?;
        let states = found.iter().zip(keys);
        let state = |(cells, key): (&TResult, &&[u8])| {
            stored_row::state_of(cells).map_err(|foreign| self.foreign(key, foreign))
        };
        states.map(state).collect()
    }

    /// The put of a plain value that is newer than what there is.
    fn plain_put(
        &self,
        put: &Put<'_>,
        state: Option<RowState>,
        durability: &TDurability,
    ) -> Result<(TPut, Commit)> {
        let attributes = RowAttributes {
            expiry_ms: put.expiry_ms,
            user_flags: put.user_flags,
            ..RowAttributes::default()
        };
        let stamp = self.stamp_above(state.map_or(Timestamp::ZERO, |state| state.version));
        let row = OwnedRow::plain(stamp.version, &attributes, put.value);
        self.check_value(row.row())?;
        let commit = Commit {
            timestamp: stamp.version,
        };
        Ok((
            stored_row::put_plain(put.key, row.row(), stamp, durability),
            commit,
        ))
    }

    /// Stores plain values of different keys in two calls: one reads what they replace, so that
    /// they are newer, whoever wrote that.
    fn put_one_call(
        &self,
        puts: &[Put<'_>],
        durability: &TDurability,
        mut done: impl FnMut(usize, Result<Commit>),
    ) {
        let checked: Vec<Result<()>> = puts.iter().map(|put| self.check_key(put.key)).collect();
        let fine = |i: &usize| checked[*i].is_ok();
        let keys: Vec<&[u8]> = (0..puts.len()).filter(fine).map(|i| puts[i].key).collect();
        let states = self.states(&keys);
        let mut states = states.map(Vec::into_iter);
        let made = puts.iter().zip(checked).map(|(put, checked)| {
            checked?;
            match &mut states {
                Ok(states) => self.plain_put(put, states.next().flatten(), durability),
                Err(error) => Err(Error::Backend(error.to_string().into())),
            }
        });
        let made: Vec<Result<(TPut, Commit)>> = made.collect();
        let sent = made
            .iter()
            .filter_map(|made| Some(made.as_ref().ok()?.0.clone()));
        let sent: Vec<TPut> = sent.collect();
        let outcome = self.put_all(&sent);
        for (i, made) in made.into_iter().enumerate() {
            let commit = made.and_then(|(_, commit)| match &outcome {
                Ok(()) => Ok(commit),
                Err(error) => Err(failure::of(error.clone())),
            });
            done(i, commit);
        }
    }

    /// Goes through a range, page by page. `visit` gets each key and its cells, and says whether to
    /// go on.
    fn scan_cells(
        &self,
        range: &impl KeyRange,
        direction: Direction,
        most: usize,
        only_headers: bool,
        mut visit: impl FnMut(&[u8], TResult) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut left = Remaining::of(range, direction, most);
        while !left.is_empty() {
            let bounds = left.bounds();
            let rows = left.rows_to_ask();
            let scan = TScan {
                columns: Some(vec![column(FAMILY, only_headers.then_some(HEADER))]),
                caching: Some(rows as i32),
                limit: Some(rows as i32),
                reversed: Some(left.is_reverse()),
                ..scan(Some(&bounds.start), Some(&bounds.stop))
            };
            let page = self
                .cluster
                .call(|calls| calls.scan_page(&self.table, &scan, rows));
            let page = page.map_err(failure::of)?;
            let is_last = page.len() < rows;
            let mut last = None;
            let mut bytes = 0;
            for cells in page {
                let Some(key) = cells.row.clone() else {
                    continue;
                };
                bytes += cells
                    .column_values
                    .iter()
                    .map(|cell| cell.value.len())
                    .sum::<usize>();
                if left.contains(&key) && visit(&key, cells)?.is_break() {
                    return Ok(());
                }
                last = Some(key);
            }
            match last {
                Some(last) if !is_last => left.go_on_behind(last, bytes, most),
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

impl BackendKeyspace for HbaseKeyspace {
    /// The header that was there, if the row was live.
    type Watch = Option<Vec<u8>>;

    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        0
    }

    fn expiring(&self) -> u64 {
        0
    }

    fn index_name(&self) -> Result<&'static str> {
        Ok("hbase")
    }

    fn index_counters(&self) -> Result<Statistics> {
        Ok(Statistics::new())
    }

    fn index_shape(&self) -> Result<Option<Statistics>> {
        Ok(None)
    }

    fn read<R>(&self, key: &[u8], read: impl FnOnce(Row<'_>) -> R) -> Result<Option<R>> {
        self.check_key(key)?;
        Ok(self.find(key)?.live().map(read))
    }

    fn get_many(&self, keys: &[&[u8]], mut read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()> {
        for key in keys {
            self.check_key(key)?;
        }
        let gets: Vec<TGet> = keys.iter().map(|key| HbaseKeyspace::get(key)).collect();
        let found = self
            .cluster
            .call(|calls| calls.get_multiple(&self.table, &gets));
        let found = found.map_err(failure::of)?;
        let now_ms = now_ms();
        for (i, cells) in found.into_iter().enumerate() {
            let stored = self.stored(keys[i], cells)?;
            read(i, Found { stored, now_ms }.live());
        }
        Ok(())
    }

    fn prefetch_many(&self, _: &[&[u8]]) {}

    fn put_with(&self, key: &[u8], value: &[u8], options: &WriteOptions) -> Result<Commit> {
        let put = Put {
            key,
            value,
            expiry_ms: options.expiry_ms,
            user_flags: options.user_flags,
        };
        let mut stored = None;
        self.put_many(&[put], options, |_, outcome| stored = Some(outcome));
        // One put has one outcome.
        stored.unwrap_or_else(|| Err(Error::Backend("the put had no outcome".into())))
    }

    fn put_many(
        &self,
        puts: &[Put<'_>],
        options: &WriteOptions,
        mut done: impl FnMut(usize, Result<Commit>),
    ) {
        let durability = durability(options);
        let mut start = 0;
        while start < puts.len() {
            let end = start + one_call(&puts[start..]);
            self.put_one_call(&puts[start..end], &durability, |i, outcome| {
                done(start + i, outcome)
            });
            start = end;
        }
    }

    fn update<R>(
        &self,
        key: &[u8],
        options: &WriteOptions,
        mut decide: impl FnMut(Option<Row<'_>>, &mut RowBuilder<'_>) -> Action<R>,
    ) -> Result<(R, Option<Commit>)> {
        self.check_key(key)?;
        let mut attempts = self.cluster.attempts();
        loop {
            let found = self.find(key)?;
            let mut new = RowBuilder::over(found.live());
            let (result, replaced) = match decide(found.live(), &mut new) {
                Action::Keep(result) => return Ok((result, None)),
                Action::Put(result) => (result, self.replace(key, &found, &new, options)?),
                Action::Remove(result) if found.live().is_none() => return Ok((result, None)),
                Action::Remove(result) => (result, self.remove(key, &found, options)?),
            };
            match replaced {
                Replaced::Done(commit) => return Ok((result, Some(commit))),
                Replaced::Overtaken => attempts.again(key)?,
            }
        }
    }

    fn delete_range_with(
        &self,
        range: impl KeyRange,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        let durability = durability(options);
        let mut removed = 0;
        let mut last = None;
        let mut batch: Vec<(Vec<u8>, Stamp)> = Vec::new();
        let mut remove = |batch: &mut Vec<(Vec<u8>, Stamp)>| -> Result<()> {
            let tombstones = batch.iter();
            let tombstones =
                tombstones.map(|(key, stamp)| stored_row::put_tombstone(key, *stamp, &durability));
            let tombstones: Vec<TPut> = tombstones.collect();
            self.put_all(&tombstones).map_err(failure::of)?;
            for (key, stamp) in batch.drain(..) {
                let commit = Commit {
                    timestamp: stamp.version,
                };
                last = last.max(Some(commit));
                let header = stored_row::tombstone(stamp);
                self.cluster
                    .tombstones
                    .add(&self.table, &key, header, stamp.version);
            }
            Ok(())
        };
        let now_ms = now_ms();
        self.scan_cells(
            &range,
            Direction::Forward,
            usize::MAX,
            true,
            |key, cells| {
                let state = stored_row::state_of(&cells).map_err(|f| self.foreign(key, f))?;
                if let Some(state) = state.filter(|state| state.is_live(now_ms)) {
                    removed += 1;
                    batch.push((key.to_vec(), self.stamp_above(state.version)));
                }
                if batch.len() == REMOVED_TOGETHER {
                    remove(&mut batch)?;
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        remove(&mut batch)?;
        Ok((removed, last))
    }

    fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut left = most;
        if left == 0 {
            return Ok(());
        }
        self.scan_cells(&range, direction, most, false, |key, cells| {
            let stored = self.stored(key, cells)?;
            let found = Found {
                stored,
                now_ms: now_ms(),
            };
            let Some(row) = found.live() else {
                return Ok(ControlFlow::Continue(()));
            };
            left -= 1;
            let goes_on = visit(key, row);
            Ok(match left {
                0 => ControlFlow::Break(()),
                _ => goes_on,
            })
        })
    }

    fn scan_keys(
        &self,
        range: impl KeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_cells(&range, direction, usize::MAX, true, |key, cells| {
            let state = stored_row::state_of(&cells).map_err(|f| self.foreign(key, f))?;
            Ok(match state.is_some_and(|state| state.is_live(now_ms())) {
                true => visit(key),
                false => ControlFlow::Continue(()),
            })
        })
    }

    fn random_key(&self, _: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>> {
        Err(capabilities::refusal(Capability::RandomKeys))
    }

    fn watch(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_key(key)?;
        let found = self.find(key)?;
        Ok(found.live().and_then(|_| found.header()))
    }
}
