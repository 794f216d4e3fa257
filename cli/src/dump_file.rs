//! The lines of a dump that are no rows: its head, where keyspaces begin, and its end.
//!
//! ```text
//! \hedgerow-dump ⇥ 3 ⇥ keyspaces=2             version of the format; how many keyspaces follow
//! \keyspace ⇥ accounts ⇥ index=btree           the rows behind this line are of this keyspace
//! alice ⇥ 70                                   rows: rows.rs
//! \missing ⇥ from ⇥ to                         keys that could not be read; no `to`: to the end
//! \keyspace ⇥ default ⇥ index=masstree
//! \end ⇥ complete ⇥ keyspaces=2 ⇥ rows=1 ⇥ crc32c=1a2b3c4d
//! ```
//!
//! Fields are parted by tabs (⇥), names and keys escaped (`text.rs`).
//! None of these lines is a row, as the backslash at its beginning begins no escape. A dump without
//! its last line was cut off. That line says first whether rows are missing, and its numbers must
//! be those of what was read, so no part of it passes for the whole. Its checksum is the CRC-32C of
//! all lines before it, line ends included, as eight hexadecimal digits. Version 1 has no checksum,
//! and version 2 does not name the indexes of keyspaces.

use hedgerow::IndexKind;

use crate::text;

/// The version of the format.
pub(crate) const VERSION: u32 = 3;
/// The last version whose dumps have no checksum.
const WITHOUT_CHECKSUM: u32 = 1;

// The versions as they are described above.
const _: () = assert!(VERSION == 3 && WITHOUT_CHECKSUM == 1);

const HEAD: &[u8] = b"\\hedgerow-dump\t";
const KEYSPACE: &[u8] = b"\\keyspace\t";
const INDEX: &str = "index=";
const MISSING: &[u8] = b"\\missing\t";
const END: &[u8] = b"\\end\t";
const COMPLETE: &str = "complete";
const INCOMPLETE: &str = "incomplete";

/// A line of a dump.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The rows of the keyspace of this name follow; its index, from version 3 on.
    Keyspace(String, Option<IndexKind>),
    /// Keys that the dump lacks, as it shows them.
    Missing(String),
    /// Nothing follows.
    End(End),
    /// A row; see [`Stored::read`](crate::rows::Stored::read).
    Row(&'a [u8]),
}

/// What the last line of a dump says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Whether all rows of these keyspaces could be read.
    pub(crate) complete: bool,
    /// Keyspaces in the dump.
    pub(crate) keyspaces: u64,
    /// Rows in the dump.
    pub(crate) rows: u64,
    /// The CRC-32C of all lines before the last one; `None` in a dump of version 1.
    pub(crate) checksum: Option<u32>,
}

/// What the first line of a dump says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Keyspaces in the dump.
    pub(crate) keyspaces: u64,
    /// Whether the last line has a checksum.
    pub(crate) has_checksum: bool,
}

/// Writes the first line, without its end.
pub(crate) fn write_head(keyspaces: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(format!("{VERSION}\tkeyspaces={keyspaces}").as_bytes());
}

/// Writes the line before a keyspace's rows, without its end.
pub(crate) fn write_keyspace(name: &str, index: IndexKind, out: &mut Vec<u8>) {
    out.extend_from_slice(KEYSPACE);
    text::escape(name.as_bytes(), out);
    out.push(b'\t');
    out.extend_from_slice(INDEX.as_bytes());
    out.extend_from_slice(index.name().as_bytes());
}

/// Writes the line that stands for keys that could not be read, without its end.
pub(crate) fn write_missing(from: &[u8], to: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(MISSING);
    text::escape(from, out);
    if let Some(to) = to {
        out.push(b'\t');
        text::escape(to, out);
    }
}

/// Writes the last line, without its end.
pub(crate) fn write_end(end: &End, out: &mut Vec<u8>) {
    out.extend_from_slice(END);
    let state = if end.complete { COMPLETE } else { INCOMPLETE };
    let numbers = format!("{state}\tkeyspaces={}\trows={}", end.keyspaces, end.rows);
    out.extend_from_slice(numbers.as_bytes());
    if let Some(checksum) = end.checksum {
        out.extend_from_slice(format!("\tcrc32c={checksum:08x}").as_bytes());
    }
}

/// Whether a file whose only line is this one, without an end, is the beginning of a dump.
pub(crate) fn is_cut_head(line: &[u8]) -> bool {
    HEAD.starts_with(line)
}

/// Reads the first line of a file; `None` if it is no dump.
///
/// # Errors
/// It is a dump that this program cannot read.
pub(crate) fn read_head(line: &[u8]) -> Result<Option<Head>, String> {
    let Some(rest) = line.strip_prefix(HEAD) else {
        return Ok(None);
    };
    let rest = String::from_utf8_lossy(rest);
    let mut fields = rest.split('\t');
    let version = fields.next().unwrap_or("");
    let known = (WITHOUT_CHECKSUM..=VERSION).find(|known| version == known.to_string());
    let Some(known) = known else {
        return Err(format!(
            "this dump has format version {version}, this program reads versions up to {VERSION}; \
             use a newer program"
        ));
    };
    let keyspaces = fields.next().and_then(|field| number("keyspaces", field));
    match (keyspaces, fields.next()) {
        (Some(keyspaces), None) => Ok(Some(Head {
            keyspaces,
            has_checksum: known > WITHOUT_CHECKSUM,
        })),
        _ => Err("the first line of this dump is damaged; make the dump again".into()),
    }
}

