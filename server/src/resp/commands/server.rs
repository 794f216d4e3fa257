//! Commands about the server: `SAVE`, `WAITAOF`, `SHUTDOWN`, `TIME`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::protocol::effects::Effects;
use crate::resp::command::Call;
use crate::resp::failure::{Failure, Outcome, needs};
use crate::resp::number;
use crate::shared::now_us;
use hedgerow::backend::{Backend, Capability};

/// `SAVE`: a checkpoint, awaited. Other connections of this worker wait too.
pub(crate) fn save<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if !call.shared.save()? {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    call.reply.ok();
    Ok(())
}

/// `BGSAVE [SCHEDULE]`: a checkpoint in a thread of its own.
pub(crate) fn bgsave<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let is_known = |option: &[u8]| option.eq_ignore_ascii_case(b"SCHEDULE");
    if call.arguments.len() > 1 || !call.arguments.iter().all(is_known) {
        return Err(Failure::Syntax);
    }
    needs(&*call.shared.db, Capability::Checkpoints)?;
    if call.shared.db.is_volatile() {
        return Err(hedgerow::Error::InMemory.into());
    }
    if call.shared.saving.load(Ordering::Acquire) {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    // Inside a transaction it waits for the transaction's end.
    let state = match call.data.is_transaction() {
        true => {
            call.session.outside.get_or_insert_default().saves = true;
            "scheduled"
        }
        false => {
            call.shared.save_in_background();
            "started"
        }
    };
    call.reply.simple(&format!("Background saving {state}"));
    Ok(())
}

/// `LASTSAVE`
pub(crate) fn lastsave<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    call.reply
        .integer(call.shared.last_save_s.load(Ordering::Relaxed) as i64);
    Ok(())
}

/// `WAITAOF numlocal numreplicas timeout`: with `numlocal` 1 the reply is held back until
/// everything that this connection wrote is durable, or the time is up. There are no replicas to
/// wait for. A backend elsewhere says nothing of a write that was not synced: it is not awaited.
pub(crate) fn waitaof<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let local = number::argument(&call.arguments[0])?;
    let replicas = number::argument(&call.arguments[1])?;
    let timeout_ms = number::argument(&call.arguments[2])?;
    if !(0..=1).contains(&local) {
        return Err(Failure::text(
            "ERR value is out of range, must be between 0 and 1",
        ));
    }
    if replicas < 0 {
        return Err(Failure::text("ERR value is out of range, must be positive"));
    }
    if timeout_ms < 0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    let commit = call.session.last_commit;
    let is_known = !B::IS_REMOTE || call.shared.is_sync();
    let is_durable = |commit| is_known && call.shared.db.is_durable(&commit);
    let durable = commit.is_none_or(is_durable);
    // Inside a transaction nothing can be awaited.
    let wait = local == 1 && !durable && is_known && !call.data.is_transaction();
    if wait {
        *call.ran = Effects {
            awaits: commit,
            // So far away that the clock cannot say it is never.
            deadline: (timeout_ms > 0)
                .then(|| Instant::now().checked_add(Duration::from_millis(timeout_ms as u64)))
                .flatten(),
            ..*call.ran
        };
    }
    call.reply.array(2);
    call.reply.integer(i64::from(durable || wait));
    call.reply.integer(0);
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]` or `SHUTDOWN ABORT`: everything acknowledged is flushed
/// in any case.
pub(crate) fn shutdown<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (mut saves, mut aborts) = (None, false);
    for option in call.arguments.iter() {
        let option = option.to_ascii_uppercase();
        match option.as_slice() {
            b"NOSAVE" | b"SAVE" if saves.as_ref().is_none_or(|other| *other == option) => {
                saves = Some(option);
            }
            b"NOW" | b"FORCE" => {}
            b"ABORT" => aborts = true,
            _ => return Err(Failure::Syntax),
        }
    }
    match (aborts, call.arguments.len()) {
        (true, 1) => return Err(Failure::text("ERR No shutdown in progress.")),
        (true, _) => return Err(Failure::Syntax),
        (false, _) => {}
    }
    call.shared.ask_to_stop();
    // As in Redis, the end of the connection is the answer.
    call.ran.close = true;
    Ok(())
}

/// `TIME`
pub(crate) fn time<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let now_us = now_us();
    call.reply.array(2);
    for number in [now_us / 1_000_000, now_us % 1_000_000] {
        call.reply.bulk(number.to_string().as_bytes());
    }
    Ok(())
}
