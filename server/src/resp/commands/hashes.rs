//! Commands on hashes: rows with columns.

use hedgerow::backend::Backend;
use hedgerow::{Action, Row, RowBuilder};
use rand::Rng;

use crate::resp::command::Call;
use crate::resp::failure::wrong_arity;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number::{self, Real};
use crate::resp::reply::{LONGEST_REPLY_BYTES, Reply};

/// A hash row; a plain value is of the wrong type.
fn hash(row: Option<Row<'_>>) -> Outcome<Option<Row<'_>>> {
    match row {
        Some(row) if !row.is_columns() => Err(Failure::WrongType),
        row => Ok(row),
    }
}

/// Replies the values of some fields, in the order of their names here.
pub(super) fn reply_values(reply: &mut Reply<'_>, row: Row<'_>, fields: &[&[u8]]) {
    reply.array(fields.len());
    for value in row.columns_named(fields) {
        reply.optional(value);
    }
}

/// Sets fields; how many are new.
fn set_fields<B: Backend>(call: &mut Call<'_, '_, '_, B>, name: &str) -> Outcome<usize> {
    let Call {
        arguments, data, ..
    } = call;
    let fields = arguments.from(1);
    if !fields.len().is_multiple_of(2) {
        return Err(Failure::text(wrong_arity(name)));
    }
    data.try_update(&arguments[0], |row, new| {
        let row = hash(row)?;
        let mut added: Vec<&[u8]> = fields.pairs().map(|(field, _)| field).collect();
        if let Some(row) = row {
            let mut present = row.columns_named(&added).into_iter();
            added.retain(|_| present.next().flatten().is_none());
        }
        for (field, value) in fields.pairs() {
            new.set_column(field, value);
        }
        added.sort_unstable();
        added.dedup();
        Ok(Action::Put(added.len()))
    })
}

/// `HSET key field value …`
pub(crate) fn hset<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let added = set_fields(call, "hset")?;
    call.reply.count(added);
    Ok(())
}

/// `HMSET key field value …`
pub(crate) fn hmset<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    set_fields(call, "hmset")?;
    call.reply.ok();
    Ok(())
}

/// `HSETNX key field value`
pub(crate) fn hsetnx<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let done = call.data.try_update(&arguments[0], |row, new| {
        if hash(row)?.is_some_and(|row| row.column(&arguments[1]).is_some()) {
            return Ok(Action::Keep(0));
        }
        new.set_column(&arguments[1], &arguments[2]);
        Ok(Action::Put(1))
    })?;
    call.reply.integer(done);
    Ok(())
}

/// `HGET key field`
pub(crate) fn hget<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let field = &arguments[1];
    if data
        .hash(&arguments[0], |row| reply.optional(row.column(field)))?
        .is_none()
    {
        reply.null();
    }
    Ok(())
}

/// `HMGET key field …`
pub(crate) fn hmget<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let fields: Vec<&[u8]> = arguments.from(1).iter().collect();
    let found = data.hash(&arguments[0], |row| reply_values(reply, row, &fields))?;
    if found.is_none() {
        reply.array(fields.len());
        for _ in 0..fields.len() {
            reply.null();
        }
    }
    Ok(())
}

/// `HGETALL key`
pub(crate) fn hgetall<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let found = data.hash(&arguments[0], |row| {
        reply.map(row.column_count());
        for (field, value) in row.columns() {
            reply.bulk(field);
            reply.bulk(value);
        }
    })?;
    if found.is_none() {
        reply.map(0);
    }
    Ok(())
}

/// Replies one side of all columns.
fn list<B: Backend>(call: &mut Call<'_, '_, '_, B>, names: bool) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let found = data.hash(&arguments[0], |row| {
        reply.array(row.column_count());
        for (field, value) in row.columns() {
            reply.bulk(if names { field } else { value });
        }
    })?;
    if found.is_none() {
        reply.array(0);
    }
    Ok(())
}

/// `HKEYS key`
pub(crate) fn hkeys<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    list(call, true)
}

/// `HVALS key`
pub(crate) fn hvals<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    list(call, false)
}

/// `HLEN key`
pub(crate) fn hlen<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let count = call
        .data
        .hash(&call.arguments[0], |row| row.column_count())?;
    call.reply.count(count.unwrap_or(0));
    Ok(())
}

/// `HSTRLEN key field`
pub(crate) fn hstrlen<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let field = &call.arguments[1];
    let length = call.data.hash(&call.arguments[0], |row| {
        row.column(field).map_or(0, <[u8]>::len)
    })?;
    call.reply.count(length.unwrap_or(0));
    Ok(())
}

