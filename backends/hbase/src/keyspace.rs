//! A keyspace: one table of HBase.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hedgerow::backend::{BackendKeyspace, Capability, OwnedRow, Put, RowAttributes};
use hedgerow::{
    Action, Commit, Direction, Durability, Error, KeyRange, Result, Row, RowBuilder, Statistics,
    Timestamp, WriteOptions,
};

use crate::away_regions::AwayRegions;
use crate::capabilities;
use crate::cells::{column, scan, value_bytes};
use crate::clock::{now_ms, written_ms};
use crate::cluster::{Attempts, Cluster};
use crate::failure;
use crate::joined_reads::JoinedReads;
use crate::range::{PageRows, Remaining};
use crate::removed::Removed;
use crate::stored_row::{
    self, CELL_BYTES, CheckedWrite, FAMILY, Foreign, HEADER, MAX_ROW_KEY_BYTES, RowState, Stamp,
    StoredRow,
};
use crate::table_name::TableName;
use crate::thrift2::{TDurability, TResult, TScan};

/// Rows that are removed together.
const REMOVED_TOGETHER: usize = 256;
/// Rows that one call reads when nothing is known of their lengths: 24 MiB of the longest values.
pub(crate) const ROWS_OF_ANY_LENGTH: usize = 16;
/// Calls for single rows that are under way for each gateway before others are joined.
const CALLS_OF_A_GATEWAY: usize = 2;
/// Rows that one call of a scan reads: a gateway holds all of them in memory.
const READ_TOGETHER: usize = 64;
/// Headers that are read together.
pub(crate) const HEADERS_TOGETHER: usize = 1024;

/// A keyspace of an HBase cluster: a table.
#[derive(Clone)]
pub struct HbaseKeyspace {
    pub(crate) cluster: Arc<Cluster>,
    name: Arc<str>,
    pub(crate) table: Arc<TableName>,
    pub(crate) reads: Arc<JoinedReads<TResult>>,
    pub(crate) away: Arc<AwayRegions>,
    /// About how long the rows are that scans have found; 0 before.
    row_bytes: Arc<AtomicUsize>,
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
    /// No row, and no tombstone.
    pub(crate) fn nothing() -> Found {
        Found {
            stored: None,
            now_ms: now_ms(),
        }
    }

    /// The row, unless it is removed or has expired.
    pub(crate) fn live(&self) -> Option<Row<'_>> {
        self.stored.as_ref()?.live(self.now_ms)
    }

    pub(crate) fn header(&self) -> Option<Vec<u8>> {
        self.stored.as_ref().map(|stored| stored.header.clone())
    }

    fn version(&self) -> Timestamp {
        self.stored
            .as_ref()
            .map_or(Timestamp::ZERO, |stored| stored.version)
    }
}

/// What a scan makes of a row that it has found.
enum Scanned {
    /// It counts, and says whether to go on.
    Row(ControlFlow<()>),
    /// Nobody can see it.
    Dead,
}

/// A row as it was when it was watched.
#[derive(Debug)]
pub struct Watched {
    is_live: bool,
    /// Also that of a row that is removed or has expired: one that came and went has another.
    header: Option<Vec<u8>>,
}

impl Watched {
    pub(crate) fn of(found: &Found) -> Watched {
        Watched {
            is_live: found.live().is_some(),
            header: found.header(),
        }
    }

