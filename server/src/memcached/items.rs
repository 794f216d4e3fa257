//! What memcached commands do to rows.

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Action, Commit, Row, RowBuilder, Timestamp};

use super::flags::ExpiryFlags;
use super::outcome::Failure;
use super::request::stored_number;
use crate::shared::{Shared, now_ms};

/// When to store, and what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// How storing ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Done,
    /// The condition does not hold.
    Refused,
    /// The cas value differs.
    Exists,
    NotFound,
}

/// An item to store.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) value: &'a [u8],
    pub(super) user_flags: u32,
    pub(super) expiry_ms: Option<u64>,
    /// The cas value that the present item must have; with 0, append and prepend do not compare.
    pub(super) compare: Option<u64>,
    /// Append and prepend make the item if it is missing.
    pub(super) create: bool,
    /// A value that is older than the present item replaces it, marked stale.
    pub(super) stale_if_older: bool,
    /// The cas value that the item gets.
    pub(super) version: Option<u64>,
}

/// The item is stale: still served, but somebody should make it anew.
pub(super) const STALE: u8 = 1;
/// Some client won the item: it should make it anew.
pub(super) const CLAIMED: u8 = 2;

/// The cas value of a row.
pub(super) fn cas(row: &Row<'_>) -> u64 {
    row.version()
}

/// Gives the new row the cas value that its writer chose, if it chose one.
fn choose_version(new: &mut RowBuilder<'_>, version: Option<u64>) {
    if let Some(version) = version {
        new.set_version(version);
    }
}

pub(super) fn keyspace<B: Backend>(shared: &Shared<B>) -> Result<&B::Keyspace, Failure> {
    Ok(shared.keyspace(0)?)
}

fn is_past(expiry_ms: Option<u64>) -> bool {
    expiry_ms.is_some_and(|at| at <= now_ms())
}

/// How many seconds are left until a moment; those that have begun count.
pub(super) fn seconds_left(at_ms: u64) -> u64 {
    at_ms.saturating_sub(now_ms()).div_ceil(1000)
}

impl Item<'_> {
    /// Compares the cas value of the present item with the expected one: whether this item is
    /// stored as a stale one, or, as an error, what forbids to store it.
    fn compare(&self, mode: Mode, present: Option<&Row<'_>>) -> Result<bool, Stored> {
        let Some(expected) = self.compare else {
            return Ok(false);
        };
        match (mode, present) {
            (Mode::Set | Mode::Replace, None) => Err(Stored::NotFound),
            // Of the other modes each says itself what it does without an item.
            (_, None) | (Mode::Add, _) => Ok(false),
            // As in memcached, 0 is no cas value to these.
            (Mode::Append | Mode::Prepend, _) if expected == 0 => Ok(false),
            (_, Some(row)) if cas(row) == expected => Ok(false),
            (Mode::Set | Mode::Replace, Some(row))
                if self.stale_if_older && (1..cas(row)).contains(&expected) =>
            {
                Ok(true)
            }
            (_, Some(_)) => Err(Stored::Exists),
        }
    }
}

/// What became of an item that was to be stored.
pub(super) struct StoreResult {
    pub(super) stored: Stored,
    /// Of the stored value.
    pub(super) length: usize,
    pub(super) commit: Option<Commit>,
}

