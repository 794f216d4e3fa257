//! Keys from text: one per line, as they stand, whatever their bytes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use super::error::{KeySetError, LONGEST_LINE_BYTES};
use crate::Keys;

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
        let key = without_end(&line);
        if key.len() > LONGEST_LINE_BYTES {
            return Err(KeySetError::LongLine {
                file: name.to_owned(),
                line: number,
            });
        }
        if !key.is_empty() {
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err(KeySetError::Empty(name.to_owned()));
    }
    Ok(keys)
}

/// A line without `\n` or `\r\n`.
fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
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

/// A file is read whole unless it has this many times the bytes that the keys would have if each
/// were [`COMMON_LINE_BYTES`] long.
const MUCH_LONGER: u64 = 4;
const COMMON_LINE_BYTES: u64 = 64;

/// At most `count` of the lines of a file whose lines are distinct, taken evenly from all over it.
///
/// Of a file that is much longer, they are the lines that begin next after evenly spaced bytes:
/// a process then reads what it needs, and not half a gigabyte for some thousand keys.
///
/// # Errors
///
/// As [`read_every_line`].
pub(super) fn spread_of_file(
    mut file: File,
    name: &str,
    count: usize,
) -> Result<Keys, KeySetError> {
    let unreadable = |source| KeySetError::Unreadable {
        file: name.to_owned(),
        source,
    };
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes / MUCH_LONGER / COMMON_LINE_BYTES > count as u64 {
        let keys = lines_after_bytes(&mut file, bytes, count).map_err(unreadable)?;
        // Lines so long that two of the places are in one leave too few.
        if keys.len() == count {
            return Ok(keys);
        }
        file.rewind().map_err(unreadable)?;
    }
    Ok(spread(read_every_line(BufReader::new(file), name)?, count))
}

/// The lines that begin next after `count` evenly spaced bytes of a file, each once.
fn lines_after_bytes(file: &mut File, bytes: u64, count: usize) -> std::io::Result<Keys> {
    const WINDOW_BYTES: usize = 1024;
    let mut keys = Keys::new();
    let mut last = None;
    let mut text = BufReader::with_capacity(WINDOW_BYTES, file);
    let mut line = Vec::new();
    for n in 0..count as u64 {
        let place = (u128::from(n) * u128::from(bytes) / count as u128) as u64;
        text.seek(SeekFrom::Start(place))?;
        // The rest of the line in which the place is; the first line begins at the first byte.
        let skipped = if place == 0 {
            0
        } else {
            text.skip_until(b'\n')?
        };
        let start = place + skipped as u64;
        line.clear();
        text.read_until(b'\n', &mut line)?;
        let key = without_end(&line);
        if last != Some(start) && !key.is_empty() && key.len() <= LONGEST_LINE_BYTES {
            keys.push(key);
            last = Some(start);
        }
    }
    Ok(keys)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_sampled_where_it_lies() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let text: String = (0..50_000).map(|n| format!("key {n}\n")).collect();
        std::fs::write(&path, text).expect("a file");
        let open = || File::open(&path).expect("the file");
        let keys = spread_of_file(open(), "keys", 100).expect("keys");
        assert_eq!(keys.len(), 100);
        let numbers: Vec<u32> = keys
            .iter()
            .map(|key| String::from_utf8_lossy(key)[4..].parse().expect("a number"))
            .collect();
        assert_eq!(numbers[0], 0);
        // Even in bytes, which is nearly even in lines.
        assert!(
            numbers
                .windows(2)
                .all(|two| (300..800).contains(&(two[1] - two[0])))
        );
        let whole = spread_of_file(open(), "keys", 20_000).expect("keys");
        assert_eq!(whole.len(), 20_000);
        assert_eq!(
            spread_of_file(open(), "keys", 60_000).expect("keys").len(),
            50_000
        );
    }

    #[test]
    fn lines_too_long_for_the_places_are_read_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let long = "x".repeat(60_000);
        std::fs::write(&path, format!("a\n{long}\nb\nc\nd\ne\n")).expect("a file");
        let keys = spread_of_file(File::open(&path).expect("the file"), "keys", 5);
        let keys = keys.expect("keys");
        let lengths: Vec<usize> = keys.iter().map(<[u8]>::len).collect();
        assert_eq!(lengths, [1, 60_000, 1, 1, 1]);
    }
}
