//! Several changes, one commit: `EXEC`, and commands of several keys.
//!
//! The command table says which arguments are keys. A transaction locks all its keys, checks
//! whether watched keys changed, runs the commands on staged rows, and commits everything as one
//! log record. Commands on a whole keyspace lock everything.

use std::collections::BTreeMap;

use hedgerow::Locks;
use hedgerow::backend::{Backend, BackendKeyspace, ChangeRows, LockingTransaction};

use crate::clients::list::Names;
use crate::protocol::effects::Effects;
use crate::resp::arguments::Arguments;
use crate::resp::command::{Call, Command, Commands, Flags};
use crate::resp::commands::copying;
use crate::resp::data::Data;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::resp::outside_effects::{OutsideEffects, PauseChange};
use crate::resp::reply::Reply;
use crate::resp::session::{Queue, Replies, Session, Watched};
use crate::shared::Shared;

/// Runs one command of several keys as one commit.
pub(crate) fn run_atomic<B: Backend>(
    shared: &Shared<B>,
    session: &mut Session<B>,
    commands: Commands<B>,
    code: u32,
    arguments: Arguments<'_>,
    mut reply: Reply<'_>,
    ran: &mut Effects,
) -> Outcome<Option<hedgerow::Commit>> {
    let keyspace = shared.keyspace(session.database)?;
    let mut keys = Vec::new();
    let command = commands.command(code);
    lock_keys(shared, session.database, command, arguments, &mut keys)?;
    let options = shared.write_options();
    let start = reply.position();
    let (outcome, commit) = shared.db.transact(Locks::Keys(&keys), &options, |tx| {
        // It may run again.
        reply.truncate(start);
        let outcome = {
            let mut data = Data::inside(keyspace, &mut *tx, shared.transaction_limit_bytes());
            let mut call = Call {
                commands,
                arguments: arguments.from(1),
                data: &mut data,
                session: &mut *session,
                reply: reply.again(),
                shared,
                ran: &mut *ran,
            };
            commands.run(code, &mut call)
        };
        match outcome {
            // Nothing of it, then.
            Err(Failure::Engine(error)) => Err(error),
            Err(failure) => {
                tx.rollback();
                Ok(Err(failure))
            }
            Ok(()) => Ok(Ok(())),
        }
    })?;
    outcome.map(|()| changed(commit))
}

/// Adds the keys that a command reads or changes to those that are to be locked.
fn lock_keys<'s, 'a, B: Backend>(
    shared: &'s Shared<B>,
    database: usize,
    command: &Command,
    request: Arguments<'a>,
    keys: &mut Vec<(&'s B::Keyspace, &'a [u8])>,
) -> Outcome {
    let keyspace = shared.keyspace(database)?;
    keys.extend(command.keys(request).map(|key| (keyspace, key)));
    // Opened here: not inside the transaction, which must not write the catalog.
    keys.extend(copying::key_elsewhere(
        shared,
        command.name,
        request,
        database,
    )?);
    Ok(())
}

/// A commit that changed nothing needs no waiting.
fn changed(commit: hedgerow::Commit) -> Option<hedgerow::Commit> {
    (commit.epoch() > 0).then_some(commit)
}

/// What a queue needs locked.
enum LockSet<'a, K> {
    All,
    Keys(Vec<(&'a K, &'a [u8])>),
}

fn lock_set<'a, B: Backend>(
    shared: &'a Shared<B>,
    commands: &[Command],
    database: usize,
    queue: &'a Queue,
    watched: &'a [Watched<B>],
) -> Outcome<LockSet<'a, B::Keyspace>> {
    let mut keys = Vec::new();
    let mut all = false;
    for watched in watched {
        keys.push((shared.keyspace(watched.database)?, watched.key.as_slice()));
    }
    let mut database = database;
    for (i, &(code, _)) in queue.commands.iter().enumerate() {
        let (command, arguments) = (&commands[code as usize], queue.arguments(i));
        database = selected_database(command, arguments).unwrap_or(database);
        all |= command.flags.has(Flags::WHOLE);
        lock_keys(shared, database, command, arguments, &mut keys)?;
    }
    Ok(if all {
        LockSet::All
    } else {
        LockSet::Keys(keys)
    })
}

