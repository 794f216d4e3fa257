//! Workloads whose writes change what is stored: each connection works on records of its own.
//!
//! [`Records`](super::Records) writes what is there already, so that any connection knows every
//! reply. A database that looks whether an update changes anything would then have nothing to
//! do. Here updates change every value; and as a record belongs to one connection, which has one
//! request under way, each reply is still known beforehand.

use std::ops::Range;

use hedgerow_lab_contender::value_of;
use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::{Kind, Workload};
use hedgerow_lab_peers::Protocol;

use super::handler_socket;
use super::operations::digits;
use super::script::{Script, resp_array, resp_bulk};
use crate::{LabError, Result};

/// One operation and what becomes of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What to do: read, update, insert or remove.
    pub kind: Kind,
    /// The position of the key in the key set.
    pub record: usize,
    /// How often the record has been updated: by then, for a read; with this, for an update.
    pub updates: u32,
}

/// The steps of one connection on the records of `slice`: those of `workload` at this many
/// records, in one thread. Kinds beyond those of [`Step`] are read.
#[must_use]
pub fn steps(workload: &Workload, slice: Range<usize>, seed: u64) -> Vec<Step> {
    if slice.is_empty() {
        return Vec::new();
    }
    let mut updates = vec![0; slice.len()];
    let plan = workload.plan(slice.len() as u64, 1);
    let operations = workload.operations(&plan, 0, seed);
    let step = |operation: hedgerow_lab_data::workload::Operation| {
        let record = operation.record as usize;
        let kind = match operation.kind {
            kind @ (Kind::Update | Kind::Insert | Kind::Remove) => kind,
            _ => Kind::Read,
        };
        if kind == Kind::Update {
            updates[record] += 1;
        }
        Step {
            kind,
            record: slice.start + record,
            updates: updates[record],
        }
    };
    operations.map(step).collect()
}

/// The value of a key that has been updated so often.
#[must_use]
pub fn updated_text(key: &[u8], updates: u32, bytes: usize) -> Vec<u8> {
    // An odd multiplier: every digit changes with every update.
    let change = u64::from(updates).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    digits(value_of(key) ^ change, bytes)
}

/// The steps as requests of a text protocol, `depth` to an exchange, with their replies. An insert
/// is refused where the key is there, and an update where it is not, as in SQL.
///
/// # Errors
///
/// A protocol that is not text.
pub fn script(
    protocol: Protocol,
    keys: &Keys,
    steps: &[Step],
    value_bytes: usize,
    depth: usize,
) -> Result<Script> {
    let append = match protocol {
        Protocol::Resp => by_resp,
        Protocol::Memcached => by_memcached,
        Protocol::HandlerSocket => handler_socket::append,
        Protocol::MySql => {
            let what = "requests in SQL are not built beforehand";
            return Err(LabError::Usage(what.to_owned()));
        }
    };
    let mut script = Script::default();
    if protocol == Protocol::HandlerSocket {
        handler_socket::begin(&mut script);
    }
    for some in steps.chunks(depth) {
        script.push(some.len(), |request, reply| {
            for step in some {
                let key = keys.get(step.record);
                let value = updated_text(key, step.updates, value_bytes);
                append(step.kind, key, &value, request, reply);
            }
        });
    }
    Ok(script)
}

/// Writes to these records by Redis's protocol, so many to a transaction, each transaction an
/// exchange: `MULTI`, a `SET` for each record, `EXEC`.
#[must_use]
pub fn transactions(keys: &Keys, records: Range<usize>, value_bytes: usize, size: usize) -> Script {
    let mut script = Script::default();
    let records: Vec<usize> = records.collect();
    for some in records.chunks(size) {
        script.push(some.len(), |request, reply| {
            resp_array(request, &[b"MULTI"]);
            for &record in some {
                let key = keys.get(record);
                let value = updated_text(key, u32::MAX, value_bytes);
                resp_array(request, &[b"SET", key, &value]);
            }
            resp_array(request, &[b"EXEC"]);
            reply.extend_from_slice(b"+OK\r\n");
            reply.extend_from_slice(&b"+QUEUED\r\n".repeat(some.len()));
            reply.extend_from_slice(format!("*{}\r\n", some.len()).as_bytes());
            reply.extend_from_slice(&b"+OK\r\n".repeat(some.len()));
        });
    }
    script
}

