//! The table of commands: names, numbers of arguments, which of those are keys, and the functions
//! that run them. Commands do not import the table; each call gets it as an argument, for those
//! that need others' shapes (`EXEC`, `COMMAND`).

use hedgerow::backend::Backend;

use crate::protocol::request::KeyArgument;
use crate::resp::command::{self, Command, Commands, Flags, Run};
use crate::resp::commands::{
    backup, bits, config, connection, copying, expiry, hashes, info, introspection, keys, object,
    ordered, scan, server, snapshots, strings,
};
use crate::resp::{interactive, transactions};

/// The number of the command of this name, in any case.
#[inline]
pub(crate) fn lookup(name: &[u8]) -> Option<usize> {
    // What nearly all requests are.
    if name.eq_ignore_ascii_case(b"GET") {
        return Some(GET);
    }
    if name.eq_ignore_ascii_case(b"SET") {
        return Some(SET);
    }
    command::find(COMMANDS, name)
}

/// Where the first key of a request of this command stands, if it has one.
pub(crate) fn key_argument(code: usize) -> Option<KeyArgument> {
    let command = COMMANDS.get(code)?;
    match command.keys.0 {
        1.. => Some(KeyArgument::Whole(command.keys.0 as u8)),
        _ if command.group == "ordered" => Some(KeyArgument::Bound(1)),
        _ => None,
    }
}

pub(crate) const GET: usize = position("GET");
pub(crate) const SET: usize = position("SET");

const fn position(name: &str) -> usize {
    let mut i = 0;
    while i < TABLE.len() {
        let (a, b) = (TABLE[i].name.as_bytes(), name.as_bytes());
        if a.len() == b.len() && a[0] == b[0] && a[1] == b[1] && a[2] == b[2] {
            return i;
        }
        i += 1;
    }
    panic!("no such command")
}

macro_rules! commands {
    ($(
        $name:literal $arity:literal $keys:tt [$($flag:ident)*] $group:literal $run:path,
        $summary:literal;
    )*) => {
        /// All commands, sorted by name.
        pub(crate) static COMMANDS: &[Command] = TABLE;
        const TABLE: &[Command] = &[$(Command {
            name: $name,
            arity: $arity,
            keys: $keys,
            flags: Flags::NONE$(.and(Flags::$flag))*,
            group: $group,
            summary: $summary,
        }),*];

        /// All commands, with what runs them over a backend.
        #[inline]
        pub(crate) fn commands<B: Backend>() -> Commands<B> {
            Commands {
                all: COMMANDS,
                runs: const { &[$($run as Run<B>),*] },
            }
        }
    };
}

