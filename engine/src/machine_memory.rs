//! How much memory there is for this process: the machine's, or less where a control group that it
//! is in has a limit, as containers and services have.
//!
//! Half of that is what pages may take where nobody names a limit. Version 2 of control groups has
//! one tree of groups, version 1 one for memory; a group's limit holds for all groups within it, so
//! the least one on the way to the root counts.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Memory for pages where it is unknown how much there is.
const PAGES_OF_UNKNOWN: u64 = 256 << 20;

/// Memory for pages where no limit is named, in bytes: half of what this process can have. It is
/// looked up once.
pub(crate) fn default_page_budget() -> usize {
    static BUDGET: OnceLock<usize> = OnceLock::new();
    *BUDGET.get_or_init(|| {
        let of_groups = fs::read_to_string("/proc/self/cgroup")
            .ok()
            .and_then(|groups| limit_of_groups(Path::new("/sys/fs/cgroup"), &groups));
        let budget = match (machine_bytes(), of_groups) {
            (Some(machine), Some(groups)) => machine.min(groups) / 2,
            (Some(bytes), None) | (None, Some(bytes)) => bytes / 2,
            (None, None) => PAGES_OF_UNKNOWN,
        };
        usize::try_from(budget).unwrap_or(usize::MAX)
    })
}

#[cfg(target_os = "linux")]
fn machine_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    let bytes = (info.totalram as u64).checked_mul(u64::from(info.mem_unit))?;
    Some(bytes).filter(|bytes| *bytes > 0)
}

#[cfg(not(target_os = "linux"))]
fn machine_bytes() -> Option<u64> {
    None
}

/// The least limit of a process's control groups and of those around them, in bytes. `mounted` is
/// where control groups are mounted, `groups` what the system lists as the process's.
fn limit_of_groups(mounted: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        // The number of a tree, what it controls, and the group's path in it.
        let (_, of_tree) = line.split_once(':')?;
        let (controlled, path) = of_tree.split_once(':')?;
        let (root, file) = match controlled {
            "" => (mounted.to_owned(), "memory.max"),
            _ if controlled.split(',').any(|what| what == "memory") => {
                (mounted.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A container may see its own group as the root, and be listed under a path from outside.
        let groups = path.ancestors().map(|group| root.join(group).join(file));
        groups.filter_map(|file| limit_in(&file)).min()
    });
    limits.min()
}

/// The limit in a file; none is `max`, or in version 1 a number beyond all memory.
fn limit_in(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(root: &Path, group: &str, file: &str, text: &str) {
        let folder = root.join(group);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }

    #[test]
    fn the_least_limit_around_a_process_counts() {
        let mounted = tempfile::tempdir().unwrap();
        let root = mounted.path();
        limit(root, "a", "memory.max", "3000000\n");
        limit(root, "a/b", "memory.max", "max\n");
        limit(root, "a/b/c", "memory.max", "5000000\n");
        limit(root, "other", "memory.max", "10\n");
        let of = |groups| limit_of_groups(root, groups);
        assert_eq!(of("0::/a/b/c\n"), Some(3_000_000));
        assert_eq!(of("0::/\n"), None);
        assert_eq!(of("0::/not/mounted/here\n"), None);
        assert_eq!(of(""), None);
        assert_eq!(of("nonsense\n"), None);
        // In a container its own group may be the root.
        limit(root, "", "memory.max", "2000000\n");
        assert_eq!(of("0::/docker/0123\n"), Some(2_000_000));
    }

    #[test]
    fn version_1_has_a_tree_for_memory() {
        let mounted = tempfile::tempdir().unwrap();
        let root = mounted.path();
        let file = "memory.limit_in_bytes";
        limit(root, "memory", file, "9223372036854771712\n");
        limit(root, "memory/service", file, "4000000\n");
        limit(root, "cpu/service", file, "10\n");
        let groups = "5:cpu,cpuacct:/service\n4:memory:/service\n1:name=systemd:/service\n0::/x\n";
        assert_eq!(limit_of_groups(root, groups), Some(4_000_000));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn pages_have_half_of_the_machine_at_most() {
        let machine = fs::read_to_string("/proc/meminfo").unwrap();
        let line = machine.lines().find(|line| line.starts_with("MemTotal:"));
        let kib = line
            .and_then(|line| line.split_whitespace().nth(1))
            .unwrap();
        let half = kib.parse::<usize>().unwrap() * 1024 / 2;
        let budget = default_page_budget();
        assert!(budget > 0 && budget <= half, "{budget} of {half}");
    }
}