/// Reads a line behind the first one.
pub(crate) fn read(line: &[u8]) -> Result<Line<'_>, String> {
    if let Some(fields) = line.strip_prefix(KEYSPACE) {
        return read_keyspace(fields);
    }
    if let Some(keys) = line.strip_prefix(MISSING) {
        let shown = String::from_utf8_lossy(keys);
        return Ok(Line::Missing(match shown.split_once('\t') {
            Some((from, to)) => format!("keys from \"{from}\" to before \"{to}\""),
            None => format!("keys from \"{shown}\" on"),
        }));
    }
    match line.strip_prefix(END) {
        Some(end) => read_end(end).map(Line::End),
        None => Ok(Line::Row(line)),
    }
}

fn read_keyspace(fields: &[u8]) -> Result<Line<'_>, String> {
    let mut fields = fields.split(|&byte| byte == b'\t');
    let name = text::unescape(fields.next().unwrap_or_default())?;
    let name = String::from_utf8(name).map_err(|_| "the name of the keyspace is no UTF-8")?;
    let index = match (fields.next(), fields.next()) {
        (None, _) => None,
        (Some(field), None) => Some(read_index(field, &name)?),
        (Some(_), Some(_)) => return Err(format!("the line of keyspace {name:?} is damaged")),
    };
    Ok(Line::Keyspace(name, index))
}

fn read_index(field: &[u8], keyspace: &str) -> Result<IndexKind, String> {
    let field = String::from_utf8_lossy(field);
    let known = field.strip_prefix(INDEX).and_then(IndexKind::from_name);
    known.ok_or_else(|| {
        format!(
            "keyspace {keyspace:?} has {field:?}, which is no index that this program knows; use a \
             newer program"
        )
    })
}

fn read_end(fields: &[u8]) -> Result<End, String> {
    let fields = String::from_utf8_lossy(fields);
    let fields: Vec<&str> = fields.split('\t').collect();
    let end = match fields[..] {
        [state, keyspaces, rows] => numbers(state, keyspaces, rows, None),
        [state, keyspaces, rows, sum] => {
            checksum(sum).and_then(|sum| numbers(state, keyspaces, rows, Some(sum)))
        }
        _ => None,
    };
    end.ok_or_else(|| "the last line of this dump is damaged".into())
}

fn numbers(state: &str, keyspaces: &str, rows: &str, checksum: Option<u32>) -> Option<End> {
    [COMPLETE, INCOMPLETE].contains(&state).then_some(End {
        complete: state == COMPLETE,
        keyspaces: number("keyspaces", keyspaces)?,
        rows: number("rows", rows)?,
        checksum,
    })
}

/// All eight digits must be there: a line that is cut has fewer.
fn checksum(field: &str) -> Option<u32> {
    let digits = field.strip_prefix("crc32c=")?;
    let checksum = u32::from_str_radix(digits, 16).ok()?;
    (digits == format!("{checksum:08x}")).then_some(checksum)
}

fn number(name: &str, field: &str) -> Option<u64> {
    field.strip_prefix(name)?.strip_prefix('=')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut line = Vec::new();
        write(&mut line);
        line
    }

    #[test]
    fn lines_round_trip() {
        let head = Head {
            keyspaces: 3,
            has_checksum: true,
        };
        assert_eq!(read_head(&line(|out| write_head(3, out))), Ok(Some(head)));
        let older = read_head(b"\\hedgerow-dump\t1\tkeyspaces=3")
            .unwrap()
            .unwrap();
        assert!(!older.has_checksum && older.keyspaces == 3);
        assert_eq!(read_head(b"key\tvalue"), Ok(None));
        let name = "a\tb\\ü";
        let written = line(|out| write_keyspace(name, IndexKind::BTree, out));
        let keyspace = |index| Ok(Line::Keyspace(name.to_owned(), index));
        assert_eq!(read(&written), keyspace(Some(IndexKind::BTree)));
        let older = written.strip_suffix(b"\tindex=btree").unwrap();
        assert_eq!(read(older), keyspace(None));
        for (line, words) in [
            (&b"\\keyspace\ta\tindex=hash"[..], "index=hash"),
            (b"\\keyspace\ta\tindex=btree\tb", "damaged"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        for (complete, checksum) in [(true, Some(0xab)), (false, Some(u32::MAX)), (true, None)] {
            let end = End {
                complete,
                keyspaces: 12,
                rows: 345,
                checksum,
            };
            assert_eq!(read(&line(|out| write_end(&end, out))), Ok(Line::End(end)));
        }
        let shown = |to| match read(&line(|out| write_missing(b"a\xff", to, out))) {
            Ok(Line::Missing(shown)) => shown,
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(None), "keys from \"a\\xff\" on");
        assert_eq!(shown(Some(b"b")), "keys from \"a\\xff\" to before \"b\"");
    }

    #[test]
    fn no_part_of_an_end_says_the_same() {
        let end = End {
            complete: false,
            keyspaces: 12,
            rows: 345,
            checksum: Some(0x1234_5678),
        };
        let whole = line(|out| write_end(&end, out));
        for len in 0..whole.len() {
            assert_ne!(read(&whole[..len]), Ok(Line::End(end)), "{len} bytes");
        }
    }

    #[test]
    fn newer_dumps_are_refused() {
        let error = read_head(b"\\hedgerow-dump\t4\tanything").unwrap_err();
        assert!(error.contains("version 4"), "{error}");
        assert!(read_head(b"\\hedgerow-dump\t1").is_err());
    }
}
