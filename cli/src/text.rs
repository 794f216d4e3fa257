//! Keys and values as text: what is printable stands for itself, all else is escaped.
//!
//! `\\` is a backslash, `\t` a tab, `\n` a line feed, `\r` a carriage return, `\xHH` any byte. So
//! every byte string is one line, `dump` and `load` round-trip, and paths and words stay readable.

/// Escapes bytes. UTF-8 text stays as it is.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                c if c.is_ascii_control() => hex(c as u8, out),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        chunk.invalid().iter().for_each(|&byte| hex(byte, out));
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
}

/// The escaped form as a string, for messages and JSON.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    escape(bytes, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Names as an enumeration of one line, of many the first few.
pub(crate) fn enumerated(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| shown(name.as_bytes()))
        .collect();
    let listed = shown.join(", ");
    match names.len().saturating_sub(MOST) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Reverses [`escape`].
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, used) = match &rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                (digit(*high) * 16 + digit(*low), 4)
            }
            _ => {
                return Err(format!(
                    "{:?} has a backslash that begins no escape; write \\\\ for a backslash \
                     (others: \\t \\n \\r \\xHH), or use --raw",
                    String::from_utf8_lossy(text)
                ));
            }
        };
        out.push(byte);
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Says that a checkpoint is damaged, and that nothing is missing because of it.
pub(crate) fn passed_over(damage: &str) -> String {
    format!("{damage}; all rows are there, from the checkpoint before and the logs since")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_string_round_trips_on_one_line() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [
            &all[..],
            b"",
            b"\\x41",
            "größe\n".as_bytes(),
            b"\xf0\x9f",
            b"a\tb",
        ] {
            let text = shown(bytes);
            assert!(!text.contains(['\n', '\t', '\r']), "{text}");
            assert_eq!(unescape(text.as_bytes()).as_deref(), Ok(bytes));
        }
        assert_eq!(shown("größe".as_bytes()), "größe");
    }

    #[test]
    fn unknown_escapes_are_errors() {
        for wrong in ["\\", "\\q", "\\x4", "\\xg0"] {
            assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