commands! {
    "APPEND" 3 (1, 1, 1) [WRITE FAST] "string" strings::append,
        "Appends to a value.";
    "AUTH" -2 (0, 0, 0) [FAST NO_AUTH] "connection" connection::auth,
        "Authenticates the connection.";
    "BACKUP" 2 (0, 0, 0) [ADMIN NO_MULTI] "server" backup::backup,
        "Copies the database into a directory, in the background.";
    "BEGIN" -1 (0, 0, 0) [FAST NO_MULTI] "transactions" interactive::begin,
        "Begins a transaction whose commands answer at once.";
    "BGSAVE" -1 (0, 0, 0) [ADMIN] "server" server::bgsave,
        "Takes a checkpoint in the background.";
    "BITCOUNT" -2 (1, 1, 1) [READ LONG] "bitmap" bits::bitcount,
        "Counts the bits that are set.";
    "CLIENT" -2 (0, 0, 0) [ADMIN LONG] "connection" connection::client,
        "Describes and names the connection.";
    "COMMAND" -1 (0, 0, 0) [LONG] "server" introspection::command,
        "Describes the commands.";
    "COMMIT" 1 (0, 0, 0) [WRITE NO_MULTI] "transactions" interactive::commit,
        "Commits a transaction that BEGIN began.";
    "CONFIG" -2 (0, 0, 0) [ADMIN] "server" config::config,
        "Shows the configuration, and changes what can change.";
    "COPY" -3 (1, 2, 1) [WRITE SEVERAL LONG] "generic" copying::copy,
        "Copies a key.";
    "COUNTRANGE" 3 (0, 0, 0) [READ WHOLE LONG] "ordered" ordered::countrange,
        "Counts the keys of a range.";
    "DBSIZE" 1 (0, 0, 0) [READ FAST WHOLE] "server" keys::dbsize,
        "Counts all keys.";
    "DECR" 2 (1, 1, 1) [WRITE FAST] "string" strings::decr,
        "Decrements an integer by one.";
    "DECRBY" 3 (1, 1, 1) [WRITE FAST] "string" strings::decrby,
        "Decrements an integer.";
    "DEL" -2 (1, -1, 1) [WRITE ATOMIC SEPARABLE] "generic" keys::del,
        "Removes keys.";
    "DELRANGE" 3 (0, 0, 0) [WRITE WHOLE LONG] "ordered" ordered::delrange,
        "Removes the keys of a range.";
    "DISCARD" 1 (0, 0, 0) [FAST IMMEDIATE] "transactions" transactions::discard,
        "Gives a transaction up.";
    "ECHO" 2 (0, 0, 0) [FAST] "connection" connection::echo,
        "Returns its argument.";
    "EXEC" 1 (0, 0, 0) [IMMEDIATE LONG] "transactions" transactions::exec,
        "Runs a transaction.";
    "EXISTS" -2 (1, -1, 1) [READ FAST ATOMIC SEPARABLE] "generic" keys::exists,
        "Counts how many of the keys exist.";
    "EXPIRE" -3 (1, 1, 1) [WRITE FAST] "generic" expiry::expire,
        "Makes a key expire after some seconds.";
    "EXPIREAT" -3 (1, 1, 1) [WRITE FAST] "generic" expiry::expireat,
        "Makes a key expire at a Unix time.";
    "EXPIRETIME" 2 (1, 1, 1) [READ FAST] "generic" expiry::expiretime,
        "Tells when a key expires, in seconds.";
    "FLUSHALL" -1 (0, 0, 0) [WRITE ATOMIC WHOLE LONG] "server" keys::flushall,
        "Removes all keys of all databases.";
    "FLUSHDB" -1 (0, 0, 0) [WRITE WHOLE LONG] "server" keys::flushdb,
        "Removes all keys of the database.";
    "GET" 2 (1, 1, 1) [READ FAST] "string" strings::get,
        "Returns a value.";
    "GETBIT" 3 (1, 1, 1) [READ FAST] "bitmap" bits::getbit,
        "Returns a bit of a value.";
    "GETDEL" 2 (1, 1, 1) [WRITE FAST] "string" strings::getdel,
        "Returns a value and removes it.";
    "GETEX" -2 (1, 1, 1) [WRITE FAST] "string" strings::getex,
        "Returns a value and changes its expiry.";
    "GETRANGE" 4 (1, 1, 1) [READ] "string" strings::getrange,
        "Returns a part of a value.";
    "GETSET" 3 (1, 1, 1) [WRITE FAST] "string" strings::getset,
        "Replaces a value and returns the old one.";
    "HDEL" -3 (1, 1, 1) [WRITE FAST] "hash" hashes::hdel,
        "Removes fields.";
    "HELLO" -1 (0, 0, 0) [FAST NO_AUTH] "connection" connection::hello,
        "Chooses the protocol version.";
    "HEXISTS" 3 (1, 1, 1) [READ FAST] "hash" hashes::hexists,
        "Tells whether a field exists.";
    "HGET" 3 (1, 1, 1) [READ FAST] "hash" hashes::hget,
        "Returns a field.";
    "HGETALL" 2 (1, 1, 1) [READ LONG] "hash" hashes::hgetall,
        "Returns all fields and values.";
    "HINCRBY" 4 (1, 1, 1) [WRITE FAST] "hash" hashes::hincrby,
        "Increments an integer field.";
    "HINCRBYFLOAT" 4 (1, 1, 1) [WRITE FAST] "hash" hashes::hincrbyfloat,
        "Increments a decimal field.";
    "HKEYS" 2 (1, 1, 1) [READ LONG] "hash" hashes::hkeys,
        "Returns the names of all fields.";
    "HLEN" 2 (1, 1, 1) [READ FAST] "hash" hashes::hlen,
        "Counts fields.";
    "HMGET" -3 (1, 1, 1) [READ FAST] "hash" hashes::hmget,
        "Returns some fields.";
    "HMSET" -4 (1, 1, 1) [WRITE FAST] "hash" hashes::hmset,
        "Sets fields.";
    "HRANDFIELD" -2 (1, 1, 1) [READ LONG] "hash" hashes::hrandfield,
        "Returns random fields.";
    "HSCAN" -3 (1, 1, 1) [READ LONG] "hash" scan::hscan,
        "Iterates over fields.";
    "HSET" -4 (1, 1, 1) [WRITE FAST] "hash" hashes::hset,
        "Sets fields.";
    "HSETNX" 4 (1, 1, 1) [WRITE FAST] "hash" hashes::hsetnx,
        "Sets a field that does not exist.";
    "HSTRLEN" 3 (1, 1, 1) [READ FAST] "hash" hashes::hstrlen,
        "Returns the length of a field.";
    "HVALS" 2 (1, 1, 1) [READ LONG] "hash" hashes::hvals,
        "Returns the values of all fields.";
    "INCR" 2 (1, 1, 1) [WRITE FAST] "string" strings::incr,
        "Increments an integer by one.";
    "INCRBY" 3 (1, 1, 1) [WRITE FAST] "string" strings::incrby,
        "Increments an integer.";
    "INCRBYFLOAT" 3 (1, 1, 1) [WRITE FAST] "string" strings::incrbyfloat,
        "Increments a decimal number.";
    "INFO" -1 (0, 0, 0) [LONG] "server" info::info,
        "Describes the server.";
    "KEYS" 2 (0, 0, 0) [READ WHOLE LONG] "generic" scan::keys,
        "Returns the keys that match a pattern.";
    "LASTSAVE" 1 (0, 0, 0) [FAST] "server" server::lastsave,
        "Tells when the last checkpoint was taken.";
    "MEMORY" -2 (2, 2, 1) [READ] "server" object::memory,
        "Tells how much memory a key occupies.";
    "MGET" -2 (1, -1, 1) [READ FAST ATOMIC SEPARABLE] "string" strings::mget,
        "Returns several values.";
    "MOVE" 3 (1, 1, 1) [WRITE FAST SEVERAL] "generic" copying::move_to,
        "Moves a key to another database.";
    "MSET" -3 (1, -1, 2) [WRITE ATOMIC SEPARABLE] "string" strings::mset,
        "Sets several values.";
    "MSETNX" -3 (1, -1, 2) [WRITE ATOMIC] "string" strings::msetnx,
        "Sets several values if no key exists.";
    "MULTI" 1 (0, 0, 0) [FAST IMMEDIATE] "transactions" transactions::multi,
        "Begins a transaction.";
    "OBJECT" -2 (2, 2, 1) [READ] "generic" object::object,
        "Tells how a value is kept.";
    "PERSIST" 2 (1, 1, 1) [WRITE FAST] "generic" expiry::persist,
        "Makes a key stay.";
    "PEXPIRE" -3 (1, 1, 1) [WRITE FAST] "generic" expiry::pexpire,
        "Makes a key expire after some milliseconds.";
    "PEXPIREAT" -3 (1, 1, 1) [WRITE FAST] "generic" expiry::pexpireat,
        "Makes a key expire at a Unix time in milliseconds.";
    "PEXPIRETIME" 2 (1, 1, 1) [READ FAST] "generic" expiry::pexpiretime,
        "Tells when a key expires, in milliseconds.";
    "PING" -1 (0, 0, 0) [FAST] "connection" connection::ping,
        "Answers.";
    "PREFIX" -2 (0, 0, 0) [READ WHOLE LONG] "ordered" ordered::prefix,
        "Returns the rows whose keys begin with a prefix.";
    "PSETEX" 4 (1, 1, 1) [WRITE] "string" strings::psetex,
        "Sets a value that expires after some milliseconds.";
    "PTTL" 2 (1, 1, 1) [READ FAST] "generic" expiry::pttl,
        "Tells how long a key has, in milliseconds.";
    "QUIT" -1 (0, 0, 0) [FAST NO_AUTH IMMEDIATE] "connection" connection::quit,
        "Closes the connection.";
    "RANDOMKEY" 1 (0, 0, 0) [READ WHOLE LONG] "generic" keys::randomkey,
        "Returns some key.";
    "RANGE" -3 (0, 0, 0) [READ WHOLE LONG] "ordered" ordered::range,
        "Returns the rows of a range of keys.";
    "RENAME" 3 (1, 2, 1) [WRITE SEVERAL LONG] "generic" copying::rename,
        "Renames a key.";
    "RENAMENX" 3 (1, 2, 1) [WRITE FAST SEVERAL] "generic" copying::renamenx,
        "Renames a key if the new name is free.";
    "RESET" 1 (0, 0, 0) [FAST NO_AUTH IMMEDIATE] "connection" connection::reset,
        "Makes the connection as new.";
    "ROLLBACK" 1 (0, 0, 0) [FAST NO_MULTI] "transactions" interactive::rollback,
        "Gives a transaction up that BEGIN began.";
    "SAVE" 1 (0, 0, 0) [ADMIN NO_MULTI LONG] "server" server::save,
        "Takes a checkpoint.";
    "SCAN" -2 (0, 0, 0) [READ WHOLE LONG] "generic" scan::scan,
        "Iterates over keys.";
    "SELECT" 2 (0, 0, 0) [FAST] "connection" connection::select,
        "Chooses a database.";
    "SET" -3 (1, 1, 1) [WRITE] "string" strings::set,
        "Sets a value.";
    "SETBIT" 4 (1, 1, 1) [WRITE] "bitmap" bits::setbit,
        "Sets or clears a bit of a value.";
    "SETEX" 4 (1, 1, 1) [WRITE] "string" strings::setex,
        "Sets a value that expires after some seconds.";
    "SETNX" 3 (1, 1, 1) [WRITE FAST] "string" strings::setnx,
        "Sets a value if the key does not exist.";
    "SETRANGE" 4 (1, 1, 1) [WRITE] "string" strings::setrange,
        "Overwrites a part of a value.";
    "SHUTDOWN" -1 (0, 0, 0) [ADMIN NO_MULTI] "server" server::shutdown,
        "Stops the server.";
    "SNAPSHOT" -1 (0, 0, 0) [NO_MULTI] "transactions" snapshots::snapshot,
        "Opens, lists and releases snapshots.";
    "STRLEN" 2 (1, 1, 1) [READ FAST] "string" strings::strlen,
        "Returns the length of a value.";
    "SUBSTR" 4 (1, 1, 1) [READ] "string" strings::substr,
        "Returns a part of a value.";
    "TIME" 1 (0, 0, 0) [FAST] "server" server::time,
        "Tells the time.";
    "TOUCH" -2 (1, -1, 1) [READ FAST ATOMIC SEPARABLE] "generic" keys::exists,
        "Counts how many of the keys exist.";
    "TTL" 2 (1, 1, 1) [READ FAST] "generic" expiry::ttl,
        "Tells how long a key has, in seconds.";
    "TYPE" 2 (1, 1, 1) [READ FAST] "generic" keys::type_of,
        "Tells what a key holds.";
    "UNLINK" -2 (1, -1, 1) [WRITE FAST ATOMIC SEPARABLE] "generic" keys::del,
        "Removes keys.";
    "UNWATCH" 1 (0, 0, 0) [FAST] "transactions" transactions::unwatch,
        "Forgets what is watched.";
    "WAITAOF" 4 (0, 0, 0) [] "generic" server::waitaof,
        "Waits until what was written is durable.";
    "WATCH" -2 (1, -1, 1) [FAST IMMEDIATE] "transactions" transactions::watch,
        "Makes a transaction fail if keys change.";
    "WITH" -3 (0, 0, 0) [NO_MULTI LONG] "transactions" snapshots::with,
        "Runs a command that reads at a snapshot.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::request::Span;
    use crate::resp::arguments::Arguments;
    use crate::resp::command::LONGEST_NAME;

    #[test]
    fn every_command_is_found_in_any_case() {
        assert!(
            COMMANDS.is_sorted_by(|a, b| a.name < b.name),
            "binary search needs it"
        );
        for (i, command) in COMMANDS.iter().enumerate() {
            assert!(command.name.len() <= LONGEST_NAME, "{}", command.name);
            assert_eq!(lookup(command.name.as_bytes()), Some(i));
            assert_eq!(
                lookup(command.name.to_ascii_lowercase().as_bytes()),
                Some(i)
            );
        }
        assert_eq!(lookup(b"GETS"), None);
        assert_eq!(lookup(b""), None);
        assert_eq!(lookup(&[b'x'; 1000]), None);
    }

    #[test]
    fn keys_are_taken_from_their_places() {
        let input = b"abcde";
        let spans: Vec<Span> = (0..5).map(|i| Span::new(i, i + 1)).collect();
        let keys = |name: &str, count: usize| -> Vec<u8> {
            let command = &COMMANDS[lookup(name.as_bytes()).unwrap()];
            command
                .keys(Arguments::new(input, &spans[..count]))
                .flatten()
                .copied()
                .collect()
        };
        assert_eq!(keys("GET", 2), b"b");
        assert_eq!(keys("HSET", 4), b"b");
        assert_eq!(keys("DEL", 5), b"bcde");
        assert_eq!(keys("MSET", 5), b"bd");
        assert_eq!(keys("PING", 2), b"");
    }
}
