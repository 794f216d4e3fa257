//! A row as one line of `dump`, and back.
//!
//! ```text
//! key ⇥ value
//! key ⇥ \columns ⇥ name=value ⇥ name=value …
//! key ⇥ \expires=unix milliseconds ⇥ \flags=number ⇥ \marks=number ⇥ …
//!                                              in front of either, where there are any
//!
//! user:1 ⇥ \columns ⇥ born=1815 ⇥ name=Ada
//! visit ⇥ \expires=1900000000000 ⇥ \flags=7 ⇥ 3
//! ```
//!
//! Everything is escaped (see `text.rs`), so tabs stand between fields only. What begins with a
//! backslash and one of these words is no escape, so it cannot be a value; in the name of a column,
//! an equals sign is escaped too (`\x3d`).

use hedgerow::{Action, Durability, Keyspace, Row, WriteOptions};

use crate::text;

const COLUMNS: &[u8] = b"\\columns";
const EXPIRES: &[u8] = b"\\expires=";
const FLAGS: &[u8] = b"\\flags=";
const MARKS: &[u8] = b"\\marks=";
/// Marks are two bits.
const MOST_MARKS: u64 = 3;

/// Writes a line, without its end.
pub(crate) fn write(key: &[u8], row: &Row<'_>, out: &mut Vec<u8>) {
    text::escape(key, out);
    out.push(b'\t');
    let set = |number: u64| (number != 0).then_some(number);
    for (name, number) in [
        (EXPIRES, row.expiry_ms()),
        (FLAGS, set(row.user_flags().into())),
        (MARKS, set(row.marks().into())),
    ] {
        if let Some(number) = number {
            out.extend_from_slice(name);
            out.extend_from_slice(number.to_string().as_bytes());
            out.push(b'\t');
        }
    }
    if let Some(value) = row.value() {
        return text::escape(value, out);
    }
    out.extend_from_slice(COLUMNS);
    for (name, value) in row.columns() {
        out.push(b'\t');
        for (i, part) in name.split(|&byte| byte == b'=').enumerate() {
            if i > 0 {
                out.extend_from_slice(b"\\x3d");
            }
            text::escape(part, out);
        }
        out.push(b'=');
        text::escape(value, out);
    }
}

/// A row to store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) key: Vec<u8>,
    expiry_ms: Option<u64>,
    user_flags: u32,
    marks: u8,
    content: Content,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Value(Vec<u8>),
    Columns(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Stored {
    /// A row that is a value and nothing else.
    pub(crate) fn plain(key: Vec<u8>, value: Vec<u8>) -> Stored {
        Stored {
            key,
            expiry_ms: None,
            user_flags: 0,
            marks: 0,
            content: Content::Value(value),
        }
    }

    /// Reads a line; `raw` if nothing in it is escaped.
    pub(crate) fn read(line: &[u8], raw: bool) -> Result<Stored, String> {
        let tab = line.iter().position(|&byte| byte == b'\t');
        let (key, mut rest) = match tab {
            Some(tab) => (&line[..tab], &line[tab + 1..]),
            None => {
                let why =
                    "there is no tab between key and value; leave out --tsv if lines are keys";
                return Err(why.into());
            }
        };
        if raw {
            return Ok(Stored::plain(key.to_vec(), rest.to_vec()));
        }
        let expiry_ms = attribute(&mut rest, EXPIRES)?;
        let user_flags = attribute(&mut rest, FLAGS)?.unwrap_or(0);
        let marks = attribute(&mut rest, MARKS)?.unwrap_or(0);
        if marks > MOST_MARKS {
            return Err("\\marks= is 3 at most".into());
        }
        let content = match rest.strip_prefix(COLUMNS) {
            Some([]) => Content::Columns(Vec::new()),
            Some([b'\t', columns @ ..]) => {
                let columns = columns.split(|&byte| byte == b'\t').map(column);
                Content::Columns(columns.collect::<Result<_, String>>()?)
            }
            _ => Content::Value(text::unescape(rest)?),
        };
        Ok(Stored {
            key: text::unescape(key)?,
            expiry_ms,
            user_flags: u32::try_from(user_flags).map_err(|_| "\\flags= has 32 bits at most")?,
            marks: marks as u8,
            content,
        })
    }

    /// Stores the row in place of what is there, to be synced later.
    pub(crate) fn store(&self, keyspace: &Keyspace) -> hedgerow::Result<()> {
        let options = WriteOptions {
            expiry_ms: self.expiry_ms,
            user_flags: self.user_flags,
            ..WriteOptions::from(Durability::None)
        };
        if let (Content::Value(value), 0) = (&self.content, self.marks) {
            return keyspace.put_with(&self.key, value, &options).map(drop);
        }
        let stored = keyspace.update(&self.key, &options, |_, new| {
            match &self.content {
                Content::Value(value) => {
                    new.set_value(value).set_marks(self.marks);
                }
                Content::Columns(columns) => {
                    new.clear_columns();
                    for (name, value) in columns {
                        new.set_column(name, value);
                    }
                }
            }
            new.set_expiry_ms(self.expiry_ms)
                .set_user_flags(self.user_flags);
            Action::Put(())
        });
        stored.map(drop)
    }
}

/// Takes a number off the front, if it is the one of this name.
fn attribute(rest: &mut &[u8], name: &[u8]) -> Result<Option<u64>, String> {
    let Some(behind) = rest.strip_prefix(name) else {
        return Ok(None);
    };
    let tab = behind.iter().position(|&byte| byte == b'\t');
    let number = tab.and_then(|tab| std::str::from_utf8(&behind[..tab]).ok()?.parse().ok());
    match (number, tab) {
        (Some(number), Some(tab)) => {
            *rest = &behind[tab + 1..];
            Ok(Some(number))
        }
        _ => {
            let name = String::from_utf8_lossy(name);
            Err(format!("{name} needs a number and a tab behind it"))
        }
    }
}

fn column(field: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let equals = field.iter().position(|&byte| byte == b'=');
    let equals = equals.ok_or("a column is name=value; one has no equals sign")?;
    Ok((
        text::unescape(&field[..equals])?,
        text::unescape(&field[equals + 1..])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_rows_say_why() {
        for (line, why) in [
            (&b"key"[..], "no tab"),
            (b"key\t\\expires=soon\tvalue", "\\expires= needs a number"),
            (b"key\t\\flags=4294967296\tvalue", "32 bits"),
            (b"key\t\\marks=4\tvalue", "3 at most"),
            (b"key\t\\columns\tname", "equals"),
            (b"key\t\\columnsname", "backslash"),
            (b"key\tval\\ue", "backslash"),
        ] {
            let error = Stored::read(line, false).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let raw = Stored::read(b"a\t\\columns", true);
        assert_eq!(raw, Ok(Stored::plain(b"a".to_vec(), b"\\columns".to_vec())));
    }
}
