//! Changing one key, under the latch of its page.

use hedgerow_simd::Kernel;
use hedgerow_sync::epoch::Guard;

use super::{Event, Events, Gone, Latched, Tree};
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::width::SharedLane;

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

impl<C: Capacity, L: SharedLane> Tree<C, L> {
    /// Runs `change` on the word of `key`, once, while no other thread can change it.
    #[inline(always)]
    pub(crate) fn modify<N: Kernel, R>(
        &self,
        key: L,
        events: &Events,
        guard: &Guard,
        mut change: impl FnMut(Option<u64>) -> Change<R>,
    ) -> Result<R, Gone> {
        loop {
            let arrival = self.arrive::<N>(key, events, &mut ())?;
            let page = arrival.page;
            let latched = if planted(PlantedBug::LatchNotValidated) {
                Some(Latched::linked(&page.version))
            } else {
                Latched::unchanged(&page.version, arrival.version)
            };
            let Some(latched) = latched else {
                events.count(Event::Retry as usize);
                continue;
            };
            let place = page.find::<N>(key);
            if !place.found && !page.has_room(&place) {
                drop(latched);
                self.make_room::<N>(key, events, guard)?;
                continue;
            }
            let present = place.found.then(|| page.word(&place));
            match change(present) {
                Change::Keep(result) => return Ok(result),
                Change::Put(word, result) => {
                    if place.found {
                        page.set_word(&place, word);
                    } else {
                        page.insert(&place, key, word);
                    }
                    return Ok(result);
                }
                Change::Remove(result) => {
                    if place.found {
                        page.remove(&place);
                        let low = page.keys() < Self::FEW_KEYS;
                        drop(latched);
                        if low && arrival.above.inner.is_some() {
                            self.shrink::<N>(key, events, guard);
                        }
                    }
                    return Ok(result);
                }
            }
        }
    }
}
