//! Hostile clients against a server process: it goes on answering, and its memory, its threads and
//! its file descriptors stay bounded. Latencies of the probe beside each attack are printed; the
//! test fails only where a reply does not come at all.
#![cfg(target_os = "linux")]

mod replies;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes that long, however busy the machine is: a reply that is later is a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server process with all its ports.
struct Server {
    child: Child,
    resp: SocketAddr,
    memcached: SocketAddr,
    http: SocketAddr,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that may open so many files.
    fn start(open_files: u32, flags: &[&str]) -> Server {
        hedgerow_server::raise_open_file_limit();
        let dir = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let program = env!("CARGO_BIN_EXE_hedgerow");
        let script = format!("ulimit -n {open_files} && exec \"$0\" \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &script, program])
            .args(["serve", "--json", "--workers", "1", "--in-memory"])
            .args(["--resp", "127.0.0.1:0", "--memcached", "127.0.0.1:0"])
            .args(["--http", "127.0.0.1:0"])
            .args(flags)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?}, {}", log_of(dir.path())));
        let address = |name: &str| said[name].as_str().unwrap().parse().unwrap();
        Server {
            resp: address("resp"),
            memcached: address("memcached"),
            http: address("http"),
            child,
            dir,
        }
    }

    /// A number of `/proc/PID/status`.
    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or_else(|| panic!("{name} in {status}"))
    }

    /// The most memory it ever had.
    fn peak_mib(&self) -> u64 {
        self.status("VmHWM:") >> 10
    }

    /// How much the peak has grown since it was `before`. Linux counts resident pages for
    /// each processor and adds them up inexactly: a peak that is read lower later has not grown.
    fn peak_growth_mib(&self, before: u64) -> u64 {
        self.peak_mib().saturating_sub(before)
    }

    /// Asks for a page over a connection of its own; the status line and the body.
    fn get(&self, path: &str, headers: &str) -> (String, String) {
        let asked = Instant::now();
        loop {
            match try_get(self.http, path, headers) {
                Ok(answer) => return answer,
                // A crowd of connections may push this one out once in a while.
                Err(error) if asked.elapsed() < TIMEOUT => drop(error),
                Err(error) => panic!("no answer of {path}: {error}; {}", log_of(self.dir.path())),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The server answers at all its ports.
    #[track_caller]
    fn is_well(&self, beside: &str) {
        let asked = Instant::now();
        let (status, body) = self.get("/healthz", "");
        assert!(status.contains(" 200 "), "{beside}: {status}");
        assert_eq!(body, "ok\n", "{beside}");
        println!(
            "/healthz beside {beside}: {} ms",
            asked.elapsed().as_millis()
        );
    }

    fn log(&self) -> String {
        log_of(self.dir.path())
    }
}

fn log_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn try_get(http: SocketAddr, path: &str, headers: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| std::io::Error::other(format!("no whole head in {text:?}")))?;
    let status = head.lines().next().unwrap_or_default();
    Ok((status.to_owned(), body.to_owned()))
}

/// Sends as much as the server takes, and returns what it said before it closed.
fn send_and_listen(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may have closed in the middle.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("the server neither answers nor closes")
        }
        _ => String::from_utf8_lossy(&said).into_owned(),
    }
}

/// One request and reply of a RESP client.
fn ask(resp: SocketAddr, line: &str) -> String {
    let mut stream = connect(resp);
    stream.write_all(line.as_bytes()).unwrap();
    stream.write_all(b"\r\n").unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    reply.trim_end().to_owned()
}

#[test]
fn bodies_are_never_waited_for() {
    let server = Server::start(1024, &[]);
    let endless = b"POST / HTTP/1.1\r\nContent-Length: 1000000000000000\r\n\r\n";
    let said = send_and_listen(server.http, endless);
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
    server.is_well("an endless body");
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(server.http);
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
            .unwrap();
        stalled.push(stream);
    }
    server.is_well("bodies that never come");
    for chunked in ["GET", "POST"] {
        let head =
            format!("{chunked} / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n");
        let said = send_and_listen(server.http, head.as_bytes());
        assert!(said.starts_with("HTTP/1.1 4"), "{said}");
    }
    server.is_well("chunks");
}