/// Stores an item under conditions.
pub(super) fn store<B: Backend>(
    shared: &Shared<B>,
    key: &[u8],
    mode: Mode,
    item: Item<'_>,
) -> Result<StoreResult, Failure> {
    let limit = shared.settings.max_bulk_bytes();
    let options = shared.write_options();
    let mut length = item.value.len();
    let (stored, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        length = item.value.len();
        let is_stale = match item.compare(mode, row.as_ref()) {
            Ok(is_stale) => is_stale,
            Err(stored) => return Action::Keep(stored),
        };
        let value = row.and_then(|row| row.value());
        let refused = match mode {
            Mode::Set => false,
            Mode::Add => row.is_some(),
            Mode::Replace => row.is_none(),
            Mode::Append | Mode::Prepend => value.is_none() && !(item.create && row.is_none()),
        };
        if refused {
            return Action::Keep(Stored::Refused);
        }
        match (mode, value) {
            (Mode::Append | Mode::Prepend, Some(old)) => {
                if old.len() + item.value.len() > limit {
                    return Action::Keep(Stored::Refused);
                }
                let parts = if mode == Mode::Append {
                    [old, item.value]
                } else {
                    [item.value, old]
                };
                length = old.len() + item.value.len();
                new.set_value_owned(parts.concat());
            }
            _ => {
                // A stale item stays no longer than the one before it, and is to be made anew, too.
                let (expiry_ms, marks) = match row.filter(|_| is_stale) {
                    Some(row) => (row.expiry_ms(), STALE | row.marks()),
                    None => (item.expiry_ms, 0),
                };
                new.set_value(item.value).set_user_flags(item.user_flags);
                new.set_expiry_ms(expiry_ms).set_marks(marks);
                if is_past(expiry_ms) {
                    return Action::Remove(Stored::Done);
                }
            }
        }
        choose_version(new, item.version);
        Action::Put(Stored::Done)
    })?;
    Ok(StoreResult {
        stored,
        length,
        commit,
    })
}

/// How counting ended.
pub(super) enum Counted {
    Now {
        value: u64,
        cas: u64,
        /// The one that flag `t` returns.
        expiry_ms: Option<u64>,
    },
    NotFound,
    NotANumber,
    Exists,
}

/// What to count by, and what to begin with.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) down: bool,
    pub(super) delta: u64,
    /// The first value, if the item is missing and `expiry` makes it.
    pub(super) initial: u64,
    pub(super) expiry: ExpiryFlags,
    /// The cas value that the present item must have; 0, as in memcached, is none.
    pub(super) compare: Option<u64>,
    /// The cas value that the item gets.
    pub(super) version: Option<u64>,
}

/// Adds to (modulo 2⁶⁴) or subtracts from (not below 0) a decimal number.
pub(super) fn count<B: Backend>(
    shared: &Shared<B>,
    key: &[u8],
    count: Count,
) -> Result<(Counted, Option<Commit>), Failure> {
    let options = shared.write_options();
    let compare = count.compare.filter(|expected| *expected != 0);
    let (mut counted, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        let expiry = count.expiry;
        let value = match row {
            None if !expiry.makes() => return Action::Keep(Counted::NotFound),
            None => count.initial,
            Some(row) => {
                if compare.is_some_and(|expected| cas(&row) != expected) {
                    return Action::Keep(Counted::Exists);
                }
                let Some(old) = row.value().and_then(stored_number) else {
                    return Action::Keep(Counted::NotANumber);
                };
                match count.down {
                    true => old.saturating_sub(count.delta),
                    false => old.wrapping_add(count.delta),
                }
            }
        };
        let (shown_expiry_ms, expiry_ms) = match row.map(|row| row.expiry_ms()) {
            Some(was) => (expiry.found_by(b't', was), expiry.of_present(was)),
            None => (expiry.found_in_made(b't'), expiry.of_made()),
        };
        // As in memcached, a number that changes is as stale as before.
        new.set_value(itoa::Buffer::new().format(value).as_bytes())
            .set_marks(row.map_or(0, |row| row.marks()))
            .set_expiry_ms(expiry_ms);
        choose_version(new, count.version);
        Action::Put(Counted::Now {
            value,
            cas: 0,
            expiry_ms: shown_expiry_ms,
        })
    })?;
    if let Counted::Now { cas, .. } = &mut counted {
        *cas = new_cas(count.version, commit.as_ref());
    }
    Ok((counted, commit))
}

/// How an item is deleted, or what happens to it instead.
#[derive(Clone, Copy, Default)]
pub(super) struct Delete {
    /// The cas value that the present item must have.
    pub(super) compare: Option<u64>,
    /// The item is marked stale instead.
    pub(super) invalidate: bool,
    /// The item stays with an empty value and these client flags.
    pub(super) empty: Option<u32>,
    /// A new expiry for an item that stays.
    pub(super) touch: Option<Option<u64>>,
    /// The cas value that an item gets which stays.
    pub(super) version: Option<u64>,
}

