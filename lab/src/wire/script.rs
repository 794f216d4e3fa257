//! Requests and their expected replies, byte for byte.

use std::fmt::Write as _;
use std::ops::Range;

use hedgerow_lab_peers::ServerPeer;

use crate::keys::Key;
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
    /// The text protocol of a server.
    ///
    /// # Errors
    ///
    /// When it speaks another.
    pub fn of(server: &ServerPeer) -> Result<Self> {
        match server.protocol {
            hedgerow_lab_peers::Protocol::Resp => Ok(Self::Resp),
            hedgerow_lab_peers::Protocol::Memcached => Ok(Self::Memcached),
            hedgerow_lab_peers::Protocol::MySql => Err(LabError::Usage(format!(
                "{} speaks no text protocol",
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
    exchanges: Vec<(Range<usize>, Range<usize>, usize)>,
}

impl Script {
    /// The number of exchanges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// The `index`-th exchange.
    #[must_use]
    pub fn exchange(&self, index: usize) -> Exchange<'_> {
        let (request, reply, requests) = &self.exchanges[index];
        Exchange {
            request: &self.requests[request.clone()],
            reply: &self.replies[reply.clone()],
            requests: *requests,
        }
    }

    /// Adds an exchange of `requests` requests, which `build` appends with their replies.
    pub(super) fn push(&mut self, requests: usize, build: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) {
        let (request_start, reply_start) = (self.requests.len(), self.replies.len());
        build(&mut self.requests, &mut self.replies);
        let request = request_start..self.requests.len();
        let reply = reply_start..self.replies.len();
        self.exchanges.push((request, reply, requests));
    }

    /// Gets of all `keys`, `depth` to an exchange, each present with its `value_text`.
    #[must_use]
    pub fn gets(protocol: Protocol, keys: &[Key], depth: usize) -> Self {
        let mut script = Self::default();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for key in some {
                    let (key, value) = (key.as_slice(), value_text(key));
                    match protocol {
                        Protocol::Resp => {
                            resp_array(request, &[b"GET", key]);
                            resp_bulk(reply, &value);
                        }
                        Protocol::Memcached => {
                            request.extend_from_slice(b"get ");
                            request.extend_from_slice(key);
                            request.extend_from_slice(b"\r\n");
                            reply.extend_from_slice(b"VALUE ");
                            reply.extend_from_slice(key);
                            reply.extend_from_slice(b" 0 8\r\n");
                            reply.extend_from_slice(&value);
                            reply.extend_from_slice(b"\r\nEND\r\n");
                        }
                    }
                }
            });
        }
        script
    }

    /// Sets of all `keys` to their `value_text`, `depth` to an exchange.
    #[must_use]
    pub fn sets(protocol: Protocol, keys: &[Key], depth: usize) -> Self {
        let mut script = Self::default();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for key in some {
                    let (key, value) = (key.as_slice(), value_text(key));
                    match protocol {
                        Protocol::Resp => {
                            resp_array(request, &[b"SET", key, &value]);
                            reply.extend_from_slice(b"+OK\r\n");
                        }
                        Protocol::Memcached => {
                            request.extend_from_slice(b"set ");
                            request.extend_from_slice(key);
                            request.extend_from_slice(b" 0 0 8\r\n");
                            request.extend_from_slice(&value);
                            request.extend_from_slice(b"\r\n");
                            reply.extend_from_slice(b"STORED\r\n");
                        }
                    }
                }
            });
        }
        script
    }

    /// Redis: adds all `keys` to one sorted set with equal scores, so that it orders by bytes.
    #[must_use]
    pub fn sorted_set(name: &[u8], keys: &[Key], depth: usize) -> Self {
        let mut script = Self::default();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                let mut words: Vec<&[u8]> = vec![b"ZADD", name];
                for key in some {
                    words.extend([b"0".as_slice(), key.as_slice()]);
                }
                resp_array(request, &words);
                reply.extend_from_slice(format!(":{}\r\n", some.len()).as_bytes());
            });
        }
        script
    }

    /// Ordered scans of `pairs` keys from each start, an index into the ascending `sorted`;
    /// `depth` to an exchange.
    #[must_use]
    pub fn scans(
        form: ScanForm,
        sorted: &[Key],
        starts: &[usize],
        pairs: usize,
        depth: usize,
    ) -> Self {
        let mut script = Self::default();
        let limit = pairs.to_string();
        for some in starts.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for &start in some {
                    let found = &sorted[start..(start + pairs).min(sorted.len())];
                    let from = sorted[start].as_slice();
                    form.request(request, from, limit.as_bytes());
                    let values: Vec<_> = found.iter().map(value_text).collect();
                    let pairs = found.iter().zip(&values);
                    let flat: Vec<&[u8]> = pairs
                        .flat_map(|(key, value)| [key.as_slice(), value])
                        .step_by(if form == ScanForm::Pairs { 1 } else { 2 })
                        .collect();
                    resp_array(reply, &flat);
                }
            });
        }
        script
    }
}

