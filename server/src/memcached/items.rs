//! What memcached commands do to rows.

use hedgerow::{Action, Commit, Keyspace, Row, Timestamp};

use super::Failure;
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
    /// The cas value that the present item must have.
    pub(super) compare: Option<u64>,
    /// Append and prepend make the item if it is missing.
    pub(super) create: bool,
}

/// The cas value of a row.
pub(super) fn cas(row: &Row<'_>) -> u64 {
    row.timestamp().raw()
}

pub(super) fn keyspace(shared: &Shared) -> Result<&Keyspace, Failure> {
    Ok(shared.keyspace(0)?)
}

fn is_past(expiry_ms: Option<u64>) -> bool {
    expiry_ms.is_some_and(|at| at <= now_ms())
}

/// Stores an item under conditions.
pub(super) fn store(
    shared: &Shared,
    key: &[u8],
    mode: Mode,
    item: Item<'_>,
) -> Result<(Stored, Option<Commit>), Failure> {
    let limit = shared.options.max_bulk_bytes;
    let options = shared.write_options();
    let (stored, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        if let Some(expected) = item.compare {
            match &row {
                None => return Action::Keep(Stored::NotFound),
                Some(row) if cas(row) != expected => return Action::Keep(Stored::Exists),
                Some(_) => {}
            }
        }
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
                new.set_value_owned(parts.concat());
            }
            _ => {
                new.set_value(item.value).set_user_flags(item.user_flags);
                new.set_expiry_ms(item.expiry_ms);
                if is_past(item.expiry_ms) {
                    return Action::Remove(Stored::Done);
                }
            }
        }
        Action::Put(Stored::Done)
    })?;
    Ok((stored, commit))
}

/// How counting ended.
pub(super) enum Counted {
    Now { value: u64, cas: u64 },
    NotFound,
    NotANumber,
    Exists,
}

/// What to count by, and what to begin with.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub(super) down: bool,
    pub(super) delta: u64,
    /// The first value and its expiry, if the item is missing.
    pub(super) initial: Option<(u64, Option<u64>)>,
    /// A new expiry for an item that is there.
    pub(super) touch: Option<Option<u64>>,
    pub(super) compare: Option<u64>,
}

/// Adds to (modulo 2⁶⁴) or subtracts from (not below 0) a decimal number.
pub(super) fn count(
    shared: &Shared,
    key: &[u8],
    count: Count,
) -> Result<(Counted, Option<Commit>), Failure> {
    let options = shared.write_options();
    let (mut counted, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        let value = match row {
            None => {
                let Some((initial, expiry_ms)) = count.initial else {
                    return Action::Keep(Counted::NotFound);
                };
                new.set_expiry_ms(expiry_ms);
                initial
            }
            Some(row) => {
                if count.compare.is_some_and(|expected| cas(&row) != expected) {
                    return Action::Keep(Counted::Exists);
                }
                // Trailing blanks are what memcached itself leaves behind when counting down.
                let digits = row.value().map(<[u8]>::trim_ascii_end);
                let Some(old) = digits.and_then(super::number) else {
                    return Action::Keep(Counted::NotANumber);
                };
                if let Some(expiry_ms) = count.touch {
                    new.set_expiry_ms(expiry_ms);
                }
                match count.down {
                    true => old.saturating_sub(count.delta),
                    false => old.wrapping_add(count.delta),
                }
            }
        };
        new.set_value(itoa::Buffer::new().format(value).as_bytes());
        Action::Put(Counted::Now { value, cas: 0 })
    })?;
    if let (Counted::Now { cas, .. }, Some(commit)) = (&mut counted, &commit) {
        *cas = commit.timestamp.raw();
    }
    Ok((counted, commit))
}

/// Deletes an item, if its cas value is the expected one.
pub(super) fn delete(
    shared: &Shared,
    key: &[u8],
    compare: Option<u64>,
) -> Result<(Stored, Option<Commit>), Failure> {
    let options = shared.write_options();
    Ok(keyspace(shared)?.update(key, &options, |row, _| match row {
        None => Action::Keep(Stored::NotFound),
        Some(row) if compare.is_some_and(|expected| cas(&row) != expected) => {
            Action::Keep(Stored::Exists)
        }
        Some(_) => Action::Remove(Stored::Done),
    })?)
}

/// An item as a reader of one command needs it, copied.
pub(super) struct Found {
    pub(super) value: Vec<u8>,
    pub(super) user_flags: u32,
    pub(super) cas: u64,
    pub(super) expiry_ms: Option<u64>,
}

impl Found {
    pub(super) fn of(row: &Row<'_>) -> Option<Found> {
        Some(Found {
            value: row.value()?.to_vec(),
            user_flags: row.user_flags(),
            cas: cas(row),
            expiry_ms: row.expiry_ms(),
        })
    }
}

/// Reads an item.
pub(super) fn read(shared: &Shared, key: &[u8]) -> Result<Option<Found>, Failure> {
    Ok(keyspace(shared)?
        .read(key, |row| Found::of(&row))?
        .flatten())
}

/// Sets an item's expiry and returns the item; `None` if it is missing.
pub(super) fn touch(
    shared: &Shared,
    key: &[u8],
    expiry_ms: Option<u64>,
) -> Result<(Option<Found>, Option<Commit>), Failure> {
    let options = shared.write_options();
    let (mut found, commit) = keyspace(shared)?.update(key, &options, |row, new| {
        let Some(mut found) = row.as_ref().and_then(Found::of) else {
            return Action::Keep(None);
        };
        found.expiry_ms = expiry_ms;
        new.set_expiry_ms(expiry_ms);
        if is_past(expiry_ms) {
            Action::Remove(Some(found))
        } else {
            Action::Put(Some(found))
        }
    })?;
    if let (Some(found), Some(commit)) = (&mut found, &commit) {
        found.cas = commit.timestamp.raw();
    }
    Ok((found, commit))
}

/// A cas value as a timestamp, for showing both the same way.
pub(super) fn commit_cas(commit: Option<&Commit>) -> u64 {
    commit
        .map_or(Timestamp::ZERO, |commit| commit.timestamp)
        .raw()
}