/// Where a well-formed `SELECT` leads: what it refuses when it runs leads nowhere.
fn selected_database(command: &Command, arguments: Arguments<'_>) -> Option<usize> {
    let number = (command.name == "SELECT")
        .then(|| arguments.get(1))
        .flatten()?;
    number::database(number).ok()
}

/// `EXEC`.
pub(crate) fn exec<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Some(queue) = call.session.queue.take() else {
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
    let watched = std::mem::take(&mut call.session.watched);
    if queue.failed {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        return Err(Failure::text(text));
    }
    let database = call.session.database;
    let needs = lock_set(call.shared, call.commands.all, database, &queue, &watched)?;
    let locks = match &needs {
        LockSet::All => Locks::All,
        LockSet::Keys(keys) => Locks::Keys(keys),
    };
    let start = call.reply.position();
    let options = call.shared.write_options();
    let before = SessionState::of(call, &queue);
    let outcome = call.shared.db.transact(locks, &options, |tx| {
        // It may run again, as if nothing had run.
        call.reply.truncate(start);
        before.restore(call);
        if watched_changed(call.shared, tx, &watched)? {
            call.reply.null_array();
            return Ok(());
        }
        // An error will replace replies that find no room: then nothing has happened either. A
        // client that hears of neither wants its changes.
        let is_heard = before.replies == Replies::On;
        run_queue(call, &queue, tx, is_heard)?;
        if call.reply.is_full() && is_heard {
            tx.rollback();
            before.restore(call);
        }
        Ok(())
    });
    match outcome {
        Ok(((), commit)) => {
            call.data.committed = call.data.committed.max(changed(commit));
            if let Some(effects) = call.session.outside.take() {
                act(call.shared, *effects);
            }
            Ok(())
        }
        Err(error) => {
            call.reply.truncate(start);
            // As if nothing had run.
            before.restore(call);
            Err(error.into())
        }
    }
}

/// Has the effects that others notice, once and for all.
#[cold]
fn act<B: Backend>(shared: &Shared<B>, effects: OutsideEffects) {
    let OutsideEffects {
        saves,
        ended,
        pauses,
    } = effects;
    for change in pauses {
        match change {
            PauseChange::Begin(timeout, scope) => shared.pause_clients(timeout, scope),
            PauseChange::End => shared.resume_clients(),
        }
    }
    shared.end_clients(ended.values());
    if saves {
        shared.save_in_background();
    }
}

/// What queued commands can change besides rows: of their session, of the connection, and of what
/// is counted.
struct SessionState {
    /// `None` if no queued command can change it.
    names: Option<Names>,
    database: usize,
    resp3: bool,
    replies: Replies,
    ran: Effects,
    queued_ran: usize,
    failed: usize,
    errors: BTreeMap<String, u64>,
}

impl SessionState {
    fn of<B: Backend>(call: &mut Call<'_, '_, '_, B>, queue: &Queue) -> SessionState {
        let changes_names = |&(code, _): &(u32, usize)| {
            let command = call.commands.command(code);
            ["CLIENT", "HELLO"].contains(&command.name)
        };
        let changes_names = queue.commands.iter().any(changes_names);
        let names = changes_names.then(|| call.session.client.names().clone());
        let tally = call.session.tally();
        let (queued_ran, failed) = (tally.queued_ran.len(), tally.failed.len());
        let errors = tally.errors.clone();
        SessionState {
            names,
            database: call.session.database,
            resp3: call.session.resp3,
            replies: call.session.replies,
            ran: *call.ran,
            queued_ran,
            failed,
            errors,
        }
    }

