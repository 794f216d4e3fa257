//! A real redis-server beside the server that is tested.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::TIMEOUT;

/// A redis-server, killed on drop.
pub struct Redis {
    process: Child,
    pub address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Redis {
    /// Starts one; `None`, with a message, if it is not installed.
    pub fn start() -> Option<Redis> {
        // Somebody else may take the port before it does: then it ends, and another is tried.
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let mut redis = Redis::spawn()?;
            while redis.process.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(redis.address).is_ok() {
                    return Some(redis);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("redis-server does not listen");
    }

    /// Starts one at a port that is free now.
    fn spawn() -> Option<Redis> {
        let dir = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match process {
            Ok(process) => Some(Redis {
                process,
                address,
                _dir: dir,
            }),
            Err(error) => {
                println!("skipped: redis-server cannot be started ({error})");
                None
            }
        }
    }
}
