//! Installing a written block as a page's. In this step threads that write pages meet threads that
//! change them, release them, and bring them back to memory.
//!
//! A thread that has written a copy of a page has no latch on the page. Meanwhile another thread
//! may have changed, written, evicted, reloaded or released the page; then the block is of no use.
//! Three rules tell which:
//!
//! * The pool's mutex guards the entry of a page that is in memory. Only a thread that finds the
//!   page evicted reads the entry without the mutex.
//! * A dirty page is not evicted, and a thread makes it clean only under the mutex.
//! * A thread that releases a page takes the mutex under the page's exclusive latch, and evicts the
//!   page only then.
//!
//! So a page that is dirty as it was copied, and that no thread has latched exclusively, stays in
//! memory while the mutex is held: its entry can be tried out. The entry of any other page must
//! stay as it is.

use hedgerow_sync::word::Word;

use crate::state::StateWord;
use crate::table::{Entry, EntryWord};

/// A block that became a page's.
pub(crate) struct Installed {
    /// The entry before.
    pub(crate) old: Entry,
    /// The parity of the checkpoint epoch that the content belongs to: as it is now, which need not
    /// be as it was when the page was copied.
    pub(crate) epoch: bool,
}

/// Makes `written` the entry of the page that was copied at a version, and the page clean, if it
/// still is what was copied. The caller holds the pool's mutex.
pub(crate) fn install<W: Word>(
    state: &StateWord<W>,
    place: &EntryWord<W>,
    version: u64,
    written: Entry,
) -> Option<Installed> {
    let now = state.snapshot();
    // A changed page would fail below, too. A dirty page without an exclusive latch stays here.
    if now.version() != version || !now.is_dirty() || !now.is_readable() {
        return None;
    }
    let old = place.get();
    // Before the page is clean: from then on somebody may evict it and read it back.
    place.set(written);
    if let Some(cleaned) = state.try_clean(version) {
        let epoch = cleaned.epoch();
        return Some(Installed { old, epoch });
    }
    place.set(old);
    None
}

/// The step under shuttle: shipping words, on shuttle's atomics, through many interleavings. Each
/// promise has twins with a step left out, which must fail.
#[cfg(test)]
mod interleavings {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use hedgerow_modelled::Modelled;
    use shuttle::sync::Mutex;
    use shuttle::sync::atomic::AtomicU64;
    use shuttle::thread;

    use super::*;
    use crate::state::PageState;

    /// The block that a page has at first, and the blocks that its writers use.
    const FIRST: u32 = 1;
    const LATE: u32 = 2;
    const NEXT: u32 = 3;
    const BLOCKS: usize = 4;
    /// What memory is filled with when the page is evicted.
    const NOTHING: u64 = 99;
    /// What another page writes to a block that it takes.
    const OTHERS: u64 = 77;

    /// How a block is installed: as it ships, or with something left out.
    type Install =
        fn(&StateWord<Modelled>, &EntryWord<Modelled>, PageState, Entry) -> Option<Installed>;

    /// As it ships.
    fn install(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        super::install(state, place, seen.version(), written)
    }

    /// Looks at nothing beforehand.
    fn without_a_look(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        let old = place.get();
        place.set(written);
        if let Some(cleaned) = state.try_clean(seen.version()) {
            let epoch = cleaned.epoch();
            return Some(Installed { old, epoch });
        }
        place.set(old);
        None
    }

    /// Believes the epoch that the page had when it was copied.
    fn with_the_copys_epoch(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        let installed = install(state, place, seen, written)?;
        let epoch = seen.epoch();
        Some(Installed { epoch, ..installed })
    }

    /// Does not mind that somebody else was faster.
    fn once_more(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        let now = state.snapshot();
        if now.version() != seen.version() || !now.is_readable() {
            return None;
        }
        without_a_look(state, place, seen, written)
    }

    /// Does not mind that somebody has the page for himself.
    fn beside_a_latch(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        let now = state.snapshot();
        if now.version() != seen.version() || !now.is_dirty() {
            return None;
        }
        without_a_look(state, place, seen, written)
    }

    /// Makes the page clean first.
    fn clean_first(
        state: &StateWord<Modelled>,
        place: &EntryWord<Modelled>,
        seen: PageState,
        written: Entry,
    ) -> Option<Installed> {
        let old = place.get();
        state.try_clean(seen.version()).map(|cleaned| {
            place.set(written);
            let epoch = cleaned.epoch();
            Installed { old, epoch }
        })
    }

    /// The checkpoint that is under way, if there is one.
    #[derive(Default)]
    struct Space {
        /// The parity of the current epoch.
        epoch: bool,
        /// That of the epoch to be collected.
        collecting: Option<bool>,
        /// The page's entry as the checkpoint needs it, where that is not the one in the table.
        kept: Option<Entry>,
    }

    /// A page whose content is one number, its entry, and a file.
    struct World {
        state: StateWord<Modelled>,
        place: EntryWord<Modelled>,
        memory: AtomicU64,
        file: [AtomicU64; BLOCKS],
        space: Mutex<Space>,
        install: Install,
    }

