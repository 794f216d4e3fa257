//! Interactive transactions: `BEGIN`, commands that answer at once, `COMMIT` or `ROLLBACK`. Every
//! command runs in the connection's [transaction](hedgerow::OptimisticTransaction), as a part that
//! is undone if the command is refused. A transaction that cannot go on stays *failed* until the
//! client ends it, so that no later command of a pipeline runs outside of it.

use std::time::Instant;

use hedgerow::backend::{Backend, ChangeRows, InteractiveTransaction};
use hedgerow::{Error, Isolation};

use crate::protocol::effects::Effects;
use crate::resp::arguments::Arguments;
use crate::resp::command::{Call, Command, Commands, Flags};
use crate::resp::data::Data;
use crate::resp::failure::{Failure, Outcome, engine_line};
use crate::resp::open_transaction::Interactive;
use crate::resp::reply::Reply;
use crate::resp::session::{Replies, Session};
use crate::shared::Shared;

/// Commands about other transactions, or whose effect no transaction can hold back.
const REFUSED: [&str; 9] = [
    "BEGIN", "DISCARD", "EXEC", "FLUSHALL", "FLUSHDB", "MULTI", "SNAPSHOT", "WATCH", "WITH",
];

/// Whether a command's data come from the transaction, or it is refused there.
pub(super) fn concerns(command: &Command) -> bool {
    command.flags.has(Flags::READ)
        || (command.flags.has(Flags::WRITE) && command.name != "COMMIT")
        || REFUSED.contains(&command.name)
}

/// Runs a command inside the connection's transaction, which the caller took out of the session.
pub(super) fn run_inside<B: Backend>(
    shared: &Shared<B>,
    session: &mut Session<B>,
    commands: Commands<B>,
    (code, arguments): (u32, Arguments<'_>),
    mut reply: Reply<'_>,
    ran: &mut Effects,
    mut interactive: Interactive<B>,
) -> Outcome {
    let command = commands.command(code);
    let keyspace = shared.keyspace(session.database);
    let most_bytes = shared.transaction_limit_bytes();
    let mut outcome = match &mut interactive {
        Interactive::Failed(why) => Err(Failure::text(why.clone())),
        _ if REFUSED.contains(&command.name) => Err(Failure::text(format!(
            "ERR {} is not possible between BEGIN and COMMIT; COMMIT or ROLLBACK first",
            command.name
        ))),
        Interactive::Open { transaction, .. } => transaction.nested(|transaction| {
            let keyspace = keyspace?;
            let mut call = Call {
                commands,
                arguments: arguments.from(1),
                data: &mut Data::optimistic(keyspace, transaction, most_bytes),
                session: &mut *session,
                reply: reply.again(),
                shared,
                ran,
            };
            commands.run(code, &mut call)?;
            // An error will replace the reply: then nothing has happened either, unless the client
            // hears of neither.
            match call.reply.is_full() && call.session.replies == Replies::On {
                true => Err(Failure::text("ERR the reply finds no room")),
                false => Ok(()),
            }
        }),
    };
    if let Err(Failure::Engine(error)) = &outcome
        && ends(error)
    {
        let why = format!("{}; ROLLBACK to go on", engine_line(error));
        interactive = Interactive::Failed(why.clone());
        outcome = Err(Failure::text(why));
    }
    interactive.end_if_large(most_bytes);
    if outcome.is_ok()
        && let Interactive::Failed(why) = &interactive
    {
        outcome = Err(Failure::text(why.clone()));
    }
    session.transaction = Some(interactive);
    outcome
}

/// Whether a transaction cannot go on after an error.
fn ends(error: &Error) -> bool {
    matches!(
        error,
        Error::TransactionTooOld { .. }
            | Error::TransactionTooLarge { .. }
            | Error::Closed
            | Error::Poisoned(_)
    )
}

/// `BEGIN [SNAPSHOT | SERIALIZABLE]`
pub(crate) fn begin<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let isolation = match call.arguments.get(0) {
        None => Isolation::Serializable,
        Some(name) if name.eq_ignore_ascii_case(b"SERIALIZABLE") => Isolation::Serializable,
        Some(name) if name.eq_ignore_ascii_case(b"SNAPSHOT") => Isolation::Snapshot,
        Some(_) => return Err(Failure::Syntax),
    };
    if call.arguments.len() > 1 {
        return Err(Failure::Syntax);
    }
    if !call.session.watched.is_empty() {
        return Err(Failure::text(
            "ERR BEGIN after WATCH is not possible; UNWATCH first: BEGIN needs no WATCH",
        ));
    }
    call.session.transaction = Some(Interactive::Open {
        transaction: Box::new(call.shared.db.begin(isolation)?),
        used: Instant::now(),
    });
    call.reply.ok();
    Ok(())
}

/// `COMMIT`
pub(crate) fn commit<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Some(interactive) = call.session.transaction.take() else {
        return Err(Failure::text("ERR COMMIT without BEGIN"));
    };
    match interactive {
        Interactive::Failed(why) => Err(Failure::text(why)),
        Interactive::Open { transaction, .. } => {
            let commit = transaction.commit_with(&call.shared.write_options())?;
            if commit.epoch() > 0 {
                call.data.committed = call.data.committed.max(Some(commit));
            }
            call.reply.ok();
            Ok(())
        }
    }
}

/// `ROLLBACK`
pub(crate) fn rollback<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    if call.session.transaction.take().is_none() {
        return Err(Failure::text("ERR ROLLBACK without BEGIN"));
    }
    call.reply.ok();
    Ok(())
}
