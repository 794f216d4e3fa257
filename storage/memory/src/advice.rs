//! What the kernel is advised to back memory with.

/// The system's setting, of which the word in brackets is in force.
const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Superpages, unless the system's setting is `never`, or `HEDGEROW_SUPERPAGES=off` asks to do
/// without them: for measuring what they bring. Read once.
pub(crate) fn page_advice() -> libc::c_int {
    static ADVICE: std::sync::OnceLock<libc::c_int> = std::sync::OnceLock::new();
    *ADVICE.get_or_init(|| {
        let is_off = std::env::var_os("HEDGEROW_SUPERPAGES").is_some_and(|value| value == "off");
        let setting = || std::fs::read_to_string(SETTING).unwrap_or_default();
        if is_off || setting().contains("[never]") {
            libc::MADV_NOHUGEPAGE
        } else {
            libc::MADV_HUGEPAGE
        }
    })
}
