//! What each command does, one file per family. The table (`resp/table.rs`) says which there are.

mod clients;
pub(crate) mod connection;
pub(crate) mod expiry;
pub(crate) mod hashes;
pub(crate) mod info;
pub(crate) mod introspection;
pub(crate) mod keys;
pub(crate) mod ordered;
pub(crate) mod scan;
pub(crate) mod server;
pub(crate) mod strings;

use crate::resp::call::Arguments;
use crate::resp::session::wrong_arity;

/// The subcommands of commands that have such, with their numbers of arguments (both names
/// included; negative: at least so many).
const SUBCOMMANDS: [(&str, &[(&str, i8)]); 3] = [
    (
        "CLIENT",
        &[
            ("GETNAME", 2),
            ("GETREDIR", 2),
            ("ID", 2),
            ("INFO", 2),
            ("KILL", -3),
            ("LIST", -2),
            ("NO-EVICT", 3),
            ("NO-TOUCH", 3),
            ("REPLY", 3),
            ("SETINFO", 4),
            ("SETNAME", 3),
        ],
    ),
    (
        "COMMAND",
        &[
            ("COUNT", 2),
            ("DOCS", -2),
            ("GETKEYS", -3),
            ("INFO", -2),
            ("LIST", -2),
        ],
    ),
    ("CONFIG", &[("GET", -3), ("RESETSTAT", 2), ("SET", -4)]),
];

/// Refuses a request whose subcommand is unknown or has a wrong number of arguments.
pub(crate) fn check_subcommand(command: &str, request: Arguments<'_>) -> Result<(), String> {
    let Some((_, known)) = SUBCOMMANDS.iter().find(|(name, _)| *name == command) else {
        return Ok(());
    };
    let Some(given) = request.get(1) else {
        return Ok(());
    };
    let found = known
        .iter()
        .find(|(name, _)| given.eq_ignore_ascii_case(name.as_bytes()));
    let Some((name, arity)) = found else {
        let given = String::from_utf8_lossy(&given[..given.len().min(128)]).into_owned();
        return Err(format!(
            "ERR unknown subcommand '{given}'. Try {command} HELP."
        ));
    };
    let least = usize::from(arity.unsigned_abs());
    if request.len() == least || (*arity < 0 && request.len() > least) {
        return Ok(());
    }
    Err(wrong_arity(&format!("{command}|{name}")))
}