/// `HEXISTS key field`
pub(crate) fn hexists<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let field = &call.arguments[1];
    let found = call
        .data
        .hash(&call.arguments[0], |row| row.column(field).is_some())?;
    call.reply.integer(i64::from(found.unwrap_or(false)));
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`: one field, or as many as there are up to `count`, each
/// once; of a negative count its amount, each drawn anew. All fields are equally likely.
pub(crate) fn hrandfield<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let count = match arguments.get(1) {
        Some(count) => Some(field_count(count)?),
        None => None,
    };
    let with_values = match (arguments.len(), arguments.get(2)) {
        (..=2, _) => false,
        (3, Some(option)) if option.eq_ignore_ascii_case(b"WITHVALUES") => true,
        _ => return Err(Failure::Syntax),
    };
    let drawable = -(i64::MAX / 2)..=i64::MAX / 2;
    if with_values && count.is_some_and(|count| !drawable.contains(&count)) {
        return Err(Failure::text("ERR value is out of range"));
    }
    let before = reply.unsent();
    let found = data.hash(&arguments[0], |row| {
        let columns: Vec<(&[u8], &[u8])> = row.columns().collect();
        if columns.is_empty() {
            reply_nothing(reply, count);
            return Ok(());
        }
        let mut random = rand::rng();
        let Some(count) = count else {
            reply.bulk(columns[random.random_range(0..columns.len())].0);
            return Ok(());
        };
        let amount = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let drawn = if count >= 0 {
            amount.min(columns.len())
        } else {
            amount
        };
        let entries = 1 + usize::from(with_values && !reply.is_resp3());
        reply.array(drawn.saturating_mul(entries));
        if count >= 0 {
            for at in rand::seq::index::sample(&mut random, columns.len(), drawn).into_iter() {
                reply_field(reply, columns[at], with_values);
            }
            return Ok(());
        }
        for number in 0..drawn {
            let at = random.random_range(0..columns.len());
            reply_field(reply, columns[at], with_values);
            if reply.is_full() {
                break;
            }
            if number > 0 && reply.unsent() - before > LONGEST_REPLY_BYTES {
                return Err(Failure::text(
                    "ERR the reply exceeds the server's limit; ask for fewer fields",
                ));
            }
        }
        Ok(())
    })?;
    found.unwrap_or_else(|| {
        reply_nothing(reply, count);
        Ok(())
    })
}

fn reply_nothing(reply: &mut Reply<'_>, count: Option<i64>) {
    match count {
        None => reply.null(),
        Some(_) => reply.array(0),
    }
}

/// How many fields to draw.
fn field_count(argument: &[u8]) -> Outcome<i64> {
    let count = number::argument(argument)?;
    if count == i64::MIN {
        return Err(Failure::text(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        )));
    }
    Ok(count)
}

fn reply_field(reply: &mut Reply<'_>, (field, value): (&[u8], &[u8]), with_value: bool) {
    if with_value && reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(field);
    if with_value {
        reply.bulk(value);
    }
}

/// `HDEL key field …`: a hash without fields is gone.
pub(crate) fn hdel<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let removed = call.data.try_update(&arguments[0], |row, new| {
        let Some(row) = hash(row)? else {
            return Ok(Action::Keep(0));
        };
        let mut fields: Vec<&[u8]> = arguments.from(1).iter().collect();
        fields.sort_unstable();
        fields.dedup();
        let mut present = row.columns_named(&fields).into_iter();
        fields.retain(|_| present.next().flatten().is_some());
        if fields.len() == row.column_count() {
            return Ok(Action::Remove(fields.len()));
        }
        for field in &fields {
            new.remove_column(field);
        }
        Ok(if fields.is_empty() {
            Action::Keep(0)
        } else {
            Action::Put(fields.len())
        })
    })?;
    call.reply.count(removed);
    Ok(())
}

/// `HINCRBY key field increment`
pub(crate) fn hincrby<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let delta = number::argument(&arguments[2])?;
    let sum = call.data.try_update(&arguments[0], |row, new| {
        let old = match hash(row)?.and_then(|row| row.column(&arguments[1])) {
            None => 0,
            Some(value) => {
                number::integer(value).ok_or(Failure::text("ERR hash value is not an integer"))?
            }
        };
        let sum = old.checked_add(delta).ok_or(Failure::Overflow)?;
        new.set_column(&arguments[1], itoa::Buffer::new().format(sum).as_bytes());
        Ok(Action::Put(sum))
    })?;
    call.reply.integer(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field increment`
pub(crate) fn hincrbyfloat<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let delta = Real::parse(&arguments[2]).ok_or(Failure::NotFloat)?;
    if !delta.is_finite() {
        return Err(Failure::text("ERR value is NaN or Infinity"));
    }
    let start = reply.position();
    data.try_update(&arguments[0], |row, new: &mut RowBuilder<'_>| {
        reply.truncate(start);
        let old = hash(row)?
            .and_then(|row| row.column(&arguments[1]))
            .unwrap_or(b"0");
        let old = Real::parse(old).ok_or(Failure::text("ERR hash value is not a float"))?;
        let sum = old.plus(&delta);
        let sum = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?;
        new.set_column(&arguments[1], sum.as_bytes());
        reply.bulk(sum.as_bytes());
        Ok(Action::Put(()))
    })
}
