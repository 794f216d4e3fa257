//! `hedgerow cli`: a Redis client for one command, for a file of them, or for a prompt.
//!
//! It speaks RESP 2 and prints replies as `redis-cli` does: for people on a terminal, as they are
//! anywhere else.

mod connection;
mod prompt;
mod reply;
mod session;
mod words;

use std::io::{BufRead, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};

use crate::address::ServerAddress;
use crate::arguments::Cli;
use crate::error::{Error, Result, reading};
use crate::output::Output;
use reply::Reply;
use session::{Client, Form};

pub(crate) fn run(cli: Cli, out: &Output) -> Result<()> {
    let form = match () {
        () if out.json => Form::Json,
        () if cli.raw => Form::Raw,
        () if cli.no_raw || std::io::stdout().is_terminal() => Form::People,
        () => Form::Raw,
    };
    let default = ServerAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 7379)));
    let mut client = Client {
        address: cli.resp.unwrap_or(default),
        password: cli.password,
        database: cli.database,
        queued: Vec::new(),
        form,
        connection: None,
    };
    if !cli.words.is_empty() {
        use std::os::unix::ffi::OsStringExt;
        let words: Vec<Vec<u8>> = cli.words.into_iter().map(OsStringExt::into_vec).collect();
        return match client.perform(&words)? {
            Reply::Error(_) => Err(Error::Reported),
            _ => Ok(()),
        };
    }
    if std::io::stdin().is_terminal() {
        return prompt::run(&mut client);
    }
    run_lines(&mut client)
}

/// Sends the commands of standard input, one a line, each after the reply to the one before.
fn run_lines(client: &mut Client) -> Result<()> {
    let (mut number, mut refused) = (0u64, 0u64);
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(reading)?;
        number += 1;
        let words = words::split(&line)
            .map_err(|what| Error::Failed(format!("standard input line {number}: {what}")))?;
        if words.is_empty() || words[0].starts_with(b"#") {
            continue;
        }
        refused += u64::from(matches!(client.perform(&words)?, Reply::Error(_)));
    }
    match refused {
        0 => Ok(()),
        count => Err(Error::Failed(format!(
            "the server refused {count} of the commands in standard input"
        ))),
    }
}
