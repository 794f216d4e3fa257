//! Running the command: a process, its output, its exit code.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A server that listens at a free port, for Redis clients alone.
pub const SERVE: [&str; 7] = [
    "serve",
    "--resp",
    "0",
    "--memcached",
    "none",
    "--http",
    "none",
];

/// Held while a process is started, and while a test has a database open itself: between its fork
/// and its exec, a process has the files of this one open, and with them the lock of the database.
static FORKS: Mutex<()> = Mutex::new(());

/// Keeps other tests from starting processes.
pub fn no_forks() -> MutexGuard<'static, ()> {
    // It guards nothing that a panic could leave half changed.
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process.
pub fn spawn(command: &mut Command) -> Child {
    let _alone = no_forks();
    command.spawn().unwrap()
}

/// The command, to be run in `dir`, without what this test's own environment says of databases.
pub fn command(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.args(words).current_dir(dir);
    for (name, _) in std::env::vars() {
        if name.starts_with("HEDGEROW_") {
            command.env_remove(name);
        }
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs `hedgerow` in `dir` with standard input.
pub fn hedgerow_with(dir: &Path, words: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(&mut command(dir, words));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // By a thread: a command may print before it has read everything.
    let writing = std::thread::spawn(move || {
        // A command that fails early does not read it all.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

/// Runs `hedgerow` in `dir`.
pub fn hedgerow(dir: &Path, words: &[&str]) -> Output {
    hedgerow_with(dir, words, b"")
}

/// Standard output of a command that must succeed.
#[track_caller]
pub fn done(output: Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that a command fails with this code and words on standard error: one line of them, if it
/// is no error of usage.
#[track_caller]
pub fn fails(output: Output, code: i32, words: &[&str]) {
    let error = fails_with_lines(output, code, words);
    if code == 1 {
        assert_eq!(error.trim_end().lines().count(), 1, "one line: {error}");
    }
}

/// Checks that a command fails with this code and words on standard error, and returns these.
#[track_caller]
pub fn fails_with_lines(output: Output, code: i32, words: &[&str]) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    for word in words {
        assert!(error.contains(word), "{error:?} does not say {word:?}");
    }
    error
}