#[test]
fn answers_that_nobody_fetches_cost_nothing() {
    let server = Server::start(1024, &[]);
    let before = server.peak_mib();
    let mut deaf = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(server.http);
        stream.set_nonblocking(true).unwrap();
        let requests = b"GET /metrics HTTP/1.1\r\n\r\n".repeat(2000);
        // As many as the sockets' buffers take.
        let _ = stream.write(&requests);
        deaf.push(stream);
    }
    server.is_well("pipelined requests whose answers are not read");
    let grown = server.peak_growth_mib(before);
    assert!(grown < 32, "{grown} MiB");
}

#[test]
fn long_heads_are_refused_early() {
    let server = Server::start(1024, &[]);
    let before = server.peak_mib();
    let mut stream = connect(server.http);
    stream.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
    let chunk = vec![b'y'; 1 << 20];
    let sent = (0..300).take_while(|_| stream.write_all(&chunk).is_ok());
    println!("{} MiB of a header were taken", sent.count());
    server.is_well("a header of 300 MB");
    let grown = server.peak_growth_mib(before);
    assert!(grown < 16, "{grown} MiB");
}

#[test]
fn a_thousand_slow_clients_get_no_thousand_threads() {
    let server = Server::start(1024, &[]);
    let before = server.status("Threads:");
    let mut slow = Vec::new();
    for i in 0..1000 {
        let mut stream = connect(server.http);
        // The server may have closed it by now: others came.
        let _ = stream.write(b"GET /heal");
        slow.push(stream);
        if i % 200 == 199 {
            server.is_well(&format!("{} slow clients", i + 1));
        }
    }
    let threads = server.status("Threads:");
    assert!(threads <= before + 1, "{before} threads, then {threads}");
}

#[test]
fn descriptors_that_run_out_leave_health_alone() {
    let server = Server::start(100, &[]);
    for (port, name) in [
        (server.http, "HTTP"),
        (server.resp, "RESP"),
        (server.memcached, "memcached"),
    ] {
        let crowd: Vec<TcpStream> = (0..150).map(|_| connect(port)).collect();
        server.is_well(&format!("150 connections to {name} with 100 descriptors"));
        drop(crowd);
        server.is_well("their end");
    }
    // Refused connections were refused in words, and all ports are back. Until the server has seen
    // the end of the last crowd it may close a new connection before that has said a word.
    let asked = Instant::now();
    while !send_and_listen(server.resp, b"PING\r\nQUIT\r\n").starts_with("+PONG") {
        assert!(asked.elapsed() < TIMEOUT, "{}", server.log());
    }
    let log = server.log();
    assert!(log.contains("connection refused"), "{log}");
    let lines = log.lines().count();
    assert!(lines < 60, "{lines} lines: {log}");
}

#[test]
fn web_pages_cannot_write() {
    let server = Server::start(1024, &[]);
    let resp = "*3\r\n$3\r\nSET\r\n$5\r\nowned\r\n$1\r\n1\r\n";
    let inline = "SET owned 1\r\n";
    let memcached = "set owned 0 0 1\r\n1\r\n";
    let post = |body: &str| {
        format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n\
             Content-Type: text/plain;charset=UTF-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut pages: Vec<String> = [resp, inline, memcached].iter().map(|b| post(b)).collect();
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"] {
        for body in [resp, inline, memcached] {
            pages.push(format!("{method} / HTTP/1.1\r\nx: y\r\n\r\n{body}"));
        }
    }
    // A request line that got lost leaves a header.
    pages.push(format!("x\r\nHost: a\r\n\r\n{inline}{memcached}"));
    for page in &pages {
        for port in [server.resp, server.memcached] {
            let said = send_and_listen(port, page.as_bytes());
            assert!(!said.contains("OK") && !said.contains("STORED"), "{said}");
            assert!(said.contains("HTTP request"), "{said:?} to {page:?}");
        }
        assert_eq!(ask(server.resp, "EXISTS owned"), ":0", "{page:?}");
    }
    assert_eq!(ask(server.resp, "SET key value"), "+OK");
    assert_eq!(
        ask(server.resp, "GET key"),
        "$5",
        "inline commands are legal"
    );
    assert_eq!(ask(server.resp, "get HTTP/1.1"), "$-1");
    let log = server.log();
    for port in ["port=resp ", "port=memcached "] {
        let words = [port, "connection closed", "HTTP request", "127.0.0.1:"];
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(is_it), "{port}: {log}");
    }
    let (_, metrics) = server.get("/metrics", "");
    let errors = metrics
        .lines()
        .find_map(|line| line.strip_prefix("hedgerow_protocol_errors_total "));
    let expected = (2 * pages.len()).to_string();
    assert_eq!(errors, Some(expected.as_str()));
}

