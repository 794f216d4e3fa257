//! Commands on plain values.

use std::collections::HashMap;

use hedgerow::backend::{Backend, BackendKeyspace};
use hedgerow::{Action, Row};

use crate::connection::large_values::LARGE_BYTES;
use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::commands::expiry::Deadline;
use crate::resp::data::{Data, READ_TOGETHER};
use crate::resp::failure::wrong_arity;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number::{self, Real};
use crate::resp::reply::Reply;

/// The plain value of a row; a hash is of the wrong type.
pub(super) fn plain<'r>(row: Option<Row<'r>>) -> Outcome<Option<&'r [u8]>> {
    row.map(|row| row.value().ok_or(Failure::WrongType))
        .transpose()
}

/// `GET key`
pub(crate) fn get<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    if data
        .value(&arguments[0], |value| reply.bulk(value))?
        .is_none()
    {
        reply.null();
    }
    Ok(())
}

/// `MGET key …`
pub(crate) fn mget<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        shared,
        ..
    } = call;
    reply.array(arguments.len());
    let keys: Vec<&[u8]> = arguments.iter().collect();
    if data.reads_together() {
        return reply_together(data, &keys, shared.reply_limit_bytes(), reply);
    }
    let mut large = LargeValues::new();
    for key in data.prefetched(&keys) {
        if reply.is_full() {
            break;
        }
        if !large.is_empty()
            && let Some(&(number, len)) = large.get(key)
        {
            reply.repeat_bulk(number, len);
            continue;
        }
        let found = data.read(key, |row| put_value(key, row, &mut large, reply))?;
        if found.is_none() {
            reply.null();
        }
    }
    Ok(())
}

/// The large values of a reply, by their keys: each one's number and length. Each is read and held
/// once, however often its key is named.
type LargeValues<'k> = HashMap<&'k [u8], (u64, usize)>;

/// Replies the value of a key's row; a hash counts as nothing here.
fn put_value<'k>(key: &'k [u8], row: Row<'_>, large: &mut LargeValues<'k>, reply: &mut Reply<'_>) {
    match row.value() {
        None => reply.null(),
        Some(value) if value.len() < LARGE_BYTES => reply.bulk(value),
        Some(value) => put_large(key, value, large, reply),
    }
}

/// Replies a large value, which further keys of the same name repeat.
fn put_large<'k>(key: &'k [u8], value: &[u8], large: &mut LargeValues<'k>, reply: &mut Reply<'_>) {
    if let Some(number) = reply.long_bulk(value) {
        large.insert(key, (number, value.len()));
    }
}

/// What is copied of a row that was read together with others.
enum CopiedRow {
    Plain(Vec<u8>),
    Hash,
    /// There is no room for its value.
    NotCopied,
}

/// Replies values of a backend that reads many keys in one call, as [`mget`] does: a key is asked
/// for once in a call. Copies at most `room_bytes`, which the reply has room for; of values beyond,
/// each is read again by itself, until the reply is full.
fn reply_together<B: Backend>(
    data: &Data<'_, '_, B>,
    keys: &[&[u8]],
    mut room_bytes: usize,
    reply: &mut Reply<'_>,
) -> Outcome {
    let mut copy = |row: Row<'_>| match row.value() {
        None => CopiedRow::Hash,
        Some(value) if value.len() > room_bytes => CopiedRow::NotCopied,
        Some(value) => {
            room_bytes -= value.len();
            CopiedRow::Plain(value.to_vec())
        }
    };
    let mut large = LargeValues::new();
    for some in keys.chunks(READ_TOGETHER) {
        if reply.is_full() {
            break;
        }
        let is_new = |key: &&&[u8]| !large.contains_key(**key);
        let mut asked: Vec<&[u8]> = some.iter().filter(is_new).copied().collect();
        asked.sort_unstable();
        asked.dedup();
        let rows = data.read_together(&asked, &mut copy)?;
        for &key in some {
            if reply.is_full() {
                break;
            }
            if let Some(&(number, len)) = large.get(key) {
                reply.repeat_bulk(number, len);
                continue;
            }
            let at = asked.binary_search(&key).ok();
            match at.and_then(|at| rows[at].as_ref()) {
                None | Some(CopiedRow::Hash) => reply.null(),
                Some(CopiedRow::Plain(value)) if value.len() < LARGE_BYTES => reply.bulk(value),
                Some(CopiedRow::Plain(value)) => put_large(key, value, &mut large, reply),
                Some(CopiedRow::NotCopied) => {
                    let put = |row: Row<'_>| put_value(key, row, &mut large, reply);
                    if data.keyspace().read(key, put)?.is_none() {
                        reply.null();
                    }
                }
            }
        }
    }
    Ok(())
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions<'c> {
    only_absent: bool,
    only_present: bool,
    reply_old: bool,
    keep_ttl: bool,
    deadline: Option<(Deadline, &'c [u8])>,
}

