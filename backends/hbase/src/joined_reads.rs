//! Reads of single rows that come at the same time, sent as one call.
//!
//! A gateway spends about as much on a call for sixty rows as on a few calls for one. So while
//! calls are under way, further readers queue up; whoever gets an answer hands the queue to its
//! first reader, who asks for all of it in one call:
//!
//! ```text
//! reader 1 ──► call for one row ───────► answer ──┐ hands the queue on
//! reader 2 ─┐                                     ▼
//! reader 3 ─┼─► queue ──► reader 2 asks for three rows in one call ──► three answers
//! reader 4 ─┘
//! ```
//!
//! Nobody waits for readers that may yet come: a reader that finds few calls under way asks at
//! once. Such a call is made once, and given up soon. If it fails, each of its readers asks for its
//! own row, and others need not wait for that, so that a region that is away holds up readers of
//! others only until the call is given up. A reader whose time in the queue is over leaves it, and
//! asks for its own row, too.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Readers of one kind of rows `T`.
pub(crate) struct JoinedReads<T> {
    queue: Mutex<Queue<T>>,
    /// Calls under way that make further readers wait in the queue.
    calls: usize,
    /// Rows that one call asks for at most.
    rows: usize,
}

struct Queue<T> {
    under_way: usize,
    waiting: VecDeque<Reader<T>>,
}

/// A reader in the queue.
struct Reader<T> {
    key: Vec<u8>,
    answer: Arc<Slot<T>>,
}

/// What a reader in the queue gets.
enum Answer<T> {
    Row(T),
    /// It makes the next call. The call counts as under way.
    Lead,
    /// The call failed.
    AskAlone,
}

/// Where a reader gets its answer.
struct Slot<T> {
    state: Mutex<SlotState<T>>,
    answered: Condvar,
}

