//! Where a run took place: a figure without its machine says nothing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use hedgerow_lab_report::Machine;

/// The standard allocator of this build.
pub const STANDARD_ALLOCATOR: &str = if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else if cfg!(target_env = "gnu") {
    "glibc"
} else {
    "the system's"
};

/// Describes this machine; what cannot be found out is empty.
#[must_use]
pub fn describe() -> Machine {
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
    Machine {
        cpu: field("model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        simd: ["sse4_2", "avx2", "avx512f", "avx512bw"]
            .into_iter()
            .filter(has)
            .map(str::to_owned)
            .collect(),
        last_cache: read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
        memory_gib: memory_kib >> 20,
        kernel: read("/proc/sys/kernel/osrelease"),
        superpages: read("/sys/kernel/mm/transparent_hugepage/enabled"),
        allocator: STANDARD_ALLOCATOR.to_owned(),
        commit: commit(),
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

/// Bytes that this process has caused to be written to storage, as the kernel counts them when
/// it marks pages of files as changed (`write_bytes` of `/proc/self/io`): what a page is written
/// again for counts again, what stays in memory (tmpfs) never does.
#[must_use]
pub fn written_bytes() -> u64 {
    io_bytes("write_bytes: ")
}

/// Bytes that this process has caused to be read from storage (`read_bytes` of
/// `/proc/self/io`); what the page cache had is not among them.
#[must_use]
pub fn read_bytes() -> u64 {
    io_bytes("read_bytes: ")
}

fn io_bytes(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = text.lines().find_map(|line| line.strip_prefix(name));
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Drops the files of a folder from the page cache, as far as they are on storage and no process
/// maps them. Does nothing on systems other than Linux.
pub fn drop_page_cache(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            drop_page_cache(&path);
            continue;
        }
        // A file that an engine has just removed is not worth a word.
        let _ = drop_file(&path);
    }
}

/// Syncs a file, as the kernel keeps dirty pages, and drops its pages from the page cache.
#[cfg(target_os = "linux")]
fn drop_file(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{Advice, fadvise};
    let file = fs::File::open(path)?;
    file.sync_data()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn drop_file(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Bytes on disk of all files in a folder: those allocated to them, so that holes do not count
/// and space set aside does.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn disk_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path())?,
            Ok(metadata) => allocated(&metadata),
            // An engine removes old files at any time.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(bytes)
}

#[cfg(unix)]
fn allocated(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// How many files this process may have open, connections among them; `None` where the kernel
/// does not say, or knows no limit.
#[must_use]
pub fn open_files_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let mut lines = text.lines();
    let limits = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    limits.split_whitespace().next()?.parse().ok()
}

/// Processor time that this process has used, in seconds (in steps of 10 ms).
#[must_use]
pub fn used_cpu_seconds() -> f64 {
    cpu_seconds("/proc/self/stat")
}

/// Processor time that another process has used, with that of threads which have ended, in seconds
/// (in steps of 10 ms); 0 when it is gone.
#[must_use]
pub fn cpu_seconds_of(process: u32) -> f64 {
    cpu_seconds(&format!("/proc/{process}/stat"))
}

fn cpu_seconds(path: &str) -> f64 {
    let stat = fs::read_to_string(path).unwrap_or_default();
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

/// Nanoseconds that the calling thread has waited for a processor while it could have run, or
/// `None` where the kernel does not say.
fn waited_ns() -> Option<u64> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().nth(1)?.parse().ok()
}

/// Seconds that `body` took by the clock, less what this thread was kept waiting for a
/// processor: on a shared machine that wait says nothing about what `body` does, while sleeping
/// in a lock is its own doing and counts.
pub fn timed<R>(body: impl FnOnce() -> R) -> (f64, R) {
    // The clock's interval encloses that of the waits, so that no wait is taken off which the
    // clock has not seen.
    let start = Instant::now();
    let before = waited_ns();
    let result = body();
    let after = waited_ns();
    let seconds = start.elapsed().as_secs_f64();
    let waited = match (before, after) {
        (Some(before), Some(after)) => after.saturating_sub(before) as f64 / 1e9,
        _ => 0.0,
    };
    ((seconds - waited).max(1e-9), result)
}

/// An environment variable: which of the processors is the first one for the threads that a run
/// keeps to one each, a number from 0. So runs beside each other do not share a processor.
pub const FIRST_PROCESSOR: &str = "HEDGEROW_LAB_FIRST_PROCESSOR";

/// Keeps the calling thread on the `nth` processor that this process may use (counted round).
/// Where the system does not allow that, threads wander, and figures spread.
pub fn pin_this_thread(nth: usize) {
    // Asked for once: later a pinned thread may see only its own.
    static CORES: OnceLock<Vec<core_affinity::CoreId>> = OnceLock::new();
    let cores = CORES.get_or_init(|| {
        let mut cores = core_affinity::get_core_ids().unwrap_or_default();
        let first = std::env::var(FIRST_PROCESSOR).ok();
        let first: usize = first.and_then(|text| text.parse().ok()).unwrap_or(0);
        let before = first % cores.len().max(1);
        cores.rotate_left(before);
        cores
    });
    if let Some(core) = cores.get(nth % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}

/// Memory in bytes that programs can still have without swapping; `None` where the kernel does
/// not say.
#[must_use]
pub fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A thread that loses its processor right before or behind the body has waited, but not within
    /// the time of the body: with the waits' interval around the clock's, time ran backwards here.
    #[test]
    fn waits_beside_the_body_are_not_taken_off_its_time() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    pin_this_thread(0);
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let measuring = scope.spawn(|| {
                pin_this_thread(0);
                let work = || (0..10_000_u64).fold(1, |hash: u64, n| black_box(hash ^ n));
                (0..20_000).map(|_| timed(work).0).fold(f64::MAX, f64::min)
            });
            let least = measuring.join();
            stop.store(true, Ordering::Relaxed);
            let least = least.expect("it does not panic");
            assert!(least > 1e-6, "10,000 steps took {least} s");
        });
    }

    #[test]
    fn this_machine_has_cores_and_this_process_memory() {
        assert!(describe().cores > 0);
        assert!(resident_bytes(None) > 100_000);
        assert!(resident_bytes(Some(std::process::id())) > 100_000);
        assert_eq!(resident_bytes(Some(u32::MAX)), 0);
        assert!(open_files_limit().is_none_or(|limit| limit > 10));
        let before = used_cpu_seconds();
        while used_cpu_seconds() == before {
            std::hint::spin_loop();
        }
        assert!(cpu_seconds_of(std::process::id()) > before);
        assert_eq!(cpu_seconds_of(u32::MAX), 0.0);
    }
}
