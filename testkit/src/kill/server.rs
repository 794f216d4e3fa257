//! A `hedgerow serve` process of a test: started on a free port, and killed at the end.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;

/// How long a recovery may take until the server listens, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `program serve` over the directory `data`, for RESP clients alone, with further
    /// flags.
    pub fn spawn(program: &Path, data: &Path, flags: &[&str]) -> io::Result<Self> {
        Server::spawn_with(program, data, flags, None)
    }

    /// [`spawn`](Server::spawn) of a process whose files cannot grow beyond so many bytes: a write
    /// that would fails with `EFBIG`, as if the disk were broken.
    pub fn spawn_with(
        program: &Path,
        data: &Path,
        flags: &[&str],
        longest_file: Option<u64>,
    ) -> io::Result<Self> {
        // The port is free now and, with nobody else picking ports in the meantime, a moment
        // later; if not, the server says so and whoever connects hears of it.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
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
            .arg("--data")
            .arg(data)
            .args(["--resp", &address.to_string()])
            .args(["--memcached", "none", "--http", "none"])
            // Nobody reads its standard error while it runs.
            .args(["--log-level", "error"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| io::Error::other(format!("{}: {e}", program.display())))?;
        Ok(Server { child, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Connects once the server listens; fails with its own words if it exits instead.
    pub fn connect(&mut self) -> io::Result<Client> {
        let patience = Instant::now() + PATIENCE;
        loop {
            if let Ok(client) = Client::connect(self.address) {
                return Ok(client);
            }
            if let Some(status) = self.child.try_wait()? {
                let mut words = String::new();
                if let Some(stderr) = &mut self.child.stderr {
                    stderr.read_to_string(&mut words)?;
                }
                return Err(io::Error::other(format!(
                    "the server exited with {status}: {words}"
                )));
            }
            if Instant::now() > patience {
                return Err(io::Error::other("the server neither listens nor exits"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills it (`kill -9`) and waits for its end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already killed in the ordinary case; this covers early returns.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
