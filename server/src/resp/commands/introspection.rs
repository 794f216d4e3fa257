//! `COMMAND`: what commands there are, for clients that ask before they talk.

use crate::resp::call::{Arguments, Call, Failure, Outcome};
use crate::resp::reply::Reply;
use crate::resp::table::{self, COMMANDS, Command};

/// `COMMAND [COUNT | DOCS | INFO | LIST | GETKEYS]`
pub(crate) fn command(call: &mut Call<'_, '_, '_>) -> Outcome {
    let arguments = call.arguments;
    let reply = &mut call.reply;
    let Some(subcommand) = arguments.get(0) else {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(reply, command));
        return Ok(());
    };
    let names = arguments.from(1);
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => reply.count(COMMANDS.len()),
        b"LIST" => {
            reply.array(COMMANDS.len());
            COMMANDS
                .iter()
                .for_each(|command| reply.bulk(lower(command).as_bytes()));
        }
        b"INFO" if names.is_empty() => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(reply, command));
        }
        b"INFO" => {
            reply.array(names.len());
            for name in names.iter() {
                match table::lookup(name) {
                    Some(found) => describe(reply, &COMMANDS[found]),
                    None => reply.null_array(),
                }
            }
        }
        b"DOCS" => docs(reply, names),
        b"GETKEYS" => get_keys(reply, names)?,
        _ => unreachable!("check_subcommand lets only these through"),
    }
    Ok(())
}

fn lower(command: &Command) -> String {
    command.name.to_ascii_lowercase()
}

/// The ten fields that Redis 7 gives.
fn describe(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(lower(command).as_bytes());
    reply.integer(command.arity.into());
    let flags = command.flags.names();
    reply.array(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = command.keys;
    for number in [first, last, step] {
        reply.integer(number.into());
    }
    reply.array(1);
    reply.simple(&format!("@{}", command.group));
    // Tips, key specifications and subcommands.
    for _ in 0..3 {
        reply.array(0);
    }
}

fn docs(reply: &mut Reply<'_>, names: Arguments<'_>) {
    let wanted: Vec<&Command> = if names.is_empty() {
        COMMANDS.iter().collect()
    } else {
        names
            .iter()
            .filter_map(|name| Some(&COMMANDS[table::lookup(name)?]))
            .collect()
    };
    reply.map(wanted.len());
    for command in wanted {
        reply.bulk(lower(command).as_bytes());
        reply.map(3);
        for (field, text) in [
            ("summary", command.summary),
            ("since", "1.0.0"),
            ("group", command.group),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
}

fn get_keys(reply: &mut Reply<'_>, request: Arguments<'_>) -> Outcome {
    let command = request
        .get(0)
        .and_then(table::lookup)
        .map(|found| &COMMANDS[found]);
    let command = command.ok_or(Failure::text("ERR Invalid command specified"))?;
    if !command.accepts(request.len()) {
        return Err(Failure::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let keys: Vec<&[u8]> = command.keys(request).collect();
    if keys.is_empty() {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}
