//! Words and files that make no sense: each is refused with one line that names what is wrong, and
//! the exit code of its kind.

use crate::process::{done, fails, hedgerow, hedgerow_with};

#[test]
fn a_load_counts_the_lines_that_it_skips_apart() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    done(hedgerow_with(dir, &["load"], b"a\nb\n"));
    let said = done(hedgerow_with(dir, &["load", "--skip", "2"], b"a\nb\nc\n"));
    assert!(said.starts_with("loaded 1 lines (1 new keys)"), "{said}");
    assert!(said.trim_end().ends_with("skipped 2 lines"), "{said}");
    let beyond = ["load", "--skip", "9", "--json"];
    let said = done(hedgerow_with(dir, &beyond, b"a\nb\nc\n"));
    let wanted = ["\"lines\":0,", "\"skipped\":3"];
    assert!(wanted.iter().all(|part| said.contains(part)), "{said}");
    let all = done(hedgerow_with(dir, &["load"], b"d\n"));
    assert!(
        all.starts_with("loaded 1 lines") && !all.contains("skipped"),
        "{all}"
    );
}

#[test]
fn a_load_of_a_folder_says_that_it_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir(dir.join("rows")).unwrap();
    fails(hedgerow(dir, &["load", "rows"]), 1, &["rows is a folder"]);
    assert!(!dir.join("hedgerow-data").exists());
}
