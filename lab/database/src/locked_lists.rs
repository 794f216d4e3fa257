//! A multimap over any map: linked lists, and a table of locks that protect them.
//!
//! ```text
//!   key ──► mix64 ──► map ──► place of the first item     lists[upper bits of the mixed key]
//!                                        │               ┌──────────────────────────────────┐
//!                                        └──────────────►│ lock │ item ─► item ─► item      │
//!                                                        └──────────────────────────────────┘
//! ```
//!
//! As in the paper (§4), each key of the map leads to the head of a linked list, which a lock of a
//! separate table of locks protects. The map is searched without that lock: what the search found
//! may be a list's head no longer, so the head is checked under the lock, and the search repeated
//! there if need be. The head of a list stays in its place while the list has items; a new value
//! goes to the front by moving the old one behind it.
//!
//! Keys are mixed by a permutation of the integers, as rows are inserted in ascending order, which
//! makes lists of trees that do not balance themselves.

use std::ops::ControlFlow;

use hedgerow_lab_data::random::mix64;
use hedgerow_memory::{PlacedBox, Placement};

use crate::key_map::KeyMap;
use crate::locks::{Locks, StdLocks, Step, leaves_out};
use crate::multimap::Multimap;

/// A multimap over a map whose words lead to the heads of linked lists.
pub struct LockedLists<L: Locks = StdLocks> {
    map: Box<dyn KeyMap>,
    lists: Box<[L::Mutex<Lists>]>,
    /// How far a mixed key is shifted to get its lists.
    shift: u32,
    /// Where items come from.
    placement: Placement,
}

/// The lists that one lock protects.
#[derive(Default)]
pub(crate) struct Lists {
    items: Vec<Option<PlacedBox<Item>>>,
    /// Places of `items` that are free.
    free: Vec<u32>,
}

/// An element of a list: 32 bytes, as in DBx1000.
struct Item {
    key: u64,
    value: u64,
    next: Option<u32>,
    is_head: bool,
}

const _: () = assert!(size_of::<Item>() == 32);

/// Most locks of a table.
const MOST_LOCKS: usize = 1 << 16;

impl<L: Locks> LockedLists<L> {
    /// An empty one over an empty map, for about so many keys. Its items come from size classes, or
    /// from the standard allocator for [`Placement::System`].
    #[must_use]
    pub fn new(map: Box<dyn KeyMap>, keys: usize, placement: Placement) -> Self {
        let locks = (keys / 8).next_power_of_two().clamp(2, MOST_LOCKS);
        Self {
            map,
            lists: (0..locks).map(|_| L::Mutex::default()).collect(),
            shift: u64::BITS - locks.trailing_zeros(),
            placement,
        }
    }

    fn lock(&self, mixed: u64) -> L::Guard<'_, Lists> {
        L::lock(&self.lists[(mixed >> self.shift) as usize])
    }
}

impl<L: Locks> Multimap for LockedLists<L> {
    fn insert(&self, key: u64, value: u64) {
        let key = mix64(key);
        let search = || self.map.get(key).map(place);
        let unlocked = leaves_out::<L>(Step::SearchedLocked).then(search);
        let mut lists = self.lock(key);
        let Some(head) = unlocked.unwrap_or_else(search) else {
            let item = Item {
                key,
                value,
                next: None,
                is_head: true,
            };
            let head = lists.add(PlacedBox::new(item, self.placement));
            self.map.insert(key, u64::from(head));
            return;
        };
        let Item {
            value: old, next, ..
        } = *lists.item(head);
        let item = Item {
            key,
            value: old,
            next,
            is_head: false,
        };
        let behind = lists.add(PlacedBox::new(item, self.placement));
        let head = lists.item(head);
        head.value = value;
        head.next = Some(behind);
    }

    fn remove(&self, key: u64, value: u64) -> bool {
        let key = mix64(key);
        let mut lists = self.lock(key);
        let Some(head) = self.map.get(key).map(place) else {
            return false;
        };
        let mut previous = None;
        let mut at = Some(head);
        while let Some(here) = at.filter(|here| lists.item(*here).value != value) {
            previous = at;
            at = lists.item(here).next;
        }
        let Some(here) = at else { return false };
        match (previous, lists.item(here).next) {
            (Some(previous), next) => {
                lists.item(previous).next = next;
                lists.free(here);
            }
            (None, Some(second)) => {
                // The head keeps its place, which the map names.
                let Item { value, next, .. } = *lists.item(second);
                let head = lists.item(here);
                (head.value, head.next) = (value, next);
                lists.free(second);
            }
            (None, None) => {
                self.map.remove(key);
                lists.free(here);
            }
        }
        true
    }

