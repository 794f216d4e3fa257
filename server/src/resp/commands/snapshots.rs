//! `SNAPSHOT` and `WITH`: opening, listing and releasing snapshots, and reading at one.

use std::time::{Duration, Instant};

use crate::resp::command::{self, Call, Flags};
use crate::resp::commands::subcommands;
use crate::resp::data::Data;
use crate::resp::failure::{Failure, Outcome, needs, wrong_arity};
use crate::resp::number;
use crate::resp::open_snapshots::{OpenSnapshot, OpenSnapshots};
use hedgerow::backend::{Backend, Capability, SnapshotReads};

/// The longest name.
const MOST_NAME_BYTES: usize = 128;

/// `SNAPSHOT [NAME name] [TTL ms]`, `SNAPSHOT RELEASE token`, `SNAPSHOT LIST`
pub(crate) fn snapshot<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    call.session.snapshots.end_due(Instant::now());
    let arguments = call.arguments;
    match (arguments.get(0), arguments.get(1), arguments.len()) {
        (Some(list), None, 1) if list.eq_ignore_ascii_case(b"LIST") => {
            reply_list(call);
            Ok(())
        }
        (Some(release), Some(token), 2) if release.eq_ignore_ascii_case(b"RELEASE") => {
            let released = call.session.snapshots.release(token)
                || call.shared.snapshots.lock().release(token);
            call.reply.integer(i64::from(released));
            Ok(())
        }
        _ => open(call),
    }
}

fn open<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let longest = call.shared.options.max_snapshot_age;
    let (mut name, mut ttl) = (None, None);
    let mut options = call.arguments.iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or(Failure::Syntax)?;
        if name.is_none() && option.eq_ignore_ascii_case(b"NAME") {
            name = Some(value);
        } else if ttl.is_none() && option.eq_ignore_ascii_case(b"TTL") {
            ttl = Some(ttl_of(value, longest)?);
        } else {
            return Err(Failure::Syntax);
        }
    }
    let name = name.map(checked_name).transpose()?;
    let is_shared = name.is_some() && ttl.is_some();
    let token = match name {
        Some(name) => name.to_owned(),
        None => format!("{:032x}", rand::random::<u128>()),
    };
    check_room(call, &call.shared.snapshots.lock(), &token, is_shared)?;
    let open = OpenSnapshot {
        token: token.clone().into_bytes(),
        // It may wait for writes that are under way: so without the lock, and others may have
        // opened some meanwhile.
        snapshot: call.shared.db.snapshot_named(&token)?,
        until: Instant::now() + ttl.unwrap_or(longest),
        is_shared,
    };
    let mut shared = call.shared.snapshots.lock();
    check_room(call, &shared, &token, is_shared)?;
    match is_shared {
        true => shared.push(open),
        false => call.session.snapshots.push(open),
    }
    drop(shared);
    call.reply.bulk(token.as_bytes());
    Ok(())
}

/// Refuses a token that is in use, and a snapshot too many.
fn check_room<B: Backend>(
    call: &Call<'_, '_, '_, B>,
    shared: &OpenSnapshots<B>,
    token: &str,
    is_shared: bool,
) -> Outcome {
    let (own, options) = (&call.session.snapshots, &call.shared.options);
    if own.find(token.as_bytes()).is_some() || shared.find(token.as_bytes()).is_some() {
        return Err(Failure::text(format!(
            "ERR there is a snapshot {token:?} already; release it, or choose another name"
        )));
    }
    let (open, most, whose, flag) = match is_shared {
        true => {
            let most = options.max_shared_snapshots;
            (shared.len(), most, "that all share", "max-shared-snapshots")
        }
        false => {
            let most = options.max_snapshots;
            (own.len(), most, "of a connection", "max-snapshots")
        }
    };
    match open < most {
        true => Ok(()),
        false => Err(Failure::text(format!(
            "ERR the most snapshots {whose} are {most}, and there are that many; SNAPSHOT RELEASE \
             one, or raise the limit (`--{flag}`)"
        ))),
    }
}

