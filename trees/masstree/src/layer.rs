//! Making a layer: two long keys that share a slice move into a deeper tree (§4.6.3).
//!
//! The paper makes an empty layer with the old key and then goes on inserting the new one. We
//! build the whole chain of layers that both keys share, with both keys at its end, before
//! publishing any of it; so the insert is done when the slot is, and no retry follows.
//!
//! Publishing changes one slot: *unstable*, then the layer pointer, then *layer*. Readers that
//! see the class differ on both sides of the value's load read again; the node's version and
//! permutation stay as they are.

use crate::configuration::{Configuration, Latch};
use crate::key::{Key, LONG, class_of, slice_of};
use crate::node::border::{LAYER, UNSTABLE};
use crate::node::{Border, Node, Permutation, SuffixBag};
use crate::planted::{PlantedBug, planted};
use crate::statistics::Event;
use crate::tree::{Masstree, layer_word};
use crate::value::Value;
use std::cmp::Ordering as Order;
use std::sync::atomic::Ordering;

/// What is left of a long key below a layer, and the key's value word.
#[derive(Clone, Copy)]
struct Remainder<'k> {
    bytes: &'k [u8],
    word: u64,
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Turns `slot` of the latched `node` into a layer that holds its present key and `key`
    /// (with `word`), and unlatches the node.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_layer(&self, node: &Border, slot: usize, key: &Key<'_>, word: u64) {
        // SAFETY: the node is latched and pinned.
        let old = unsafe { node.suffix(slot) }.expect("a conflicting key has a suffix");
        let old = Remainder {
            bytes: old,
            word: node.value(slot),
        };
        let bytes = key.suffix();
        let layer = self.build_layers(old, Remainder { bytes, word });
        if !planted(PlantedBug::LayerNotUnstable) {
            node.set_length(slot, UNSTABLE);
        }
        // A reader that loads the pointer below must not then load the length from before.
        std::sync::atomic::fence(Ordering::Release);
        node.set_value(slot, layer_word(layer));
        node.set_length(slot, LAYER);
        Latch::<C>::unlock(&node.version);
    }

    /// A private tree of layers with two different keys.
    fn build_layers(&self, one: Remainder<'_>, two: Remainder<'_>) -> *mut Node {
        let (mut low, mut high) = if one.bytes < two.bytes {
            (one, two)
        } else {
            (two, one)
        };
        let mut chain = Vec::new();
        while low.bytes.len() > 8 && high.bytes.len() > 8 && low.bytes[..8] == high.bytes[..8] {
            chain.push(slice_of(low.bytes));
            low.bytes = &low.bytes[8..];
            high.bytes = &high.bytes[8..];
        }
        self.counters.count(Event::LayerCreation as usize);
        let room = [low.bytes, high.bytes]
            .iter()
            .map(|rest| rest.len().saturating_sub(8))
            .sum::<usize>();
        let last = Border::allocate_layer(self.blocks, 2);
        // SAFETY: new and ours.
        let node = unsafe { &*last };
        if room > 0 {
            let lines = SuffixBag::lines_for(room, 2);
            node.set_bag(SuffixBag::allocate(self.blocks, lines));
        }
        debug_assert_eq!(low.bytes.cmp(high.bytes), Order::Less);
        for (slot, Remainder { bytes: rest, word }) in [low, high].into_iter().enumerate() {
            let class = class_of(rest.len());
            node.fill(slot, slice_of(rest), class, word);
            if class == LONG {
                // SAFETY: the new node's bag is ours alone.
                let fits = unsafe { SuffixBag::append(node.bag(), slot, &rest[8..]) };
                assert!(fits, "a new suffix bag is made large enough");
            }
        }
        node.publish(Permutation::sequential(2));
        chain.into_iter().rev().fold(last.cast(), |below, slice| {
            self.counters.count(Event::LayerCreation as usize);
            let border = Border::allocate_layer(self.blocks, 1);
            // SAFETY: new and ours.
            let node = unsafe { &*border };
            node.fill(0, slice, LAYER, layer_word(below));
            node.publish(Permutation::sequential(1));
            border.cast()
        })
    }
}
