//! Read-side sections and grace periods: read-copy-update for threads of a process.
//!
//! A reader marks where its *section* begins and ends. A writer that changed something waits for a
//! *grace period*: until every section that was under way has ended. Sections that begin
//! afterwards see the change. So the writer may then do what readers that missed the change would
//! not survive.
//!
//! Each reader has a word of its own, to which it adds one when a section begins and one when it
//! ends: the word is odd within a section, and a word that changed is of another section. This is
//! the scheme of Arbel and Attiya (PODC 2014, §5): writers share no lock and no counter, so many of
//! them wait at once.
//!
//! ```text
//!  reader                          writer
//!   word += 1 (odd)                 change
//!   fence                           fence
//!   read what the writer changes    for each reader: wait while its word is odd and the same
//!   word += 1 (even)
//! ```
//!
//! The two fences decide: either the writer sees the odd word, or the reader sees the change.
//!
//! The writer finds the words in a list, which it reads behind its fence, too. A new reader links
//! its word before the fence of its first section. So if the writer's fence comes first, that
//! section sees the change; if the reader's does, the writer finds the word. A head of the list
//! that was read before the fence could be older than the change: the writer would not wait for the
//! first reader of the process, which does not see the change.
//!
//! A thread that waits must not be in a section, or it waits for itself. A section that is never
//! dropped holds back every grace period from then on.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hedgerow_sync::CachePadded;
use hedgerow_sync::word::Word;

/// The word of one reader.
pub struct ReaderWord<W = AtomicU64>(W);

impl<W: Word> ReaderWord<W> {
    /// Outside of any section.
    pub(crate) fn new() -> Self {
        Self(W::new(0))
    }

    /// Begins a section. Only the reader whose word it is may call it, outside of any section.
    #[inline]
    pub(crate) fn enter(&self) {
        let count = self.0.load(Ordering::Relaxed);
        debug_assert!(count.is_multiple_of(2), "a section within a section");
        self.0.store(count.wrapping_add(1), Ordering::Relaxed);
        W::fence(Ordering::SeqCst);
    }

    /// Whether no section is under way.
    fn is_outside(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Ends the section.
    #[inline]
    pub(crate) fn exit(&self) {
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Waits until the section that is under way, if any, has ended.
    fn wait(&self) {
        let count = self.0.load(Ordering::Acquire);
        let mut rounds = 0;
        while !count.is_multiple_of(2) && self.0.load(Ordering::Acquire) == count {
            W::pause(&mut rounds);
        }
    }
}

/// Waits until every section of these readers that is under way has ended. Changes made before are
/// seen by every section that begins later. `readers` is called behind the fence.
pub(crate) fn wait_for_sections<'a, W: Word + 'a, R: IntoIterator<Item = &'a ReaderWord<W>>>(
    readers: impl FnOnce() -> R,
) {
    W::fence(Ordering::SeqCst);
    readers().into_iter().for_each(ReaderWord::wait);
}

/// Where readers mark their sections, and writers wait for grace periods.
///
/// [`ProcessReaders`] is for every program; model checkers have readers of their own. The crate
/// exports neither: a section that is leaked would block all writers.
pub trait GracePeriods: Default + Send + Sync + 'static {
    /// A section; it ends when it is dropped.
    type Section<'a>;

    /// Begins a section of the calling thread, which is in none.
    fn enter(&self) -> Self::Section<'_>;

    /// Waits until every section that is under way has ended. The calling thread is in none.
    fn wait(&self);
}

/// All threads of the process are readers; each has a word from its first section on.
///
/// Costs a fence for a section. A grace period reads the words of all threads, and takes as
/// long as the longest section that is under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessReaders;

/// The word of a thread, in a list that only grows. A thread that ends leaves its word to the next.
struct ThreadWord {
    word: CachePadded<ReaderWord>,
    is_taken: AtomicBool,
    next: OnceLock<&'static ThreadWord>,
}

static FIRST: OnceLock<&'static ThreadWord> = OnceLock::new();

/// The words of all threads that had a section until now.
fn all_words() -> impl Iterator<Item = &'static ThreadWord> {
    std::iter::successors(FIRST.get().copied(), |word| word.next.get().copied())
}

/// Takes a word that no thread has, or makes one.
fn take_word() -> &'static ThreadWord {
    let mut link = &FIRST;
    loop {
        let word = link.get_or_init(|| {
            Box::leak(Box::new(ThreadWord {
                word: CachePadded::new(ReaderWord::new()),
                is_taken: AtomicBool::new(false),
                next: OnceLock::new(),
            }))
        });
        if !word.is_taken.swap(true, Ordering::Acquire) {
            return word;
        }
        link = &word.next;
    }
}

