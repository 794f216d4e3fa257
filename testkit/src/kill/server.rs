//! A `hedgerow serve` process of a test: started on a free port, and killed at the end.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::client::Client;

/// How long a recovery may take until the server listens, on a machine that has much else to do.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A port that nobody else has: the system chooses it, and the server says which.
const FREE_PORT: &str = "127.0.0.1:0";

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// What it says of where it listens; ends with the process.
    said: Receiver<SocketAddr>,
    /// The same, for memcached clients.
    said_memcached: Receiver<SocketAddr>,
    address: Option<SocketAddr>,
}

impl Server {
    /// Starts `program serve` over the directory `data`, for RESP clients alone, with further
    /// flags.
    pub fn spawn(program: &Path, data: &Path, flags: &[&str]) -> io::Result<Self> {
        let place = [OsStr::new("--data"), data.as_os_str()];
        Server::spawn_at(program, &place, "none", flags, None)
    }

    /// [`spawn`](Server::spawn) of a process that serves memcached clients, too, and whose files
    /// cannot grow beyond so many bytes, if there is a limit: a write that would fails with
    /// `EFBIG`, as if the disk were broken.
    pub fn spawn_with(
        program: &Path,
        data: &Path,
        flags: &[&str],
        longest_file: Option<u64>,
    ) -> io::Result<Self> {
        let place = [OsStr::new("--data"), data.as_os_str()];
        Server::spawn_at(program, &place, FREE_PORT, flags, longest_file)
    }

    /// [`spawn`](Server::spawn) over rows that are elsewhere, as `--backend URL` takes it.
    pub fn spawn_over(program: &Path, url: &str, flags: &[&str]) -> io::Result<Self> {
        let place = [OsStr::new("--backend"), OsStr::new(url)];
        Server::spawn_at(program, &place, "none", flags, None)
    }

    fn spawn_at(
        program: &Path,
        place: &[&OsStr],
        memcached: &str,
        flags: &[&str],
        longest_file: Option<u64>,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        if let Some(bytes) = longest_file {
            // The signal, which would end the process, is ignored across the execution.
            let limit = format!(
                "trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"",
                bytes / 512
            );
            command = Command::new("sh");
            command.arg("-c").arg(limit).arg(program);
        }
        let child = command
            .arg("serve")
            .args(place)
            .args(["--resp", FREE_PORT])
            .args(["--memcached", memcached, "--http", "none"])
            // Nobody reads its standard error while it runs.
            .args(["--log-level", "error"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child =
            child.map_err(|e| io::Error::other(format!("{}: {e}", program.display())))?;
        let (says, said) = channel();
        let (says_memcached, said_memcached) = channel();
        if let Some(stdout) = child.stdout.take() {
            let says = [("Redis", says), ("memcached", says_memcached)];
            thread::spawn(move || listen(stdout, &says));
        }
        Ok(Server {
            child,
            said,
            said_memcached,
            address: None,
        })
    }

    /// Where it listens; known once [`connect`](Server::connect) has returned a client.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("connect comes first")
    }

    /// Where it listens for memcached clients. Only a process of [`spawn_with`](Server::spawn_with)
    /// does, and it says so once.
    pub fn await_memcached(&self) -> io::Result<SocketAddr> {
        let said = self.said_memcached.recv_timeout(TIMEOUT);
        said.map_err(|_| {
            io::Error::other("the server does not say where memcached clients connect")
        })
    }

    /// Whether a server that was [killed](Server::kill) had said where it listens.
    pub fn had_listened(&self) -> bool {
        // What it wrote is read to its end.
        self.address.is_some() || self.said.recv_timeout(TIMEOUT).is_ok()
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Connects once the server listens; fails with its own words if it exits instead.
    pub fn connect(&mut self) -> io::Result<Client> {
        if self.address.is_none() {
            match self.said.recv_timeout(TIMEOUT) {
                Ok(address) => self.address = Some(address),
                Err(RecvTimeoutError::Disconnected) => return Err(self.last_words()?),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(io::Error::other("the server neither listens nor exits"));
                }
            }
        }
        Client::connect(self.address())
    }

    /// What a server said that has ended by itself.
    fn last_words(&mut self) -> io::Result<io::Error> {
        let status = self.child.wait()?;
        let mut words = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut words)?;
        }
        let words = format!("the server exited with {status}: {words}");
        Ok(io::Error::other(words))
    }

    /// Asks it to end by `SHUTDOWN`, and waits for its end; fails with its own words if it did not
    /// end well.
    pub fn shut_down(&mut self) -> io::Result<()> {
        // The end of the connection is the answer.
        let _ = self.connect()?.call(&[b"SHUTDOWN"]);
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err(self.last_words()?),
        }
    }

    /// Kills it (`kill -9`) and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

/// Passes on where a server says that it listens for clients of some name, and reads what else it
/// says.
fn listen(stdout: ChildStdout, says: &[(&str, Sender<SocketAddr>)]) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        for (name, says) in says {
            let address = line.trim_start().strip_prefix(*name);
            if let Some(Ok(address)) = address.map(|address| address.trim().parse()) {
                // Whoever has let go of the server does not ask.
                let _ = says.send(address);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already killed in the ordinary case; this covers early returns.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
