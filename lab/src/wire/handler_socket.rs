//! The protocol of MariaDB's plugin HandlerSocket: a line a request and a line an answer, the words
//! between tabs.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hedgerow_lab_data::workload::Kind;
use hedgerow_lab_peers::HANDLER_SOCKET_PREAMBLE;

use std::io::{Read, Write};

use super::script::Script;
use crate::{LabError, Result};

/// What each line of the preamble is answered by.
const OPENED: &str = "0\t1\n";

/// How long a server may take until its table is there.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes each connection of the script open the table first.
pub(super) fn begin(script: &mut Script) {
    script.begin_with(HANDLER_SOCKET_PREAMBLE, &opened());
}

fn opened() -> String {
    OPENED.repeat(HANDLER_SOCKET_PREAMBLE.lines().count())
}

/// Appends a request and its answer. Keys and values are without bytes below 16, which the
/// protocol would escape.
pub(super) fn append(
    kind: Kind,
    key: &[u8],
    value: &[u8],
    request: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) {
    match kind {
        Kind::Insert => {
            request.extend([b"0\t+\t2\t", key, b"\t", value, b"\n"].concat());
            reply.extend_from_slice(b"0\t1\n");
        }
        Kind::Update => {
            request.extend([b"1\t=\t1\t", key, b"\t1\t0\tU\t", value, b"\n"].concat());
            reply.extend_from_slice(b"0\t1\t1\n");
        }
        Kind::Remove => {
            request.extend([b"1\t=\t1\t", key, b"\t1\t0\tD\n"].concat());
            reply.extend_from_slice(b"0\t1\t1\n");
        }
        _ => {
            request.extend([b"1\t=\t1\t", key, b"\n"].concat());
            reply.extend([b"0\t1\t", value, b"\n"].concat());
        }
    }
}

/// Waits until the plugin opens its table: it listens before the table is made.
///
/// # Errors
///
/// When that takes a minute; what the plugin said last.
pub fn wait_for_table(address: SocketAddr) -> Result<()> {
    let start = Instant::now();
    loop {
        let said = open_table(address);
        if matches!(&said, Ok(said) if *said == opened()) {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            let what = format!("HandlerSocket at {address} does not open its table: {said:?}");
            return Err(LabError::Process(what));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the plugin answers to the preamble.
fn open_table(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(HANDLER_SOCKET_PREAMBLE.as_bytes())?;
    let mut said = Vec::new();
    let mut bytes = [0; 256];
    let lines = HANDLER_SOCKET_PREAMBLE.lines().count();
    while said.iter().filter(|byte| **byte == b'\n').count() < lines {
        match stream.read(&mut bytes)? {
            0 => break,
            more => said.extend_from_slice(&bytes[..more]),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}
