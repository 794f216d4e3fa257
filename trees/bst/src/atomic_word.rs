//! Compare-and-swap of words.

use std::sync::atomic::Ordering;

use hedgerow_sync::word::Word;

/// Replaces `current` by `new`; what the word holds instead if it is not `current`. Never fails
/// spuriously.
#[inline]
pub(crate) fn compare_and_swap<W: Word>(word: &W, current: u64, new: u64) -> Result<(), u64> {
    loop {
        match word.compare_exchange_weak(current, new, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return Ok(()),
            Err(seen) if seen != current => return Err(seen),
            Err(_) => {}
        }
    }
}