    fn visit(&self, key: u64, visit: &mut dyn FnMut(u64) -> ControlFlow<()>) {
        let key = mix64(key);
        let Some(found) = self.map.get(key).map(place) else {
            return;
        };
        let mut lists = self.lock(key);
        let is_head = lists.is_head_of(found, key) || leaves_out::<L>(Step::HeadChecked);
        let head = match is_head {
            true => Some(found),
            false => self.map.get(key).map(place),
        };
        let mut at = head;
        while let Some(here) = at {
            let Item { value, next, .. } = *lists.item(here);
            if visit(value).is_break() {
                return;
            }
            at = next;
        }
    }

    fn len(&self) -> usize {
        let lists = self.lists.iter().map(|lists| {
            let lists = L::lock(lists);
            lists.items.len() - lists.free.len()
        });
        lists.sum()
    }

    fn verify(&self) -> Result<(), String> {
        self.map.verify()
    }
}

/// The place of an item that a word of the map names.
fn place(word: u64) -> u32 {
    u32::try_from(word).expect("the map holds what was stored in it: places of items")
}

impl Lists {
    fn add(&mut self, item: PlacedBox<Item>) -> u32 {
        match self.free.pop() {
            Some(free) => {
                self.items[free as usize] = Some(item);
                free
            }
            None => {
                self.items.push(Some(item));
                u32::try_from(self.items.len() - 1).expect("fewer than 2^32 items of a lock")
            }
        }
    }

    fn item(&mut self, at: u32) -> &mut Item {
        let item = self.items[at as usize].as_deref_mut();
        item.expect("only items in use are named")
    }

    fn free(&mut self, at: u32) {
        self.items[at as usize] = None;
        self.free.push(at);
    }

    fn is_head_of(&self, at: u32, key: u64) -> bool {
        let item = self.items[at as usize].as_deref();
        item.is_some_and(|item| item.is_head && item.key == key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, OnceLock};

    use hedgerow_matryoshka::SharedMatryoshka;

    use super::*;

    fn values(multimap: &LockedLists, key: u64) -> Vec<u64> {
        let mut values = Vec::new();
        multimap.visit(key, &mut |value| {
            values.push(value);
            ControlFlow::Continue(())
        });
        values
    }

    /// A map that lets others work once between a search and its return.
    #[derive(Default)]
    struct Interrupted {
        map: SharedMatryoshka<u64>,
        interrupt: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    }

    struct Handle(Arc<Interrupted>);

    impl KeyMap for Handle {
        fn get(&self, key: u64) -> Option<u64> {
            let found = self.0.map.get(key);
            let interrupt = self.0.interrupt.lock().expect("no panic").take();
            interrupt.into_iter().for_each(|interrupt| interrupt());
            found
        }

        fn insert(&self, key: u64, word: u64) -> Option<u64> {
            self.0.map.insert(key, word)
        }

        fn remove(&self, key: u64) -> Option<u64> {
            self.0.map.remove(key)
        }

        fn verify(&self) -> Result<(), String> {
            self.0.map.verify()
        }
    }

    /// Reads `key` 1 of a multimap while `meanwhile` runs behind the search of the map.
    fn read_while(meanwhile: fn(&LockedLists)) -> Vec<u64> {
        let map = Arc::new(Interrupted::default());
        let multimap = Arc::new(OnceLock::new());
        let handle = Box::new(Handle(Arc::clone(&map)));
        let _ = multimap.set(<LockedLists>::new(handle, 2, Placement::Merged));
        let get = || multimap.get().expect("it was set");
        (10..13).for_each(|value| get().insert(1, value));
        let other = Arc::clone(&multimap);
        let interrupt = move || meanwhile(other.get().expect("it was set"));
        *map.interrupt.lock().expect("no panic") = Some(Box::new(interrupt));
        values(get(), 1)
    }

    #[test]
    fn a_list_that_ended_behind_the_search_is_searched_again() {
        // Its head's place is free; taken by another key's; taken by an item that is no head.
        type Meanwhile = fn(&LockedLists);
        let cases: [(Meanwhile, &[u64]); 3] = [
            (
                |multimap| (10..13).for_each(|v| assert!(multimap.remove(1, v))),
                &[],
            ),
            (
                |multimap| {
                    (10..13).for_each(|v| assert!(multimap.remove(1, v)));
                    (100..200).for_each(|key| multimap.insert(key, 99));
                },
                &[],
            ),
            (
                |multimap| {
                    (10..13).for_each(|v| assert!(multimap.remove(1, v)));
                    (20..24).for_each(|value| multimap.insert(1, value));
                },
                &[23, 22, 21, 20],
            ),
        ];
        for (meanwhile, expected) in cases {
            assert_eq!(read_while(meanwhile), expected);
        }
    }
}
