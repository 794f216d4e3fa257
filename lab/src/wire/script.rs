//! Requests and their expected replies, byte for byte.

use std::fmt::Write as _;
use std::ops::Range;

use hedgerow_lab_peers::ServerPeer;

use crate::{LabError, Result};

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Redis serialisation protocol 2.
    Resp,
    /// memcached's classic text protocol.
    Memcached,
}

impl Protocol {
    /// That of a server.
    ///
    /// # Errors
    ///
    /// When it speaks another.
    pub fn of(server: &ServerPeer) -> Result<Self> {
        match server.protocol {
            hedgerow_lab_peers::Protocol::Resp => Ok(Self::Resp),
            hedgerow_lab_peers::Protocol::Memcached => Ok(Self::Memcached),
            _ => Err(LabError::Usage(format!(
                "{} speaks neither Redis's protocol nor memcached's",
                server.entry.name
            ))),
        }
    }
}

/// Some requests that are sent together, and the bytes that must come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange<'a> {
    /// The requests.
    pub request: &'a [u8],
    /// The replies, in order.
    pub reply: &'a [u8],
    /// How many requests these are.
    pub requests: usize,
}

/// A list of exchanges in two flat buffers.
#[derive(Debug, Clone, Default)]
pub struct Script {
    requests: Vec<u8>,
    replies: Vec<u8>,
    exchanges: Vec<Span>,
    /// What a connection says first, before anything is timed.
    preamble: Option<Span>,
}

/// Where an exchange lies in the two buffers.
#[derive(Debug, Clone)]
struct Span {
    request: Range<usize>,
    reply: Range<usize>,
    /// How many requests these are.
    requests: usize,
}

impl Script {
    /// The number of exchanges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// The `index`-th exchange.
    #[must_use]
    pub fn exchange(&self, index: usize) -> Exchange<'_> {
        self.of(&self.exchanges[index])
    }

    fn of(&self, span: &Span) -> Exchange<'_> {
        Exchange {
            request: &self.requests[span.request.clone()],
            reply: &self.replies[span.reply.clone()],
            requests: span.requests,
        }
    }

    /// What a connection says before it plays the exchanges.
    #[must_use]
    pub fn preamble(&self) -> Option<Exchange<'_>> {
        self.preamble.as_ref().map(|span| self.of(span))
    }

    /// Makes every connection say this first.
    pub(super) fn begin_with(&mut self, request: &str, reply: &str) {
        let (request_start, reply_start) = (self.requests.len(), self.replies.len());
        self.requests.extend_from_slice(request.as_bytes());
        self.replies.extend_from_slice(reply.as_bytes());
        self.preamble = Some(Span {
            request: request_start..self.requests.len(),
            reply: reply_start..self.replies.len(),
            requests: 0,
        });
    }

    /// Adds an exchange of `requests` requests, which `build` appends with their replies.
    pub(super) fn push(&mut self, requests: usize, build: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        let (request_start, reply_start) = (self.requests.len(), self.replies.len());
        build(&mut self.requests, &mut self.replies);
        self.exchanges.push(Span {
            request: request_start..self.requests.len(),
            reply: reply_start..self.replies.len(),
            requests,
        });
    }
}

pub(super) fn resp_array(out: &mut Vec<u8>, words: &[&[u8]]) {
    let mut head = String::new();
    write!(head, "*{}\r\n", words.len()).expect("writing to a string");
    out.extend_from_slice(head.as_bytes());
    for word in words {
        resp_bulk(out, word);
    }
}

pub(super) fn resp_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