    impl World {
        /// The page is in memory with 1, dirty; the file has 0.
        fn new(install: Install) -> Arc<World> {
            let world = World {
                state: StateWord::new(),
                place: EntryWord::new(Entry::new(FIRST, 0)),
                memory: AtomicU64::new(NOTHING),
                file: std::array::from_fn(|_| AtomicU64::new(0)),
                space: Mutex::default(),
                install,
            };
            world.fault();
            world.change(1);
            Arc::new(world)
        }

        /// Latches the page for itself; it is in memory.
        fn lock(&self) -> PageState {
            loop {
                let seen = self.state.snapshot();
                if seen.is_free() && self.state.try_exclusive(seen) {
                    return self.state.snapshot();
                }
                assert!(!seen.is_evicted());
                thread::yield_now();
            }
        }

        fn unlock(&self) {
            assert!(!self.state.unlock_exclusive(true));
        }

        fn change(&self, content: u64) {
            self.lock();
            self.state.set_dirty(false);
            self.memory.store(content, Relaxed);
            self.unlock();
        }

        /// Copies the page under a shared latch, if it is in memory.
        fn copy(&self) -> Option<(PageState, u64)> {
            loop {
                let seen = self.state.snapshot();
                if seen.is_evicted() {
                    return None;
                }
                if self.state.try_shared(seen) {
                    let copied = (self.state.snapshot(), self.memory.load(Relaxed));
                    assert!(!self.state.unlock_shared());
                    return Some(copied);
                }
                thread::yield_now();
            }
        }

        /// Writes a copy to a block and makes it the page's. The block that is not, then or any
        /// more, is another page's soon.
        fn write(&self, (seen, content): (PageState, u64), block: u32) {
            self.file[block as usize].store(content, Relaxed);
            let mut space = self.space.lock().unwrap();
            let entry = Entry::new(block, 0);
            let free = match (self.install)(&self.state, &self.place, seen, entry) {
                Some(Installed { old, epoch }) => {
                    if space
                        .collecting
                        .is_some_and(|collecting| collecting != epoch)
                    {
                        space.kept.get_or_insert(old);
                        return;
                    }
                    old
                }
                None => entry,
            };
            self.file[free.block() as usize].store(OTHERS, Relaxed);
        }

        /// Begins a checkpoint of what is dirty now.
        fn begin(&self) {
            let mut space = self.space.lock().unwrap();
            space.collecting = Some(space.epoch);
            space.epoch = !space.epoch;
        }

        /// Gives a checkpoint up: the next one needs what this one was to write.
        fn abandon(&self) {
            let now = {
                let mut space = self.space.lock().unwrap();
                (space.collecting, space.kept) = (None, None);
                space.epoch
            };
            self.state.adopt(now);
        }

        /// Writes the page if the checkpoint under way needs that: the content that it publishes.
        fn collect(&self) -> u64 {
            let collecting = self.space.lock().unwrap().collecting;
            let seen = self.state.snapshot();
            if seen.is_dirty() && Some(seen.epoch()) == collecting {
                let copied = self.copy().expect("a dirty page is in memory");
                self.write(copied, NEXT);
            }
            let kept = self.space.lock().unwrap().kept;
            let entry = kept.unwrap_or_else(|| self.place.get());
            self.file[entry.block() as usize].load(Relaxed)
        }

        /// Evicts the page, if it is clean and nobody has it.
        fn evict(&self) {
            let seen = self.state.snapshot();
            if seen.is_free() && !seen.is_dirty() && self.state.try_exclusive(seen) {
                self.memory.store(NOTHING, Relaxed);
                assert!(!self.state.evict());
            }
        }

        /// Brings the page to memory, or waits until another thread has; false if it is not in use.
        fn fault(&self) -> bool {
            loop {
                let seen = self.state.snapshot();
                if !seen.is_evicted() {
                    if seen.is_readable() {
                        return true;
                    }
                    thread::yield_now();
                    continue;
                }
                if !self.state.try_load(seen) {
                    continue;
                }
                let entry = self.place.get();
                if entry.is_none() {
                    assert!(!self.state.evict());
                    return false;
                }
                let content = self.file[entry.block() as usize].load(Relaxed);
                self.memory.store(content, Relaxed);
                self.unlock();
                return true;
            }
        }

        /// Releases the page, as the thread that has its latch.
        fn release(&self) {
            self.lock();
            {
                let _space = self.space.lock().unwrap();
                self.place.set(Entry::NONE);
            }
            self.memory.store(NOTHING, Relaxed);
            assert!(!self.state.evict());
        }
    }

    /// What a thread does beside one that writes a copy of the page late.
    fn beside_a_late_write(
        install: Install,
        what: impl FnOnce(&World, (PageState, u64)),
    ) -> Arc<World> {
        let world = World::new(install);
        let copied = world.copy().expect("it is in memory");
        let other = {
            let world = world.clone();
            thread::spawn(move || world.write(copied, LATE))
        };
        what(&world, copied);
        other.join().unwrap();
        world
    }

