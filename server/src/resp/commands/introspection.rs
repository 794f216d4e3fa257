//! `COMMAND`: what commands there are, for clients that ask before they talk.

use super::subcommands::{self, Subcommand};
use crate::resp::arguments::Arguments;
use crate::resp::command::{self, Call, Command};
use crate::resp::failure::{Failure, Outcome};
use crate::resp::glob;
use crate::resp::reply::Reply;
use hedgerow::backend::Backend;

/// `COMMAND [COUNT | DOCS | GETKEYS | HELP | INFO | LIST]`
pub(crate) fn command<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (arguments, commands) = (call.arguments, call.commands.all);
    let reply = &mut call.reply;
    let Some(subcommand) = arguments.get(0) else {
        reply.array(commands.len());
        commands.iter().for_each(|command| describe(reply, command));
        return Ok(());
    };
    let names = arguments.from(1);
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => reply.count(commands.len()),
        b"LIST" => list(reply, commands, names)?,
        b"INFO" if names.is_empty() => {
            reply.array(commands.len());
            commands.iter().for_each(|command| describe(reply, command));
        }
        b"INFO" => {
            reply.array(names.len());
            for name in names.iter() {
                match CommandName::find(commands, name) {
                    Some(CommandName::Command(command)) => describe(reply, command),
                    Some(CommandName::Part(command, part)) => describe_part(reply, command, part),
                    None => reply.null(),
                }
            }
        }
        b"DOCS" => docs(reply, commands, names),
        b"GETKEYS" => get_keys(reply, commands, names)?,
        _ => subcommands::help(call, "COMMAND"),
    }
    Ok(())
}

fn lower(command: &Command) -> String {
    command.name.to_ascii_lowercase()
}

/// What a name stands for: a command, or with `|` in it one of its subcommands.
#[derive(Clone, Copy)]
enum CommandName {
    Command(&'static Command),
    Part(&'static Command, &'static Subcommand),
}

impl CommandName {
    fn find(commands: &'static [Command], name: &[u8]) -> Option<CommandName> {
        let mut parts = name.splitn(2, |byte| *byte == b'|');
        let command = &commands[command::find(commands, parts.next()?)?];
        match parts.next() {
            None => Some(CommandName::Command(command)),
            Some(part) => {
                let part = subcommands::find(command.name, part)?;
                Some(CommandName::Part(command, part))
            }
        }
    }

    /// All there are, subcommands behind their command.
    fn all(commands: &'static [Command]) -> impl Iterator<Item = CommandName> {
        commands.iter().flat_map(|command| {
            let parts = subcommands::of(command.name).iter();
            let parts = parts.map(move |part| CommandName::Part(command, part));
            std::iter::once(CommandName::Command(command)).chain(parts)
        })
    }

    fn name(self) -> String {
        match self {
            CommandName::Command(command) => lower(command),
            CommandName::Part(command, part) => part_name(command, part),
        }
    }

    fn command(self) -> &'static Command {
        match self {
            CommandName::Command(command) | CommandName::Part(command, _) => command,
        }
    }
}

fn part_name(command: &Command, part: &Subcommand) -> String {
    format!("{}|{}", command.name, part.name).to_ascii_lowercase()
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
fn list(reply: &mut Reply<'_>, commands: &'static [Command], options: Arguments<'_>) -> Outcome {
    let names: Vec<String> = match (options.len(), options.get(0), options.get(1)) {
        (0, ..) => CommandName::all(commands).map(CommandName::name).collect(),
        (3, Some(word), Some(filter)) if word.eq_ignore_ascii_case(b"FILTERBY") => {
            let wanted = &options[2];
            let passes: Box<dyn Fn(&CommandName) -> bool> =
                match filter.to_ascii_uppercase().as_slice() {
                    // No command comes from a module.
                    b"MODULE" => Box::new(|_| false),
                    b"ACLCAT" => Box::new(|named| {
                        let mut categories = named.command().categories().into_iter();
                        categories.any(|category| wanted.eq_ignore_ascii_case(category.as_bytes()))
                    }),
                    b"PATTERN" => {
                        Box::new(|named| glob::matches(wanted, named.name().as_bytes(), true))
                    }
                    _ => return Err(Failure::Syntax),
                };
            CommandName::all(commands)
                .filter(passes)
                .map(CommandName::name)
                .collect()
        }
        _ => return Err(Failure::Syntax),
    };
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// Where the keys of a command without keys stand.
const NO_KEYS: (i8, i8, i8) = (0, 0, 0);

/// The ten fields that Redis 7 gives. Where a command has subcommands, only those have keys.
fn describe(reply: &mut Reply<'_>, command: &Command) {
    let parts = subcommands::of(command.name);
    let keys = match parts {
        [] => command.keys,
        _ => NO_KEYS,
    };
    describe_fields(reply, &lower(command), command.arity, keys, command);
    match parts.len() {
        0 => reply.set(0),
        parts => reply.array(parts),
    }
    parts
        .iter()
        .for_each(|part| describe_part(reply, command, part));
}

fn describe_part(reply: &mut Reply<'_>, command: &Command, part: &Subcommand) {
    let keys = match part.name {
        "HELP" => NO_KEYS,
        _ => command.keys,
    };
    describe_fields(reply, &part_name(command, part), part.arity, keys, command);
    reply.set(0);
}

/// All of the ten but the last: the subcommands.
fn describe_fields(
    reply: &mut Reply<'_>,
    name: &str,
    arity: i8,
    keys: (i8, i8, i8),
    command: &Command,
) {
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(arity.into());
    let flags = command.flags.names();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = keys;
    for number in [first, last, step] {
        reply.integer(number.into());
    }
    let categories = command.categories();
    reply.set(categories.len());
    for category in categories {
        reply.simple(&format!("@{category}"));
    }
    // Tips and key specifications.
    for _ in 0..2 {
        reply.set(0);
    }
}

fn docs(reply: &mut Reply<'_>, commands: &'static [Command], names: Arguments<'_>) {
    let wanted: Vec<CommandName> = if names.is_empty() {
        commands.iter().map(CommandName::Command).collect()
    } else {
        let find = |name| CommandName::find(commands, name);
        names.iter().filter_map(find).collect()
    };
    reply.map(wanted.len());
    for named in wanted {
        reply.bulk(named.name().as_bytes());
        match named {
            CommandName::Command(command) => {
                let parts = subcommands::of(command.name);
                doc_fields(reply, command.summary, command, !parts.is_empty());
                if !parts.is_empty() {
                    reply.bulk(b"subcommands");
                    reply.map(parts.len());
                }
                for part in parts {
                    reply.bulk(part_name(command, part).as_bytes());
                    doc_fields(reply, part.summary(), command, false);
                }
            }
            CommandName::Part(command, part) => doc_fields(reply, part.summary(), command, false),
        }
    }
}

/// The fields of a command; one more follows if it has `parts`.
fn doc_fields(reply: &mut Reply<'_>, summary: &str, command: &Command, parts: bool) {
    reply.map(3 + usize::from(parts));
    for (field, text) in [
        ("summary", summary),
        ("since", "1.0.0"),
        ("group", command.group),
    ] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

fn get_keys(reply: &mut Reply<'_>, commands: &[Command], request: Arguments<'_>) -> Outcome {
    let found = request
        .get(0)
        .and_then(|name| command::find(commands, name));
    let command = found.map(|found| &commands[found]);
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
