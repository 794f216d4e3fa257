//! Commands about the connection: `PING`, `HELLO`, `AUTH`, `CLIENT`, `SELECT`, `QUIT`, `RESET`.

use super::{clients, subcommands};
use crate::protocol::password;
use crate::protocol::port::PortProtocol;
use crate::resp::command::Call;
use crate::resp::failure::wrong_arity;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::resp::open_snapshots::OpenSnapshots;
use crate::resp::session::Replies;
use hedgerow::backend::Backend;

/// `PING [message]`
pub(crate) fn ping<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    match (call.arguments.get(0), call.arguments.get(1)) {
        (None, _) => call.reply.simple("PONG"),
        (Some(message), None) => call.reply.bulk(message),
        (Some(_), Some(_)) => return Err(Failure::text(wrong_arity("ping"))),
    }
    Ok(())
}

/// `ECHO message`
pub(crate) fn echo<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    call.reply.bulk(&call.arguments[0]);
    Ok(())
}

/// `QUIT`
pub(crate) fn quit<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    call.reply.ok();
    call.ran.close = true;
    Ok(())
}

/// `SELECT index`
pub(crate) fn select<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let number = number::database(&call.arguments[0])?;
    call.data.select(call.shared.keyspace(number)?);
    call.session.database = number;
    call.reply.ok();
    Ok(())
}

/// `RESET`: as if the connection were new, but for what the client's library says of itself.
pub(crate) fn reset<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let session = &mut *call.session;
    session.queue = None;
    session.watched.clear();
    session.transaction = None;
    session.snapshots = OpenSnapshots::default();
    session.database = 0;
    session.resp3 = false;
    session.replies = Replies::On;
    session.set_names(|names| names.name = Vec::new());
    session.authenticated = !call.shared.settings.has_password();
    call.reply.simple("RESET");
    Ok(())
}

/// Checks a password.
fn authenticate<B: Backend>(call: &mut Call<'_, '_, '_, B>, user: &[u8], given: &[u8]) -> Outcome {
    let expected = call.shared.settings.password();
    if !password::is_right(expected.as_deref(), given) || user != b"default" {
        let peer = call.session.client.addresses.peer.clone();
        call.shared.events.wrong_password(PortProtocol::Resp, peer);
        let text = "WRONGPASS invalid username-password pair or user is disabled.";
        return Err(Failure::text(text));
    }
    call.session.authenticated = true;
    Ok(())
}

/// `AUTH [username] password`
pub(crate) fn auth<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let (user, password) = match arguments.len() {
        1 => (&b"default"[..], &arguments[0]),
        2 => (&arguments[0], &arguments[1]),
        _ => return Err(Failure::Syntax),
    };
    if arguments.len() == 1 && !call.shared.settings.has_password() {
        return Err(Failure::text(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    authenticate(call, user, password)?;
    call.reply.ok();
    Ok(())
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
pub(crate) fn hello<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let mut resp3 = call.session.resp3;
    if let Some(version) = arguments.get(0) {
        resp3 = match number::integer(version) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return Err(Failure::text("NOPROTO unsupported protocol version")),
            None => {
                let text = "ERR Protocol version is not an integer or out of range";
                return Err(Failure::text(text));
            }
        };
    }
    let mut name = None;
    let mut i = 1;
    while let Some(option) = arguments.get(i) {
        if option.eq_ignore_ascii_case(b"AUTH") && arguments.len() > i + 2 {
            authenticate(call, &arguments[i + 1], &arguments[i + 2])?;
            i += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && arguments.len() > i + 1 {
            name = Some(checked_name(&arguments[i + 1])?);
            i += 2;
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(Failure::text(format!(
                "ERR Syntax error in HELLO option '{option}'"
            )));
        }
    }
    if !call.session.authenticated {
        return Err(Failure::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and select \
             the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        call.session.set_names(|names| names.name = name);
    }
    call.session.resp3 = resp3;
    call.reply.set_resp3(resp3);
    let id = call.session.client.id as i64;
    let reply = &mut call.reply;
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", super::info::REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// The longest text that a connection keeps of what its client says of itself.
const LONGEST_NAME_BYTES: usize = 64 << 10;

/// Refuses a text of a client about itself that is too long to be kept; `what` names it.
fn check_length(what: &str, text: &[u8]) -> Outcome {
    if text.len() > LONGEST_NAME_BYTES {
        return Err(Failure::text(format!(
            "ERR {what} has {} bytes, the longest has {LONGEST_NAME_BYTES}",
            text.len()
        )));
    }
    Ok(())
}

fn checked_name(name: &[u8]) -> Outcome<Vec<u8>> {
    check_length("the client name", name)?;
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(name.to_vec());
    }
    let text = "ERR Client names cannot contain spaces, newlines or special characters.";
    Err(Failure::text(text))
}

/// `CLIENT subcommand …`
pub(crate) fn client<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let subcommand = arguments[0].to_ascii_uppercase();
    match subcommand.as_slice() {
        b"ID" => call.reply.integer(call.session.client.id as i64),
        b"GETREDIR" => call.reply.integer(-1),
        b"GETNAME" => {
            let names = call.session.client.names();
            match names.name.as_slice() {
                b"" => call.reply.null(),
                name => call.reply.bulk(name),
            }
        }
        b"SETNAME" => {
            let name = checked_name(&arguments[1])?;
            call.session.set_names(|names| names.name = name);
            call.reply.ok();
        }
        b"SETINFO" => set_info(call)?,
        b"INFO" => clients::info(call)?,
        b"KILL" => clients::kill(call)?,
        b"LIST" => clients::list(call)?,
        b"REPLY" => clients::reply(call)?,
        b"PAUSE" => clients::pause(call)?,
        b"UNPAUSE" => clients::unpause(call),
        b"HELP" => subcommands::help(call, "CLIENT"),
        // NO-EVICT and NO-TOUCH: nothing is evicted, and reads never change a row.
        _ if arguments[1].eq_ignore_ascii_case(b"ON") => call.reply.ok(),
        _ if arguments[1].eq_ignore_ascii_case(b"OFF") => call.reply.ok(),
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

fn set_info<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let option = String::from_utf8_lossy(&arguments[1]);
    let is_name = option.eq_ignore_ascii_case("LIB-NAME");
    if !is_name && !option.eq_ignore_ascii_case("LIB-VER") {
        return Err(Failure::text(format!("ERR Unrecognized option '{option}'")));
    }
    check_length("the library's name or version", &arguments[2])?;
    let value = arguments[2].to_vec();
    if value.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        let text = "cannot contain spaces, newlines or special characters.";
        return Err(Failure::text(format!("ERR {option} {text}")));
    }
    call.session.set_names(|names| match is_name {
        true => names.library = value,
        false => names.library_version = value,
    });
    call.reply.ok();
    Ok(())
}
