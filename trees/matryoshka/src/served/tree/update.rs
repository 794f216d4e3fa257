//! Changing one key, under the latch of its page.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::{Event, Events, Latched, LayerRemoved, Tree};
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::node_key::SharedNodeKey;

/// What a change wants done with its key. `R` goes back to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<R> {
    /// Leave the key as it is.
    Keep(R),
    /// Store this word.
    Put(u64, R),
    /// Remove the key, if it is there.
    Remove(R),
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// Runs `change` on the word of `key`, once, while no other thread can change it.
    #[inline(always)]
    pub(crate) fn modify<N: Kernel, R>(
        &self,
        key: L,
        events: &Events,
        guard: &Guard,
        mut change: impl FnMut(Option<u64>) -> Change<R>,
    ) -> Result<R, LayerRemoved> {
        loop {
            let reference = self.find_page::<N>(key, events, &mut ())?;
            let page = reference.page;
            let latched = if planted(PlantedBug::LatchNotValidated) {
                Some(Latched::linked(&page.version))
            } else {
                Latched::unchanged(&page.version, reference.version)
            };
            let Some(latched) = latched else {
                events.count(Event::Retry as usize);
                continue;
            };
            let position = page.find::<N>(key);
            if !position.found && !page.has_room(&position) {
                drop(latched);
                self.make_room::<N>(key, events, guard)?;
                continue;
            }
            let present = position.found.then(|| page.word(&position));
            match change(present) {
                Change::Keep(result) => return Ok(result),
                Change::Put(word, result) => {
                    if position.found {
                        page.set_word(&position, word);
                    } else {
                        page.insert(&position, key, word);
                    }
                    return Ok(result);
                }
                Change::Remove(result) => {
                    if position.found {
                        page.remove(&position);
                        let low = page.keys() < Self::UNDERFULL_KEYS;
                        drop(latched);
                        if low && reference.above.inner.is_some() {
                            self.shrink::<N>(key, events, guard);
                        }
                    }
                    return Ok(result);
                }
            }
        }
    }
}
