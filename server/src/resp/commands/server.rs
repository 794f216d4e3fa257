//! Commands about the server: `CONFIG`, `SAVE`, `WAITAOF`, `SHUTDOWN`, `TIME`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hedgerow::Durability;

use crate::glob;
use crate::protocol::Ran;
use crate::resp::call::{Call, Failure, Outcome};
use crate::resp::number;
use crate::shared::{DATABASES, Shared, now_ms};

/// What `CONFIG GET` knows, under Redis' names.
fn parameters(shared: &Shared) -> Vec<(&'static str, String)> {
    let options = &shared.options;
    let fsync = match options.durability {
        Durability::Sync => "always",
        Durability::Periodic => "everysec",
        Durability::None => "no",
    };
    let memory = shared
        .db
        .statistics()
        .get("memory_limit_bytes")
        .unwrap_or(0.0) as u64;
    vec![
        ("appendfsync", fsync.into()),
        (
            "appendonly",
            if shared.db.is_in_memory() {
                "no"
            } else {
                "yes"
            }
            .into(),
        ),
        ("databases", DATABASES.to_string()),
        ("maxclients", options.max_connections.to_string()),
        ("maxmemory", memory.to_string()),
        ("maxmemory-policy", "noeviction".into()),
        (
            "port",
            options.resp.map_or(0, |address| address.port()).to_string(),
        ),
        ("proto-max-bulk-len", options.max_bulk_bytes.to_string()),
        ("save", String::new()),
        (
            "timeout",
            options
                .idle_timeout
                .map_or(0, |timeout| timeout.as_secs())
                .to_string(),
        ),
        ("io-threads", options.workers.to_string()),
    ]
}

/// `CONFIG GET parameter …`, `CONFIG SET`, `CONFIG RESETSTAT`
pub(crate) fn config(call: &mut Call<'_, '_, '_>) -> Outcome {
    let arguments = call.arguments;
    match arguments[0].to_ascii_uppercase().as_slice() {
        b"GET" => {
            let wanted = |name: &str| {
                arguments
                    .from(1)
                    .iter()
                    .any(|asked| glob::matches(asked, name.as_bytes(), true))
            };
            let mut found = parameters(call.shared);
            found.retain(|(name, _)| wanted(name));
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name.as_bytes());
                call.reply.bulk(value.as_bytes());
            }
        }
        b"SET" => return set_parameter(call),
        // Nothing else passes the check of subcommands.
        _ => call.reply.ok(),
    }
    Ok(())
}

/// Options are set when the server starts: what changes nothing is accepted, the rest refused.
fn set_parameter(call: &mut Call<'_, '_, '_>) -> Outcome {
    let known = parameters(call.shared);
    for (name, value) in call.arguments.from(1).pairs() {
        let shown = String::from_utf8_lossy(name).to_lowercase();
        match known.iter().find(|(known, _)| *known == shown) {
            Some((_, present)) if present.as_bytes() == value => {}
            Some(_) => {
                return Err(Failure::text(format!(
                    "ERR CONFIG SET failed (possibly related to argument '{shown}') - \
                     can't set immutable config"
                )));
            }
            None => {
                return Err(Failure::text(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{shown}'"
                )));
            }
        }
    }
    call.reply.ok();
    Ok(())
}

/// `SAVE`: a checkpoint, awaited. Other connections of this worker wait too.
pub(crate) fn save(call: &mut Call<'_, '_, '_>) -> Outcome {
    if !call.shared.save()? {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    call.reply.ok();
    Ok(())
}

/// `BGSAVE [SCHEDULE]`: a checkpoint in a thread of its own.
pub(crate) fn bgsave(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.arguments.get(0) {
        Some(option) if !option.eq_ignore_ascii_case(b"SCHEDULE") => return Err(Failure::Syntax),
        _ => {}
    }
    if call.shared.saving.load(Ordering::Acquire) {
        return Err(Failure::text("ERR Background save already in progress"));
    }
    call.shared.save_in_background();
    call.reply.simple("Background saving started");
    Ok(())
}

/// `LASTSAVE`
pub(crate) fn lastsave(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.reply
        .integer(call.shared.last_save_s.load(Ordering::Relaxed) as i64);
    Ok(())
}

/// `WAITAOF numlocal numreplicas timeout`: with `numlocal` 1 the reply is held back until
/// everything that this connection wrote is durable, or the time is up. There are no replicas to
/// wait for.
pub(crate) fn waitaof(call: &mut Call<'_, '_, '_>) -> Outcome {
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
    let durable = commit.is_none_or(|commit| call.shared.db.is_durable(&commit));
    // Inside a transaction nothing can be awaited.
    let wait = local == 1 && !durable && !call.data.is_transaction();
    if wait {
        *call.ran = Ran {
            hold: commit,
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

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]`: everything acknowledged is flushed in any case.
pub(crate) fn shutdown(call: &mut Call<'_, '_, '_>) -> Outcome {
    for option in call.arguments.iter() {
        match option.to_ascii_uppercase().as_slice() {
            b"NOSAVE" | b"SAVE" | b"NOW" | b"FORCE" => {}
            b"ABORT" => return Err(Failure::text("ERR No shutdown in progress.")),
            _ => return Err(Failure::Syntax),
        }
    }
    call.shared.ask_to_stop();
    // As in Redis, the end of the connection is the answer.
    call.ran.close = true;
    Ok(())
}

/// `TIME`
pub(crate) fn time(call: &mut Call<'_, '_, '_>) -> Outcome {
    let now_ms = now_ms();
    call.reply.array(2);
    call.reply.bulk((now_ms / 1000).to_string().as_bytes());
    call.reply
        .bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}
