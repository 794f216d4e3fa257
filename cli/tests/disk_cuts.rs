//! Cuts of a real file system under a running server; `campaign disk` makes hundreds of them.
//! Needs root, loop devices and `mkfs`: skipped, saying why, where one of them is missing.

use std::path::PathBuf;

use hedgerow::IndexKind;
use hedgerow_lossy_disk::FileSystem;
use hedgerow_testkit::disk_cuts::{DiskCampaign, Outcome, run};
use hedgerow_testkit::seed::seed;

fn cut(system: FileSystem, index: IndexKind, mixed: bool) {
    let seed = seed();
    let campaign = DiskCampaign {
        program: PathBuf::from(env!("CARGO_BIN_EXE_hedgerow")),
        system,
        index,
        mixed,
        cuts: 4,
        writers: 3,
        seed,
    };
    match run(&campaign).unwrap_or_else(|error| panic!("{error}")) {
        Outcome::Skipped(why) => println!("skipped: {} ({why})", system.name()),
        Outcome::Done(report) => {
            println!("{report:?}");
            assert!(report.cuts == 4 && report.cuts_of_synced == 2);
            assert!(report.acknowledged >= 4 * 3 * 20);
        }
    }
}

#[test]
fn a_cut_of_ext4_loses_nothing_acknowledged() {
    cut(FileSystem::Ext4, IndexKind::Masstree, false);
}

#[test]
fn a_cut_of_ext4_loses_nothing_acknowledged_of_a_page_file() {
    cut(FileSystem::Ext4, IndexKind::BTree, false);
}

#[test]
fn a_cut_of_ext4_loses_nothing_acknowledged_of_a_binary_tree() {
    cut(FileSystem::Ext4, IndexKind::Bst, false);
}

#[test]
fn a_cut_of_xfs_loses_nothing_acknowledged() {
    cut(FileSystem::Xfs, IndexKind::Masstree, false);
}

#[test]
fn a_cut_of_xfs_loses_nothing_acknowledged_of_a_page_file() {
    cut(FileSystem::Xfs, IndexKind::BTree, false);
}

#[test]
fn a_cut_of_ext4_loses_nothing_acknowledged_of_keyspaces_of_all_kinds() {
    cut(FileSystem::Ext4, IndexKind::BwTree, true);
}

#[test]
fn a_cut_of_xfs_loses_nothing_acknowledged_of_keyspaces_of_all_kinds() {
    cut(FileSystem::Xfs, IndexKind::BwTree, true);
}
