//! Workloads as scripts: every operation as the request of a protocol, with the exact reply.
//!
//! Replies can be known beforehand because every write stores what is there already: an update
//! replaces (a column of) a record's value by itself. The server cannot tell.

use std::ops::Range;

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::{Kind, Operation};

use super::script::{Protocol, Script, resp_array, resp_bulk};

/// The records that servers hold and how they are asked for them.
pub struct Records<'a> {
    /// The keys, in the order of insertion.
    pub keys: &'a Keys,
    /// The same in ascending order, with which position each has there; needed for scans only.
    pub sorted: Keys,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes that an update replaces: all, or a column.
    pub update_bytes: usize,
    /// What the server speaks.
    pub protocol: Protocol,
}

/// Redis's sorted set of all keys.
const SORTED_SET: &[u8] = b"ordered";

/// The end of a `RANGE` that has none: above every text in UTF-8.
pub(super) const RANGE_END: &[u8] = b"\xff";

/// How a server is asked for an ordered scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanForm {
    /// Our `RANGE start end LIMIT n`: keys and values.
    Pairs,
    /// Our `RANGE start end LIMIT n KEYS`.
    Keys,
    /// Redis's `ZRANGEBYLEX` of a sorted set: keys only.
    SortedSet,
}

impl ScanForm {
    fn request(self, request: &mut Vec<u8>, from: &[u8], limit: &[u8]) {
        match self {
            Self::Pairs => resp_array(request, &[b"RANGE", from, RANGE_END, b"LIMIT", limit]),
            Self::Keys => resp_array(
                request,
                &[b"RANGE", from, RANGE_END, b"LIMIT", limit, b"KEYS"],
            ),
            Self::SortedSet => {
                let from = [b"[", from].concat();
                let words: [&[u8]; 7] = [
                    b"ZRANGEBYLEX",
                    SORTED_SET,
                    &from,
                    b"+",
                    b"LIMIT",
                    b"0",
                    limit,
                ];
                resp_array(request, &words);
            }
        }
    }
}

/// The value of a key: hexadecimal digits that depend on it.
pub fn value_text(key: &[u8], bytes: usize) -> Vec<u8> {
    digits(value_of(key), bytes)
}

/// As many hexadecimal digits, which depend on a number.
pub(super) fn digits(mut value: u64, bytes: usize) -> Vec<u8> {
    let digit = |_| {
        value = value.rotate_right(4);
        b"0123456789abcdef"[(value & 15) as usize]
    };
    (0..bytes).map(digit).collect()
}

impl Records<'_> {
    /// Sets of the records in `range`, `depth` to an exchange.
    pub fn load(&self, range: Range<usize>, depth: usize) -> Script {
        let mut script = Script::default();
        let keys: Vec<&[u8]> = self.keys.range(range).iter().collect();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                some.iter().for_each(|key| self.set(key, request, reply));
            });
        }
        script
    }

    /// Redis: adds the records in `range` to one sorted set with equal scores, so that it orders
    /// by bytes.
    pub fn sorted_set(&self, range: Range<usize>, depth: usize) -> Script {
        let mut script = Script::default();
        let keys: Vec<&[u8]> = self.keys.range(range).iter().collect();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                let mut words: Vec<&[u8]> = vec![b"ZADD", SORTED_SET];
                for key in some {
                    words.extend([b"0".as_slice(), key]);
                }
                resp_array(request, &words);
                reply.extend(format!(":{}\r\n", some.len()).bytes());
            });
        }
        script
    }

    /// Ordered scans of so many pairs from the keys at these positions, `depth` to an exchange.
    pub fn scans(&self, form: ScanForm, starts: &[usize], pairs: usize, depth: usize) -> Script {
        let mut script = Script::default();
        for some in starts.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for &start in some {
                    self.scan(form, self.keys.get(start), pairs, request, reply);
                }
            });
        }
        script
    }

    /// The operations, `depth` to an exchange. Kinds beyond reading, updating and scanning are
    /// none that servers are asked for.
    pub fn script(&self, operations: &[Operation], depth: usize) -> Script {
        let mut script = Script::default();
        for some in operations.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for operation in some {
                    let key = self.keys.get(operation.record as usize);
                    match operation.kind {
                        Kind::Scan => {
                            let pairs = operation.scan_length as usize;
                            self.scan(ScanForm::Pairs, key, pairs, request, reply);
                        }
                        Kind::Update if self.update_bytes < self.value_bytes => {
                            self.set_column(key, request, reply);
                        }
                        Kind::Update | Kind::Insert => self.set(key, request, reply),
                        _ => self.get(key, request, reply),
                    }
                }
            });
        }
        script
    }

    fn get(&self, key: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let value = value_text(key, self.value_bytes);
        match self.protocol {
            Protocol::Resp => {
                resp_array(request, &[b"GET", key]);
                resp_bulk(reply, &value);
            }
            Protocol::Memcached => {
                request.extend([b"get ", key, b"\r\n"].concat());
                let head = format!(" 0 {}\r\n", value.len());
                reply.extend([b"VALUE ", key, head.as_bytes(), &value, b"\r\nEND\r\n"].concat());
            }
        }
    }

    fn set(&self, key: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let value = value_text(key, self.value_bytes);
        match self.protocol {
            Protocol::Resp => {
                resp_array(request, &[b"SET", key, &value]);
                reply.extend_from_slice(b"+OK\r\n");
            }
            Protocol::Memcached => {
                let head = format!(" 0 0 {}\r\n", value.len());
                request.extend([b"set ", key, head.as_bytes(), &value, b"\r\n"].concat());
                reply.extend_from_slice(b"STORED\r\n");
            }
        }
    }

    /// Replaces the first column by itself, as the paper does on Redis: bytes of a value.
    fn set_column(&self, key: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let column = value_text(key, self.update_bytes);
        resp_array(request, &[b"SETRANGE", key, b"0", &column]);
        reply.extend(format!(":{}\r\n", self.value_bytes).bytes());
    }

    fn scan(
        &self,
        form: ScanForm,
        key: &[u8],
        pairs: usize,
        request: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) {
        form.request(request, key, pairs.to_string().as_bytes());
        let first = first_from(&self.sorted, key);
        let end = self.sorted.len().min(first + pairs);
        let mut words: Vec<Vec<u8>> = Vec::new();
        for key in self.sorted.range(first..end).iter() {
            words.push(key.to_vec());
            if form == ScanForm::Pairs {
                words.push(value_text(key, self.value_bytes));
            }
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        resp_array(reply, &words);
    }
}

