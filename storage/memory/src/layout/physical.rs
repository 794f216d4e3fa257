//! Physical addresses of this process's memory, where the kernel shows them.

/// Translates a virtual address into a physical one; `None` for what is not in memory.
pub type Translate = Box<dyn Fn(usize) -> Option<usize>>;

/// The translation of this process's addresses.
///
/// # Errors
///
/// Why there is none, and what to do.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn translation() -> Result<Translate, String> {
    Err("this system does not show physical addresses".to_owned())
}

/// Where Linux shows the frames of a process's pages: eight bytes for each page.
#[cfg(all(target_os = "linux", not(miri)))]
const PAGEMAP: &str = "/proc/self/pagemap";

/// The translation of this process's addresses.
///
/// # Errors
///
/// Why there is none, and what to do.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn translation() -> Result<Translate, String> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(PAGEMAP).map_err(|error| format!("{PAGEMAP}: {error}"))?;
    // SAFETY: a call without pointers.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let translate = move |address: usize| {
        let mut entry = [0; 8];
        let at = (address / page_bytes * 8) as u64;
        file.read_exact_at(&mut entry, at).ok()?;
        physical(u64::from_ne_bytes(entry), address, page_bytes)
    };
    // The kernel shows zeros for frames to who may not see them: this page is in memory.
    let seen = Box::new(1_u64);
    match translate(std::ptr::from_ref(&*seen) as usize) {
        Some(_) => Ok(Box::new(translate)),
        None => Err(format!(
            "{PAGEMAP} shows no frames to this process; it does to root (CAP_SYS_ADMIN)"
        )),
    }
}

/// The physical address that an entry gives an address; `None` if the page is not in memory or its
/// frame not shown.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
fn physical(entry: u64, address: usize, page_bytes: usize) -> Option<usize> {
    const FRAME: u64 = (1 << 55) - 1;
    const PRESENT: u64 = 1 << 63;
    let frame = (entry & FRAME) as usize;
    let shown = entry & PRESENT != 0 && frame != 0;
    shown.then(|| frame * page_bytes + address % page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_a_frame_if_the_page_is_present_and_the_frame_shown() {
        let entry = (1 << 63) | (1 << 61) | 0x1234;
        assert_eq!(physical(entry, 0x7fff_5042, 4096), Some(0x0123_4042));
        assert_eq!(physical(entry & !(1 << 63), 0x7fff_5042, 4096), None);
        assert_eq!(physical(1 << 63, 0x7fff_5042, 4096), None);
    }

    #[test]
    fn a_translation_keeps_offsets_or_says_why_there_is_none() {
        match translation() {
            Ok(translate) => {
                let page = vec![1_u8; 3 * 4096];
                let address = page.as_ptr() as usize + 4096;
                // A page may have been swapped out meanwhile.
                if let Some(physical) = translate(address) {
                    assert_eq!(physical % 4096, address % 4096);
                }
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