fn checked_name(name: &[u8]) -> Outcome<&str> {
    let is_fine = |name: &&str| {
        (1..=MOST_NAME_BYTES).contains(&name.len()) && !name.contains(char::is_control)
    };
    let name = std::str::from_utf8(name).ok().filter(is_fine);
    name.ok_or_else(|| {
        Failure::text(
            "ERR a snapshot's name has 1 to 128 bytes of UTF-8 without control characters",
        )
    })
}

fn ttl_of(argument: &[u8], longest: Duration) -> Outcome<Duration> {
    let ms = number::argument(argument)?;
    let ttl = u64::try_from(ms).ok().map(Duration::from_millis);
    ttl.filter(|ttl| !ttl.is_zero() && *ttl <= longest)
        .ok_or_else(|| {
            let longest_ms = longest.as_millis();
            Failure::text(format!(
                "ERR TTL is 1 to {longest_ms} milliseconds (`--max-snapshot-age`)"
            ))
        })
}

/// An array with a map for each snapshot that the connection can read.
fn reply_list<B: Backend>(call: &mut Call<'_, '_, '_, B>) {
    let Call {
        session,
        shared,
        reply,
        ..
    } = call;
    let (now, shared) = (Instant::now(), shared.snapshots.lock());
    reply.array(session.snapshots.len() + shared.len());
    for open in session.snapshots.iter().chain(shared.iter()) {
        reply.map(4);
        reply.bulk(b"token");
        reply.bulk(&open.token);
        reply.bulk(b"age");
        reply.integer(open.snapshot.age().as_millis() as i64);
        reply.bulk(b"ttl");
        let left = open.until.saturating_duration_since(now);
        reply.integer(left.as_millis() as i64);
        reply.bulk(b"owner");
        reply.bulk(match open.is_shared {
            true => b"server",
            false => b"connection",
        });
    }
}

/// `WITH token command …`: runs a command that only reads, at a snapshot.
pub(crate) fn with<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    needs(&*call.shared.db, Capability::Snapshots)?;
    call.session.snapshots.end_due(Instant::now());
    let token = &call.arguments[0];
    let own = call.session.snapshots.find(token);
    let own = own.map(|open| open.snapshot.clone());
    let shared = || {
        let shared = call.shared.snapshots.lock();
        shared.find(token).map(|open| open.snapshot.clone())
    };
    let snapshot = own.or_else(shared).ok_or_else(|| {
        Failure::text(
            "ERR there is no such snapshot: it was released, its time is over, or it belongs to \
             another connection; open one with SNAPSHOT",
        )
    })?;
    let request = call.arguments.from(1);
    let found = command::find(call.commands.all, &request[0]);
    let code = found
        .map(|at| at as u32)
        .ok_or_else(|| Failure::text("ERR WITH: unknown command; WITH takes commands that read"))?;
    let command = call.commands.command(code);
    if !command.flags.has(Flags::READ) || command.flags.has(Flags::WRITE) {
        return Err(Failure::text(format!(
            "ERR {} does not read keys only; a snapshot is for reading, run it without WITH",
            command.name
        )));
    }
    if command.name == "RANDOMKEY" {
        return Err(Failure::text(
            "ERR RANDOMKEY draws from the present keys; run it without WITH",
        ));
    }
    if !command.accepts(request.len()) {
        return Err(Failure::text(wrong_arity(command.name)));
    }
    subcommands::check(command.name, request).map_err(Failure::text)?;
    let keyspace = call.shared.keyspace(call.session.database)?;
    let commands = call.commands;
    let mut call = Call {
        commands,
        arguments: request.from(1),
        data: &mut Data::at(keyspace, &snapshot),
        session: &mut *call.session,
        reply: call.reply.again(),
        shared: call.shared,
        ran: &mut *call.ran,
    };
    commands.run(code, &mut call)
}
