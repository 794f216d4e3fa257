//! Table 2 of the thesis: what becomes of an operation on a key whose newest record is an insert,
//! an update or a delete, or that only the base node has, or nothing.

use hedgerow_bwtree::{BwTree, Configuration, CopyAndReplace, Standard, Tiny};
use hedgerow_index::Decision;

const KEY: &[u8] = b"key";

/// The newest record of the key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Newest {
    Insert,
    Update,
    Delete,
    Base,
    Nothing,
}

fn tree<C: Configuration>(newest: Newest) -> BwTree<C> {
    let tree = BwTree::new();
    let others = |range: std::ops::Range<u32>| {
        for other in range {
            tree.put(&other.to_be_bytes(), b"other");
        }
    };
    match newest {
        Newest::Nothing => {}
        Newest::Insert => {
            tree.put(KEY, b"old");
        }
        Newest::Update => {
            tree.put(KEY, b"older");
            tree.put(KEY, b"old");
        }
        Newest::Delete => {
            tree.put(KEY, b"older");
            tree.remove(KEY);
        }
        Newest::Base => {
            tree.put(KEY, b"old");
            // Enough for a consolidation.
            others(0..40);
        }
    }
    tree
}

/// An insert, which fails where the key is there: whether it succeeded.
fn insert<C: Configuration>(tree: &BwTree<C>) -> bool {
    tree.update_with(KEY, &mut Vec::new(), |old, new| {
        if old.is_some() {
            return Decision::Keep(false);
        }
        new.extend_from_slice(b"new");
        Decision::Put(true)
    })
}

/// An update, which fails where the key is not there.
fn update<C: Configuration>(tree: &BwTree<C>) -> bool {
    tree.update_with(KEY, &mut Vec::new(), |old, new| {
        if old.is_none() {
            return Decision::Keep(false);
        }
        assert_eq!(old, Some(&b"old"[..]));
        new.extend_from_slice(b"new");
        Decision::Put(true)
    })
}

fn outcomes<C: Configuration>() {
    // (insert, update, delete) as in the table; base nodes count as an insert.
    let table = [
        (Newest::Insert, [false, true, true]),
        (Newest::Update, [false, true, true]),
        (Newest::Delete, [true, false, false]),
        (Newest::Base, [false, true, true]),
        (Newest::Nothing, [true, false, false]),
    ];
    for (newest, [inserts, updates, deletes]) in table {
        let form = std::any::type_name::<C>();
        let inserted = tree::<C>(newest);
        assert_eq!(insert(&inserted), inserts, "insert on {newest:?}, {form}");
        let expected: &[u8] = if inserts { b"new" } else { b"old" };
        let found = inserted.get_with(KEY, <[u8]>::to_vec);
        assert_eq!(
            found.as_deref(),
            Some(expected),
            "insert on {newest:?}, {form}"
        );

        let updated = tree::<C>(newest);
        assert_eq!(update(&updated), updates, "update on {newest:?}, {form}");
        let expected = updates.then(|| b"new".to_vec());
        assert_eq!(
            updated.get_with(KEY, <[u8]>::to_vec),
            expected,
            "{newest:?}, {form}"
        );

        let deleted = tree::<C>(newest);
        assert_eq!(deleted.remove(KEY), deletes, "delete on {newest:?}, {form}");
        assert!(!deleted.contains(KEY), "delete on {newest:?}, {form}");
        for tree in [inserted, updated, deleted] {
            tree.verify().expect("sound");
        }
    }
}

#[test]
fn every_operation_ends_as_the_table_says() {
    outcomes::<Standard>();
    outcomes::<Tiny>();
    outcomes::<CopyAndReplace>();
}