impl<'c> SetOptions<'c> {
    fn parse<B: Backend>(call: &Call<'c, '_, '_, B>) -> Outcome<SetOptions<'c>> {
        let arguments = call.arguments.from(2);
        let mut options = SetOptions::default();
        let mut i = 0;
        while let Some(option) = arguments.get(i) {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            i += 1;
            if is("NX") && !options.only_present {
                options.only_absent = true;
            } else if is("XX") && !options.only_absent {
                options.only_present = true;
            } else if is("GET") {
                options.reply_old = true;
            } else if is("KEEPTTL") && options.deadline.is_none() {
                options.keep_ttl = true;
            } else if !options.keep_ttl
                && let Some(deadline) = Deadline::again(options.deadline, option)
            {
                let value = arguments.get(i).ok_or(Failure::Syntax)?;
                options.deadline = Some((deadline, value));
                i += 1;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(options)
    }
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub(crate) fn set<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let options = SetOptions::parse(call)?;
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let (key, value) = (&arguments[0], &arguments[1]);
    let SetOptions {
        only_absent,
        only_present,
        reply_old,
        keep_ttl,
        deadline,
    } = options;
    let expiry_ms = deadline.map(|(deadline, value)| deadline.positive_ms(value, "set"));
    let expiry_ms = expiry_ms.transpose()?;
    if !only_absent && !only_present && !reply_old && !keep_ttl {
        data.put(key, value, expiry_ms)?;
        reply.ok();
        return Ok(());
    }
    let start = reply.position();
    let old = |reply: &mut crate::resp::reply::Reply<'_>, row: Option<Row<'_>>| -> Outcome {
        if reply_old {
            reply.truncate(start);
            reply.optional(plain(row)?);
        }
        Ok(())
    };
    let done = data.try_update(key, |row, new| {
        old(reply, row)?;
        if (only_absent && row.is_some()) || (only_present && row.is_none()) {
            return Ok(Action::Keep(false));
        }
        new.set_value(value).set_user_flags(0);
        if !keep_ttl {
            new.set_expiry_ms(expiry_ms);
        }
        Ok(Action::Put(true))
    })?;
    match (reply_old, done) {
        (true, _) => {}
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

/// `SETNX key value`
pub(crate) fn setnx<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (key, value) = (&call.arguments[0], &call.arguments[1]);
    let done = call.data.update(key, |row, new| {
        if row.is_some() {
            return Action::Keep(0);
        }
        new.set_value(value);
        Action::Put(1)
    })?;
    call.reply.integer(done);
    Ok(())
}

fn set_with_expiry<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    deadline: Deadline,
    name: &str,
) -> Outcome {
    let expiry_ms = deadline.positive_ms(&call.arguments[1], name)?;
    call.data
        .put(&call.arguments[0], &call.arguments[2], Some(expiry_ms))?;
    call.reply.ok();
    Ok(())
}

/// `SETEX key seconds value`
pub(crate) fn setex<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    set_with_expiry(call, Deadline::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub(crate) fn psetex<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    set_with_expiry(call, Deadline::Milliseconds, "psetex")
}

/// `GETSET key value`
pub(crate) fn getset<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let start = reply.position();
    data.try_update(&arguments[0], |row, new| {
        reply.truncate(start);
        reply.optional(plain(row)?);
        new.set_value(&arguments[1])
            .set_expiry_ms(None)
            .set_user_flags(0);
        Ok(Action::Put(()))
    })
}

/// `GETDEL key`
pub(crate) fn getdel<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let start = reply.position();
    data.try_update(&arguments[0], |row, _| {
        reply.truncate(start);
        reply.optional(plain(row)?);
        Ok(if row.is_some() {
            Action::Remove(())
        } else {
            Action::Keep(())
        })
    })
}

/// What the options of `GETEX` ask for.
#[derive(Clone, Copy)]
enum ExpiryChange<'c> {
    Keep,
    Persist,
    Deadline(Deadline, &'c [u8]),
}

impl<'c> ExpiryChange<'c> {
    /// Reads the options. As in `SET`, the last of several that are of one kind counts.
    fn parse(options: Arguments<'c>) -> Outcome<ExpiryChange<'c>> {
        let mut change = ExpiryChange::Keep;
        let mut i = 0;
        while let Some(option) = options.get(i) {
            let (before, persists) = match change {
                ExpiryChange::Keep => (None, false),
                ExpiryChange::Persist => (None, true),
                ExpiryChange::Deadline(form, value) => (Some((form, value)), false),
            };
            i += 1;
            if option.eq_ignore_ascii_case(b"PERSIST") && before.is_none() {
                change = ExpiryChange::Persist;
            } else if !persists && let Some(form) = Deadline::again(before, option) {
                let value = options.get(i).ok_or(Failure::Syntax)?;
                change = ExpiryChange::Deadline(form, value);
                i += 1;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(change)
    }
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
pub(crate) fn getex<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let change = ExpiryChange::parse(arguments.from(1))?;
    let start = reply.position();
    data.try_update(&arguments[0], |row, new| {
        let value = plain(row)?;
        let expiry_ms = match change {
            ExpiryChange::Deadline(form, value) if row.is_some() => {
                Some(form.positive_ms(value, "getex")?)
            }
            _ => None,
        };
        reply.truncate(start);
        reply.optional(value);
        let Some(row) = row.filter(|_| !matches!(change, ExpiryChange::Keep)) else {
            return Ok(Action::Keep(()));
        };
        if row.expiry_ms() == expiry_ms {
            return Ok(Action::Keep(()));
        }
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= crate::shared::now_ms()) {
            return Ok(Action::Remove(()));
        }
        new.set_expiry_ms(expiry_ms);
        Ok(Action::Put(()))
    })
}

/// `MSET key value …`
pub(crate) fn mset<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(Failure::text(wrong_arity("mset")));
    }
    call.data.put_many(call.arguments.pairs())?;
    call.reply.ok();
    Ok(())
}

/// `MSETNX key value …`
pub(crate) fn msetnx<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if !call.arguments.len().is_multiple_of(2) {
        return Err(Failure::text(wrong_arity("msetnx")));
    }
    if let ([key, value], 2) = (
        [&call.arguments[0], &call.arguments[1]],
        call.arguments.len(),
    ) {
        let done = call.data.update(key, |row, new| {
            if row.is_some() {
                return Action::Keep(0);
            }
            new.set_value(value);
            Action::Put(1)
        })?;
        call.reply.integer(done);
        return Ok(());
    }
    for (key, _) in call.arguments.pairs() {
        if call.data.read(key, |_| ())?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    for (key, value) in call.arguments.pairs() {
        call.data.put(key, value, None)?;
    }
    call.reply.integer(1);
    Ok(())
}

/// Refuses values longer than the protocol can carry.
fn check_length(bytes: usize, most_bytes: usize) -> Outcome {
    if bytes > most_bytes {
        let text = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
        return Err(Failure::text(text));
    }
    Ok(())
}

/// `APPEND key value`
pub(crate) fn append<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (key, suffix) = (&call.arguments[0], &call.arguments[1]);
    let most_bytes = call.shared.settings.max_bulk_bytes();
    let length = call.data.try_update(key, |row, new| {
        let old = plain(row)?.unwrap_or_default();
        check_length(old.len() + suffix.len(), most_bytes)?;
        let value = [old, suffix].concat();
        let length = value.len();
        if row.is_some() && suffix.is_empty() {
            return Ok(Action::Keep(length));
        }
        new.set_value_owned(value);
        Ok(Action::Put(length))
    })?;
    call.reply.count(length);
    Ok(())
}