    /// Whether the row was changed since. A header of a dead row that is gone was swept, which
    /// changes nothing.
    pub(crate) fn has_changed(&self, now: &Watched) -> bool {
        let is_swept = now.header.is_none() && !self.is_live;
        self.is_live != now.is_live || (self.header != now.header && !is_swept)
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

/// How many of these puts are sent together: each key once, as the second put of a key must find
/// the first.
fn distinct(puts: &[Put<'_>]) -> usize {
    let mut keys = HashSet::new();
    let mut puts = puts.iter().take(HEADERS_TOGETHER);
    let first_again = puts.position(|put| !keys.insert(put.key));
    first_again.unwrap_or(keys.len())
}

impl HbaseKeyspace {
    pub(crate) fn new(cluster: Arc<Cluster>, name: &str, table: TableName) -> HbaseKeyspace {
        let calls = CALLS_OF_A_GATEWAY * cluster.gateways.count();
        HbaseKeyspace {
            cluster,
            name: name.into(),
            table: Arc::new(table),
            reads: Arc::new(JoinedReads::new(calls, ROWS_OF_ANY_LENGTH)),
            away: Arc::default(),
            row_bytes: Arc::default(),
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
                .map(|(name, value)| name.len() + value.len() + CELL_BYTES)
                .sum(),
        };
        let limit = self.cluster.options.max_value_bytes;
        if bytes > limit {
            return Err(Error::ValueTooLong { bytes, limit });
        }
        Ok(())
    }

    pub(crate) fn foreign(&self, key: &[u8], foreign: Foreign) -> Error {
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

    pub(crate) fn stored(&self, key: &[u8], cells: TResult) -> Result<Option<StoredRow>> {
        stored_row::decode(cells).map_err(|foreign| self.foreign(key, foreign))
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
        deadline: Instant,
    ) -> Result<Replaced> {
        let write = self.made(key, found, new, options)?;
        self.check_and_write(key, &write, deadline)
    }

    /// The write of a row in the place of the one that was found.
    pub(crate) fn made(
        &self,
        key: &[u8],
        found: &Found,
        new: &RowBuilder<'_>,
        options: &WriteOptions,
    ) -> Result<CheckedWrite> {
        let stamp = self.stamp_above(found.version());
        let row = OwnedRow::built(new, stamp.version);
        self.check_value(row.row())?;
        let (stored, live) = (found.stored.as_ref(), found.live());
        let durability = durability(options);
        Ok(stored_row::replace(
            key,
            stored,
            live,
            row.row(),
            stamp,
            durability,
        ))
    }

    /// Removes the row that was found: leaves a tombstone.
    pub(crate) fn remove(
        &self,
        key: &[u8],
        stored: &StoredRow,
        options: &WriteOptions,
        deadline: Instant,
    ) -> Result<Replaced> {
        let stamp = self.stamp_above(stored.version);
        let (header, version) = (&stored.header, stored.version);
        let write = stored_row::remove(key, header, version, stamp, durability(options));
        self.check_and_write(key, &write, deadline)
    }

    /// The write of a plain value in the place of what was found.
    fn plain_write(
        &self,
        put: &Put<'_>,
        state: Option<&RowState>,
        durability: TDurability,
    ) -> Result<CheckedWrite> {
        let attributes = RowAttributes {
            expiry_ms: put.expiry_ms,
            user_flags: put.user_flags,
            ..RowAttributes::default()
        };
        let stamp = self.stamp_above(state.map_or(Timestamp::ZERO, |state| state.version));
        let row = OwnedRow::plain(stamp.version, &attributes, put.value);
        self.check_value(row.row())?;
        Ok(stored_row::put_plain(
            put.key,
            state,
            row.row(),
            stamp,
            durability,
        ))
    }

    /// Stores plain values of different keys: reads their headers together, then sends checked
    /// writes, several at once. All of that has one deadline. Values whose headers cannot be read
    /// are not stored; others are.
    fn put_distinct(
        &self,
        puts: &[Put<'_>],
        durability: TDurability,
        deadline: Instant,
        mut done: impl FnMut(usize, Result<Commit>),
    ) {
        let fine = |put: &&Put<'_>| self.check_key(put.key).is_ok();
        let keys: Vec<&[u8]> = puts.iter().filter(fine).map(|put| put.key).collect();
        let mut states = self.states_of_each(&keys, deadline).into_iter();
        let made = puts.iter().map(|put| {
            self.check_key(put.key)?;
            let state = states.next().transpose()?.flatten();
            self.plain_write(put, state.as_ref(), durability)
        });
        let made: Vec<Result<CheckedWrite>> = made.collect();
        let writes = puts.iter().zip(&made);
        let writes = writes.filter_map(|(put, made)| Some((put.key, made.as_ref().ok()?)));
        let writes: Vec<(&[u8], &CheckedWrite)> = writes.collect();
        let written = self.check_and_write_all(&writes, deadline);
        let mut written = written.into_iter();
        for (i, (put, made)) in puts.iter().zip(made).enumerate() {
            let outcome = made.and_then(|_| match written.next() {
                Some(Ok(Replaced::Done(commit))) => Ok(commit),
                Some(Ok(Replaced::Overtaken)) | None => self.put_again(put, durability, deadline),
                Some(Err(error)) => Err(error),
            });
            done(i, outcome);
        }
    }

    /// Stores a plain value whose first attempt was overtaken.
    fn put_again(
        &self,
        put: &Put<'_>,
        durability: TDurability,
        deadline: Instant,
    ) -> Result<Commit> {
        let mut attempts = Attempts::until(deadline);
        loop {
            let mut states = self.states(&[put.key], deadline)?;
            let state = states.pop().transpose()?.flatten();
            let write = self.plain_write(put, state.as_ref(), durability)?;
            match self.check_and_write(put.key, &write, deadline)? {
                Replaced::Done(commit) => return Ok(commit),
                Replaced::Overtaken => attempts.again(put.key)?,
            }
        }
    }

    /// Removes rows of which only the headers were read. A row that was written since stays.
    ///
    /// # Errors
    /// Some were not removed, or that is unknown; others were, and count.
    fn remove_all(
        &self,
        rows: &mut Vec<(Vec<u8>, RowState)>,
        now_ms: u64,
        durability: TDurability,
        removed: &mut Removed,
    ) -> Result<()> {
        let made: Vec<CheckedWrite> = rows
            .iter()
            .map(|(key, state)| {
                let stamp = self.stamp_above(state.version);
                stored_row::remove(key, &state.header, state.version, stamp, durability)
            })
            .collect();
        let keys = rows.iter().map(|(key, _)| key.as_slice());
        let writes: Vec<(&[u8], &CheckedWrite)> = keys.zip(&made).collect();
        let written = self.check_and_write_all(&writes, self.cluster.deadline());
        let mut outcome = Ok(());
        for (written, (_, state)) in written.into_iter().zip(&*rows) {
            match written {
                Ok(Replaced::Done(commit)) => {
                    removed.rows += u64::from(state.is_live(now_ms));
                    removed.last = removed.last.max(Some(commit));
                }
                Ok(Replaced::Overtaken) => {}
                // What may have happened counts more than what did not.
                Err(error) if !matches!(outcome, Err(Error::OutcomeUnknown(_))) => {
                    outcome = Err(error);
                }
                Err(_) => {}
            }
        }
        rows.clear();
        outcome
    }

    /// Removes the rows of a range that were written until a time, by the clocks of who wrote them.
    pub(crate) fn remove_until(
        &self,
        range: &impl KeyRange,
        until_ms: u64,
        options: &WriteOptions,
    ) -> Result<(u64, Option<Commit>)> {
        let durability = durability(options);
        let mut removed = Removed::default();
        let mut batch: Vec<(Vec<u8>, RowState)> = Vec::new();
        let now_ms = now_ms();
        let mut remove =
            |batch: &mut Vec<_>| self.remove_all(batch, now_ms, durability, &mut removed);
        let forward = Direction::Forward;
        let scanned = self.scan_cells(range, forward, usize::MAX, true, |key, cells| {
            let state = stored_row::state_of(&cells).map_err(|f| self.foreign(key, f))?;
            let is_removed =
                |state: &RowState| !state.is_tombstone() && written_ms(state.version) <= until_ms;
            // Rows that have expired go, too, and do not count.
            if let Some(state) = state.filter(is_removed) {
                batch.push((key.to_vec(), state));
            }
            if batch.len() == REMOVED_TOGETHER {
                remove(&mut batch)?;
            }
            Ok(Scanned::Row(ControlFlow::Continue(())))
        });
        let outcome = scanned.and_then(|()| remove(&mut batch));
        removed.after(outcome)
    }

    /// Visits the headers of all rows, also of dead ones.
    pub(crate) fn scan_states(
        &self,
        mut visit: impl FnMut(&[u8], RowState) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_cells(&(..), Direction::Forward, usize::MAX, true, |key, cells| {
            let state = stored_row::state_of(&cells).ok().flatten();
            Ok(state.map_or(Scanned::Dead, |state| Scanned::Row(visit(key, state))))
        })
    }

    /// Goes through a range, page by page, until `most` rows are found. `visit` gets each key and
    /// its cells, and says whether to go on.
    fn scan_cells(
        &self,
        range: &impl KeyRange,
        direction: Direction,
        most: usize,
        only_headers: bool,
        mut visit: impl FnMut(&[u8], TResult) -> Result<Scanned>,
    ) -> Result<()> {
        let pages = match only_headers {
            true => PageRows::of_length(0, HEADERS_TOGETHER),
            false => PageRows::of_length(self.row_bytes.load(Ordering::Relaxed), READ_TOGETHER),
        };
        let mut rows_left = most;
        let mut left = Remaining::of(range, direction, most, pages);
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
                .read(|calls| calls.scan_page(&self.table, &scan, rows));
            let page = page.map_err(failure::of)?;
            let found = page.len();
            let bytes: usize = page.iter().map(value_bytes).sum();
            if !only_headers && found > 0 {
                // Falls slowly: behind short rows there may be long ones again.
                let before = self.row_bytes.load(Ordering::Relaxed);
                let mean = (bytes / found).max(before / 2);
                self.row_bytes.store(mean, Ordering::Relaxed);
            }
            let (mut last, mut dead) = (None, 0);
            for cells in page {
                let Some(key) = cells.row.clone() else {
                    continue;
                };
                if left.contains(&key) {
                    match visit(&key, cells)? {
                        Scanned::Row(goes_on) => {
                            rows_left -= 1;
                            if goes_on.is_break() || rows_left == 0 {
                                return Ok(());
                            }
                        }
                        Scanned::Dead => dead += 1,
                    }
                }
                last = Some(key);
            }
            match last {
                Some(last) if found == rows => {
                    // Among dead rows there may be more of them.
                    let most = if dead == 0 { rows_left } else { usize::MAX };
                    left.go_on_behind(last, bytes, most);
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

impl BackendKeyspace for HbaseKeyspace {
    type Watch = Watched;

    fn name(&self) -> &str {
        &self.name
    }

    fn row_count(&self) -> u64 {
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
        // What no row can be named is absent.
        if self.check_key(key).is_err() {
            return Ok(None);
        }
        Ok(self.find(key)?.live().map(read))
    }

    fn get_many(&self, keys: &[&[u8]], read: impl FnMut(usize, Option<Row<'_>>)) -> Result<()> {
        self.read_many(keys, read)
    }

    fn get_each(&self, keys: &[&[u8]], read: impl FnMut(usize, Result<Option<Row<'_>>>)) {
        self.read_each(keys, read);
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
        let (mut start, mut deadline) = (0, self.cluster.deadline());
        while start < puts.len() {
            let end = start + distinct(&puts[start..]);
            let mut is_answered = false;
            self.put_distinct(&puts[start..end], durability, deadline, |i, outcome| {
                is_answered |= outcome.is_ok();
                done(start + i, outcome);
            });
            // In an outage the time of all is over with that of the first.
            if is_answered {
                deadline = self.cluster.deadline();
            }
            start = end;
        }
    }

    fn load(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        write: impl FnMut(usize, &mut RowBuilder<'_>),
    ) -> Result<Option<Commit>> {
        self.load_rows(keys, options, write)
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
            let deadline = attempts.deadline();
            let found = self.find_until(key, deadline)?;
            let mut new = RowBuilder::over(found.live());
            let (result, replaced) = match decide(found.live(), &mut new) {
                Action::Keep(result) => return Ok((result, None)),
                Action::Put(result) => {
                    (result, self.replace(key, &found, &new, options, deadline)?)
                }
                Action::Remove(result) => match &found.stored {
                    Some(stored) if found.live().is_some() => {
                        (result, self.remove(key, stored, options, deadline)?)
                    }
                    _ => return Ok((result, None)),
                },
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
        self.remove_until(&range, u64::MAX, options)
    }

    fn scan_up_to(
        &self,
        range: impl KeyRange,
        direction: Direction,
        most: usize,
        mut visit: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if most == 0 {
            return Ok(());
        }
        self.scan_cells(&range, direction, most, false, |key, cells| {
            let stored = self.stored(key, cells)?;
            let found = Found {
                stored,
                now_ms: now_ms(),
            };
            Ok(match found.live() {
                Some(row) => Scanned::Row(visit(key, row)),
                None => Scanned::Dead,
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
                true => Scanned::Row(visit(key)),
                false => Scanned::Dead,
            })
        })
    }

    fn random_key(&self, _: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>> {
        Err(capabilities::refusal(Capability::RandomKeys))
    }

    fn watch(&self, key: &[u8]) -> Result<Watched> {
        self.check_key(key)?;
        Ok(Watched::of(&self.find(key)?))
    }
}
