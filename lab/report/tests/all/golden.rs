//! What a report looks like, held against files.
//!
//! The fixture's figures are invented: lines and bars, categories, two runs on two machines,
//! contenders that failed or were skipped. Its Markdown and two of its plots are compared with
//! `tests/golden`, byte for byte; after a wanted change `UPDATE_GOLDEN=1 cargo test -p
//! hedgerow-lab-report` writes them anew, and the difference is reviewed like code.

use std::fs;
use std::path::{Path, PathBuf};

use hedgerow_lab_report::{read_files, render, write_report};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn fixture() -> PathBuf {
    tests().join("fixture/invented.json")
}

#[test]
fn the_report_on_the_fixture_is_as_reviewed() {
    let results = read_files(&[fixture()]).expect("the fixture is readable");
    let files = render(&results);
    let compared = [
        "report.md",
        "masstree-fig9-get.svg",
        "masstree-fig13-requests.svg",
    ];
    for name in compared {
        let path = tests().join("golden").join(name);
        let (_, text) = files.iter().find(|(n, _)| n == name).expect("rendered");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, text).expect("writable");
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let differs = golden.lines().zip(text.lines()).position(|(a, b)| a != b);
        assert!(
            golden == *text,
            "{name} differs from line {} on; UPDATE_GOLDEN=1 accepts it",
            differs.map_or(golden.lines().count().min(text.lines().count()), |line| {
                line
            }) + 1
        );
    }
}

#[test]
fn the_page_holds_everything_and_asks_for_nothing() {
    let results = read_files(&[fixture()]).expect("the fixture is readable");
    let files = render(&results);
    let (name, page) = &files[0];
    assert_eq!(name, "report.html");
    for run in &results.runs {
        for experiment in &run.experiments {
            let marked = format!("data-experiment=\"{}\"", experiment.about.name);
            assert!(page.contains(&marked), "{marked}");
        }
    }
    for text in [
        "17 errors",
        "libJudy.so is not installed",
        "skipped: keys of more than 64 bytes",
        "hedgerow-lab run masstree/fig9",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let namespace = "http://www.w3.org/2000/svg";
    for (name, text) in &files {
        let text = text.replace(namespace, "");
        for request in [
            "http://", "https://", "<script", "<link", "<img", "@import", "url(",
        ] {
            let wanted = name.ends_with(".md") && request == "<img";
            assert!(wanted || !text.contains(request), "{name} has {request}");
        }
    }
}

#[test]
fn every_plot_has_a_name_for_those_who_do_not_see_it() {
    let results = read_files(&[fixture()]).expect("the fixture is readable");
    let files = render(&results);
    let plots = files.iter().filter(|(name, _)| name.ends_with(".svg"));
    let mut count = 0;
    for (name, text) in plots {
        count += 1;
        assert!(text.contains("role=\"img\""), "{name}");
        assert!(
            text.contains("<title id=") && text.contains("<desc id="),
            "{name}"
        );
        assert!(text.contains("prefers-color-scheme:dark"), "{name}");
        let opened = text.matches("<g").count();
        assert_eq!(opened, text.matches("</g>").count(), "{name}");
    }
    assert_eq!(count, 12);
}

#[test]
fn a_report_is_written_to_a_folder_that_is_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("deep/report");
    let written = write_report(&[fixture()], &out).expect("written");
    assert_eq!(written[0], out.join("report.html"));
    assert!(written.iter().all(|path| path.is_file()));
    let error = write_report::<PathBuf>(&[], &out).expect_err("nothing to report on");
    assert_eq!(error.to_string(), "no results files given");
    let file = written[0].join("below-a-file");
    let error = write_report(&[fixture()], &file).expect_err("not a folder");
    assert!(error.to_string().contains("below-a-file"), "{error}");
}
