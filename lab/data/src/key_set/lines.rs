//! Keys from text: one per line, as they stand, whatever their bytes.

use std::collections::HashSet;
use std::io::{BufRead, Read};

use super::KeySetError;
use crate::Keys;

/// The longest line that is taken for a key, in bytes. Without a bound, a file that is no list
/// of keys would be read into memory as one.
pub const LONGEST_LINE_BYTES: usize = 64 * 1024;

/// The distinct lines of a text, as [`read_every_line`] reads them: the first of each, in order.
///
/// # Errors
///
/// As there.
pub fn read_lines(text: impl BufRead, name: &str) -> Result<Keys, KeySetError> {
    Ok(distinct(read_every_line(text, name)?))
}

/// The lines of a text in their order, without their ends (`\n` or `\r\n`); empty lines are
/// left out. `name` is what errors call the text.
///
/// # Errors
///
/// When there is no key, a line is longer than [`LONGEST_LINE_BYTES`], or reading fails.
pub fn read_every_line(mut text: impl BufRead, name: &str) -> Result<Keys, KeySetError> {
    let mut keys = Keys::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        // One byte more than a line of the greatest length and its end can have.
        let limit = LONGEST_LINE_BYTES as u64 + 3;
        let read = (&mut text).take(limit).read_until(b'\n', &mut line);
        let read = read.map_err(|source| KeySetError::Unreadable {
            file: name.to_owned(),
            source,
        })?;
        if read == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        if line.len() > LONGEST_LINE_BYTES {
            return Err(KeySetError::LongLine {
                file: name.to_owned(),
                line: number,
            });
        }
        if !line.is_empty() {
            keys.push(&line);
        }
    }
    if keys.is_empty() {
        return Err(KeySetError::Empty(name.to_owned()));
    }
    Ok(keys)
}

/// The first of each key, in order.
fn distinct(keys: Keys) -> Keys {
    let mut seen: HashSet<&[u8]> = HashSet::with_capacity(keys.len());
    let first: Vec<bool> = keys.iter().map(|key| seen.insert(key)).collect();
    if first.iter().all(|first| *first) {
        return keys;
    }
    keys.select((0..first.len()).filter(|index| first[*index]))
}

/// At most `count` of the keys, taken evenly from all over the list, in its order.
pub(super) fn spread(keys: Keys, count: usize) -> Keys {
    let len = keys.len();
    if len <= count {
        return keys;
    }
    let position = |n: usize| (n as u128 * len as u128 / count as u128) as usize;
    keys.select((0..count).map(position))
}
