//! Where a run took place: a figure without its machine says nothing.

use std::fs;
use std::process::Command;
use std::time::Instant;

use serde::Serialize;

/// The machine and build of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// SIMD levels that matter to node search.
    pub simd: Vec<&'static str>,
    /// The size of the last-level cache, as the kernel words it.
    pub last_cache: String,
    /// Physical memory in GiB.
    pub memory_gib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The transparent superpage mode.
    pub superpages: String,
    /// The commit that was built, with `+` when the tree was dirty.
    pub commit: String,
}

impl Machine {
    /// Describes this machine; what cannot be found out is empty.
    #[must_use]
    pub fn describe() -> Self {
        let read = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name: &str| {
            let line = cpuinfo
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or("");
            line.split_once(':')
                .map_or("", |(_, value)| value.trim())
                .to_owned()
        };
        let flags = field("flags");
        let has = |wanted: &&str| flags.split(' ').any(|flag| flag == *wanted);
        let memory_kib = read("/proc/meminfo")
            .split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<u64>().ok())
            .unwrap_or(0);
        Self {
            cpu: field("model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            simd: ["sse4_2", "avx2", "avx512f", "avx512bw"]
                .into_iter()
                .filter(has)
                .collect(),
            last_cache: read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
            memory_gib: memory_kib >> 20,
            kernel: read("/proc/sys/kernel/osrelease"),
            superpages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
            commit: commit(),
        }
    }
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return String::new();
    };
    let dirty = git(&["status", "--porcelain", "-uno"]).is_some_and(|changes| !changes.is_empty());
    if dirty { commit + "+" } else { commit }
}

/// Resident memory of a process in bytes (`None` for this one); 0 when it is gone.
#[must_use]
pub fn resident_bytes(process: Option<u32>) -> u64 {
    let path = match process {
        Some(id) => format!("/proc/{id}/status"),
        None => "/proc/self/status".to_owned(),
    };
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or("");
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Processor time that this process has used, in seconds (in steps of 10 ms).
#[must_use]
pub fn used_cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields are counted after the name, which is in parentheses and may hold anything.
    let fields = stat
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

/// Seconds that the calling thread has spent on a processor, or `None` where the kernel does
/// not say. Up to one timer tick old.
#[must_use]
pub fn thread_cpu_seconds() -> Option<f64> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = statistics.split_whitespace().next()?.parse::<u64>().ok()?;
    (ns > 0).then_some(ns as f64 / 1e9)
}

/// Seconds that `body` took on the processor (by the clock where the kernel cannot tell): on
/// a shared machine, waiting for a core says nothing about a tree. `body` must not block.
pub fn timed<R>(body: impl FnOnce() -> R) -> (f64, R) {
    let (start, before) = (Instant::now(), thread_cpu_seconds());
    let result = body();
    let seconds = match (before, thread_cpu_seconds()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed().as_secs_f64(),
    };
    (seconds.max(1e-9), result)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_and_this_process_memory() {
        assert!(Machine::describe().cores > 0);
        assert!(resident_bytes(None) > 100_000);
        assert!(resident_bytes(Some(std::process::id())) > 100_000);
        assert_eq!(resident_bytes(Some(u32::MAX)), 0);
        let before = used_cpu_seconds();
        while used_cpu_seconds() == before {
            std::hint::spin_loop();
        }
    }
}
