//! `CLIENT LIST`, `CLIENT INFO` and `CLIENT KILL`: looking at connections, and ending them;
//! `CLIENT REPLY` and `CLIENT PAUSE`: which replies are sent, and when commands run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clients::list::Client;
use crate::clients::pause::Scope;
use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::resp::outside_effects::PauseChange;
use crate::resp::session::Replies;
use crate::sockets::address::SocketAddress;
use hedgerow::backend::Backend;

/// All connections, the oldest first, without those that somebody has ended. Their workers may not
/// have looked yet, and those that this queue ends stay until it has committed.
fn connected<B: Backend>(call: &Call<'_, '_, '_, B>) -> Vec<Arc<Client>> {
    let outside = call.session.outside.as_deref();
    let is_gone = |id: &u64| outside.is_some_and(|outside| outside.ended.contains_key(id));
    let mut clients = call.shared.clients.all();
    clients.retain(|client| !client.is_killed() && !is_gone(&client.id));
    clients
}

/// Replies a description of some connections, of this one as it is now.
fn describe<B: Backend>(call: &mut Call<'_, '_, '_, B>, clients: &[Arc<Client>]) {
    call.session.publish(Instant::now());
    let own = call.session.client.id;
    let subcommand = String::from_utf8_lossy(&call.arguments[0]).to_lowercase();
    let shared = call.shared;
    let mut text = String::new();
    for client in clients {
        let name = |code: u32| {
            let name = shared.metrics.command_names.get(code as usize);
            let name = name.copied().unwrap_or("NULL").to_lowercase();
            if client.id == own {
                format!("client|{subcommand}")
            } else {
                name
            }
        };
        client.describe(name, &mut text);
        // A request may name one connection a million times.
        if !call.reply.admits(text.len()) {
            return;
        }
    }
    call.reply.verbatim(&text);
}

/// `CLIENT INFO`
pub(super) fn info<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let own = Arc::clone(&call.session.client);
    describe(call, &[own]);
    Ok(())
}

/// Whether connections of this type are ours: all are normal clients.
fn is_normal(kind: &[u8]) -> Outcome<bool> {
    let known = [&b"normal"[..], b"master", b"slave", b"replica", b"pubsub"];
    if !known.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        let kind = String::from_utf8_lossy(kind);
        return Err(Failure::text(format!("ERR Unknown client type '{kind}'")));
    }
    Ok(kind.eq_ignore_ascii_case(b"normal"))
}

fn id(argument: &[u8]) -> Outcome<u64> {
    let id = number::integer(argument).filter(|id| *id > 0);
    id.map(|id| id as u64)
        .ok_or(Failure::text("ERR client-id should be greater than 0"))
}

/// `CLIENT LIST [TYPE type] [ID id …]`: with `ID`, in the order of the arguments, and as often as
/// they name a connection.
pub(super) fn list<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let options = call.arguments.from(1);
    let mut clients = connected(call);
    match options.get(0) {
        None => {}
        Some(option) if option.eq_ignore_ascii_case(b"TYPE") && options.len() == 2 => {
            let are_wanted = is_normal(&options[1])?;
            clients.retain(|_| are_wanted);
        }
        Some(option) if option.eq_ignore_ascii_case(b"ID") && options.len() > 1 => {
            let ids = options.from(1).iter().map(number::integer);
            let ids: Option<Vec<i64>> = ids.collect();
            let ids = ids.ok_or(Failure::text("ERR Invalid client ID"))?;
            let find = |id: &i64| {
                let place = clients.binary_search_by_key(id, |client| client.id as i64);
                place.ok().map(|place| Arc::clone(&clients[place]))
            };
            clients = ids.iter().filter_map(find).collect();
        }
        Some(_) => return Err(Failure::Syntax),
    }
    describe(call, &clients);
    Ok(())
}

/// `CLIENT REPLY ON | OFF | SKIP`. Inside a transaction, whose reply counts its parts, it replies
/// in any case.
pub(super) fn reply<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let session = &mut *call.session;
    match call.arguments[1].to_ascii_uppercase().as_slice() {
        b"ON" => session.replies = Replies::On,
        b"OFF" => session.replies = Replies::Off,
        b"SKIP" if session.replies == Replies::Off => {}
        b"SKIP" => session.replies = Replies::SkipNext,
        _ => return Err(Failure::Syntax),
    }
    if session.replies == Replies::On || call.data.is_transaction() {
        call.reply.ok();
    }
    Ok(())
}