/// How a server is asked for an ordered scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanForm {
    /// Our `RANGE start end LIMIT n`: keys and values.
    Pairs,
    /// Our `RANGE start end LIMIT n KEYS`.
    Keys,
    /// Redis's `ZRANGEBYLEX` of the sorted set of this name: keys only.
    SortedSet(&'static [u8]),
}

impl ScanForm {
    fn request(self, request: &mut Vec<u8>, from: &[u8], limit: &[u8]) {
        match self {
            Self::Pairs => resp_array(request, &[b"RANGE", from, b"~", b"LIMIT", limit]),
            Self::Keys => resp_array(request, &[b"RANGE", from, b"~", b"LIMIT", limit, b"KEYS"]),
            Self::SortedSet(name) => {
                let from = [b"[", from].concat();
                let words: [&[u8]; 7] = [b"ZRANGEBYLEX", name, &from, b"+", b"LIMIT", b"0", limit];
                resp_array(request, &words);
            }
        }
    }
}

/// The 8-byte value that every server stores under `key`.
#[must_use]
pub fn value_text(key: &Key) -> [u8; 8] {
    let mut value = key.value();
    std::array::from_fn(|_| {
        value = value.rotate_right(4);
        b"0123456789abcdef"[(value & 15) as usize]
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_what_the_protocols_say() {
        let keys = [Key::new(b"17"), Key::new(b"5")];
        let value = String::from_utf8(value_text(&keys[0]).to_vec()).expect("hex digits");
        let get = Script::gets(Protocol::Resp, &keys, 1);
        assert_eq!(get.len(), 2);
        assert_eq!(get.exchange(0).request, b"*2\r\n$3\r\nGET\r\n$2\r\n17\r\n");
        assert_eq!(
            get.exchange(0).reply,
            format!("$8\r\n{value}\r\n").as_bytes()
        );
        let set = Script::sets(Protocol::Memcached, &keys, 64);
        assert_eq!(set.exchange(0).requests, 2);
        assert!(
            set.exchange(0)
                .request
                .starts_with(format!("set 17 0 0 8\r\n{value}").as_bytes())
        );
        assert_eq!(set.exchange(0).reply, b"STORED\r\nSTORED\r\n");
    }

    #[test]
    fn scans_expect_the_sorted_keys() {
        let keys = [Key::new(b"1"), Key::new(b"12"), Key::new(b"2")];
        let script = Script::scans(ScanForm::SortedSet(b"z"), &keys, &[1], 50, 1);
        assert_eq!(script.exchange(0).reply, b"*2\r\n$2\r\n12\r\n$1\r\n2\r\n");
        let script = Script::scans(ScanForm::Pairs, &keys, &[0], 1, 1);
        assert!(
            script
                .exchange(0)
                .reply
                .starts_with(b"*2\r\n$1\r\n1\r\n$8\r\n")
        );
    }
}
