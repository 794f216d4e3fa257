//! The cluster that a campaign disturbs, by the script that started it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// `.ci/hbase`.
pub struct Script(PathBuf);

impl Script {
    /// The script of this checkout. Its cluster is that of `HEDGEROW_HBASE_DIR`.
    pub fn find() -> Script {
        Script(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.ci/hbase"))
    }

    /// A command of the script.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command.arg(&self.0).args(words);
        command
    }

    /// Runs a command, which must succeed; returns what it printed.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            ".ci/hbase {words:?}: {printed}{text}"
        );
        printed.into_owned()
    }
}

/// The URL of the cluster; without one it says that the test is skipped.
pub fn url() -> Option<String> {
    let url = std::env::var("HEDGEROW_HBASE_URL").ok();
    if url.is_none() {
        eprintln!("skipped: HEDGEROW_HBASE_URL names no cluster; `.ci/hbase up` starts one");
    }
    url
}

/// How many rounds the environment asks for.
pub fn rounds(variable: &str, without: usize) -> usize {
    std::env::var(variable).map_or(without, |text| text.parse().unwrap())
}

/// Ends other threads, also when the one that holds it panics.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