enum SlotState<T> {
    Waits,
    Answered(Answer<T>),
    /// The reader's time was over: nobody takes an answer any more.
    Abandoned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Slot<T> {
    /// Whether the reader takes the answer: what it does not take is for the next one.
    fn give(&self, answer: Answer<T>) -> bool {
        let mut state = lock(&self.state);
        if matches!(*state, SlotState::Abandoned) {
            return false;
        }
        *state = SlotState::Answered(answer);
        self.answered.notify_one();
        true
    }

    /// The answer; `None` if there was none before the deadline, and from then on.
    fn wait(&self, deadline: Instant) -> Option<Answer<T>> {
        let mut state = lock(&self.state);
        loop {
            // What is taken here is given once, so the slot can be left as abandoned.
            match std::mem::replace(&mut *state, SlotState::Abandoned) {
                SlotState::Answered(answer) => return Some(answer),
                SlotState::Waits => *state = SlotState::Waits,
                SlotState::Abandoned => return None,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *state = SlotState::Abandoned;
                return None;
            }
            let woken = self.answered.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<T> JoinedReads<T> {
    /// Of readers who have so many calls under way, each for at most so many rows.
    pub(crate) fn new(calls: usize, rows: usize) -> JoinedReads<T> {
        JoinedReads {
            queue: Mutex::new(Queue {
                under_way: 0,
                waiting: VecDeque::new(),
            }),
            calls,
            rows,
        }
    }

    /// Reads a row, together with those of others that are read at the same time, by `several`,
    /// which gives as many rows as it gets keys, in their order, or none if its call fails. Then,
    /// and where it has waited for others until the deadline, by `one`, which others do not wait
    /// for.
    pub(crate) fn read<E>(
        &self,
        key: &[u8],
        deadline: Instant,
        one: impl FnOnce() -> Result<T, E>,
        several: impl FnOnce(&[&[u8]]) -> Option<Vec<T>>,
    ) -> Result<T, E> {
        let mut call = match self.enter(key, deadline) {
            Entered::Leads(call) => call,
            Entered::Answered(row) => return Ok(row),
            Entered::AsksAlone => return one(),
        };
        let keys = call.others.iter().map(|reader| reader.key.as_slice());
        let keys: Vec<&[u8]> = std::iter::once(key).chain(keys).collect();
        let rows = several(&keys);
        let mut rows = rows.into_iter().flatten();
        let own = rows.next();
        for row in rows {
            match call.others.pop_front() {
                // One that has left has its row by itself.
                Some(reader) => {
                    reader.answer.give(Answer::Row(row));
                }
                None => break,
            }
        }
        // Who has no row asks alone.
        drop(call);
        own.map_or_else(one, Ok)
    }

    /// Makes the next call, or queues up until the deadline.
    fn enter(&self, key: &[u8], deadline: Instant) -> Entered<'_, T> {
        let slot = {
            let mut queue = lock(&self.queue);
            if queue.under_way < self.calls {
                queue.under_way += 1;
                return Entered::Leads(self.call(&mut queue));
            }
            let slot = Arc::new(Slot {
                state: Mutex::new(SlotState::Waits),
                answered: Condvar::new(),
            });
            queue.waiting.push_back(Reader {
                key: key.to_vec(),
                answer: Arc::clone(&slot),
            });
            slot
        };
        match slot.wait(deadline) {
            Some(Answer::Row(row)) => Entered::Answered(row),
            Some(Answer::AskAlone) => Entered::AsksAlone,
            Some(Answer::Lead) => Entered::Leads(self.call(&mut lock(&self.queue))),
            None => {
                let mut queue = lock(&self.queue);
                queue
                    .waiting
                    .retain(|reader| !Arc::ptr_eq(&reader.answer, &slot));
                Entered::AsksAlone
            }
        }
    }

    /// The call of a reader that leads, with those that wait.
    fn call(&self, queue: &mut Queue<T>) -> Call<'_, T> {
        let others = queue.waiting.len().min(self.rows - 1);
        Call {
            reads: self,
            others: queue.waiting.drain(..others).collect(),
        }
    }
}

/// How a read goes on.
enum Entered<'r, T> {
    Leads(Call<'r, T>),
    Answered(T),
    AsksAlone,
}

/// A call under way. At its end, or at a panic, those without an answer ask alone, and the first in
/// the queue makes the next call.
struct Call<'r, T> {
    reads: &'r JoinedReads<T>,
    others: VecDeque<Reader<T>>,
}

impl<T> Drop for Call<'_, T> {
    fn drop(&mut self) {
        for reader in self.others.drain(..) {
            reader.answer.give(Answer::AskAlone);
        }
        let mut queue = lock(&self.reads.queue);
        while let Some(next) = queue.waiting.pop_front() {
            if next.answer.give(Answer::Lead) {
                return;
            }
        }
        queue.under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const CALLS: usize = 2;

    /// More time than anything here takes on a busy machine.
    fn late() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    /// Waits until so many readers are in the queue.
    fn await_queue(reads: &JoinedReads<Vec<u8>>, readers: usize) {
        while lock(&reads.queue).waiting.len() < readers {
            std::thread::yield_now();
        }
    }

    /// Begins as many calls as there may be under way, which fail once what is returned is dropped.
    fn occupy<'scope>(
        reads: &'scope JoinedReads<Vec<u8>>,
        scope: &'scope std::thread::Scope<'scope, '_>,
    ) -> Vec<mpsc::Sender<()>> {
        let occupied = (0..CALLS).map(|_| {
            let (begun, begins) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            scope.spawn(move || {
                let several = |_: &[&[u8]]| {
                    begun.send(()).unwrap();
                    ended.recv().ok().map(|()| Vec::new())
                };
                assert_eq!(reads.read(b"first", late(), || Err(()), several), Err(()));
            });
            begins.recv().unwrap();
            end
        });
        occupied.collect()
    }

    /// Has as many calls under way as there may be, then lets `readers` read at once: what each
    /// got, how many rows each call asked for, and how many readers asked alone. `fails` says
    /// whether calls fail.
    fn read_at_once(readers: usize, most: usize, fails: bool) -> (Vec<Vec<u8>>, Vec<usize>, usize) {
        let reads = JoinedReads::new(CALLS, most);
        let (sizes, alone) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let got = std::thread::scope(|scope| {
            let ends = occupy(&reads, scope);
            let (reads, sizes, alone) = (&reads, &sizes, &alone);
            let reader = |nth: usize| {
                scope.spawn(move || {
                    let key = nth.to_string().into_bytes();
                    let one = || {
                        alone.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, ()>(key.clone())
                    };
                    let several = |keys: &[&[u8]]| {
                        lock(sizes).push(keys.len());
                        (!fails).then(|| keys.iter().map(|key| key.to_vec()).collect())
                    };
                    reads.read(&key, late(), one, several)
                })
            };
            let begin = |nth| {
                let reader = reader(nth);
                await_queue(reads, nth + 1);
                reader
            };
            let readers: Vec<_> = (0..readers).map(begin).collect();
            drop(ends);
            let got = readers.into_iter().map(|reader| reader.join().unwrap());
            got.collect::<Result<Vec<_>, ()>>().unwrap()
        });
        assert_eq!(lock(&reads.queue).under_way, 0);
        (got, sizes.into_inner().unwrap(), alone.into_inner())
    }