/// A thread's own word.
struct Taken(&'static ThreadWord);

impl Drop for Taken {
    fn drop(&mut self) {
        // A word within a section, which a destructor of the ending thread still has or which was
        // leaked, is nobody else's: the next section would end it, and be none.
        if self.0.word.is_outside() {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

thread_local! {
    static MINE: Taken = Taken(take_word());
}

/// A section of a thread, which ends it: a word has one thread.
pub struct ThreadSection {
    word: &'static ThreadWord,
    stays: PhantomData<*const ()>,
    /// Taken for this section alone, by a thread that is about to end.
    _taken: Option<Taken>,
}

impl Drop for ThreadSection {
    #[inline]
    fn drop(&mut self) {
        // Before the word itself is given back.
        self.word.word.exit();
    }
}

impl GracePeriods for ProcessReaders {
    type Section<'a> = ThreadSection;

    #[inline]
    fn enter(&self) -> ThreadSection {
        let (word, taken) = match MINE.try_with(|mine| mine.0) {
            Ok(word) => (word, None),
            Err(_) => {
                let word = take_word();
                (word, Some(Taken(word)))
            }
        };
        word.word.enter();
        ThreadSection {
            word,
            stays: PhantomData,
            _taken: taken,
        }
    }

    fn wait(&self) {
        wait_for_sections(|| all_words().map(|word| &*word.word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_ends_after_the_sections_that_were_under_way() {
        let section = ProcessReaders.enter();
        let waiter = std::thread::spawn(|| ProcessReaders.wait());
        let other = std::thread::spawn(|| drop(ProcessReaders.enter()));
        other.join().expect("sections of other threads come and go");
        assert!(!waiter.is_finished(), "a section is under way");
        drop(section);
        waiter.join().expect("it ends");
    }

    #[test]
    fn the_first_reader_of_a_process_is_waited_for() {
        // Alone in its process, and under Miri with many seeds, it shows a writer that reads the
        // list's head before its fence.
        static IS_REPLACED: AtomicBool = AtomicBool::new(false);
        static IS_GONE: AtomicBool = AtomicBool::new(false);
        let reader = std::thread::spawn(|| {
            let _section = ProcessReaders.enter();
            if !IS_REPLACED.load(Ordering::Acquire) {
                assert!(!IS_GONE.load(Ordering::Acquire), "read what is gone");
            }
        });
        IS_REPLACED.store(true, Ordering::Release);
        ProcessReaders.wait();
        IS_GONE.store(true, Ordering::Release);
        reader.join().expect("the reader ended well");
    }

    #[test]
    fn a_thread_that_ends_within_a_section_leaves_its_word_to_nobody() {
        let leaves = std::thread::spawn(|| {
            let section = ProcessReaders.enter();
            let word = section.word;
            std::mem::forget(section);
            word
        });
        let word = leaves.join().expect("it ends");
        let is_taken = word.is_taken.load(Ordering::Relaxed);
        // Other tests wait for it.
        word.word.exit();
        assert!(is_taken, "the next thread would have an odd word");
    }

    #[test]
    fn threads_that_end_leave_their_words_to_others() {
        let count = || all_words().count();
        drop(ProcessReaders.enter());
        let before = count();
        for _ in 0..100 {
            let reader = std::thread::spawn(|| drop(ProcessReaders.enter()));
            reader.join().expect("it ends");
        }
        // Other tests of this process have threads of their own meanwhile.
        assert!(count() < before + 100, "{} words", count());
    }
}

#[cfg(test)]
mod interleavings {
    use std::sync::Arc;

    use hedgerow_modelled::Modelled;
    use shuttle::thread;

    use super::*;

    /// A writer replaces what readers read, waits, and withdraws the old one.
    fn replacement(wait: fn(&ReaderWord<Modelled>)) {
        let [current, first_is_gone] = [0, 0].map(|value| Arc::new(Modelled::new(value)));
        let word: Arc<ReaderWord<Modelled>> = Arc::new(ReaderWord::new());
        let reader = {
            let (current, gone) = (Arc::clone(&current), Arc::clone(&first_is_gone));
            let word = Arc::clone(&word);
            thread::spawn(move || {
                for _ in 0..2 {
                    word.enter();
                    if current.load(Ordering::Acquire) == 0 {
                        assert_eq!(gone.load(Ordering::Acquire), 0, "read what is gone");
                    }
                    word.exit();
                }
            })
        };
        current.store(1, Ordering::Release);
        wait(&word);
        first_is_gone.store(1, Ordering::Release);
        reader.join().expect("the reader ended well");
    }

    #[test]
    fn no_section_outlives_the_grace_period_that_it_is_in() {
        let wait = |word: &ReaderWord<_>| wait_for_sections(|| [word]);
        shuttle::check_random(move || replacement(wait), 2_000);
        shuttle::check_pct(move || replacement(wait), 2_000, 3);
    }

    #[test]
    #[should_panic(expected = "read what is gone")]
    fn a_writer_that_does_not_wait_is_noticed() {
        shuttle::check_random(|| replacement(|_| ()), 2_000);
    }
}