/// `STRLEN key`
pub(crate) fn strlen<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let length = call.data.value(&call.arguments[0], <[u8]>::len)?;
    call.reply.count(length.unwrap_or(0));
    Ok(())
}

/// The places `first..=last` that `start` and `end` name in something of `length` places; negative
/// ones count from its end. `None` if there are none.
pub(super) fn resolve_range(start: i64, end: i64, length: i64) -> Option<(u64, u64)> {
    if length == 0 || (start < 0 && end < 0 && start > end) {
        return None;
    }
    let place = |at: i64| {
        if at < 0 {
            at.saturating_add(length).max(0)
        } else {
            at
        }
    };
    let (start, end) = (place(start), place(end).min(length - 1));
    (start <= end).then_some((start as u64, end as u64))
}

/// `GETRANGE key start end`
pub(crate) fn getrange<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let start = number::argument(&arguments[1])?;
    let end = number::argument(&arguments[2])?;
    let found = data.value(&arguments[0], |value| {
        let range = resolve_range(start, end, value.len() as i64);
        reply.bulk(range.map_or(b"", |(start, end)| &value[start as usize..=end as usize]));
    })?;
    if found.is_none() {
        reply.bulk(b"");
    }
    Ok(())
}

/// `SETRANGE key offset value`
pub(crate) fn setrange<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (key, patch) = (&call.arguments[0], &call.arguments[2]);
    let offset = number::argument(&call.arguments[1])?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(Failure::text("ERR offset is out of range"));
    };
    let end = offset.saturating_add(patch.len());
    let most_bytes = call.shared.settings.max_bulk_bytes();
    let length = call.data.try_update(key, |row, new| {
        let old = plain(row)?.unwrap_or_default();
        if patch.is_empty() {
            return Ok(Action::Keep(old.len()));
        }
        check_length(end, most_bytes)?;
        let mut value = old.to_vec();
        value.resize(value.len().max(end), 0);
        value[offset..end].copy_from_slice(patch);
        let length = value.len();
        new.set_value_owned(value);
        Ok(Action::Put(length))
    })?;
    call.reply.count(length);
    Ok(())
}

