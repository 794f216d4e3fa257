//! What of a program's own code stays in memory.

/// Has the kernel forget which of the program's code is in memory: what runs again comes back from
/// the page cache, at one fault of about a microsecond for each 64 KiB. For programs, not for
/// libraries, once they have started: reading arguments and settings, opening files and starting
/// threads touches megabytes of code that a server never runs again, and that the system counts as
/// the process's resident memory. Elsewhere than on Linux it does nothing.
///
/// What a debugger or a tracer wrote into the code before, breakpoints and probes, is gone as well.
pub fn drop_startup_code_pages() {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let Ok(program) = std::env::current_exe() else {
            return;
        };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let program = program.to_string_lossy();
        for (start, bytes) in maps.lines().filter_map(|line| code_of(line, &program)) {
            // SAFETY: the mapping is private, of a file, and cannot be written. A program of Rust
            // is position-independent without relocations in its code, so nobody but a debugger
            // has written there: what the kernel reads again is what was there.
            unsafe {
                libc::madvise(
                    std::ptr::with_exposed_provenance_mut(start),
                    bytes,
                    libc::MADV_DONTNEED,
                );
            }
        }
    }
}

/// Where a line of `/proc/self/maps` says that code of a program is: its address and how long it
/// is.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    // Address range, permissions, offset, device, inode, path.
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions) = (fields.next()?, fields.next()?);
    let path_at = line.find('/')?;
    if permissions != "r-xp" || &line[path_at..] != program {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_only_runs() {
        let line = |permissions| {
            format!("55a1c000-55a2d000 {permissions} 001b2000 fe:00 9995108      /opt/a b/hedgerow")
        };
        let program = "/opt/a b/hedgerow";
        let found = |line: &str| code_of(line, program);
        assert_eq!(found(&line("r-xp")), Some((0x55a1_c000, 0x1_1000)));
        for other in ["r--p", "rw-p", "rwxp", "r-xs"] {
            assert_eq!(found(&line(other)), None);
        }
        assert_eq!(
            found("7f00-7f01 r-xp 0 fe:00 12   /usr/lib/libc.so.6"),
            None
        );
        assert_eq!(found("7f00-7f01 rw-p 0 00:00 0"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_program_runs_on_without_its_code() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let program = std::env::current_exe().unwrap();
        let program = program.to_string_lossy();
        let is_found = maps.lines().any(|line| code_of(line, &program).is_some());
        drop_startup_code_pages();
        // Runs, and finds its code where it was.
        let later = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_found_later = later.lines().any(|line| code_of(line, &program).is_some());
        assert_eq!(is_found, is_found_later);
    }
}
