//! Records of columns as scripts: rows that are hashes, with requests for some of their columns and
//! the exact replies.
//!
//! Columns are named by number, as MYCSB does. Replies can be known beforehand because every write
//! stores what is there already.

use std::ops::Range;

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::{Kind, Operation};

use super::operations::{RANGE_END, digits, first_from};
use super::script::{Script, resp_array};

/// The rows that servers hold, each of several short columns.
pub struct Rows<'a> {
    /// The keys, in the order of insertion.
    pub keys: &'a Keys,
    /// The same in ascending order; needed for scans only.
    pub sorted: Keys,
    /// Columns of a row.
    pub columns: usize,
    /// Bytes of a column.
    pub column_bytes: usize,
}

impl Rows<'_> {
    /// Writes whole rows, those in `range`, `depth` to an exchange.
    pub fn load(&self, range: Range<usize>, depth: usize) -> Script {
        let mut script = Script::default();
        let keys: Vec<&[u8]> = self.keys.range(range).iter().collect();
        for some in keys.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for key in some {
                    self.set(key, self.columns, request);
                    reply.extend(format!(":{}\r\n", self.columns).bytes());
                }
            });
        }
        script
    }

    /// The operations, `depth` to an exchange: a get of all columns, an update of the first one, a
    /// scan that returns the first one of each row.
    pub fn script(&self, operations: &[Operation], depth: usize) -> Script {
        let mut script = Script::default();
        for some in operations.chunks(depth) {
            script.push(some.len(), |request, reply| {
                for operation in some {
                    let key = self.keys.get(operation.record as usize);
                    match operation.kind {
                        Kind::Scan => {
                            let rows = operation.scan_length as usize;
                            self.scan(key, rows, request, reply);
                        }
                        Kind::Update => {
                            self.set(key, 1, request);
                            // No column is new.
                            reply.extend_from_slice(b":0\r\n");
                        }
                        _ => self.get(key, request, reply),
                    }
                }
            });
        }
        script
    }

    /// The first so many columns of a row, written.
    fn set(&self, key: &[u8], columns: usize, request: &mut Vec<u8>) {
        let mut words = vec![b"HSET".to_vec(), key.to_vec()];
        for column in 0..columns {
            words.extend([name(column), self.value(key, column)]);
        }
        array(request, &words);
    }

    /// All columns of a row.
    fn get(&self, key: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let names = (0..self.columns).map(name);
        let words: Vec<Vec<u8>> = [b"HMGET".to_vec(), key.to_vec()]
            .into_iter()
            .chain(names)
            .collect();
        array(request, &words);
        let values: Vec<Vec<u8>> = (0..self.columns).map(|nth| self.value(key, nth)).collect();
        array(reply, &values);
    }

    /// The first column of so many rows from a key on.
    fn scan(&self, key: &[u8], rows: usize, request: &mut Vec<u8>, reply: &mut Vec<u8>) {
        let limit = rows.to_string();
        let first = name(0);
        let words: [&[u8]; 7] = [
            b"RANGE",
            key,
            RANGE_END,
            b"LIMIT",
            limit.as_bytes(),
            b"COLUMNS",
            &first,
        ];
        resp_array(request, &words);
        let from = first_from(&self.sorted, key);
        let end = self.sorted.len().min(from + rows);
        reply.extend(format!("*{}\r\n", 2 * (end - from)).bytes());
        for key in self.sorted.range(from..end).iter() {
            super::script::resp_bulk(reply, key);
            array(reply, &[self.value(key, 0)]);
        }
    }

    fn value(&self, key: &[u8], column: usize) -> Vec<u8> {
        digits(
            value_of(key).rotate_left(5 * column as u32),
            self.column_bytes,
        )
    }
}

fn name(column: usize) -> Vec<u8> {
    column.to_string().into_bytes()
}

fn array(out: &mut Vec<u8>, words: &[Vec<u8>]) {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    resp_array(out, &words);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_columns_by_number() {
        let keys: Keys = ["b", "a"].iter().collect();
        let rows = Rows {
            keys: &keys,
            sorted: keys.sorted(),
            columns: 2,
            column_bytes: 4,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", " ");
        let value = |key: &[u8], column| text(&rows.value(key, column));
        assert_ne!(value(b"b", 0), value(b"b", 1));
        let load = rows.load(0..2, 1);
        let (first, second) = (value(b"b", 0), value(b"b", 1));
        let set = format!("*6 $4 HSET $1 b $1 0 $4 {first} $1 1 $4 {second} ");
        assert_eq!(text(load.exchange(0).request), set);
        assert_eq!(load.exchange(0).reply, b":2\r\n");
        let operation = |kind, scan_length| Operation {
            kind,
            record: 0,
            scan_length,
        };
        let operations = [
            operation(Kind::Read, 0),
            operation(Kind::Update, 0),
            operation(Kind::Scan, 9),
        ];
        let script = rows.script(&operations, 1);
        let said = |nth: usize| {
            let exchange = script.exchange(nth);
            (text(exchange.request), text(exchange.reply))
        };
        let get = "*4 $5 HMGET $1 b $1 0 $1 1 ".to_owned();
        assert_eq!(said(0), (get, format!("*2 $4 {first} $4 {second} ")));
        let update = format!("*4 $4 HSET $1 b $1 0 $4 {first} ");
        assert_eq!(said(1), (update, ":0 ".to_owned()));
        assert_eq!(said(2).1, format!("*2 $1 b *1 $4 {first} "));
        assert!(said(2).0.ends_with("$7 COLUMNS $1 0 "), "{}", said(2).0);
    }
}
