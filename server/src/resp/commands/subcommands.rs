//! Commands that are several under one name (`CLIENT LIST`, `CONFIG GET` …): which subcommands
//! there are, how many arguments each takes, and what `HELP` says of it.

use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::failure::wrong_arity;
use hedgerow::backend::Backend;

/// A subcommand.
pub(crate) struct Subcommand {
    /// In upper case.
    pub(crate) name: &'static str,
    /// How many arguments it takes, both names included; negative: at least so many.
    pub(crate) arity: i8,
    /// The lines of `HELP`: how it is written, then what it does.
    pub(crate) help: &'static [&'static str],
}

impl Subcommand {
    /// What it does, in one line.
    pub(crate) fn summary(&self) -> &'static str {
        self.help.get(1).map_or("", |line| line.trim_start())
    }
}

const HELP: Subcommand = Subcommand {
    name: "HELP",
    arity: 2,
    help: &["HELP", "    Prints this help."],
};

/// Lists subcommands, `HELP` behind them.
macro_rules! subcommands {
    ($($name:literal $arity:literal [$($line:literal)*];)*) => {
        &[$(Subcommand { name: $name, arity: $arity, help: &[$($line),*] },)* HELP]
    };
}

const CLIENT: &[Subcommand] = subcommands! {
    "GETNAME" 2 ["GETNAME" "    Return the name of the current connection."];
    "GETREDIR" 2 ["GETREDIR" "    Return -1: invalidation messages are not redirected."];
    "ID" 2 ["ID" "    Return the ID of the current connection."];
    "INFO" 2 ["INFO" "    Return information about the current client connection."];
    "KILL" -3 [
        "KILL <ip:port> | <option> <value> [<option> <value> [...]]"
        "    Close connections. Options are:"
        "    * ID <client-id>"
        "    * ADDR <ip:port>"
        "    * LADDR <ip:port>"
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)"
        "    * USER <username>"
        "    * MAXAGE <seconds>"
        "    * SKIPME (YES|NO)"
        "      Skip the current connection (default: yes)."
    ];
    "LIST" -2 [
        "LIST [options ...]"
        "    Return information about client connections. Options are:"
        "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)"
        "    * ID <client-id> [<client-id> [...]]"
    ];
    "NO-EVICT" 3 ["NO-EVICT (ON|OFF)" "    Accepted; no connection is ever evicted."];
    "NO-TOUCH" 3 ["NO-TOUCH (ON|OFF)" "    Accepted; reads never alter a key."];
    "PAUSE" -3 [
        "PAUSE <timeout> [WRITE|ALL]"
        "    Suspend all, or just write, commands for <timeout> milliseconds."
    ];
    "REPLY" 3 ["REPLY (ON|OFF|SKIP)" "    Control the replies sent to the current connection."];
    "SETINFO" 4 [
        "SETINFO (LIB-NAME|LIB-VER) <value>"
        "    Tell the name or the version of the client's library."
    ];
    "SETNAME" 3 ["SETNAME <name>" "    Assign the name <name> to the current connection."];
    "UNPAUSE" 2 ["UNPAUSE" "    Stop the current client pause, resuming traffic."];
};

const COMMAND: &[Subcommand] = subcommands! {
    "COUNT" 2 ["COUNT" "    Return the total number of commands in this server."];
    "DOCS" -2 [
        "DOCS [<command-name> ...]"
        "    Return documentation details about the named commands, or about all."
    ];
    "GETKEYS" -4 ["GETKEYS <full-command>" "    Return the keys from a full command."];
    "INFO" -2 [
        "INFO [<command-name> ...]"
        "    Return details about the named commands, or about all."
    ];
    "LIST" -2 [
        "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]"
        "    Return the names of the commands of this server that pass the filter."
    ];
};

const CONFIG: &[Subcommand] = subcommands! {
    "GET" -3 [
        "GET <pattern> [<pattern> ...]"
        "    Return parameters matching the glob-like <pattern> and their values."
    ];
    "RESETSTAT" 2 ["RESETSTAT" "    Reset statistics reported by the INFO command."];
    "SET" -4 [
        "SET <directive> <value> [<directive> <value> ...]"
        "    Set each configuration <directive> to its <value>, or none, until the server stops."
    ];
};

const MEMORY: &[Subcommand] = subcommands! {
    "USAGE" -3 [
        "USAGE <key> [SAMPLES <count>]"
        "    Return the bytes of memory that <key> and its value occupy."
    ];
};

const OBJECT: &[Subcommand] = subcommands! {
    "ENCODING" 3 [
        "ENCODING <key>"
        "    Return the name that Redis gives to the representation of such a value."
    ];
    "FREQ" 3 ["FREQ <key>" "    Return an error: access frequencies are not tracked."];
    "IDLETIME" 3 ["IDLETIME <key>" "    Return an error: access times are not tracked."];
    "REFCOUNT" 3 ["REFCOUNT <key>" "    Return 1: values are not shared between keys."];
};

/// The subcommands of a command, given its name in upper case; none for most.
pub(crate) fn of(command: &str) -> &'static [Subcommand] {
    match command {
        "CLIENT" => CLIENT,
        "COMMAND" => COMMAND,
        "CONFIG" => CONFIG,
        "MEMORY" => MEMORY,
        "OBJECT" => OBJECT,
        _ => &[],
    }
}

/// The subcommand of a command that bears a name, in any case.
pub(crate) fn find(command: &str, name: &[u8]) -> Option<&'static Subcommand> {
    let mut known = of(command).iter();
    known.find(|known| name.eq_ignore_ascii_case(known.name.as_bytes()))
}

/// Refuses a request whose subcommand is unknown or has a wrong number of arguments.
pub(crate) fn check(command: &str, request: Arguments<'_>) -> Result<(), String> {
    if of(command).is_empty() {
        return Ok(());
    }
    let Some(given) = request.get(1) else {
        return Ok(());
    };
    let Some(Subcommand { name, arity, .. }) = find(command, given) else {
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

/// Replies what `HELP` says of a command: a line for each of its lines.
pub(super) fn help<B: Backend>(call: &mut Call<'_, '_, '_, B>, command: &str) {
    let lines = of(command).iter().flat_map(|subcommand| subcommand.help);
    call.reply.array(1 + lines.clone().count());
    call.reply.simple(&format!(
        "{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    ));
    lines.for_each(|line| call.reply.simple(line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::table::COMMANDS;

    #[test]
    fn every_container_is_a_command_and_explains_itself() {
        let containers = ["CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT"];
        for container in containers {
            assert!(COMMANDS.iter().any(|command| command.name == container));
            for subcommand in of(container) {
                assert!(subcommand.help[0].starts_with(subcommand.name));
                assert!(!subcommand.summary().is_empty(), "{}", subcommand.name);
                assert!(find(container, subcommand.name.to_lowercase().as_bytes()).is_some());
            }
        }
        let others = COMMANDS.iter().filter(|c| !containers.contains(&c.name));
        assert!(
            others
                .into_iter()
                .all(|command| of(command.name).is_empty())
        );
    }
}
