//! How much memory the tables of recent writes may take.

use hedgerow_lab_contender::StoreSettings;

/// The tables of recent writes that a log-structured engine keeps beside its cache: its default of
/// 64 MiB would hold all of a small data set, whatever the cache, so a small cache bounds it.
pub(super) fn recent_writes_bytes(settings: &StoreSettings) -> u64 {
    (settings.cache_bytes / 4).clamp(1 << 20, 64 << 20)
}