fn add<B: Backend>(call: &mut Call<'_, '_, '_, B>, delta: i64) -> Outcome {
    let sum = call.data.try_update(&call.arguments[0], |row, new| {
        let old = match plain(row)? {
            None => 0,
            Some(value) => number::integer(value).ok_or(Failure::NotInteger)?,
        };
        let sum = old.checked_add(delta).ok_or(Failure::Overflow)?;
        new.set_value(itoa::Buffer::new().format(sum).as_bytes());
        Ok(Action::Put(sum))
    })?;
    call.reply.integer(sum);
    Ok(())
}

/// `INCR key`
pub(crate) fn incr<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    add(call, 1)
}

/// `DECR key`
pub(crate) fn decr<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    add(call, -1)
}

/// `INCRBY key increment`
pub(crate) fn incrby<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let delta = number::argument(&call.arguments[1])?;
    add(call, delta)
}

/// `DECRBY key decrement`
pub(crate) fn decrby<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let delta = number::argument(&call.arguments[1])?;
    let delta = delta
        .checked_neg()
        .ok_or(Failure::text("ERR decrement would overflow"))?;
    add(call, delta)
}

/// `INCRBYFLOAT key increment`
pub(crate) fn incrbyfloat<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let delta = &arguments[1];
    let start = reply.position();
    data.try_update(&arguments[0], |row, new| {
        reply.truncate(start);
        let old = Real::parse(plain(row)?.unwrap_or(b"0")).ok_or(Failure::NotFloat)?;
        let delta = Real::parse(delta).ok_or(Failure::NotFloat)?;
        let sum = old.plus(&delta);
        let sum = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?;
        new.set_value(sum.as_bytes());
        reply.bulk(sum.as_bytes());
        Ok(Action::Put(()))
    })
}

/// `SUBSTR key start end`: the old name of `GETRANGE`.
pub(crate) fn substr<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    getrange(call)
}
