//! Writing RESP replies.
//!
//! One writer serves both versions of the protocol: RESP3 has types of its own for null, maps,
//! doubles and booleans; RESP2 says them with what it has, as Redis does.

/// Appends replies to a connection's output.
pub(crate) struct Reply<'a> {
    out: &'a mut Vec<u8>,
    resp3: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>, resp3: bool) -> Reply<'a> {
        Reply { out, resp3 }
    }

    /// The same writer, lent to a callee.
    pub(crate) fn again(&mut self) -> Reply<'_> {
        Reply {
            out: self.out,
            resp3: self.resp3,
        }
    }

    /// Changes the version of the protocol from here on.
    pub(crate) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Bytes written so far, for [`Reply::truncate`].
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written after `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Raw bytes, already encoded.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, kind: u8, number: i64) {
        let mut buffer = itoa::Buffer::new();
        self.line(kind, buffer.format(number).as_bytes());
    }

    pub(crate) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; line breaks in it become blanks, as a reply line must be one line.
    pub(crate) fn error(&mut self, text: &str) {
        let text = text.replace(['\r', '\n'], " ");
        self.line(b'-', text.as_bytes());
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(crate) fn count(&mut self, number: usize) {
        self.number(b':', number as i64);
    }

    /// A byte string. A short one, as most are, is put together aside and appended at once: six
    /// appends with their checks cost several times the copying.
    #[inline]
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        const SHORT: usize = 56;
        let len = bytes.len();
        if len > SHORT {
            return self.long_bulk(bytes);
        }
        let mut line = [0; SHORT + 8];
        line[0] = b'$';
        let digits = if len < 10 { 1 } else { 2 };
        line[1] = b'0' + (len / 10) as u8;
        line[digits] = b'0' + (len % 10) as u8;
        let start = digits + 3;
        line[digits + 1..start].copy_from_slice(b"\r\n");
        line[start..start + len].copy_from_slice(bytes);
        line[start + len..start + len + 2].copy_from_slice(b"\r\n");
        self.out.extend_from_slice(&line[..start + len + 2]);
    }

    fn long_bulk(&mut self, bytes: &[u8]) {
        let mut buffer = itoa::Buffer::new();
        let length = buffer.format(bytes.len()).as_bytes();
        self.out.reserve(bytes.len() + length.len() + 5);
        self.out.push(b'$');
        self.out.extend_from_slice(length);
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// The null of an aborted `EXEC`.
    pub(crate) fn null_array(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.number(b'*', len as i64);
    }

    /// A map of `pairs` pairs; a flat array in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 {
            self.number(b'%', pairs as i64);
        } else {
            self.number(b'*', 2 * pairs as i64);
        }
    }

    /// Long text for people: verbatim in RESP3.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.resp3 {
            self.number(b'=', text.len() as i64 + 4);
            self.raw(b"txt:");
            self.raw(text.as_bytes());
            self.raw(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Opens an array whose length is not known yet: see [`Reply::close_array`].
    pub(crate) fn open_array(&mut self) -> usize {
        self.out.len()
    }

    /// Inserts the header of an array that began at `start`.
    pub(crate) fn close_array(&mut self, start: usize, len: usize) {
        let mut buffer = itoa::Buffer::new();
        let header = [b"*", buffer.format(len).as_bytes(), b"\r\n"].concat();
        self.out.splice(start..start, header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_of_every_length_are_framed() {
        for len in (0..200).chain([65_536]) {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut out = b"+before\r\n".to_vec();
            Reply::new(&mut out, false).bulk(&bytes);
            let mut expected = format!("+before\r\n${len}\r\n").into_bytes();
            expected.extend_from_slice(&bytes);
            expected.extend_from_slice(b"\r\n");
            assert_eq!(out, expected, "{len}");
        }
    }
}
