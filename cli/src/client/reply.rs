//! Replies, and how they are printed.

use serde_json::Value;

use crate::text;

/// A reply of RESP 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    /// With quotes, types and numbers of items; no line end behind it.
    pub(crate) fn for_people(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_for_people(0, &mut out);
        out
    }

    /// What comes first goes behind the number of its item; further lines are indented as far.
    fn write_for_people(&self, indent: usize, out: &mut Vec<u8>) {
        match self {
            Reply::Simple(text) => out.extend_from_slice(text.as_bytes()),
            Reply::Error(text) => {
                out.extend_from_slice(b"(error) ");
                out.extend_from_slice(text.as_bytes());
            }
            Reply::Integer(number) => {
                out.extend_from_slice(format!("(integer) {number}").as_bytes())
            }
            Reply::Bulk(bytes) => quote(bytes, out),
            Reply::Null => out.extend_from_slice(b"(nil)"),
            Reply::Array(items) if items.is_empty() => out.extend_from_slice(b"(empty array)"),
            Reply::Array(items) => {
                let width = items.len().to_string().len();
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b'\n');
                        out.resize(out.len() + indent, b' ');
                    }
                    out.extend_from_slice(format!("{:>width$}) ", i + 1).as_bytes());
                    item.write_for_people(indent + width + 2, out);
                }
            }
        }
    }

    /// As it is: items a line each, nothing for what is not there.
    pub(crate) fn raw(&self) -> Vec<u8> {
        match self {
            Reply::Simple(text) | Reply::Error(text) => text.clone().into_bytes(),
            Reply::Integer(number) => number.to_string().into_bytes(),
            Reply::Bulk(bytes) => bytes.clone(),
            Reply::Null => Vec::new(),
            Reply::Array(items) => {
                let items: Vec<Vec<u8>> = items.iter().map(Reply::raw).collect();
                items.join(&b'\n')
            }
        }
    }

    /// As JSON; bytes that are no text are escaped as everywhere.
    pub(crate) fn json(&self) -> Value {
        match self {
            Reply::Simple(text) => text.as_str().into(),
            Reply::Error(text) => serde_json::json!({ "error": text }),
            Reply::Integer(number) => (*number).into(),
            Reply::Bulk(bytes) => text::shown(bytes).into(),
            Reply::Null => Value::Null,
            Reply::Array(items) => items.iter().map(Reply::json).collect(),
        }
    }
}

/// In quotes, what is not printable escaped; text beyond ASCII stays as it is.
fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\x07' => out.extend_from_slice(b"\\a"),
                '\x08' => out.extend_from_slice(b"\\b"),
                c => {
                    let mut buffer = [0; 4];
                    text::escape(c.encode_utf8(&mut buffer).as_bytes(), out);
                }
            }
        }
        text::escape(chunk.invalid(), out);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    fn people(reply: &Reply) -> String {
        String::from_utf8(reply.for_people()).unwrap()
    }

    #[test]
    fn people_see_types_and_numbers() {
        assert_eq!(people(&Reply::Integer(-7)), "(integer) -7");
        assert_eq!(people(&Reply::Null), "(nil)");
        assert_eq!(people(&Reply::Error("ERR no".into())), "(error) ERR no");
        assert_eq!(people(&bulk("a\"b\\\n\0ü")), r#""a\"b\\\n\x00ü""#);
        assert_eq!(people(&Reply::Bulk(vec![0xff, b'a'])), r#""\xffa""#);
        assert_eq!(people(&Reply::Array(vec![])), "(empty array)");
        let mut items: Vec<Reply> = (0..9).map(Reply::Integer).collect();
        items.push(Reply::Array(vec![bulk("x"), bulk("y")]));
        let shown = people(&Reply::Array(items));
        assert!(
            shown.starts_with(" 1) (integer) 0\n 2) (integer) 1\n"),
            "{shown}"
        );
        assert!(shown.ends_with("\n10) 1) \"x\"\n    2) \"y\""), "{shown}");
    }

    #[test]
    fn programs_see_bytes() {
        let reply = Reply::Array(vec![bulk("a\"b"), Reply::Null, Reply::Integer(3)]);
        assert_eq!(reply.raw(), b"a\"b\n\n3");
        assert_eq!(reply.json().to_string(), r#"["a\"b",null,3]"#);
    }
}