    fn numbers(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|nth| nth.to_string().into_bytes()).collect()
    }

    #[test]
    fn readers_that_wait_share_calls_and_each_gets_its_own_row() {
        let (got, mut sizes, alone) = read_at_once(10, 4, false);
        assert_eq!((got, alone), (numbers(10), 0));
        sizes.sort_unstable();
        assert_eq!(sizes.iter().sum::<usize>(), 10);
        assert_eq!(sizes.last(), Some(&4), "{sizes:?}");
    }

    #[test]
    fn readers_of_a_call_that_fails_ask_alone() {
        let (got, sizes, alone) = read_at_once(10, 4, true);
        assert_eq!((got, alone), (numbers(10), 10));
        assert!(!sizes.is_empty());
    }

    #[test]
    fn readers_that_ask_alone_hold_up_nobody() {
        let reads = JoinedReads::new(CALLS, 4);
        std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for _ in 0..CALLS {
                let (begun, begins) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                let reads = &reads;
                scope.spawn(move || {
                    let one = || {
                        begun.send(()).unwrap();
                        Err::<Vec<u8>, _>(ended.recv())
                    };
                    assert!(reads.read(b"away", late(), one, |_| None).is_err());
                });
                begins.recv().unwrap();
                ends.push(end);
            }
            let several = |keys: &[&[u8]]| Some(vec![b"row".to_vec(); keys.len()]);
            let read = reads.read(b"here", late(), || Err(()), several);
            assert_eq!(read, Ok(b"row".to_vec()));
        });
    }

    /// Nobody answers: only its deadline lets it go on.
    #[test]
    fn a_reader_leaves_the_queue_at_its_deadline_and_asks_alone() {
        let reads = JoinedReads::new(CALLS, 4);
        std::thread::scope(|scope| {
            let ends = occupy(&reads, scope);
            let one = || Ok::<_, ()>(b"own".to_vec());
            let several = |_: &[&[u8]]| panic!("it leads no call");
            let read = reads.read(b"late", Instant::now(), one, several);
            assert_eq!(read, Ok(b"own".to_vec()));
            assert!(lock(&reads.queue).waiting.is_empty());
            drop(ends);
        });
        assert_eq!(lock(&reads.queue).under_way, 0);
    }

    /// One that left just before it was to lead the next call.
    #[test]
    fn a_call_is_led_by_the_first_reader_that_still_waits() {
        let reads = JoinedReads::<Vec<u8>>::new(1, 4);
        let reader = || Reader {
            key: b"k".to_vec(),
            answer: Arc::new(Slot {
                state: Mutex::new(SlotState::Waits),
                answered: Condvar::new(),
            }),
        };
        let (left, waits) = (reader(), reader());
        assert!(left.answer.wait(Instant::now()).is_none());
        let answers = [&left, &waits].map(|reader| Arc::clone(&reader.answer));
        let Entered::Leads(call) = reads.enter(b"first", late()) else {
            panic!("no call was under way");
        };
        lock(&reads.queue).waiting.extend([left, waits]);
        drop(call);
        let given = answers.map(|slot| slot.wait(Instant::now()));
        assert!(matches!(given, [None, Some(Answer::Lead)]));
        assert_eq!(lock(&reads.queue).under_way, 1);
    }

    #[test]
    fn a_reader_that_panics_leaves_nobody_waiting() {
        let reads = JoinedReads::<Vec<u8>>::new(CALLS, 4);
        std::thread::scope(|scope| {
            let ends = occupy(&reads, scope);
            let reads = &reads;
            let begin = |nth: usize| {
                let one = || Ok::<_, ()>(b"own".to_vec());
                let several = |_: &[&[u8]]| panic!("it fails in the middle");
                let reader = scope.spawn(move || reads.read(b"w", late(), one, several));
                await_queue(reads, nth + 1);
                reader
            };
            let waiting: Vec<_> = (0..3).map(begin).collect();
            drop(ends);
            let ended = waiting.into_iter().map(|reader| reader.join());
            let (done, panicked): (Vec<_>, Vec<_>) = ended.partition(Result::is_ok);
            assert!(!panicked.is_empty());
            assert!(
                done.into_iter()
                    .all(|row| row.ok() == Some(Ok(b"own".to_vec())))
            );
        });
        assert_eq!(lock(&reads.queue).under_way, 0);
    }
}