    /// Runs a scene in many orders of its steps.
    fn in_many_orders(scene: impl Fn() + Clone + Send + Sync + 'static) {
        shuttle::check_random(scene.clone(), 5_000);
        shuttle::check_pct(scene, 5_000, 3);
    }

    /// A copy is written late, beside somebody who changes the page, writes it, evicts it, and
    /// brings it back.
    fn late(install: Install) {
        beside_a_late_write(install, |world, _| {
            world.change(2);
            if let Some(copied) = world.copy() {
                world.write(copied, NEXT);
            }
            world.evict();
            assert!(world.fault());
            let content = world.memory.load(Relaxed);
            assert_eq!(content, 2, "an old content came back");
        });
    }

    #[test]
    fn what_is_written_late_never_comes_back() {
        in_many_orders(|| late(install));
    }

    #[test]
    #[should_panic(expected = "an old content came back")]
    fn a_late_block_that_is_tried_out_is_noticed() {
        shuttle::check_pct(|| late(without_a_look), 50_000, 3);
    }

    /// Two write the same, and one of them evicts the page and brings it back.
    fn both(install: Install) {
        beside_a_late_write(install, |world, copied| {
            world.write(copied, NEXT);
            world.evict();
            assert!(world.fault());
            let content = world.memory.load(Relaxed);
            assert_eq!(content, 1, "another page's content came");
        });
    }

    #[test]
    fn of_two_who_write_a_page_one_installs_it() {
        in_many_orders(|| both(install));
    }

    #[test]
    #[should_panic(expected = "another page's content came")]
    fn a_page_that_two_install_is_noticed() {
        shuttle::check_random(|| both(once_more), 50_000);
    }

    /// A copy is written beside a thread that evicts the page as soon as it can.
    fn evicted(install: Install) {
        beside_a_late_write(install, |world, _| {
            world.evict();
            assert!(world.fault());
            assert_eq!(world.memory.load(Relaxed), 1, "an old content came back");
        });
    }

    #[test]
    fn a_page_is_clean_only_when_its_entry_says_where_it_is() {
        in_many_orders(|| evicted(install));
    }

    #[test]
    #[should_panic(expected = "an old content came back")]
    fn a_page_that_is_clean_before_its_entry_is_set_is_noticed() {
        shuttle::check_pct(|| evicted(clean_first), 50_000, 3);
    }

    /// A copy is written beside somebody who gives the page back and then asks for it once more.
    fn given_back(install: Install) {
        let world = beside_a_late_write(install, |world, _| {
            world.release();
            assert!(!world.fault(), "a page came back that is not in use");
        });
        assert!(world.place.get().is_none());
    }

    #[test]
    fn a_page_that_was_given_back_never_comes_back() {
        in_many_orders(|| given_back(install));
    }

    #[test]
    #[should_panic(expected = "a page came back that is not in use")]
    fn a_block_that_is_tried_out_for_a_latched_page_is_noticed() {
        shuttle::check_pct(|| given_back(beside_a_latch), 50_000, 3);
    }

    /// A copy is written beside a checkpoint that is abandoned, and the next one that begins.
    fn abandoned(install: Install) {
        let world = beside_a_late_write(install, |world, _| {
            world.begin();
            world.abandon();
            world.begin();
        });
        assert_eq!(world.collect(), 1, "an old version was published");
    }

    #[test]
    fn a_checkpoint_after_an_abandoned_one_has_what_is_written_late() {
        in_many_orders(|| abandoned(install));
    }

    #[test]
    #[should_panic(expected = "an old version was published")]
    fn a_page_that_is_taken_for_one_of_the_epoch_of_its_copy_is_noticed() {
        shuttle::check_random(|| abandoned(with_the_copys_epoch), 50_000);
    }

    /// Two threads want an evicted page, and change it.
    fn twice(load: fn(&World) -> bool) {
        let world = World::new(install);
        let copied = world.copy().expect("it is in memory");
        world.write(copied, LATE);
        world.evict();
        let add = move |world: &World| {
            assert!(load(world));
            world.lock();
            world.state.set_dirty(false);
            let content = world.memory.load(Relaxed);
            world.memory.store(content + 1, Relaxed);
            world.unlock();
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || add(&world))
        };
        add(&world);
        other.join().unwrap();
        assert_eq!(world.memory.load(Relaxed), 3, "a change was overwritten");
    }

    #[test]
    fn of_two_who_want_a_page_one_brings_it() {
        in_many_orders(|| twice(World::fault));
    }

    #[test]
    #[should_panic(expected = "a change was overwritten")]
    fn a_page_that_two_bring_is_noticed() {
        // Does not mind that another thread latched the page for that.
        let unlatched = |world: &World| {
            let seen = world.state.snapshot();
            if seen.is_evicted() {
                let latched = world.state.try_load(seen);
                let entry = world.place.get();
                let content = world.file[entry.block() as usize].load(Relaxed);
                world.memory.store(content, Relaxed);
                if latched {
                    world.unlock();
                }
            }
            world.fault()
        };
        shuttle::check_pct(move || twice(unlatched), 50_000, 3);
    }
}
