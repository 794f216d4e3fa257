//! Reads of values that no committed transaction left behind: unwritten, aborted (G1a),
//! intermediate (G1b), and of the reader's own future.

use super::anomaly::{Anomaly, Phenomenon};
use super::history::{History, Status};
use super::reads::{Read, Seen};
use super::writes::{Write, Writes};

/// Checks what each participant read: of a register its value, of a list its last element and, in
/// the longest read, each.
pub(super) fn check(
    history: &History,
    writes: &Writes,
    reads: &[Vec<Read<'_>>],
    participants: &[bool],
) -> Result<(), Anomaly> {
    for (reader, reads) in reads.iter().enumerate() {
        if !participants[reader] {
            continue;
        }
        for read in reads {
            let last = match read.seen {
                Seen::Absent | Seen::Elements([]) => continue,
                Seen::Value(value) => value,
                Seen::Elements([.., last]) => *last,
            };
            let write = written(history, writes, (reader, read.key), last)?;
            check_final(writes, reader, write)?;
        }
    }
    Ok(())
}

/// The write that gave `value` to the key, if it may be read by others.
pub(super) fn written(
    history: &History,
    writes: &Writes,
    (reader, key): (usize, u32),
    value: u64,
) -> Result<u32, Anomaly> {
    let name = writes.keys[key as usize];
    let Some(number) = writes.find(key, value) else {
        return Err(Anomaly::new(
            Phenomenon::UnwrittenValue,
            vec![reader],
            format!("T{reader} read {value} of {name}, which no transaction wrote there"),
        ));
    };
    let writer = writes.all[number as usize].transaction as usize;
    if history.transactions[writer].status == Status::Aborted {
        return Err(Anomaly::new(
            Phenomenon::G1a,
            vec![reader, writer],
            format!(
                "T{reader} read {value} of {name}, which T{writer} wrote, and T{writer} aborted"
            ),
        ));
    }
    if writer == reader {
        return Err(Anomaly::new(
            Phenomenon::Internal,
            vec![reader],
            format!("T{reader} read {value} of {name} before it wrote {value} there itself"),
        ));
    }
    Ok(number)
}

fn check_final(writes: &Writes, reader: usize, number: u32) -> Result<(), Anomaly> {
    let Write {
        transaction: writer,
        key,
        value,
        is_final,
    } = writes.all[number as usize];
    if is_final {
        return Ok(());
    }
    let later = writes.all[number as usize + 1..]
        .iter()
        .find(|later| later.transaction == writer && later.key == key)
        .map_or("another".to_owned(), |later| match later.value {
            Some(value) => value.to_string(),
            None => "a removal".to_owned(),
        });
    let key = writes.keys[key as usize];
    let value = value.map_or("a removal".to_owned(), |value| value.to_string());
    Err(Anomaly::new(
        Phenomenon::G1b,
        vec![reader, writer as usize],
        format!(
            "T{reader} read {value} of {key}, which T{writer} wrote but followed with {later} \
             before it committed"
        ),
    ))
}
