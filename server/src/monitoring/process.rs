//! Memory and processor time of this process, from Linux's `/proc`; elsewhere the numbers are zero.

use std::fs;

/// The process's memory and time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessUse {
    /// Memory that is resident now.
    pub(crate) resident_bytes: u64,
    /// The most that ever was.
    pub(crate) peak_resident_bytes: u64,
    /// Processor time in the program.
    pub(crate) user_s: f64,
    /// Processor time in the kernel.
    pub(crate) system_s: f64,
}

/// `/proc` counts processor time in these, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Asks now: two short files are read.
pub(crate) fn now() -> ProcessUse {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let (user_s, system_s) = times(&stat);
    ProcessUse {
        resident_bytes: kib(&status, "VmRSS:") << 10,
        peak_resident_bytes: kib(&status, "VmHWM:") << 10,
        user_s,
        system_s,
    }
}

/// A line of `/proc/self/status`.
fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// User and system time of `/proc/self/stat`: its 14th and 15th field. The second is the name of
/// the program in brackets, which may hold blanks and brackets.
fn times(stat: &str) -> (f64, f64) {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut seconds = || {
        let ticks: Option<f64> = fields.next().and_then(|field| field.parse().ok());
        ticks.unwrap_or(0.0) / TICKS_PER_SECOND
    };
    (seconds(), seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((kib(status, "VmRSS:"), kib(status, "VmHWM:")), (1024, 2048));
        assert_eq!(kib(status, "VmSwap:"), 0);
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(times(stat), (2.5, 0.5));
        assert_eq!(times(""), (0.0, 0.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_takes_memory() {
        let now = now();
        assert!(now.resident_bytes > 0 && now.peak_resident_bytes >= now.resident_bytes);
    }
}
