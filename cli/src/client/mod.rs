//! `hedgerow cli`: a Redis client for one command, for a file of them, or for a prompt.
//!
//! It speaks RESP 2 and prints replies as `redis-cli` does: for people on a terminal, as they are
//! anywhere else.

mod connection;
mod prompt;
mod reply;
mod words;

use std::io::{BufRead, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};

use crate::arguments::Cli;
use crate::error::{Error, Result, reading, writing};
use crate::output::Output;
use connection::Connection;
use reply::Reply;

/// How replies are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With quotes, types and numbers of items.
    People,
    /// As they are.
    Raw,
    Json,
}

/// A client with a server, connected when a command is sent.
struct Client {
    address: SocketAddr,
    password: Option<String>,
    database: u32,
    form: Form,
    connection: Option<Connection>,
}

pub(crate) fn run(cli: Cli, out: &Output) -> Result<()> {
    let form = match () {
        () if out.json => Form::Json,
        () if cli.raw => Form::Raw,
        () if cli.no_raw || std::io::stdout().is_terminal() => Form::People,
        () => Form::Raw,
    };
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 7379));
    let mut client = Client {
        address: cli.resp.unwrap_or(default),
        password: cli.password,
        database: cli.database,
        form,
        connection: None,
    };
    if !cli.words.is_empty() {
        use std::os::unix::ffi::OsStringExt;
        let words: Vec<Vec<u8>> = cli.words.into_iter().map(OsStringExt::into_vec).collect();
        return match client.perform(&words)? {
            Reply::Error(_) => Err(Error::Told),
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

impl Client {
    /// Sends a command, prints its reply, and returns it.
    fn perform(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
        let reply = self.call(words)?;
        let mut text = match self.form {
            Form::People => reply.for_people(),
            Form::Raw => reply.raw(),
            Form::Json => reply.json().to_string().into_bytes(),
        };
        text.push(b'\n');
        let mut out = std::io::stdout().lock();
        out.write_all(&text)
            .and_then(|()| out.flush())
            .map_err(writing)?;
        Ok(reply)
    }

    /// Sends a command and takes its reply, having connected if need be.
    fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        // A connection that failed is not used again.
        let reply = connection.call(words)?;
        self.connection = Some(connection);
        if let ([command, number], Reply::Simple(_)) = (words, &reply)
            && command.eq_ignore_ascii_case(b"SELECT")
        {
            let number = std::str::from_utf8(number).ok();
            self.database = number.and_then(|n| n.parse().ok()).unwrap_or(self.database);
        }
        Ok(reply)
    }

    fn connect(&self) -> Result<Connection> {
        let mut connection = Connection::open(self.address)?;
        let mut begin = Vec::new();
        if let Some(password) = &self.password {
            begin.push([b"AUTH".to_vec(), password.clone().into_bytes()]);
        }
        if self.database > 0 {
            begin.push([b"SELECT".to_vec(), self.database.to_string().into_bytes()]);
        }
        for words in &begin {
            if let Reply::Error(text) = connection.call(words)? {
                return Err(Error::Failed(format!(
                    "{} refused {}: {text}",
                    self.address,
                    String::from_utf8_lossy(&words[0]),
                )));
            }
        }
        Ok(connection)
    }
}
