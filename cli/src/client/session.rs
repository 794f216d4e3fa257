//! A session with a server: a connection, made when a command is sent, and how replies are printed.

use std::io::Write;

use super::connection::Connection;
use super::reply::Reply;
use crate::address::ServerAddress;
use crate::error::{Error, Result, writing};

/// How replies are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// With quotes, types and numbers of items.
    People,
    /// As they are.
    Raw,
    Json,
}

/// A client with a server, connected when a command is sent.
pub(super) struct Client {
    pub(super) address: ServerAddress,
    pub(super) password: Option<String>,
    pub(super) database: u32,
    /// Of each command that is queued since `MULTI`, the database that it selects, if it does.
    pub(super) queued: Vec<Option<u32>>,
    pub(super) form: Form,
    pub(super) connection: Option<Connection>,
}

impl Client {
    /// Sends a command, prints its reply, and returns it.
    pub(super) fn perform(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
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
    pub(super) fn call(&mut self, words: &[Vec<u8>]) -> Result<Reply> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.queued.clear();
                self.connect()?
            }
        };
        // A connection that failed is not used again.
        let reply = connection.call(words)?;
        self.connection = Some(connection);
        self.follow(words, &reply);
        Ok(reply)
    }

    /// Keeps track of the database in which the connection works.
    fn follow(&mut self, words: &[Vec<u8>], reply: &Reply) {
        let command = words.first();
        let command = command.map_or_else(Vec::new, |word| word.to_ascii_uppercase());
        let selected = match (command.as_slice(), words) {
            (b"SELECT", [_, number]) => std::str::from_utf8(number).ok(),
            _ => None,
        };
        let selected = selected.and_then(|number| number.parse().ok());
        match (command.as_slice(), reply) {
            (b"RESET", Reply::Simple(_)) => {
                self.queued.clear();
                self.database = 0;
            }
            (b"EXEC", Reply::Array(replies)) => {
                let is_done = |reply: &Reply| matches!(reply, Reply::Simple(text) if text == "OK");
                let queued = std::mem::take(&mut self.queued);
                let each = queued.into_iter().zip(replies);
                let done = each.filter(|(_, reply)| is_done(reply));
                let last = done.filter_map(|(to, _)| to).next_back();
                self.database = last.unwrap_or(self.database);
            }
            (b"EXEC" | b"DISCARD", _) => self.queued.clear(),
            (_, Reply::Simple(text)) if text == "QUEUED" => self.queued.push(selected),
            (_, Reply::Simple(text)) if text == "OK" => {
                self.database = selected.unwrap_or(self.database);
            }
            _ => {}
        }
    }

    fn connect(&self) -> Result<Connection> {
        let mut connection = Connection::open(self.address.clone())?;
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
