//! Where a recommended map is to be had: as an index of `hedgerow serve`, in one of our crates
//! alone, or from somebody else.
//!
//! Four maps measure indexes as the server has them; most others of ours are forms of the same
//! trees, and the advice names the index beside them. The server's fifth index, `bst`, is for keys
//! of 8 bytes and no map of the registry, so no advice names it.

use hedgerow::IndexKind;
use hedgerow_lab_contender::Entry;
use hedgerow_lab_report::OURS;

/// A tree of ours that the server has as an index.
struct Served {
    index: IndexKind,
    /// The map that measures the index as it is served.
    map: &'static str,
    /// What the names of its other forms begin with.
    forms: &'static str,
}

const SERVED: [Served; 4] = [
    Served {
        index: IndexKind::Masstree,
        map: "hedgerow index",
        forms: "hedgerow ",
    },
    Served {
        index: IndexKind::BTree,
        map: "btree shared adaptive",
        forms: "btree ",
    },
    Served {
        index: IndexKind::Matryoshka,
        map: "matryoshka index",
        forms: "matryoshka ",
    },
    Served {
        index: IndexKind::BwTree,
        map: "bwtree",
        forms: "bwtree, ",
    },
];

/// A sentence that says where a map is to be had.
#[must_use]
pub fn place(map: &Entry) -> String {
    if map.origin != OURS {
        return format!(
            "It is not Hedgerow's ({}), and `hedgerow serve` does not have it.",
            map.origin
        );
    }
    if let Some(served) = SERVED.iter().find(|served| served.map == map.name) {
        return format!("It is `hedgerow serve --index {}`.", served.index.name());
    }
    let mut trees = SERVED.iter();
    match trees.find(|served| map.name.starts_with(served.forms)) {
        Some(served) => format!(
            "It is in Hedgerow's library alone: `hedgerow serve --index {}` has that tree in \
             another form, measured as {}.",
            served.index.name(),
            served.map
        ),
        None => "It is in Hedgerow's library alone.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn place_of(name: &str) -> String {
        let registry = Registry::new();
        place(&registry.map(name).expect(name).entry)
    }

    #[test]
    fn every_served_map_is_in_the_registry_and_names_its_index() {
        for (map, index) in [
            ("hedgerow index", "masstree"),
            ("btree shared adaptive", "btree"),
            ("matryoshka index", "matryoshka"),
            ("bwtree", "bwtree"),
        ] {
            assert_eq!(
                place_of(map),
                format!("It is `hedgerow serve --index {index}`.")
            );
        }
    }

    #[test]
    fn other_forms_name_the_index_of_their_tree() {
        for (map, index) in [
            ("hedgerow inline", "masstree"),
            ("hedgerow single-threaded", "masstree"),
            ("btree adaptive", "btree"),
            ("btree shared hints", "btree"),
            ("matryoshka shared u64", "matryoshka"),
        ] {
            let text = place_of(map);
            assert!(text.contains("library alone"), "{map}: {text}");
            assert!(text.contains(&format!("--index {index}`")), "{map}: {text}");
        }
    }

    #[test]
    fn what_others_made_is_said_to_be_theirs() {
        let text = place_of("std BTreeMap");
        assert!(
            text.starts_with("It is not Hedgerow's (Rust standard library)"),
            "{text}"
        );
    }

    /// A tree of ours whose name nobody added to the table would look as if no server had it.
    #[test]
    fn every_map_of_ours_has_an_index() {
        let registry = Registry::new();
        for map in &registry.maps {
            let text = place(&map.entry);
            let is_ours = map.entry.origin == OURS;
            assert_eq!(
                text.contains("--index"),
                is_ours,
                "{}: {text}",
                map.entry.name
            );
        }
    }
}
