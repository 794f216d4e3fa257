//! `CONFIG`: what the server was started with, under Redis' names, and changes of what can change
//! while it runs. A change lasts until the server stops.

use std::time::Duration;

use hedgerow::Durability;
use hedgerow::backend::Backend;

use super::subcommands;
use crate::event_loop::descriptors::room_for_connections;
use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::glob;
use crate::resp::number;
use crate::settings::Settings;
use crate::shared::{DATABASES, Shared};

/// What a value that was checked does once all of a request's are.
type SettingChange = Box<dyn FnOnce(&Settings)>;

/// Checks a new value of a parameter, or says what is wrong with it.
type Check<B> = fn(&Shared<B>, &[u8]) -> Result<SettingChange, String>;

/// A parameter.
struct Parameter<B: Backend> {
    /// In lower case.
    name: &'static str,
    show: fn(&Shared<B>) -> String,
    /// `None` if the parameter cannot change.
    change: Option<Check<B>>,
}

const fn fixed<B: Backend>(name: &'static str, show: fn(&Shared<B>) -> String) -> Parameter<B> {
    Parameter {
        name,
        show,
        change: None,
    }
}

const fn open<B: Backend>(
    name: &'static str,
    show: fn(&Shared<B>) -> String,
    change: Check<B>,
) -> Parameter<B> {
    Parameter {
        name,
        show,
        change: Some(change),
    }
}

/// All parameters, sorted by name.
fn parameters<B: Backend>() -> &'static [Parameter<B>] {
    const {
        &[
            open("appendfsync", show_fsync, change_fsync),
            fixed("appendonly", |shared| {
                if shared.db.is_volatile() { "no" } else { "yes" }.into()
            }),
            fixed("databases", |_| DATABASES.to_string()),
            open("hash-max-listpack-entries", show_fields, change_fields),
            open("hash-max-listpack-value", show_bytes, change_bytes),
            open("hash-max-ziplist-entries", show_fields, change_fields),
            open("hash-max-ziplist-value", show_bytes, change_bytes),
            fixed("io-threads", |shared| shared.options.workers.to_string()),
            open(
                "maxclients",
                |shared| shared.settings.max_connections().to_string(),
                |shared, value| {
                    let connections = within(value, 1, u32::MAX.into())? as usize;
                    let most = room_for_connections(shared.options.workers);
                    if connections > most {
                        return Err(format!(
                            "The operating system is not able to handle the specified number of \
                             clients, try with {most}"
                        ));
                    }
                    Ok(Box::new(move |s| s.set_max_connections(connections)))
                },
            ),
            fixed("maxmemory", show_memory),
            fixed("maxmemory-policy", |_| "noeviction".into()),
            fixed("port", |shared| {
                let address = shared.options.resp;
                address.map_or(0, |address| address.port()).to_string()
            }),
            open(
                "proto-max-bulk-len",
                |shared| shared.settings.max_bulk_bytes().to_string(),
                |shared, value| {
                    // Longer values than at the start are none that the engine takes.
                    let most = shared.options.max_bulk_bytes as i64;
                    let bytes = memory(value)?;
                    let bytes = check_range(bytes, most.min(1 << 20), most)? as usize;
                    Ok(Box::new(move |s| s.set_max_bulk_bytes(bytes)))
                },
            ),
            open(
                "requirepass",
                |shared| shared.settings.password().as_deref().unwrap_or("").into(),
                change_password,
            ),
            fixed("save", |_| String::new()),
            open("timeout", show_timeout, |_, value| {
                let timeout = Duration::from_secs(within(value, 0, i32::MAX.into())? as u64);
                Ok(Box::new(move |s| s.set_idle_timeout(timeout)))
            }),
            fixed("unixsocket", |shared| {
                let path = shared.options.unix.resp.as_ref();
                path.map_or_else(String::new, |path| path.display().to_string())
            }),
            fixed("unixsocketperm", |shared| {
                format!("{:o}", shared.options.unix.mode)
            }),
        ]
    }
}

fn show_fsync<B: Backend>(shared: &Shared<B>) -> String {
    match shared.settings.durability() {
        Durability::Sync => "always",
        Durability::Periodic => "everysec",
        Durability::None => "no",
    }
    .into()
}

fn change_fsync<B: Backend>(_: &Shared<B>, value: &[u8]) -> Result<SettingChange, String> {
    let durability = match value.to_ascii_lowercase().as_slice() {
        b"always" => Durability::Sync,
        b"everysec" => Durability::Periodic,
        b"no" => Durability::None,
        _ => {
            let names = "everysec, always, no";
            return Err(format!("argument(s) must be one of the following: {names}"));
        }
    };
    Ok(Box::new(move |settings| {
        settings.set_durability(durability)
    }))
}

fn show_memory<B: Backend>(shared: &Shared<B>) -> String {
    let statistics = shared.db.statistics();
    let limit = statistics.get("memory_limit_bytes").unwrap_or(0.0);
    (limit as u64).to_string()
}

fn show_timeout<B: Backend>(shared: &Shared<B>) -> String {
    let timeout = shared.settings.idle_timeout();
    timeout.map_or(0, |timeout| timeout.as_secs()).to_string()
}

fn show_fields<B: Backend>(shared: &Shared<B>) -> String {
    shared.settings.small_hash().fields.to_string()
}

fn change_fields<B: Backend>(_: &Shared<B>, value: &[u8]) -> Result<SettingChange, String> {
    let fields = within(value, 0, i64::MAX)? as usize;
    Ok(Box::new(move |s| s.set_small_hash_fields(fields)))
}

