//! Workloads as scripts: every operation as the request of a protocol, with the exact reply.
//!
//! Replies can be known beforehand because every write stores what is there already: an update
//! replaces (a column of) a record's value by itself. The server cannot tell.

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
    pub fn load(&self, range: std::ops::Range<usize>, depth: usize) -> Script {
        let mut script = Script::default();
        let keys: Vec<&[u8]> = self.keys.range(range).iter().collect();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                some.iter().for_each(|key| self.set(key, request, reply));
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
                        Kind::Scan => self.scan(key, operation.scan_length, request, reply),
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

    fn scan(&self, key: &[u8], pairs: u32, request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let limit = pairs.to_string();
        resp_array(request, &[b"RANGE", key, b"~", b"LIMIT", limit.as_bytes()]);
        let first = first_from(&self.sorted, key);
        let end = self.sorted.len().min(first + pairs as usize);
        let found = self.sorted.range(first..end);
        let pairs = found
            .iter()
            .flat_map(|key| [key.to_vec(), value_text(key, self.value_bytes)]);
        let words: Vec<Vec<u8>> = pairs.collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        resp_array(reply, &words);
    }
}

/// The position of the first key that is not below `key`.
fn first_from(sorted: &Keys, key: &[u8]) -> usize {
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
    }
}
