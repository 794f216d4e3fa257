//! Processes that an experiment starts, and where they run.
//!
//! A *part* is this program again, with one part of a round: it prints its answer and, if it is
//! to be killed, waits for that.
//!
//! A server under test gets one core to itself and the client the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow_lab_peers::socket_in;
use tempfile::TempDir;

use crate::experiment::{Answer, Job};
use crate::machine::{pin_this_thread, resident_bytes};
use crate::{LabError, Result};

/// The hidden subcommand that does a job and prints its answer.
pub const SUBCOMMAND: &str = "perform";

/// How long a server may take until it accepts connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server process with a directory of its own; killed and removed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    readers: Option<SocketAddr>,
    /// The file of its Unix domain socket, if it has one.
    socket: Option<PathBuf>,
    /// Its files; removed with it.
    _directory: TempDir,
    empty_bytes: u64,
}

impl Server {
    /// Starts `program` with `arguments(its directory, its address)`, on `core` if given, and
    /// waits until it accepts connections at the address.
    ///
    /// # Errors
    ///
    /// When it cannot be started, ends at once, or never listens.
    pub fn start(
        program: &Path,
        core: Option<usize>,
        arguments: impl FnOnce(&Path, SocketAddr) -> Result<Vec<String>>,
    ) -> Result<Self> {
        let directory = TempDir::with_prefix("hedgerow-lab-")?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .args(arguments(directory.path(), address)?)
            .current_dir(directory.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = spawn_on(&mut command, core)?;
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait()? {
                let what = format!("{} ended at start: {status}", program.display());
                return Err(LabError::Process(what));
            }
            if start.elapsed() > START_TIMEOUT {
                let _ = child.kill();
                let what = format!("{} does not listen on {address}", program.display());
                return Err(LabError::Process(what));
            }
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(100));
        let empty_bytes = resident_bytes(Some(child.id()));
        Ok(Self {
            child,
            address,
            readers: None,
            socket: socket_in(directory.path()).filter(|file| file.exists()),
            _directory: directory,
            empty_bytes,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The file of its Unix domain socket, if it was started with one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The same server, which listens at another address for requests that only read.
    #[must_use]
    pub fn with_readers(mut self, readers: SocketAddr) -> Self {
        self.readers = Some(readers);
        self
    }

    /// Where it listens for requests that only read.
    #[must_use]
    pub fn readers_address(&self) -> SocketAddr {
        self.readers.unwrap_or(self.address)
    }

    /// Its resident memory in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(Some(self.child.id()))
    }

    /// Seconds that all its threads together have spent on a processor.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let statistics = threads
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|thread| {
                let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
                text.split_whitespace().next()?.parse::<u64>().ok()
            });
        statistics.sum::<u64>() as f64 / 1e9
    }

    /// How much its resident memory has grown since it started.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.resident_bytes().saturating_sub(self.empty_bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts this program for a part of a round.
///
/// # Errors
///
/// When it cannot be started.
pub fn start_part(job: &Job) -> Result<Child> {
    let job = serde_json::to_string(job).map_err(LabError::from_display)?;
    let child = Command::new(std::env::current_exe()?)
        .args([SUBCOMMAND, &job])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Waits for the line that a part prints when it is done.
///
/// # Errors
///
/// What the part says on its standard error, when it ends without an answer.
pub fn part_answer(child: &mut Child) -> Result<Answer> {
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if let Ok(answer) = serde_json::from_str(&line) {
        return Ok(answer);
    }
    let status = child.wait()?;
    let mut errors = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut errors)?;
    }
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    let what = match last {
        Some(line) => said(line),
        None => format!("a part of the experiment ended: {status}"),
    };
    Err(LabError::of_process(status.code(), what))
}

/// Prints a part's answer and waits to be killed: returning would end the process in good order.
///
/// # Errors
///
/// When nobody reads the answer.
pub fn answer_and_wait(answer: &Answer) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", serde_json::json!(answer))?;
    stdout.flush()?;
    thread::sleep(Duration::from_secs(3600));
    Ok(())
}

/// Runs a command that performs a job, which is its last argument, and waits for the answer.
///
/// # Errors
///
/// What the process says on its standard error when it ends without an answer.
pub fn performed_by(command: &mut Command, job: &Job) -> Result<Answer> {
    let text = serde_json::to_string(job).map_err(LabError::from_display)?;
    let output = command
        .arg(text)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()?;
    let answer = serde_json::from_slice(&output.stdout).ok();
    if let (true, Some(answer)) = (output.status.success(), answer) {
        return Ok(answer);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    let what = match last {
        Some(line) => said(line),
        None => format!("its process ended: {}", output.status),
    };
    Err(LabError::of_process(output.status.code(), what))
}

/// What a process of this program says in the last line of its standard error, without what every
/// such line begins with.
fn said(line: &str) -> String {
    let line = line.trim_start_matches("hedgerow-lab: ");
    line.trim_start_matches(crate::WRONG_ANSWER).to_owned()
}

/// A loopback address that was free a moment ago.
///
/// # Errors
///
/// When no socket can be bound.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The path of a program on `PATH`.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Starts a command on one core. A child inherits the cores of the thread that starts it, so a
/// thread of its own moves to the core and starts the child; the calling thread stays where it is.
fn spawn_on(command: &mut Command, core: Option<usize>) -> std::io::Result<Child> {
    let Some(core) = core else {
        return command.spawn();
    };
    let start = || {
        pin_this_thread(core);
        command.spawn()
    };
    thread::scope(|scope| scope.spawn(start).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_at_once_is_an_error() {
        let Some(program) = find_program("true") else {
            println!("skipped: no program `true` on PATH");
            return;
        };
        let error = Server::start(&program, None, |_, _| Ok(Vec::new())).expect_err("no server");
        assert!(error.to_string().contains("ended at start"), "{error}");
    }

    #[test]
    fn a_child_gets_its_core_and_the_thread_that_starts_it_keeps_its_own() {
        let Some(cat) = find_program("cat") else {
            println!("skipped: no program `cat` on PATH");
            return;
        };
        let allowed = |status: &str| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.map(str::trim).map(str::to_owned).expect("a list")
        };
        let own = || std::fs::read_to_string("/proc/thread-self/status").expect("a status");
        let before = allowed(&own());
        let mut command = Command::new(cat);
        command.arg("/proc/self/status").stdout(Stdio::piped());
        let child = spawn_on(&mut command, Some(0)).expect("started");
        let output = child.wait_with_output().expect("ended");
        let of_child = allowed(&String::from_utf8_lossy(&output.stdout));
        assert!(of_child.parse::<usize>().is_ok(), "one core: {of_child}");
        assert_eq!(allowed(&own()), before);
    }
}
