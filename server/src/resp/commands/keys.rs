//! Commands on keys, whatever their values: `DEL`, `EXISTS`, `TYPE`, `DBSIZE`, `FLUSHDB` …

use std::ops::ControlFlow;

use hedgerow::Direction;
use hedgerow::backend::{Backend, BackendKeyspace, Capability};

use crate::resp::command::Call;
use crate::resp::data::{partly, partly_emptied};
use crate::resp::failure::{Failure, Outcome};
use crate::shared::Shared;

/// `DEL key …`, `UNLINK key …`
pub(crate) fn del<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (mut removed, keys) = (0, call.arguments.len());
    let at_once = call.data.is_transaction();
    for key in call.arguments.iter() {
        removed += match call.data.remove(key) {
            Ok(gone) => usize::from(gone),
            // Nothing of a transaction was changed.
            Err(failure) if at_once => return Err(failure),
            Err(failure) => return Err(partly(removed, keys, failure)),
        };
    }
    call.reply.count(removed);
    Ok(())
}

/// `EXISTS key …`, `TOUCH key …`: a key named twice counts twice.
pub(crate) fn exists<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let mut found = 0;
    let keys: Vec<&[u8]> = call.arguments.iter().collect();
    for key in call.data.prefetched(&keys) {
        found += usize::from(call.data.read(key, |_| ())?.is_some());
    }
    call.reply.count(found);
    Ok(())
}

/// `TYPE key`
pub(crate) fn type_of<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
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

/// `DBSIZE`: a counter; inside a transaction a walk, which sees what the transaction wrote, and so
/// where the backend does not count.
pub(crate) fn dbsize<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let mut count = 0;
    let is_counted = call.shared.db.lacks(Capability::Counts).is_none();
    if call.data.is_transaction() || !is_counted {
        call.data.scan_keys(.., Direction::Forward, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
    } else {
        count = call.data.keyspace().row_count() as i64;
    }
    call.reply.integer(count);
    Ok(())
}

/// Whether `FLUSHDB` or `FLUSHALL` got arguments that it knows.
fn check_mode<B: Backend>(call: &Call<'_, '_, '_, B>) -> Outcome {
    let known =
        |mode: &[u8]| mode.eq_ignore_ascii_case(b"ASYNC") || mode.eq_ignore_ascii_case(b"SYNC");
    match call.arguments.len() {
        0 => Ok(()),
        1 if known(&call.arguments[0]) => Ok(()),
        _ => Err(Failure::Syntax),
    }
}

/// `FLUSHDB [ASYNC | SYNC]`
pub(crate) fn flushdb<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    check_mode(call)?;
    clear(call)?;
    call.reply.ok();
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`
pub(crate) fn flushall<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    check_mode(call)?;
    let shared: &Shared<B> = call.shared;
    let own = call.data.keyspace();
    let databases = shared.databases()?;
    for (emptied, (_, keyspace)) in databases.iter().enumerate() {
        call.data.select(keyspace);
        let cleared = clear(call);
        call.data.select(own);
        match cleared {
            Ok(()) => {}
            // Nothing of a transaction was changed.
            Err(failure) if call.data.is_transaction() => return Err(failure),
            Err(failure) => return Err(partly_emptied(emptied, databases.len(), failure)),
        }
    }
    call.reply.ok();
    Ok(())
}

/// Removes everything from a keyspace: at once, or as part of a transaction.
fn clear<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if !call.data.is_transaction() {
        let shared: &Shared<B> = call.shared;
        let (name, options) = (call.data.keyspace().name(), shared.write_options());
        return Ok(shared.db.clear_keyspace(name, &options)?);
    }
    call.data.remove_range(..).map(drop)
}

/// Draws of a random key that may come to one that is gone.
const DRAWS: usize = 16;

/// `RANDOMKEY`: each key is as likely as any other; see [`Keyspace::random_key`]. In a transaction,
/// keys that it wrote itself are drawn where there are no others.
///
/// [`Keyspace::random_key`]: hedgerow::Keyspace::random_key
pub(crate) fn randomkey<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call { data, reply, .. } = call;
    for _ in 0..DRAWS {
        let draw = |below| rand::random_range(0..below);
        let Some(key) = data.keyspace().random_key(draw)? else {
            break;
        };
        // Others may have removed it, or the transaction itself.
        if data.read(&key, |_| ())?.is_some() {
            reply.bulk(&key);
            return Ok(());
        }
    }
    let mut found = false;
    data.scan_keys(.., Direction::Forward, |key| {
        reply.bulk(key);
        found = true;
        ControlFlow::Break(())
    })?;
    if !found {
        reply.null();
    }
    Ok(())
}