fn by_resp(kind: Kind, key: &[u8], value: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
    let condition: &[u8] = match kind {
        Kind::Insert => b"NX",
        Kind::Update => b"XX",
        Kind::Remove => {
            resp_array(request, &[b"DEL", key]);
            return reply.extend_from_slice(b":1\r\n");
        }
        _ => {
            resp_array(request, &[b"GET", key]);
            return resp_bulk(reply, value);
        }
    };
    resp_array(request, &[b"SET", key, value, condition]);
    reply.extend_from_slice(b"+OK\r\n");
}

fn by_memcached(kind: Kind, key: &[u8], value: &[u8], request: &mut Vec<u8>, reply: &mut Vec<u8>) {
    let command: &[u8] = match kind {
        Kind::Insert => b"add ",
        Kind::Update => b"replace ",
        Kind::Remove => {
            request.extend([b"delete ", key, b"\r\n"].concat());
            return reply.extend_from_slice(b"DELETED\r\n");
        }
        _ => {
            request.extend([b"get ", key, b"\r\n"].concat());
            let head = format!(" 0 {}\r\n", value.len());
            return reply.extend([b"VALUE ", key, head.as_bytes(), value, b"\r\nEND\r\n"].concat());
        }
    };
    let head = format!(" 0 0 {}\r\n", value.len());
    request.extend([command, key, head.as_bytes(), value, b"\r\n"].concat());
    reply.extend_from_slice(b"STORED\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_expects_what_the_updates_before_it_left() {
        let workload = Workload::named("bwtree/read-update").expect("it is there");
        let steps = steps(&workload, 10..20, 1);
        let mut updates = [0; 10];
        for step in &steps {
            assert!((10..20).contains(&step.record), "{step:?}");
            let updates = &mut updates[step.record - 10];
            *updates += u32::from(step.kind == Kind::Update);
            assert_eq!(*updates, step.updates);
        }
        assert_eq!(steps.len(), 10);
        assert_ne!(updated_text(b"k", 1, 8), updated_text(b"k", 2, 8));
    }

    #[test]
    fn inserts_and_updates_say_whether_the_key_was_there() {
        let keys: Keys = ["k"].iter().collect();
        let kinds = [Kind::Insert, Kind::Update, Kind::Read, Kind::Remove];
        let steps = kinds.map(|kind| Step {
            kind,
            record: 0,
            updates: 0,
        });
        let value = String::from_utf8(updated_text(b"k", 0, 2)).expect("digits");
        let of = |protocol| {
            let script = script(protocol, &keys, &steps, 2, 1).expect("text");
            let all = (0..4).flat_map(|index| {
                let exchange = script.exchange(index);
                [exchange.request, exchange.reply].concat()
            });
            String::from_utf8(all.collect()).expect("text")
        };
        assert_eq!(
            of(Protocol::Memcached),
            format!(
                "add k 0 0 2\r\n{value}\r\nSTORED\r\nreplace k 0 0 2\r\n{value}\r\nSTORED\r\n\
                 get k\r\nVALUE k 0 2\r\n{value}\r\nEND\r\ndelete k\r\nDELETED\r\n"
            )
        );
        let resp = of(Protocol::Resp);
        assert!(
            resp.contains("NX\r\n+OK") && resp.contains("XX\r\n+OK"),
            "{resp}"
        );
        assert!(resp.ends_with("DEL\r\n$1\r\nk\r\n:1\r\n"), "{resp}");
        assert_eq!(
            of(Protocol::HandlerSocket),
            format!(
                "0\t+\t2\tk\t{value}\n0\t1\n1\t=\t1\tk\t1\t0\tU\t{value}\n0\t1\t1\n\
                 1\t=\t1\tk\n0\t1\t{value}\n1\t=\t1\tk\t1\t0\tD\n0\t1\t1\n"
            )
        );
        assert!(script(Protocol::MySql, &keys, &steps, 2, 1).is_err());
        let together = script(Protocol::Resp, &keys, &steps, 2, 3).expect("text");
        assert_eq!((together.len(), together.exchange(0).requests), (2, 3));
    }

    #[test]
    fn a_transaction_is_one_exchange_of_several_writes() {
        let keys: Keys = ["a", "b", "c"].iter().collect();
        let script = transactions(&keys, 0..3, 2, 2);
        assert_eq!(script.len(), 2);
        let first = script.exchange(0);
        assert_eq!(first.requests, 2);
        assert!(
            first
                .request
                .starts_with(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n")
        );
        assert!(first.request.ends_with(b"*1\r\n$4\r\nEXEC\r\n"));
        let reply = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n";
        assert_eq!(first.reply, reply);
        assert_eq!(script.exchange(1).requests, 1);
    }
}