/// Deletes an item, if its cas value is the expected one, or marks or empties it.
pub(super) fn delete<B: Backend>(
    shared: &Shared<B>,
    key: &[u8],
    delete: Delete,
) -> Result<(Stored, Option<Commit>), Failure> {
    let options = shared.write_options();
    Ok(keyspace(shared)?.update(key, &options, |row, new| {
        let Some(row) = row else {
            return Action::Keep(Stored::NotFound);
        };
        if delete.compare.is_some_and(|expected| cas(&row) != expected) {
            return Action::Keep(Stored::Exists);
        }
        let stays = delete.invalidate || delete.empty.is_some();
        if !stays {
            return Action::Remove(Stored::Done);
        }
        // A row with columns reads as missing, and has no value that could be stale or empty.
        if row.value().is_none() {
            return Action::Keep(Stored::NotFound);
        }
        if let Some(user_flags) = delete.empty {
            new.set_value(b"").set_user_flags(user_flags);
            new.set_expiry_ms(None);
        }
        if let Some(expiry_ms) = delete.touch {
            new.set_expiry_ms(expiry_ms);
            if is_past(expiry_ms) {
                return Action::Remove(Stored::Done);
            }
        }
        if delete.invalidate {
            // The next reader wins the item, whichever client won it before.
            new.set_marks(STALE);
        }
        choose_version(new, delete.version);
        Action::Put(Stored::Done)
    })?)
}

/// An item as a reader of one command needs it, copied.
pub(super) struct Found {
    pub(super) value: Vec<u8>,
    pub(super) user_flags: u32,
    pub(super) cas: u64,
    /// The one that flag `t` returns.
    pub(super) expiry_ms: Option<u64>,
    /// [`STALE`], [`CLAIMED`]: as they were before the reader came.
    pub(super) marks: u8,
    /// The reader is to make the item anew.
    pub(super) won: bool,
}

impl Found {
    pub(super) fn of(row: &Row<'_>) -> Option<Found> {
        Some(Found {
            value: row.value()?.to_vec(),
            user_flags: row.user_flags(),
            cas: cas(row),
            expiry_ms: row.expiry_ms(),
            marks: row.marks(),
            won: false,
        })
    }
}

/// Reads an item.
pub(super) fn read<B: Backend>(shared: &Shared<B>, key: &[u8]) -> Result<Option<Found>, Failure> {
    Ok(keyspace(shared)?
        .read(key, |row| Found::of(&row))?
        .flatten())
}

/// What a read does besides reading.
#[derive(Clone, Copy, Default)]
pub(super) struct Fetch {
    /// Sets the expiry, and makes an empty item if there is none.
    pub(super) expiry: ExpiryFlags,
    /// An item with less time left than these seconds is to be made anew.
    pub(super) recache_s: Option<i64>,
    /// The cas value that an item gets which is made.
    pub(super) version: Option<u64>,
}

impl Fetch {
    fn only_reads(&self) -> bool {
        !self.expiry.touches() && !self.expiry.makes() && self.recache_s.is_none()
    }

    /// Whether so little time is left that the item should be made anew.
    fn is_nearly_over(&self, row: &Row<'_>) -> bool {
        match (self.expiry.found_by(b'R', row.expiry_ms()), self.recache_s) {
            (Some(at_ms), Some(least_s)) => {
                i64::try_from(seconds_left(at_ms)).is_ok_and(|left_s| left_s < least_s)
            }
            _ => false,
        }
    }
}

/// What [`fetch`] came to.
pub(super) struct Fetched {
    /// `None` if the item is missing.
    pub(super) found: Option<Found>,
    /// The cas value that the item had before.
    pub(super) was: Option<u64>,
    pub(super) commit: Option<Commit>,
}