    fn restore<B: Backend>(&self, call: &mut Call<'_, '_, '_, B>) {
        let session = &mut *call.session;
        session.outside = None;
        if let Some(before) = &self.names {
            session.set_names(|names| *names = before.clone());
        }
        session.database = self.database;
        (session.resp3, session.replies) = (self.resp3, self.replies);
        let tally = session.tally();
        tally.queued_ran.truncate(self.queued_ran);
        tally.failed.truncate(self.failed);
        tally.errors.clone_from(&self.errors);
        *call.ran = self.ran;
        call.reply.set_resp3(self.resp3);
    }
}

fn watched_changed<B: Backend>(
    shared: &Shared<B>,
    tx: &B::Transaction<'_>,
    watched: &[Watched<B>],
) -> hedgerow::Result<bool> {
    for Watched {
        database,
        key,
        watch,
    } in watched
    {
        if tx.changed_since(shared.keyspace(*database)?, key, watch)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs the commands of a queue, up to where their replies find no room if those are heard.
fn run_queue<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    queue: &Queue,
    tx: &mut B::Transaction<'_>,
    is_heard: bool,
) -> hedgerow::Result<()> {
    call.reply.array(queue.commands.len());
    for (i, &(code, _)) in queue.commands.iter().enumerate() {
        if call.reply.is_full() && is_heard {
            break;
        }
        let command = call.commands.command(code);
        let start = call.reply.position();
        let keyspace = call.shared.keyspace(call.session.database)?;
        let most_bytes = call.shared.transaction_limit_bytes();
        let mut run = |tx: &mut B::Transaction<'_>| {
            let mut call = Call {
                commands: call.commands,
                arguments: queue.arguments(i).from(1),
                data: &mut Data::inside(keyspace, tx, most_bytes),
                session: &mut *call.session,
                reply: call.reply.again(),
                shared: call.shared,
                ran: &mut *call.ran,
            };
            call.commands.run(code, &mut call)
        };
        // A command that is refused has no part of its effect either.
        let outcome = match command.flags.has(Flags::ATOMIC) {
            true => tx.nested(run),
            false => run(tx),
        };
        call.session.tally().queued_ran.push(code);
        if let Err(failure) = &outcome {
            call.session.count_failed(code, &failure.line());
        }
        // `HELLO` may have changed it.
        call.reply.set_resp3(call.session.resp3);
        match outcome {
            Ok(()) => {}
            // What the engine refuses concerns the whole transaction.
            Err(Failure::Engine(error)) if !is_about_arguments(&error) => return Err(error),
            Err(failure) => {
                call.reply.truncate(start);
                call.reply.error(&failure.line());
            }
        }
    }
    Ok(())
}

fn is_about_arguments(error: &hedgerow::Error) -> bool {
    use hedgerow::Error::{KeyTooLong, KeyWidth, ValueTooLong};
    matches!(
        error,
        KeyTooLong { .. } | KeyWidth { .. } | ValueTooLong { .. }
    )
}

/// `MULTI`.
pub(crate) fn multi<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if call.session.queue.is_some() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    call.session.queue = Some(Box::default());
    call.reply.ok();
    Ok(())
}

/// `DISCARD`.
pub(crate) fn discard<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if call.session.queue.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    call.session.watched.clear();
    call.reply.ok();
    Ok(())
}

/// `WATCH key …`: remembers what the keys are now.
pub(crate) fn watch<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if call.session.queue.is_some() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let database = call.session.database;
    for key in call.arguments.iter() {
        let known = |watched: &Watched<B>| watched.database == database && watched.key == key;
        if call.session.watched.iter().any(known) {
            continue;
        }
        let watch = call.data.keyspace().watch(key)?;
        call.session.watched.push(Watched {
            database,
            key: key.to_vec(),
            watch,
        });
    }
    call.reply.ok();
    Ok(())
}

/// `UNWATCH`.
pub(crate) fn unwatch<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    call.session.watched.clear();
    call.reply.ok();
    Ok(())
}
