//! Processes that an experiment starts, and where they run.
//!
//! A *part* is this program again, with one part of a round: it prints its answer and, if it is
//! to be killed, waits for that.
//!
//! A server under test gets one core to itself and the client the other.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hedgerow_lab_peers::socket_in;
use tempfile::TempDir;

use crate::experiment::{Answer, Job};
use crate::machine::{cpu_seconds_of, pin_this_thread, resident_bytes};
use crate::{LabError, Result};

/// The hidden subcommand that does a job and prints its answer.
pub const SUBCOMMAND: &str = "perform";

/// How long a server may take until it accepts connections.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// By how much the kernel may round a process's time down: user and system time each by one tick.
const ROUNDING_NS: u64 = 20_000_000;

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
    used: Mutex<ProcessorTime>,
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
            used: Mutex::default(),
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

    /// Seconds that all its threads together have spent on a processor, with those of threads that
    /// have ended. It never falls. What threads did between a call and their end counts to within
    /// 20 ms.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let used = self.used.lock();
        let mut used = used.unwrap_or_else(PoisonError::into_inner);
        used.read(self.child.id())
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

/// The processor time of a process.
///
/// The kernel counts a thread's time in nanoseconds, but only while the thread lives. With ended
/// threads it counts the process's time in ticks of 10 ms. So each reading remembers every thread's
/// time, and the ticks say what threads did that no reading saw.
#[derive(Debug, Default)]
struct ProcessorTime {
    /// What each thread had at the last reading that saw it, by its number.
    seen_ns: BTreeMap<u32, u64>,
    /// What threads did that ended before a reading saw it.
    unseen_ns: u64,
}

impl ProcessorTime {
    /// Seconds that a process has used so far.
    fn read(&mut self, process: u32) -> f64 {
        // The ticks first: a reading of threads sees what they do from here on.
        let all_ns = (cpu_seconds_of(process) * 1e9) as u64;
        self.add(all_ns, threads_ns(process))
    }

    /// Adds a reading: the time of the whole process in ticks, and that of each living thread.
    fn add(&mut self, all_ns: u64, threads: impl IntoIterator<Item = (u32, u64)>) -> f64 {
        for (thread, ns) in threads {
            let before_ns = self.seen_ns.insert(thread, ns).unwrap_or(0);
            // A new thread has the number of one that ended.
            if ns < before_ns {
                self.unseen_ns += before_ns;
            }
        }
        let seen_ns: u64 = self.seen_ns.values().sum();
        let unseen_ns = all_ns.saturating_sub(seen_ns);
        // Rounding alone says nothing of threads that ended, and would blur short intervals.
        if unseen_ns > self.unseen_ns + ROUNDING_NS {
            self.unseen_ns = unseen_ns;
        }
        (seen_ns + self.unseen_ns) as f64 / 1e9
    }
}

/// The processor time of each living thread of a process, by the thread's number.
fn threads_ns(process: u32) -> Vec<(u32, u64)> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let number = thread.file_name().to_str()?.parse::<u32>().ok()?;
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let ns = text.split_whitespace().next()?.parse::<u64>().ok()?;
        Some((number, ns))
    });
    times.collect()
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
    fn time_of_threads_that_ended_counts_and_time_never_falls() {
        const MS: u64 = 1_000_000;
        let mut used = ProcessorTime::default();
        // A thread that ended before the first reading had 50 ms.
        assert_eq!(used.add(450 * MS, [(1, 100 * MS), (2, 300 * MS)]), 0.45);
        // The ticks round down: no thread ended.
        assert_eq!(used.add(450 * MS, [(1, 105 * MS), (2, 309 * MS)]), 0.464);
        // The second thread ended without doing more.
        assert_eq!(used.add(460 * MS, [(1, 106 * MS)]), 0.465);
        // A third came, used 200 ms and ended.
        assert_eq!(used.add(660 * MS, [(1, 107 * MS)]), 0.66);
        // Its successor has the second thread's number.
        assert_eq!(used.add(670 * MS, [(1, 108 * MS), (2, 9 * MS)]), 0.67);
        // The process is gone.
        assert_eq!(used.add(0, []), 0.67);
    }

    #[test]
    fn a_thread_that_works_and_ends_between_two_readings_counts() {
        const OWN: &str = "/proc/thread-self/schedstat";
        if std::fs::read_to_string(OWN).is_err() {
            println!("skipped: this kernel does not count the time of threads");
            return;
        }
        let spin = || {
            let used_ns = || {
                let text = std::fs::read_to_string(OWN).expect("it was there before");
                let ns = text.split_whitespace().next().map(str::parse::<u64>);
                ns.expect("a field").expect("a number")
            };
            while used_ns() < 300_000_000 {
                std::hint::spin_loop();
            }
        };
        let mut used = ProcessorTime::default();
        let before = used.read(std::process::id());
        thread::spawn(spin).join().expect("it does not panic");
        let grown = used.read(std::process::id()) - before;
        assert!(grown >= 0.25, "{grown} s");
    }

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