#[test]
fn announcements_of_much_get_no_memory() {
    let server = Server::start(4096, &[]);
    let before = server.peak_mib();
    let mut waiting = Vec::new();
    for bytes in [
        &b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n"[..],
        b"*1048576\r\n$1\r\na\r\n",
        b"GET aaaaaaaa",
        b"$",
    ] {
        for _ in 0..50 {
            let mut stream = connect(server.resp);
            stream.write_all(bytes).unwrap();
            waiting.push(stream);
        }
    }
    for bytes in [
        &b"set k 0 0 536870912\r\n"[..],
        b"get aaaa",
        b"ms k 536870912\r\n",
    ] {
        for _ in 0..50 {
            let mut stream = connect(server.memcached);
            stream.write_all(bytes).unwrap();
            waiting.push(stream);
        }
    }
    server.is_well("announcements");
    assert_eq!(ask(server.resp, "PING"), "+PONG");
    let line = vec![b'a'; 2 << 20];
    for port in [server.resp, server.memcached] {
        let said = send_and_listen(port, &line);
        assert!(said.is_empty() || said.contains("too"), "{said}");
    }
    let grown = server.peak_growth_mib(before);
    assert!(grown < 64, "{grown} MiB");
}

#[test]
fn one_password_guards_all_ports() {
    let server = Server::start(1024, &["--password", "open sesame"]);
    // Only that the server is well is told to everybody.
    server.is_well("a password");
    for (path, headers) in [
        ("/metrics", ""),
        ("/", ""),
        ("/none", ""),
        ("/metrics", "Authorization: Bearer\r\n"),
        ("/metrics", "Authorization: Bearer open\r\n"),
        ("/metrics", "Authorization: Basic b3BlbiBzZXNhbWU=\r\n"),
    ] {
        let (status, body) = server.get(path, headers);
        assert!(status.contains(" 401 "), "{path} {headers}: {status}");
        assert!(!body.contains("hedgerow_"), "{body}");
    }
    let (status, body) = server.get("/metrics", "Authorization: Bearer open sesame\r\n");
    assert!(
        status.contains(" 200 ") && body.contains("hedgerow_"),
        "{status}"
    );
    refuses_strangers_at_memcached(&server);
    let mut stream = connect(server.memcached);
    let session =
        "set x 0 0 19\r\ndefault open sesame\r\nset k 0 0 1\r\n7\r\nget k x\r\nmg k v\r\nquit\r\n";
    stream.write_all(session.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(
        said,
        "STORED\r\nSTORED\r\nVALUE k 0 1\r\n7\r\nEND\r\nVA 1\r\n7\r\n"
    );
    assert!(ask(server.resp, "GET k").starts_with("-NOAUTH"));
    assert!(ask(server.resp, "AUTH wrong").starts_with("-WRONGPASS"));
    let log = server.log();
    for port in ["port=resp ", "port=memcached ", "port=http "] {
        let is_it = |line: &str| line.contains("wrong password") && line.contains(port);
        assert!(log.lines().any(is_it), "{port}: {log}");
    }
}

/// No command of memcached works before the password, nor does a password that is nearly right.
fn refuses_strangers_at_memcached(server: &Server) {
    for command in [
        "get k",
        "set k 0 0 1\r\n1",
        "mg k v",
        "ms k 1\r\n1",
        "md k",
        "mn",
        "me k",
        "mr - -",
        "stats",
        "version",
        "flush_all",
        "add k 0 0 23\r\ndefault open sesame    ",
        "verbosity 1",
        "set k 0 0 11\r\nopen sesame",
        "set k 0 0 19\r\ndefault open sesamE",
        "set k 0 0 17\r\ndefault open sesa",
    ] {
        let mut stream = connect(server.memcached);
        stream
            .write_all(format!("{command}\r\nquit\r\n").as_bytes())
            .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        let refusals = said.lines().filter(|line| line.starts_with("CLIENT_ERROR"));
        assert!(refusals.count() >= 1, "{command}: {said}");
        assert!(
            said.lines().all(|line| line.starts_with("CLIENT_ERROR")),
            "{command}: {said}"
        );
    }
}
