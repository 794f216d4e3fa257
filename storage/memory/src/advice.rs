//! What the kernel is advised to back memory with.

/// Superpages, unless `HEDGEROW_SUPERPAGES=off` asks to do without them: for measuring what they
/// bring. Read once.
pub(crate) fn page_advice() -> libc::c_int {
    static ADVICE: std::sync::OnceLock<libc::c_int> = std::sync::OnceLock::new();
    *ADVICE.get_or_init(|| match std::env::var_os("HEDGEROW_SUPERPAGES") {
        Some(value) if value == "off" => libc::MADV_NOHUGEPAGE,
        _ => libc::MADV_HUGEPAGE,
    })
}
