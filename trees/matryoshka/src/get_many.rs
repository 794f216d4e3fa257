//! Batches of lookups, step by step side by side.
//!
//! One lookup waits for a line of memory at each step. A group takes each step for all its keys
//! before the next, and asks for what the next step reads: the misses of a step overlap.

use hedgerow_index::IntKey;
use hedgerow_simd::{Kernel, Task, prefetch_line};

use crate::lane::Lane;
use crate::page::MOST_LEVELS;
use crate::strategy::Strategy;
use crate::tree::{Matryoshka, untag};

/// Keys that go side by side: what a core can have under way at a time, about.
const GROUP: usize = 16;

pub(crate) fn get_many<K, V, S>(
    tree: &Matryoshka<K, V, S>,
    keys: &[K],
    mut read: impl FnMut(usize, Option<V>),
) where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    for (group, keys) in keys.chunks(GROUP).enumerate() {
        let mut values = [None; GROUP];
        tree.level.run(Group(tree, keys, &mut values));
        for (index, &value) in values[..keys.len()].iter().enumerate() {
            read(group * GROUP + index, value);
        }
    }
}

struct Group<'a, K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy>(
    &'a Matryoshka<K, V, S>,
    &'a [K],
    &'a mut [Option<V>; GROUP],
);

impl<K: IntKey<Encoded: Lane>, V: Copy + Default, S: Strategy> Task for Group<'_, K, V, S> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(tree, keys, values) = self;
        let mut at = [tree.root; GROUP];
        for level in 0..tree.height {
            for (at, key) in at.iter_mut().zip(keys) {
                let node = tree.inner.get(*at);
                *at = node.child(node.route::<N>(key.encode()));
                if level + 1 == tree.height {
                    tree.prefetch_page(*at);
                } else {
                    tree.inner.get(*at).prefetch_samples();
                }
            }
        }
        let mut slots = [0; GROUP];
        for (slot, &at) in slots.iter_mut().zip(&at) {
            *slot = tree.pages.get(untag(at)).head.root;
        }
        for level in 0..=MOST_LEVELS {
            for ((slot, &at), key) in slots.iter_mut().zip(&at).zip(keys) {
                let page = tree.pages.get(untag(at));
                if level < usize::from(page.head.height) {
                    let line = page.line(*slot);
                    *slot = line.child(line.route::<N>(key.encode()));
                    prefetch_line(page.line(*slot));
                    prefetch_line(page.values(*slot).as_ptr());
                }
            }
        }
        for (((value, &slot), &at), key) in values.iter_mut().zip(&slots).zip(&at).zip(keys) {
            let (page, key) = (tree.pages.get(untag(at)), key.encode());
            let line = page.line(slot);
            let position = line.leaf_rank::<N>(key);
            let found = line.leaf_keys().get(position) == Some(&key);
            *value = found.then(|| page.values(slot)[position]);
        }
    }
}