/// `CLIENT PAUSE timeout [WRITE | ALL]`
pub(super) fn pause<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let scope = match (arguments.len(), arguments.get(2)) {
        (2, _) => Scope::All,
        (3, Some(mode)) if mode.eq_ignore_ascii_case(b"WRITE") => Scope::Writes,
        (3, Some(mode)) if mode.eq_ignore_ascii_case(b"ALL") => Scope::All,
        (3, _) => {
            let text = "ERR CLIENT PAUSE mode must be WRITE or ALL";
            return Err(Failure::text(text));
        }
        _ => {
            let name = String::from_utf8_lossy(&arguments[0]);
            return Err(Failure::text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. \
                 Try CLIENT HELP."
            )));
        }
    };
    let timeout_ms = number::integer(&arguments[1]).ok_or(Failure::text(
        "ERR timeout is not an integer or out of range",
    ))?;
    let timeout_ms = u64::try_from(timeout_ms);
    let timeout_ms = timeout_ms.map_err(|_| Failure::text("ERR timeout is negative"))?;
    let timeout = Duration::from_millis(timeout_ms);
    match call.data.is_transaction() {
        true => {
            let outside = call.session.outside.get_or_insert_default();
            outside.pauses.push(PauseChange::Begin(timeout, scope));
        }
        false => call.shared.pause_clients(timeout, scope),
    }
    call.ran.pauses = true;
    call.reply.ok();
    Ok(())
}

/// `CLIENT UNPAUSE`
pub(super) fn unpause<B: Backend>(call: &mut Call<'_, '_, '_, B>) {
    match call.data.is_transaction() {
        true => {
            let outside = call.session.outside.get_or_insert_default();
            outside.pauses.push(PauseChange::End);
        }
        false => call.shared.resume_clients(),
    }
    call.reply.ok();
}

/// Which connections to end.
struct Filter<'c> {
    id: Option<u64>,
    address: Option<&'c [u8]>,
    own_address: Option<&'c [u8]>,
    normal: bool,
    older_than_s: u64,
    skip_me: bool,
}

impl<'c> Filter<'c> {
    /// Reads pairs of a filter's name and its argument.
    fn parse(arguments: Arguments<'c>) -> Outcome<Filter<'c>> {
        let mut filter = Filter {
            id: None,
            address: None,
            own_address: None,
            normal: true,
            older_than_s: 0,
            skip_me: true,
        };
        if !arguments.len().is_multiple_of(2) {
            return Err(Failure::Syntax);
        }
        for (name, argument) in arguments.pairs() {
            match name.to_ascii_uppercase().as_slice() {
                b"ID" => filter.id = Some(id(argument)?),
                b"ADDR" => filter.address = Some(argument),
                b"LADDR" => filter.own_address = Some(argument),
                b"TYPE" => filter.normal = is_normal(argument)?,
                b"USER" if argument == b"default" => {}
                b"USER" => {
                    let user = String::from_utf8_lossy(argument);
                    return Err(Failure::text(format!("ERR No such user '{user}'")));
                }
                b"MAXAGE" => {
                    let age_s = number::integer(argument).filter(|age_s| *age_s > 0);
                    let why = "ERR maxage should be greater than 0";
                    filter.older_than_s = age_s.ok_or(Failure::text(why))? as u64;
                }
                b"SKIPME" if argument.eq_ignore_ascii_case(b"yes") => filter.skip_me = true,
                b"SKIPME" if argument.eq_ignore_ascii_case(b"no") => filter.skip_me = false,
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(filter)
    }

    fn wants(&self, client: &Client, own: u64) -> bool {
        let is = |address: &Option<SocketAddress>, wanted: Option<&[u8]>| {
            wanted.is_none_or(|wanted| {
                let address = address.as_ref();
                address.is_some_and(|address| address.to_string().as_bytes() == wanted)
            })
        };
        self.normal
            && !(self.skip_me && client.id == own)
            && self.id.is_none_or(|id| id == client.id)
            && is(&client.addresses.peer, self.address)
            && is(&client.addresses.own, self.own_address)
            && client.age_s() >= self.older_than_s
    }
}

/// `CLIENT KILL address`, or `CLIENT KILL [ID id] [ADDR address] [LADDR address] [TYPE type]
/// [USER user] [MAXAGE seconds] [SKIPME yes|no]`
pub(super) fn kill<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments.from(1);
    let by_address = arguments.len() == 1;
    let filter = if by_address {
        Filter {
            address: arguments.get(0),
            skip_me: false,
            ..Filter::parse(arguments.from(1))?
        }
    } else {
        Filter::parse(arguments)?
    };
    let own = call.session.client.id;
    let mut clients = connected(call);
    clients.retain(|client| filter.wants(client, own));
    let ended = clients.len() as i64;
    // After the reply.
    call.ran.close |= clients.iter().any(|client| client.id == own);
    clients.retain(|client| client.id != own);
    if call.data.is_transaction() {
        let outside = call.session.outside.get_or_insert_default();
        let by_id = clients.into_iter().map(|client| (client.id, client));
        outside.ended.extend(by_id);
    } else {
        call.shared.end_clients(clients.iter());
    }
    match (by_address, ended) {
        (true, 0) => return Err(Failure::text("ERR No such client")),
        (true, _) => call.reply.ok(),
        (false, ended) => call.reply.integer(ended),
    }
    Ok(())
}
