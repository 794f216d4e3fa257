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
//! once. A call for several rows is made once. If it fails, each of its readers asks for its own
//! row, so that a region that is away fails no reader of another one.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Calls under way that make further readers wait in the queue.
const CALLS_UNDER_WAY: usize = 2;

/// Readers of one kind of rows `T`.
pub(crate) struct JoinedReads<T> {
    queue: Mutex<Queue<T>>,
    /// Rows that one call asks for.
    most: usize,
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
    answer: Mutex<Option<Answer<T>>>,
    answered: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Slot<T> {
    fn give(&self, answer: Answer<T>) {
        *lock(&self.answer) = Some(answer);
        self.answered.notify_one();
    }

    fn wait(&self) -> Answer<T> {
        let mut answer = lock(&self.answer);
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            let woken = self.answered.wait(answer);
            answer = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> JoinedReads<T> {
    /// Of readers whose calls ask for at most so many rows.
    pub(crate) fn new(most: usize) -> JoinedReads<T> {
        JoinedReads {
            queue: Mutex::new(Queue {
                under_way: 0,
                waiting: VecDeque::new(),
            }),
            most,
        }
    }

    /// Reads a row: alone by `one`, or together with the rows of others by `several`, which gives
    /// as many rows as it gets keys, in their order, or none if its call fails.
    pub(crate) fn read<E>(
        &self,
        key: &[u8],
        one: impl FnOnce() -> Result<T, E>,
        several: impl FnOnce(&[&[u8]]) -> Option<Vec<T>>,
    ) -> Result<T, E> {
        let mut call = match self.enter(key) {
            Entered::Leads(call) => call,
            Entered::Answered(row) => return Ok(row),
            Entered::AsksAlone => return one(),
        };
        if call.others.is_empty() {
            return one();
        }
        let keys = call.others.iter().map(|reader| reader.key.as_slice());
        let keys: Vec<&[u8]> = std::iter::once(key).chain(keys).collect();
        let rows = several(&keys);
        let Some(mut rows) = rows.map(Vec::into_iter) else {
            drop(call);
            return one();
        };
        let own = rows.next();
        for (reader, row) in call.others.drain(..).zip(rows) {
            reader.answer.give(Answer::Row(row));
        }
        drop(call);
        own.map_or_else(one, Ok)
    }

    /// Makes the next call, or queues up.
    fn enter(&self, key: &[u8]) -> Entered<'_, T> {
        let slot = {
            let mut queue = lock(&self.queue);
            if queue.under_way < CALLS_UNDER_WAY {
                queue.under_way += 1;
                return Entered::Leads(self.call(&mut queue));
            }
            let slot = Arc::new(Slot {
                answer: Mutex::new(None),
                answered: Condvar::new(),
            });
            queue.waiting.push_back(Reader {
                key: key.to_vec(),
                answer: Arc::clone(&slot),
            });
            slot
        };
        match slot.wait() {
            Answer::Row(row) => Entered::Answered(row),
            Answer::AskAlone => Entered::AsksAlone,
            Answer::Lead => Entered::Leads(self.call(&mut lock(&self.queue))),
        }
    }

    /// The call of a reader that leads, with those that wait.
    fn call(&self, queue: &mut Queue<T>) -> Call<'_, T> {
        let others = queue.waiting.len().min(self.most - 1);
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
    others: Vec<Reader<T>>,
}

impl<T> Drop for Call<'_, T> {
    fn drop(&mut self) {
        for reader in self.others.drain(..) {
            reader.answer.give(Answer::AskAlone);
        }
        let mut queue = lock(&self.reads.queue);
        match queue.waiting.pop_front() {
            Some(next) => next.answer.give(Answer::Lead),
            None => queue.under_way -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Waits until so many readers are in the queue.
    fn await_queue(reads: &JoinedReads<Vec<u8>>, readers: usize) {
        while lock(&reads.queue).waiting.len() < readers {
            std::thread::yield_now();
        }
    }

    /// Has as many calls under way as there may be, then lets `readers` read at once: what each
    /// got, and how many rows each call for several asked for. `fails` says whether those fail.
    fn read_at_once(readers: usize, most: usize, fails: bool) -> (Vec<Vec<u8>>, Vec<usize>, usize) {
        let reads = JoinedReads::new(most);
        let (sizes, alone) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let got = std::thread::scope(|scope| {
            let (mut ends, mut under_way) = (Vec::new(), Vec::new());
            for _ in 0..CALLS_UNDER_WAY {
                let (begun, begins) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                let reads = &reads;
                under_way.push(scope.spawn(move || {
                    let one = || {
                        begun.send(()).unwrap();
                        Err::<Vec<u8>, _>(ended.recv())
                    };
                    reads.read(b"first", one, |_| panic!("nobody waits yet"))
                }));
                begins.recv().unwrap();
                ends.push(end);
            }
            let (reads, sizes, alone) = (&reads, &sizes, &alone);
            let several = |keys: &[&[u8]]| {
                lock(sizes).push(keys.len());
                (!fails).then(|| keys.iter().map(|key| key.to_vec()).collect())
            };
            let reader = |nth: usize| {
                scope.spawn(move || {
                    let key = nth.to_string().into_bytes();
                    let one = || {
                        alone.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, ()>(key.clone())
                    };
                    reads.read(&key, one, several)
                })
            };
            let readers: Vec<_> = (0..readers)
                .map(|nth| {
                    let reader = reader(nth);
                    await_queue(reads, nth + 1);
                    reader
                })
                .collect();
            drop(ends);
            let got = readers.into_iter().map(|reader| reader.join().unwrap());
            got.collect::<Result<Vec<_>, ()>>().unwrap()
        });
        assert_eq!(lock(&reads.queue).under_way, 0);
        let sizes = sizes.into_inner().unwrap();
        (got, sizes, alone.into_inner())
    }

    fn numbers(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|nth| nth.to_string().into_bytes()).collect()
    }

    #[test]
    fn readers_that_wait_share_calls_and_each_gets_its_own_row() {
        let (got, mut sizes, alone) = read_at_once(10, 4, false);
        assert_eq!(got, numbers(10));
        sizes.sort_unstable();
        assert!(sizes.iter().all(|&size| size <= 4), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>() + alone, 10);
        assert!(sizes.contains(&4), "{sizes:?}");
    }

    #[test]
    fn readers_of_a_call_that_fails_ask_alone() {
        let (got, sizes, alone) = read_at_once(10, 4, true);
        assert_eq!((got, alone), (numbers(10), 10));
        assert!(!sizes.is_empty());
    }

    #[test]
    fn a_reader_that_panics_leaves_nobody_waiting() {
        let reads = JoinedReads::<Vec<u8>>::new(4);
        std::thread::scope(|scope| {
            let (begun, begins) = mpsc::channel();
            let mut ends = Vec::new();
            let mut leaders = Vec::new();
            for _ in 0..CALLS_UNDER_WAY {
                let (begun, reads) = (begun.clone(), &reads);
                let (end, ended) = mpsc::channel::<()>();
                ends.push(end);
                leaders.push(scope.spawn(move || {
                    let one = || -> Result<_, ()> {
                        begun.send(()).unwrap();
                        panic!("at the end: {:?}", ended.recv());
                    };
                    reads.read(b"k", one, |_| None)
                }));
                begins.recv().unwrap();
            }
            let waiting: Vec<_> = (0..3)
                .map(|nth| {
                    let reads = &reads;
                    let one = || Ok::<_, ()>(b"own".to_vec());
                    let several = |_: &[&[u8]]| panic!("it fails in the middle");
                    let reader = scope.spawn(move || reads.read(b"w", one, several));
                    await_queue(reads, nth + 1);
                    reader
                })
                .collect();
            drop(ends);
            assert!(leaders.into_iter().all(|leader| leader.join().is_err()));
            let panicked = waiting.into_iter().map(|reader| match reader.join() {
                Ok(row) => u32::from(row != Ok(b"own".to_vec())),
                Err(_) => 1,
            });
            assert!(panicked.sum::<u32>() >= 1);
        });
        assert_eq!(lock(&reads.queue).under_way, 0);
    }
}
