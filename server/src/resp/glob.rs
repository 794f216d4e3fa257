//! Patterns of `KEYS` and `SCAN`, with Redis' rules: `*`, `?`, `[a-z]`, `[^a]`, and `\` to take
//! the next character as it is.

/// Whether all of `text` matches `pattern`. Takes time linear in the product of their lengths at
/// worst: after a second `*`, the first is never looked at again.
pub(crate) fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not match.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match (p < pattern.len())
            .then(|| one(&pattern[p..], text[t], ignore_case))
            .flatten()
        {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => {
                let Some((after, from)) = star else {
                    return false;
                };
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
        }
    }
}

/// Matches one byte against the front of a pattern (not a star); how much of it was used.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if ignore_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (found, used) = class(rest, fold(byte), fold);
            found.then_some(used + 1)
        }
        [b'\\', literal, ..] => (fold(*literal) == fold(byte)).then_some(2),
        [literal, ..] => (fold(*literal) == fold(byte)).then_some(1),
        [] => None,
    }
}

/// A character class after its `[`: whether `byte` is in it, and how long it is. One that is not
/// closed goes on to the end of the pattern.
fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at..).unwrap_or_default() {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (fold(*from), fold(*to));
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

/// The bytes that every matching text begins with, and whether the pattern is these and one `*`:
/// then they are all there is to check.
pub(crate) fn literal_prefix(pattern: &[u8]) -> (Vec<u8>, bool) {
    let mut prefix = Vec::new();
    let mut rest = pattern;
    loop {
        match rest {
            [] | [b'?' | b'[', ..] => return (prefix, false),
            [b'*', after @ ..] => return (prefix, after.is_empty()),
            [b'\\', literal, after @ ..] => {
                prefix.push(*literal);
                rest = after;
            }
            [literal, after @ ..] => {
                prefix.push(*literal);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbc", true),
            ("a*c*", "abbcd", true),
            ("a*c", "abbcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("h[\\]]", "h]", true),
            ("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches(b"MAX*", b"maxmemory", true) && !matches(b"MAX*", b"maxmemory", false));
    }

    #[test]
    fn prefixes_of_patterns_are_literal() {
        assert_eq!(literal_prefix(b"user:*"), (b"user:".to_vec(), true));
        assert_eq!(literal_prefix(b"a\\*b?c*"), (b"a*b".to_vec(), false));
        assert_eq!(literal_prefix(b"whole"), (b"whole".to_vec(), false));
        assert_eq!(literal_prefix(b"*"), (Vec::new(), true));
        assert_eq!(literal_prefix(b"a**"), (b"a".to_vec(), false));
    }
}
