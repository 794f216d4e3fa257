//! Recognises HTTP requests on the ports of other protocols. A page in a browser can send a `POST`
//! to any port of the machine that it runs on, with a body of its choice. To a protocol of lines
//! the request line and the headers are unknown commands, one error each, and the body is commands.
//! So the first line that only HTTP has ends the connection, before the server parses anything
//! behind it.

/// The methods that a request line can begin with. A line of RESP may begin with `GET`, too.
const METHODS: [&[u8]; 10] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI",
];

/// Whether a line can only come from a client that speaks HTTP: a request line
/// (`GET /path HTTP/1.1`), anything that begins with the word `POST`, or a `Host:` header.
pub(crate) fn is_http(line: &[u8]) -> bool {
    let Some(&first) = line.first() else {
        return false;
    };
    // Nearly every line of our own protocols ends the question here.
    if !matches!(
        first.to_ascii_uppercase(),
        b'G' | b'H' | b'P' | b'D' | b'O' | b'C' | b'T'
    ) {
        return false;
    }
    let word_end = line.iter().position(u8::is_ascii_whitespace);
    let word = &line[..word_end.unwrap_or(line.len())];
    if word.eq_ignore_ascii_case(b"POST") || word.eq_ignore_ascii_case(b"Host:") {
        return true;
    }
    if line.len() > 5 && line[..5].eq_ignore_ascii_case(b"Host:") {
        return true;
    }
    // Method, target, version: a `GET` of RESP has one argument.
    let words = line.split(u8::is_ascii_whitespace);
    let mut behind = words.filter(|word| !word.is_empty()).skip(1);
    METHODS.contains(&word)
        && behind.next().is_some()
        && behind.last().is_some_and(|last| last.starts_with(b"HTTP/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_browsers_send_is_recognised() {
        for line in [
            "POST / HTTP/1.1",
            "POST /x y z",
            "post",
            "GET / HTTP/1.1",
            "GET /set%20a HTTP/1.0",
            "PUT /a HTTP/1.1",
            "DELETE /a HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "HEAD / HTTP/1.1",
            "PATCH / HTTP/1.1",
            "CONNECT a:1 HTTP/1.1",
            "TRACE / HTTP/1.1",
            "PRI * HTTP/2.0",
            "Host: 127.0.0.1:7379",
            "host:a",
            "Host:",
        ] {
            assert!(is_http(line.as_bytes()), "{line:?}");
        }
    }

    #[test]
    fn commands_are_left_alone() {
        for line in [
            "",
            "GET key",
            "GET HTTP/1.1",
            "GET HTTP/1.1 y",
            "get / HTTP/1.1",
            "get a b c",
            "gets HTTP/1.1",
            "GETRANGE k 0 1",
            "SET key HTTP/1.1",
            "HGET Host: x",
            "PING",
            "POSTPONE x",
            "delete k",
            "DEL HTTP/1.1",
            "touch k 0",
            "hosts",
            "HTTP/1.1",
        ] {
            assert!(!is_http(line.as_bytes()), "{line:?}");
        }
    }
}
