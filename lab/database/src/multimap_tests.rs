//! Both multimaps beside a model, and under threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hedgerow_lab_data::random::Random;
use hedgerow_matryoshka::SharedMatryoshka;
use hedgerow_memory::Placement;

use crate::bwtree_multimap::NewestFirst;
use crate::locked_lists::LockedLists;
use crate::multimap::Multimap;

/// Each multimap, empty.
fn multimaps() -> [(&'static str, Box<dyn Multimap>); 2] {
    let map = Box::new(SharedMatryoshka::<u64>::new());
    let lists = <LockedLists>::new(map, 16, Placement::Merged);
    let pairs = NewestFirst::with_placement(Placement::Merged);
    [("lists", Box::new(lists)), ("bwtree", Box::new(pairs))]
}

fn values(multimap: &dyn Multimap, key: u64) -> Vec<u64> {
    let mut values = Vec::new();
    multimap.visit(key, &mut |value| {
        values.push(value);
        ControlFlow::Continue(())
    });
    values
}

/// `distinct` values, which a key may have several times if they are few.
fn agrees_with_a_model(multimap: &dyn Multimap, distinct: u64) {
    let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let key = random.below(40);
        let of_key = model.entry(key).or_default();
        if random.below(2) == 0 {
            let value = random.below(distinct);
            multimap.insert(key, value);
            of_key.insert(0, value);
        } else {
            let nth = random.below(4) as usize;
            let wanted = of_key.get(nth).copied().unwrap_or(u64::MAX);
            assert_eq!(multimap.remove(key, wanted), nth < of_key.len());
            // The newest of equal ones.
            let first = of_key.iter().position(|value| *value == wanted);
            first.map(|first| of_key.remove(first));
        }
        assert_eq!(&values(multimap, key), of_key);
        assert_eq!(multimap.newest(key), of_key.first().copied());
    }
    assert_eq!(multimap.len(), model.values().map(Vec::len).sum::<usize>());
    multimap.verify().expect("intact");
    for (key, values) in model {
        values
            .iter()
            .for_each(|v| assert!(multimap.remove(key, *v)));
    }
    assert!(multimap.is_empty());
    multimap.verify().expect("intact");
}

#[test]
fn it_agrees_with_a_model() {
    for distinct in [1, 5, 1 << 60] {
        for (name, multimap) in multimaps() {
            println!("{name}, {distinct} values");
            agrees_with_a_model(&*multimap, distinct);
        }
    }
}

const THREADS: u64 = 3;
/// Keys of all threads; as many more belong to each thread.
const SHARED_KEYS: u64 = 4;

/// A thread that inserts, removes and visits.
struct Client<'m> {
    multimap: &'m dyn Multimap,
    thread: u64,
    random: Random,
    /// Its own values of each key, the newest first.
    own: BTreeMap<u64, Vec<u64>>,
}

impl Client<'_> {
    fn key(&mut self) -> u64 {
        let key = self.random.below(2 * SHARED_KEYS);
        match key < SHARED_KEYS {
            true => key,
            false => key + self.thread * SHARED_KEYS,
        }
    }

    fn step(&mut self, number: u64) {
        let key = self.key();
        let own = self.own.entry(key).or_default();
        let is_full = own.len() > 60;
        if self.random.below(100) < 55 && !is_full {
            let value = number * THREADS + self.thread;
            self.multimap.insert(key, value);
            own.insert(0, value);
        } else if !own.is_empty() {
            let nth = self.random.below(own.len() as u64) as usize;
            let value = own.remove(nth);
            assert!(self.multimap.remove(key, value), "a value was lost");
            assert!(
                !self.multimap.remove(key, value),
                "a value was removed twice"
            );
        }
        let found = values(self.multimap, key);
        let of_others = found.iter().filter(|v| **v % THREADS != self.thread);
        let mut of_others: Vec<u64> = of_others.copied().collect();
        of_others.sort_unstable();
        assert!(
            of_others.windows(2).all(|pair| pair[0] < pair[1]),
            "seen twice: {found:?}"
        );
        assert!(
            of_others.is_empty() || key < SHARED_KEYS,
            "another key's: {found:?}"
        );
        let of_self = found.iter().filter(|v| **v % THREADS == self.thread);
        assert!(of_self.eq(own.iter()), "{found:?} without {own:?}");
    }
}

/// Values of others are seen at most once, values of the thread itself all and in their order.
#[test]
fn threads_see_each_value_once() {
    for (_, multimap) in multimaps() {
        let multimap = &*multimap;
        let own = std::thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                scope.spawn(move || {
                    let mut client = Client {
                        multimap,
                        thread,
                        random: Random::for_thread(9, thread),
                        own: BTreeMap::new(),
                    };
                    (0..10_000).for_each(|number| client.step(number));
                    client.own
                })
            });
            let threads: Vec<_> = threads.collect();
            let own = threads.into_iter().map(|thread| thread.join());
            own.map(|own| own.expect("a thread ended well"))
                .collect::<Vec<_>>()
        });
        multimap.verify().expect("intact");
        let left = own.iter().flat_map(BTreeMap::values).map(Vec::len);
        assert_eq!(multimap.len(), left.sum::<usize>());
    }
}

/// Each thread removes each value once; of each value there are fewer than threads.
#[test]
fn threads_that_remove_the_same_values_remove_each_once() {
    const VALUES: u64 = 300;
    for (name, multimap) in multimaps() {
        let multimap = &*multimap;
        for _ in 0..20 {
            let copies = THREADS - 1;
            let all = (0..copies).flat_map(|_| 0..VALUES);
            all.for_each(|value| multimap.insert(value % SHARED_KEYS, value));
            let removed: usize = std::thread::scope(|scope| {
                let threads = (0..THREADS).map(|_| {
                    let remove = |value: &u64| multimap.remove(value % SHARED_KEYS, *value);
                    scope.spawn(move || (0..VALUES).filter(remove).count())
                });
                let threads: Vec<_> = threads.collect();
                let removed = threads.into_iter().map(|thread| thread.join());
                removed
                    .map(|removed| removed.expect("a thread ended well"))
                    .sum()
            });
            assert_eq!(removed as u64, copies * VALUES, "{name}");
            assert!(multimap.is_empty(), "{name}");
        }
        multimap.verify().expect("intact");
    }
}