/// Reads an item and does what else was asked. The first reader of an item that is stale, was just
/// made or is nearly over wins: it is to make the item anew. While writes are paused nobody wins,
/// as to claim the item is a write, and so is what the winner would do.
pub(super) fn fetch<B: Backend>(
    shared: &Shared<B>,
    key: &[u8],
    fetch: Fetch,
) -> Result<Fetched, Failure> {
    if fetch.only_reads() {
        let mut found = read(shared, key)?;
        if let Some(found) = &mut found
            && found.marks == STALE
            && shared.pause.scope().is_some()
        {
            found.marks |= CLAIMED;
        }
        if found.as_ref().is_none_or(|found| found.marks != STALE) {
            let was = found.as_ref().map(|found| found.cas);
            let commit = None;
            return Ok(Fetched { found, was, commit });
        }
    }
    let mut was = None;
    let options = shared.write_options();
    let (mut found, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        was = None;
        let Some(row) = row else {
            return match fetch.expiry.makes() {
                true => make_empty(new, fetch.expiry, fetch.version),
                false => Action::Keep(None),
            };
        };
        let Some(mut found) = Found::of(&row) else {
            return Action::Keep(None);
        };
        was = Some(found.cas);
        let is_due = found.marks & STALE != 0 || fetch.is_nearly_over(&row);
        found.won = is_due && found.marks & CLAIMED == 0;
        if found.won {
            new.set_marks(found.marks | CLAIMED);
        }
        found.expiry_ms = fetch.expiry.found_by(b't', row.expiry_ms());
        if fetch.expiry.touches() {
            let expiry_ms = fetch.expiry.of_present(row.expiry_ms());
            new.set_expiry_ms(expiry_ms);
            if is_past(expiry_ms) {
                return Action::Remove(Some(found));
            }
        }
        if found.won || fetch.expiry.touches() {
            // The value is the one that it was.
            new.set_version(found.cas);
            Action::Put(Some(found))
        } else {
            Action::Keep(Some(found))
        }
    })?;
    if let (Some(found), None) = (&mut found, was) {
        found.cas = new_cas(fetch.version, commit.as_ref());
    }
    Ok(Fetched { found, was, commit })
}

/// Makes an item that is missing, empty, for this client to fill.
fn make_empty(
    new: &mut RowBuilder<'_>,
    expiry: ExpiryFlags,
    version: Option<u64>,
) -> Action<Option<Found>> {
    let expiry_ms = expiry.of_made();
    new.set_value(b"")
        .set_expiry_ms(expiry_ms)
        .set_marks(CLAIMED);
    choose_version(new, version);
    let made = Found {
        value: Vec::new(),
        user_flags: 0,
        cas: 0,
        expiry_ms: expiry.found_in_made(b't'),
        marks: 0,
        won: true,
    };
    if is_past(expiry_ms) {
        Action::Keep(Some(made))
    } else {
        Action::Put(Some(made))
    }
}

/// Sets an item's expiry and returns the item; `None` if it is missing.
pub(super) fn touch<B: Backend>(
    shared: &Shared<B>,
    key: &[u8],
    expiry_ms: Option<u64>,
) -> Result<(Option<Found>, Option<Commit>), Failure> {
    let options = shared.write_options();
    let (found, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        let Some(mut found) = row.as_ref().and_then(Found::of) else {
            return Action::Keep(None);
        };
        found.expiry_ms = expiry_ms;
        // The value is the one that it was, and so is its cas value.
        new.set_expiry_ms(expiry_ms).set_version(found.cas);
        if is_past(expiry_ms) {
            Action::Remove(Some(found))
        } else {
            Action::Put(Some(found))
        }
    })?;
    Ok((found, commit))
}

/// The cas value of an item that was just written: the chosen one, or its commit's; 0 if nothing
/// was written.
pub(super) fn new_cas(chosen: Option<u64>, commit: Option<&Commit>) -> u64 {
    let Some(commit) = commit else {
        return Timestamp::ZERO.raw();
    };
    chosen.unwrap_or(commit.timestamp.raw())
}