fn show_bytes<B: Backend>(shared: &Shared<B>) -> String {
    shared.settings.small_hash().bytes.to_string()
}

fn change_bytes<B: Backend>(_: &Shared<B>, value: &[u8]) -> Result<SettingChange, String> {
    let bytes = check_range(memory(value)?, 0, i64::MAX)? as usize;
    Ok(Box::new(move |s| s.set_small_hash_bytes(bytes)))
}

fn change_password<B: Backend>(shared: &Shared<B>, value: &[u8]) -> Result<SettingChange, String> {
    let text = String::from_utf8(value.to_vec());
    let password = text.map_err(|_| "a password is UTF-8 text".to_owned())?;
    let password = Some(password).filter(|password| !password.is_empty());
    if password.is_none() && shared.options.is_reachable() {
        return Err("a server that other machines can reach needs a password".into());
    }
    Ok(Box::new(move |s| s.set_password(password.as_deref())))
}

/// An integer between two bounds.
fn within(value: &[u8], least: i64, most: i64) -> Result<i64, String> {
    let number = number::integer(value).ok_or("argument couldn't be parsed into an integer")?;
    check_range(number, least, most)
}

fn check_range(number: i64, least: i64, most: i64) -> Result<i64, String> {
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(format!(
        "argument must be between {least} and {most} inclusive"
    ))
}

/// A number of bytes, as Redis writes them: `100`, `100kb`, `1g`.
fn memory(value: &[u8]) -> Result<i64, String> {
    let digits = value
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (digits, unit) = value.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => Some(1),
        b"k" => Some(1000),
        b"kb" => Some(1 << 10),
        b"m" => Some(1_000_000),
        b"mb" => Some(1 << 20),
        b"g" => Some(1_000_000_000),
        b"gb" => Some(1 << 30),
        _ => None,
    };
    let digits = std::str::from_utf8(digits).ok();
    let number = digits.and_then(|digits| digits.parse::<i64>().ok());
    let bytes = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    bytes.ok_or_else(|| "argument must be a memory value".into())
}

/// `CONFIG GET pattern …`, `CONFIG SET parameter value …`, `CONFIG RESETSTAT`, `CONFIG HELP`
pub(crate) fn config<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    match call.arguments[0].to_ascii_uppercase().as_slice() {
        b"GET" => get(call),
        b"SET" => return set(call),
        b"HELP" => subcommands::help(call, "CONFIG"),
        // `RESETSTAT`: nothing else passes the check of subcommands.
        _ => {
            let shared = call.shared;
            shared.info_reset.set(&shared.metrics, &*shared.db);
            call.reply.ok();
        }
    }
    Ok(())
}

/// The name under which `CONFIG GET` shows a parameter: as the first of the arguments that names it
/// spells it, or its own if that is a pattern; `None` if none of them names it.
fn shown_name<'n>(asked: Arguments<'n>, name: &'n str) -> Option<&'n [u8]> {
    let name = name.as_bytes();
    let is_pattern = |asked: &[u8]| asked.iter().any(|byte| b"*?[".contains(byte));
    asked.iter().find_map(|asked| match is_pattern(asked) {
        true => glob::matches(asked, name, true).then_some(name),
        false => asked.eq_ignore_ascii_case(name).then_some(asked),
    })
}

fn get<B: Backend>(call: &mut Call<'_, '_, '_, B>) {
    let asked = call.arguments.from(1);
    let found = parameters::<B>().iter().filter_map(|known| {
        let name = shown_name(asked, known.name)?;
        Some((name, known.show))
    });
    call.reply.map(found.clone().count());
    for (name, show) in found {
        call.reply.bulk(name);
        call.reply.bulk(show(call.shared).as_bytes());
    }
}

/// Changes all of the parameters, or none: everything is checked before anything changes. What is
/// as it was is accepted of every parameter.
fn set<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments.from(1);
    if !arguments.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    let mut named: Vec<(&Parameter<B>, &[u8])> = Vec::new();
    for (name, value) in arguments.pairs() {
        let is_named = |known: &&Parameter<B>| name.eq_ignore_ascii_case(known.name.as_bytes());
        let found = parameters::<B>().iter().find(is_named);
        // Errors about the name spell it as the client does.
        let name = String::from_utf8_lossy(name);
        let Some(known) = found else {
            return Err(Failure::text(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        if known.change.is_none() && (known.show)(call.shared).as_bytes() != value {
            return Err(refused(&name, "can't set immutable config"));
        }
        if named.iter().any(|(named, _)| named.name == known.name) {
            return Err(refused(&name, "duplicate parameter"));
        }
        named.push((known, value));
    }
    let mut changes: Vec<SettingChange> = Vec::new();
    for (Parameter { name, change, .. }, value) in named {
        if let Some(change) = change {
            changes.push(change(call.shared, value).map_err(|why| refused(name, &why))?);
        }
    }
    for change in changes {
        change(&call.shared.settings);
    }
    call.reply.ok();
    Ok(())
}

fn refused(name: &str, why: &str) -> Failure {
    Failure::text(format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted_and_sizes_have_units() {
        assert!(parameters::<hedgerow::Db>().is_sorted_by(|a, b| a.name < b.name));
        for (text, bytes) in [
            ("0", 0),
            ("64", 64),
            ("2kb", 2048),
            ("2K", 2000),
            ("1gb", 1 << 30),
        ] {
            assert_eq!(memory(text.as_bytes()), Ok(bytes));
        }
        for text in [
            "",
            "x",
            "1x",
            "-1",
            "9999999999999999999",
            "9223372036854775807kb",
        ] {
            assert!(memory(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