/// The position of the first key that is not below `key`.
pub(super) fn first_from(sorted: &Keys, key: &[u8]) -> usize {
    let (mut low, mut high) = (0, sorted.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if sorted.get(middle) < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_become_requests_with_their_exact_replies() {
        let keys: Keys = ["b", "a", "c"].iter().collect();
        let records = Records {
            keys: &keys,
            sorted: keys.sorted(),
            value_bytes: 8,
            update_bytes: 4,
            protocol: Protocol::Resp,
        };
        let operation = |kind, record, scan_length| Operation {
            kind,
            record,
            scan_length,
        };
        let operations = [
            operation(Kind::Read, 0, 0),
            operation(Kind::Update, 1, 0),
            operation(Kind::Scan, 0, 9),
        ];
        let script = records.script(&operations, 2);
        assert_eq!(script.len(), 2);
        let b = String::from_utf8(value_text(b"b", 8)).expect("digits");
        let c = String::from_utf8(value_text(b"c", 8)).expect("digits");
        let two = script.exchange(0);
        assert_eq!(two.reply, format!("$8\r\n{b}\r\n:8\r\n").as_bytes());
        let scan = script.exchange(1);
        let expected = format!("*4\r\n$1\r\nb\r\n$8\r\n{b}\r\n$1\r\nc\r\n$8\r\n{c}\r\n");
        assert_eq!(scan.reply, expected.as_bytes());
        let keys_alone = b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n";
        for form in [ScanForm::Keys, ScanForm::SortedSet] {
            let scans = records.scans(form, &[0], 9, 1);
            assert_eq!(scans.exchange(0).reply, keys_alone, "{form:?}");
        }
        let set = records.sorted_set(0..3, 2);
        assert_eq!((set.len(), set.exchange(0).reply), (2, &b":2\r\n"[..]));
    }

    #[test]
    fn requests_are_what_the_protocols_say() {
        let keys: Keys = ["17", "5"].iter().collect();
        let records = |protocol| Records {
            keys: &keys,
            sorted: Keys::new(),
            value_bytes: 8,
            update_bytes: 8,
            protocol,
        };
        let get = Operation {
            kind: Kind::Read,
            record: 0,
            scan_length: 0,
        };
        let value = String::from_utf8(value_text(b"17", 8)).expect("digits");
        let script = records(Protocol::Resp).script(&[get], 1);
        let get = script.exchange(0);
        assert_eq!(get.request, b"*2\r\n$3\r\nGET\r\n$2\r\n17\r\n");
        assert_eq!(get.reply, format!("$8\r\n{value}\r\n").as_bytes());
        let script = records(Protocol::Memcached).load(0..2, 64);
        let set = script.exchange(0);
        assert_eq!((script.len(), set.requests), (1, 2));
        let first = format!("set 17 0 0 8\r\n{value}\r\nset 5 0 0 8\r\n");
        assert!(set.request.starts_with(first.as_bytes()));
        assert_eq!(set.reply, b"STORED\r\nSTORED\r\n");
    }
}
