//! Taking one request's head out of what was received.

/// The longest head: request line and header lines. Longer ones are refused.
pub(super) const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// A request's head, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HttpRequest {
    /// How long the head is.
    pub(super) bytes: usize,
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    /// The token of `Authorization: Bearer`.
    pub(super) bearer: Option<Vec<u8>>,
    /// The client does not ask to close the connection.
    pub(super) keep_alive: bool,
    /// The client announces a body.
    pub(super) has_body: bool,
}

/// What lies in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedHead {
    Whole(HttpRequest),
    Partial,
    /// The head is longer than the limit.
    TooLong,
    Malformed,
}

/// Parses the head at the beginning of `input`.
pub(super) fn parse(input: &[u8]) -> ParsedHead {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let bytes = match head.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < MAX_HEAD_BYTES => {
            return ParsedHead::Partial;
        }
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return ParsedHead::TooLong;
        }
        Err(_) => return ParsedHead::Malformed,
    };
    let target = head.path.unwrap_or_default();
    let mut request = HttpRequest {
        bytes,
        method: head.method.unwrap_or_default().to_owned(),
        path: path_of(target).to_owned(),
        keep_alive: head.version == Some(1),
        ..HttpRequest::default()
    };
    for header in head.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            request.has_body |= header.value.trim_ascii() != b"0";
        } else if is("transfer-encoding") {
            request.has_body = true;
        } else if is("connection") {
            for option in header.value.split(|&byte| byte == b',') {
                let option = option.trim_ascii();
                if option.eq_ignore_ascii_case(b"close") {
                    request.keep_alive = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") && head.version == Some(0) {
                    request.keep_alive = true;
                }
            }
        } else if is("authorization") {
            request.bearer = bearer(header.value);
        }
    }
    ParsedHead::Whole(request)
}

/// The path of a request's target, without the query: of a path, and of a whole URI, which servers
/// must take as well (RFC 9112, §3.2.2). Which host it names is no matter: there is one site here.
fn path_of(target: &str) -> &str {
    let after_scheme = target.split_once("://").filter(|(scheme, _)| {
        ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    });
    let path_and_query = match after_scheme {
        None => target,
        Some((_, rest)) => rest.find(['/', '?']).map_or("", |at| &rest[at..]),
    };
    match path_and_query.split('?').next() {
        // Of a URI that ends with its host.
        None | Some("") if after_scheme.is_some() => "/",
        path => path.unwrap_or_default(),
    }
}

fn bearer(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(head: &str) -> HttpRequest {
        match parse(head.as_bytes()) {
            ParsedHead::Whole(request) => request,
            other => panic!("{head:?}: {other:?}"),
        }
    }

    #[test]
    fn what_matters_of_a_head_is_found() {
        let request = whole(
            "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nauthorization: bearer  word \r\n\r\nrest",
        );
        let expected = HttpRequest {
            bytes: 78,
            method: "GET".into(),
            path: "/metrics".into(),
            bearer: Some(b"word".to_vec()),
            keep_alive: true,
            has_body: false,
        };
        assert_eq!(
            HttpRequest {
                bytes: expected.bytes,
                ..request.clone()
            },
            expected
        );
        assert!(!whole("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(!whole("GET / HTTP/1.1\r\nConnection: te, close\r\n\r\n").keep_alive);
        assert!(whole("POST / HTTP/1.1\r\nContent-Length: 1000000000000000\r\n\r\n").has_body);
        assert!(whole("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").has_body);
        assert!(!whole("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").has_body);
        for other in ["Basic QTpC", "Bearer", ""] {
            let head = format!("GET / HTTP/1.1\r\nAuthorization: {other}\r\n\r\n");
            assert_eq!(whole(&head).bearer, None, "{other:?}");
        }
    }

    #[test]
    fn a_target_may_be_a_whole_uri() {
        for (target, path) in [
            ("/metrics", "/metrics"),
            ("http://localhost:7380/metrics", "/metrics"),
            ("HTTP://a/metrics?x=http://b/c", "/metrics"),
            ("https://[::1]:1/healthz", "/healthz"),
            ("http://a", "/"),
            ("http://a?x=/metrics", "/"),
            ("/x?y=http://a/metrics", "/x"),
            ("/http://a/metrics", "/http://a/metrics"),
            ("ftp://a/metrics", "ftp://a/metrics"),
            ("*", "*"),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(whole(&head).path, path, "{target}");
        }
    }

    #[test]
    fn long_and_meaningless_heads_are_refused() {
        assert_eq!(parse(b"GET / HT"), ParsedHead::Partial);
        assert_eq!(parse(b""), ParsedHead::Partial);
        let endless = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(MAX_HEAD_BYTES));
        assert_eq!(parse(endless.as_bytes()), ParsedHead::TooLong);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert_eq!(parse(many.as_bytes()), ParsedHead::TooLong);
        assert_eq!(parse(b"set a 0 0 1\r\nb\r\n"), ParsedHead::Malformed);
        assert_eq!(
            parse(b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
            ParsedHead::Malformed
        );
    }
}
