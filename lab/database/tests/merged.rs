//! Rows, index items and nodes come from where a database is told, so that merged trees share size
//! classes with rows. In a process of its own, so that it can count blocks.

use hedgerow_lab_database::{Database, Settings, trees};
use hedgerow_memory::{Placement, inspect};

const ROWS: usize = 5000;

/// Blocks in use, by where they came from.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    of_64_bytes: usize,
    of_size_classes: usize,
    of_kinds: usize,
    of_system: usize,
}

impl Blocks {
    fn in_use() -> Self {
        let report = inspect();
        let live = |is_kind, is_wanted: fn(usize) -> bool| {
            let pools = report.classes.iter();
            let wanted = pools.filter(|pool| pool.kind.is_some() == is_kind);
            let wanted = wanted.filter(|pool| is_wanted(pool.slot_bytes));
            wanted.map(|pool| pool.live).sum()
        };
        Self {
            of_64_bytes: live(false, |bytes| bytes == 64),
            of_size_classes: live(false, |_| true),
            of_kinds: live(true, |_| true),
            of_system: report.large_blocks,
        }
    }
}

#[test]
fn merged_nodes_are_among_rows_and_segregated_ones_are_not() {
    let trees = trees();
    // Its nodes have 64 bytes, as rows and wrappers have (§4.3.1).
    let tree = trees.iter().find(|tree| tree.name == "occ-avl-2");
    let tree = tree.expect("a tree of Table 1");
    for placement in Placement::ALL {
        let before = Blocks::in_use();
        let settings = Settings {
            placement,
            ..Settings::default()
        };
        let mut database = Database::new(settings);
        let table = database.add_table("table", 16);
        let index = database.add_index(table, tree.improved.form(placement), ROWS);
        (0..ROWS as u64).for_each(|key| database.load(table, &[key; 16], &[(index, key)]));
        let now = Blocks::in_use();
        let small = now.of_64_bytes - before.of_64_bytes;
        let pooled = now.of_size_classes - before.of_size_classes;
        let kinds = now.of_kinds - before.of_kinds;
        let system = now.of_system - before.of_system;
        let what = format!("{placement:?}: {before:?} became {now:?}");
        match placement {
            // A row, its data, wrapper and lock, an item; the node is elsewhere.
            Placement::Segregated => {
                assert_eq!((small, pooled, system), (2 * ROWS, 5 * ROWS, 0), "{what}");
                assert!(kinds >= ROWS, "{what}");
            }
            Placement::Merged => {
                assert!(small >= 3 * ROWS && pooled >= 6 * ROWS, "{what}");
                assert_eq!((kinds, system), (0, 0), "{what}");
            }
            Placement::System => {
                assert!(system >= 6 * ROWS, "{what}");
                assert_eq!((kinds, pooled), (0, 0), "{what}");
            }
        }
        drop(database);
    }
}
