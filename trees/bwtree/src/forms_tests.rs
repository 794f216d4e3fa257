//! What the forms for comparison leave out, seen in the records of a filled tree. (That they answer
//! as a map does, and what their counters say: `tests/all/forms.rs`.)

use crate::configuration::{
    Configuration, InnerChains, Standard, WithoutDistances, WithoutFilters,
};
use crate::mapping_table::address_of;
use crate::node::RecordRef;
use crate::tree::BwTree;

const KEYS: u64 = 40_000;

/// Spreads numbers, so that keys come in no order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A tree of many leaves, most of which have deltas, and of which one is inserted to last.
fn filled<C: Configuration>() -> BwTree<C> {
    let tree = BwTree::new();
    (0..KEYS).for_each(|number| {
        tree.put(&key(number), b"value");
    });
    tree
}

/// The chains of a tree at rest, with the words that the mapping table has for them.
fn chains<C: Configuration>(tree: &BwTree<C>) -> Vec<(u64, RecordRef<'_>)> {
    let words = tree.table.in_use();
    let chain = |word| {
        // SAFETY: the tree is at rest for as long as it is borrowed.
        (word, unsafe { RecordRef::of_word(word) })
    };
    words.map(chain).collect()
}

#[test]
fn words_are_addresses_alone_without_distances() {
    fn with_distance<C: Configuration>() -> usize {
        let tree = filled::<C>();
        tree.verify().expect("sound");
        let chains = chains(&tree);
        let is_far = |(word, head): &&(u64, RecordRef<'_>)| {
            assert_eq!(address_of(*word), head.address().addr().get());
            *word != address_of(*word) as u64
        };
        chains.iter().filter(is_far).count()
    }
    assert!(with_distance::<Standard>() > 50);
    assert_eq!(with_distance::<WithoutDistances>(), 0);
}

#[test]
fn every_lookup_walks_its_chain_without_filters() {
    fn filters<C: Configuration>() -> Vec<u64> {
        let tree = filled::<C>();
        let chains = chains(&tree);
        let heads = chains.iter().map(|(_, head)| *head);
        heads
            .filter(|head| head.is_leaf_delta())
            .map(RecordRef::filter)
            .collect()
    }
    let all_bits = |filters: &[u64]| filters.iter().filter(|filter| **filter == u64::MAX).count();
    let usual = filters::<Standard>();
    assert!(usual.len() > 50 && all_bits(&usual) < usual.len() / 2);
    let none = filters::<WithoutFilters>();
    assert!(none.len() > 50 && all_bits(&none) == none.len());
}

#[test]
fn inner_nodes_have_chains_or_are_consolidated_at_once() {
    fn inner_deltas<C: Configuration>() -> u16 {
        let tree = filled::<C>();
        let chains = chains(&tree);
        let inner = chains.iter().filter(|(_, head)| head.header().level > 0);
        inner.map(|(_, head)| head.header().depth).sum()
    }
    assert_eq!(inner_deltas::<Standard>(), 0);
    assert!(inner_deltas::<InnerChains>() > 0);
}
