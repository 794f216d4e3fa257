//! Commands on keys, whatever their values: `DEL`, `EXISTS`, `TYPE`, `DBSIZE`, `FLUSHDB` …

use std::ops::{Bound, ControlFlow};

use hedgerow::Direction;

use crate::resp::call::{Call, Failure, Outcome};
use crate::shared::Shared;

/// `DEL key …`, `UNLINK key …`
pub(crate) fn del(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut removed = 0;
    for key in call.arguments.iter() {
        removed += usize::from(call.data.remove(key)?);
    }
    call.reply.count(removed);
    Ok(())
}

/// `EXISTS key …`, `TOUCH key …`: a key named twice counts twice.
pub(crate) fn exists(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut found = 0;
    for key in call.arguments.iter() {
        found += usize::from(call.data.read(key, |_| ())?.is_some());
    }
    call.reply.count(found);
    Ok(())
}

/// `TYPE key`
pub(crate) fn type_of(call: &mut Call<'_, '_, '_>) -> Outcome {
    let is_hash = call.data.read(&call.arguments[0], |row| row.is_columns())?;
    call.reply.simple(type_name(is_hash));
    Ok(())
}

/// What Redis calls a row.
pub(crate) fn type_name(is_hash: Option<bool>) -> &'static str {
    match is_hash {
        None => "none",
        Some(false) => "string",
        Some(true) => "hash",
    }
}

/// `DBSIZE`: a counter; inside a transaction a walk, which sees what the transaction wrote.
pub(crate) fn dbsize(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut count = 0;
    if call.data.is_transaction() {
        call.data.scan_keys(.., Direction::Forward, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
    } else {
        count = call.data.keyspace().len() as i64;
    }
    call.reply.integer(count);
    Ok(())
}

/// Whether `FLUSHDB` or `FLUSHALL` got arguments that it knows.
fn check_mode(call: &Call<'_, '_, '_>) -> Outcome {
    let known =
        |mode: &[u8]| mode.eq_ignore_ascii_case(b"ASYNC") || mode.eq_ignore_ascii_case(b"SYNC");
    match call.arguments.len() {
        0 => Ok(()),
        1 if known(&call.arguments[0]) => Ok(()),
        _ => Err(Failure::Syntax),
    }
}

/// `FLUSHDB [ASYNC | SYNC]`
pub(crate) fn flushdb(call: &mut Call<'_, '_, '_>) -> Outcome {
    check_mode(call)?;
    clear(call)?;
    call.reply.ok();
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`
pub(crate) fn flushall(call: &mut Call<'_, '_, '_>) -> Outcome {
    check_mode(call)?;
    let shared: &Shared = call.shared;
    let own = call.data.keyspace();
    for (_, keyspace) in shared.used_databases() {
        call.data.select(keyspace);
        clear(call)?;
    }
    call.data.select(own);
    call.reply.ok();
    Ok(())
}

/// Removes everything from a keyspace: at once, or as part of a transaction.
fn clear(call: &mut Call<'_, '_, '_>) -> Outcome {
    if !call.data.is_transaction() {
        return Ok(call.shared.db.clear_keyspace(call.data.keyspace().name())?);
    }
    let mut keys = Vec::new();
    call.data.scan_keys(.., Direction::Forward, |key| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    for key in keys {
        call.data.remove(&key)?;
    }
    Ok(())
}

/// `RANDOMKEY`: the first key at or after a random point between the first and the last key.
/// Keys after a wide gap are likelier than others.
pub(crate) fn randomkey(call: &mut Call<'_, '_, '_>) -> Outcome {
    let Call { data, reply, .. } = call;
    let end = |direction| -> Outcome<Option<Vec<u8>>> {
        let mut found = None;
        data.scan_keys(.., direction, |key| {
            found = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    };
    let (Some(first), Some(last)) = (end(Direction::Forward)?, end(Direction::Reverse)?) else {
        reply.null();
        return Ok(());
    };
    let from = random_between(&first, &last);
    let mut found = false;
    data.scan_keys(
        (Bound::Included(from), Bound::Unbounded),
        Direction::Forward,
        |key| {
            reply.bulk(key);
            found = true;
            ControlFlow::Break(())
        },
    )?;
    if !found {
        reply.bulk(&last);
    }
    Ok(())
}

/// A random byte string between two, equally distributed over the eight bytes after what they
/// have in common.
fn random_between(first: &[u8], last: &[u8]) -> Vec<u8> {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let word = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[common..];
        let n = rest.len().min(8);
        bytes[..n].copy_from_slice(&rest[..n]);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (word(first), word(last));
    let between = if low < high {
        rand::random_range(low..=high)
    } else {
        low
    };
    let mut key = first[..common].to_vec();
    key.extend_from_slice(&between.to_be_bytes());
    key
}
