//! A line of a prompt, split into words as `redis-cli` does.

/// Splits a line: words stand between blanks, or in quotes. Within double quotes, `\n \r \t \a \b
/// \xHH \\ \"` are escapes; within single quotes, `\'` alone is.
pub(crate) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(&first) = rest.first() else {
            return Ok(words);
        };
        let word;
        (word, rest) = match first {
            b'"' | b'\'' => quoted(&rest[1..], first)?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace);
                let (word, rest) = rest.split_at(end.unwrap_or(rest.len()));
                (word.to_vec(), rest)
            }
        };
        words.push(word);
    }
}

/// A word up to its closing quote, and what follows.
fn quoted(mut rest: &[u8], quote: u8) -> Result<(Vec<u8>, &[u8]), String> {
    let mut word = Vec::new();
    loop {
        let (byte, used) = match rest {
            [] => return Err("a quote is not closed".into()),
            [byte, after @ ..] if *byte == quote => {
                if after
                    .first()
                    .is_some_and(|byte| !byte.is_ascii_whitespace())
                {
                    return Err("there is no blank behind a closing quote".into());
                }
                return Ok((word, after));
            }
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                (digit(*high) * 16 + digit(*low), 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => match escaped {
                b'n' => (b'\n', 2),
                b'r' => (b'\r', 2),
                b't' => (b'\t', 2),
                b'a' => (b'\x07', 2),
                b'b' => (b'\x08', 2),
                other => (*other, 2),
            },
            [byte, ..] => (*byte, 1),
        };
        word.push(byte);
        rest = &rest[used..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split(line.as_bytes()).unwrap()
    }

    #[test]
    fn words_stand_between_blanks_or_in_quotes() {
        assert_eq!(words("  SET a\t1 "), [&b"SET"[..], b"a", b"1"]);
        assert_eq!(words(r#"SET "a b" 'c d'"#), [&b"SET"[..], b"a b", b"c d"]);
        assert_eq!(
            words(r#""\x00\xff\n\"\\" '\x\''"#),
            [&b"\0\xff\n\"\\"[..], b"\\x'"]
        );
        assert_eq!(words(r#"GET it's "" """#), [&b"GET"[..], b"it's", b"", b""]);
        assert!(words(" \r").is_empty());
        for wrong in [r#"GET "a"#, "GET 'a", r#"GET "a"b"#] {
            assert!(split(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
