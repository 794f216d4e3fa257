//! Every experiment runs through the binary at the smallest scale, and leaves results that
//! read back and hold what they must.

mod subjects;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use hedgerow_lab::{FIRST_PROCESSOR, experiments};
use hedgerow_lab_report::{Cause, Layout, OURS, Record, X};

fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hedgerow-lab"))
        .args(arguments)
        .output()
        .expect("the lab starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

/// A folder that goes away, with the paths of a file of results and of a report in it.
struct Folder {
    _folder: tempfile::TempDir,
    file: PathBuf,
    out: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            file: folder.path().join("results"),
            out: folder.path().join("report"),
            _folder: folder,
        }
    }

    fn file(&self) -> &str {
        self.file.to_str().expect("a readable path")
    }

    fn out(&self) -> &str {
        self.out.to_str().expect("a readable path")
    }

    /// A file of the report.
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.out.join(name)).expect("a file of the report")
    }
}

fn records(file: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(file).expect("results");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

/// Experiments that run two rounds, so that what the first one leaves behind meets the second: of
/// each kind one, with maps, files, servers, transactions.
const TWO_ROUNDS: [&str; 4] = [
    "btrees/fig9",
    "btrees/durable",
    "masstree/server-scans",
    "transactions/short",
];

/// Whether anyone takes part, by the first of these records. Panics where one is left out for
/// another reason than that this machine lacks it, or that it does not promise what the experiment
/// needs. Other people's engines may refuse settings and take too much memory, too.
fn check_skips(name: &str, records: &[Record]) -> bool {
    let Some(Record::Run(run)) = records.first() else {
        panic!("{name} begins with no run");
    };
    for record in records {
        let Record::Skipped(skipped) = record else {
            continue;
        };
        let mut contenders = run.contenders.iter();
        let is_ours = contenders.any(|who| who.name == skipped.contender && who.origin == OURS);
        let is_right = match skipped.cause {
            Some(Cause::Missing | Cause::Limits) => true,
            Some(Cause::Refusal | Cause::Memory) => !is_ours,
            Some(Cause::Time | Cause::Failure) | None => false,
        };
        assert!(is_right, "{name}: {skipped:?}");
    }
    !run.contenders.is_empty()
}

/// Runs an experiment at the smallest scale, its threads on processors from the `first` on.
fn check_experiment(name: &str, first: usize) {
    let folder = Folder::new();
    let rounds = if TWO_ROUNDS.contains(&name) { 2 } else { 1 };
    let output = Command::new(env!("CARGO_BIN_EXE_hedgerow-lab"))
        .args(["run", name, "--scale", "smoke", "--json"])
        .arg(&folder.file)
        .args(["--rounds", &rounds.to_string()])
        .env(FIRST_PROCESSOR, first.to_string())
        .output();
    let output = output.expect("the lab starts");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{name}:\n{text}");
    let records = records(&folder.file);
    let takes_part = check_skips(name, &records);
    let figures: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Figure(figure) => Some(figure),
            _ => None,
        })
        .collect();
    match takes_part {
        true => assert!(!figures.is_empty(), "{name}:\n{text}"),
        false => println!("skipped: {name}, as this machine lacks all of its contenders"),
    }
    subjects::check(name, &figures);
    for figure in figures {
        assert_eq!(figure.experiment, name);
        assert_eq!(figure.rounds.len(), rounds, "{figure:?}");
        assert_eq!(figure.errors, 0, "{figure:?}");
        assert!(figure.median.is_some_and(f64::is_finite), "{figure:?}");
    }
}

/// One after the other on each processor, as most experiments keep to one.
#[test]
fn every_experiment_runs_at_smoke_scale() {
    let experiments = experiments::all();
    let next = AtomicUsize::new(0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..processors {
            let (next, experiments) = (&next, &experiments);
            scope.spawn(move || {
                while let Some(experiment) = experiments.get(next.fetch_add(1, Relaxed)) {
                    check_experiment(experiment.about().name, first);
                }
            });
        }
    });
}

/// The layouts among results.
fn layouts(file: &Path) -> Vec<Layout> {
    let records = records(file).into_iter();
    let layouts = records.filter_map(|record| match record {
        Record::Layout(layout) => Some(layout),
        _ => None,
    });
    layouts.collect()
}

/// Whether its sections of page and Markdown show all tables of a layout.
fn check_shown(layout: &Layout, page: &str, markdown: &str) {
    let who = format!("{} in {}", layout.contender, layout.experiment);
    let summary = format!("<summary>{} ·", layout.contender);
    assert!(page.contains(&summary), "{who}: {page}");
    let title = format!("{} ·", layout.contender);
    assert!(markdown.starts_with(&title), "{who}: {markdown}");
    let tables = &layout.inspected.tables;
    for wanted in [
        "Nodes",
        "Pages",
        "Distances",
        "Sets",
        "False",
        "Coll",
        "Lines",
        "The other",
    ] {
        let table = tables.iter().find(|table| table.title.starts_with(wanted));
        let table = table.unwrap_or_else(|| panic!("{who} has no table {wanted}"));
        for (nth, row) in table.rows.iter().enumerate() {
            let cells: Vec<String> = (0..row.figures.len())
                .map(|column| table.cell(nth, column))
                .collect();
            let row = format!("| {} | {} |\n", row.names.join(" | "), cells.join(" | "));
            assert!(markdown.contains(&row), "{who}: {row}");
        }
    }
    assert!(
        layout.inspected.pages.iter().all(|map| map.pages > 0),
        "{who}"
    );
}

#[test]
fn a_report_holds_what_the_inspector_found_of_every_tree() {
    let folder = Folder::new();
    let (path, out_path) = (folder.file(), folder.out());
    let names = [
        "bst/table4",
        "bst/fig3",
        "bst/fig6",
        "bst/fig7",
        "layout/trees",
    ];
    let asked = ["--scale", "smoke", "--rounds", "2", "--json", path];
    let (success, text) = run(&[&["run"], &names[..], &asked].concat());
    assert!(success, "{text}");
    let layouts = layouts(&folder.file);
    let (success, text) = run(&["report", path, "--out", out_path]);
    assert!(success, "{text}");
    let (page, markdown) = (folder.read("report.html"), folder.read("report.md"));
    for name in names {
        let of: Vec<_> = layouts.iter().filter(|l| l.experiment == name).collect();
        let places: std::collections::BTreeSet<String> = of
            .iter()
            .map(|layout| format!("{} at {:?}", layout.contender, layout.x))
            .collect();
        assert_eq!((places.len(), of.is_empty()), (of.len(), false), "{name}");
    }
    for tree in hedgerow_lab_layout::entries() {
        let of = layouts.iter().filter(|l| l.experiment == "layout/trees");
        let of = of.filter(|layout| layout.contender == tree.name).count();
        assert_eq!(of, 3, "{}", tree.name);
    }
    assert_eq!(
        page.matches("<details class=\"layout\"").count(),
        layouts.len()
    );
    let pages = page.split("<details class=\"layout\"").skip(1);
    let sections: Vec<&str> = markdown.split("\n#### ").skip(1).collect();
    assert_eq!(sections.len(), layouts.len());
    for ((layout, page), section) in layouts.iter().zip(pages).zip(sections) {
        let page = page.split("</details>").next().unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        check_shown(layout, page, section);
    }
    let links = markdown.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split_once(".svg)"));
    let mut drawn = 0;
    for (name, _) in links {
        let picture = folder.read(&format!("{name}.svg"));
        drawn += usize::from(picture.contains("<path fill=\"#1f5f3f\" d=\"M0 0h5v5h-5z"));
    }
    let pictures: usize = layouts.iter().map(|l| l.inspected.pages.len()).sum();
    assert_eq!(drawn, pictures);
}

/// Another process that loads the same tree prints what the report holds.
#[test]
fn the_command_prints_what_the_report_holds() {
    let folder = Folder::new();
    let (path, out) = (folder.file(), folder.out());
    let asked = ["run", "layout/trees", "--scale", "smoke", "--rounds", "1"];
    let (success, text) = run(&[
        &asked[..],
        &["--only", "edge-ext-lf,int-lf", "--json", path],
    ]
    .concat());
    assert!(success, "{text}");
    for (tree, place) in [
        ("edge-ext-lf", "merged"),
        ("edge-ext-lf", "segregated"),
        ("int-lf", "segregated"),
    ] {
        let asked = [
            "layout",
            tree,
            "--keys",
            "1000",
            "--placement",
            place,
            "--out",
            out,
        ];
        let (success, text) = run(&asked);
        assert!(success, "{text}");
        let page = folder.read("report.md");
        let layouts = layouts(&folder.file);
        let stored = layouts.iter().find(|layout| {
            layout.contender == tree && layout.x == Some(X::Category(place.to_owned()))
        });
        for table in &stored.expect("it ran").inspected.tables {
            // Frames differ between processes.
            if !table.title.starts_with("Sets") {
                assert!(text.contains(&table.to_string()), "{text}\nlacks\n{table}");
            }
            assert!(page.contains(&table.title), "{page}");
        }
    }
}

#[test]
fn the_list_names_every_contender_and_experiment() {
    let (success, text) = run(&["list"]);
    assert!(success);
    for experiment in experiments::all() {
        assert!(text.contains(experiment.about().name), "{text}");
    }
    assert!(text.contains("std BTreeMap") && text.contains("hedgerow inline"));
}

#[test]
fn bad_requests_are_one_clear_line() {
    for (arguments, expected) in [
        (&["run", "masstree/fig99"][..], "no experiment is called"),
        (
            &["run", "masstree/fig10", "--only", "nobody"],
            "no contender is left",
        ),
        (
            &["run", "masstree/fig10", "--peers", "nobody"],
            "no peer's name contains 'nobody'",
        ),
        (
            &["run", "masstree/fig10", "--points", "nowhere"],
            "no point has 'nowhere'",
        ),
        (&["run", "masstree/fig10", "--keys", "90000000000"], "wants"),
        (&["run", "masstree/fig10", "--rounds", "0"], "--rounds"),
        (
            &["layout", "edge-ext-lf", "--keys", "10", "--shifted"],
            "add --placement merged",
        ),
        (
            &["layout", "ticket", "--allocator", "tcmalloc"],
            "there are segregated, merged, system",
        ),
        (
            &["run", "bwtree/fig11", "--connections", "8,0"],
            "not a number of connections from 1 to 96",
        ),
        (
            &["run", "masstree/fig10", "--json", "/no/such/folder/x"],
            "cannot write",
        ),
        (&["perform", "{}"], "not a job of this lab"),
    ] {
        let (success, text) = run(arguments);
        assert!(!success && text.contains(expected), "{arguments:?}: {text}");
        assert!(!text.contains("panicked"), "{arguments:?}: {text}");
    }
}

#[test]
fn a_time_budget_ends_a_run_early() {
    let folder = Folder::new();
    let (file, path) = (&folder.file, folder.file());
    let (success, text) = run(&[
        "run",
        "masstree/fig10",
        "--scale",
        "smoke",
        "--rounds",
        "1000000",
        "--time-budget",
        "2",
        "--json",
        path,
    ]);
    assert!(success, "{text}");
    assert!(records(file).len() > 2);
}

#[test]
fn a_run_that_is_killed_keeps_its_rounds() {
    let folder = Folder::new();
    let (file, path) = (&folder.file, folder.file());
    let asked = [
        "run",
        "masstree/fig10",
        "--scale",
        "smoke",
        "--peers",
        "none",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_hedgerow-lab"))
        .args(asked)
        .args(["--rounds", "1000000", "--json", path])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the lab starts");
    let begun = std::time::Instant::now();
    let rounds = || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.matches("\"kind\":\"round\"").count()
    };
    while rounds() < 6 && begun.elapsed().as_secs() < 600 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let (success, text) = run(&["report", path, "--out", folder.out()]);
    assert!(success, "{text}");
    let report = folder.read("report.md");
    assert!(report.contains("hedgerow inline"), "{report}");
}

#[test]
fn advice_comes_with_results_and_plots() {
    let folder = Folder::new();
    let (success, text) = run(&[
        "advise",
        "--keys",
        "sample:words",
        "--time-budget",
        "10",
        "--json",
        folder.file(),
        "--out",
        folder.out(),
    ]);
    assert!(success && text.contains("Take "), "{text}");
    let places = ["--index ", "library alone", "is not Hedgerow's"];
    assert!(places.iter().any(|place| text.contains(place)), "{text}");
    let layouts = ["hedgerow inline", "btree adaptive", "btree fingerprint"];
    let records = records(&folder.file);
    for map in layouts {
        let measured = records.iter().any(|record| match record {
            Record::Figure(figure) => figure.contender == map && figure.column == "mix",
            _ => false,
        });
        assert!(measured, "{map}: {text}");
    }
    let files = std::fs::read_dir(&folder.out).expect("a report").flatten();
    let names: Vec<_> = files.map(|file| file.file_name()).collect();
    let plots = names
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".svg"));
    assert!(plots.count() > 0, "{names:?}");
}

#[test]
fn counting_counts_or_says_how_to_have_it() {
    let asked = [
        "run",
        "masstree/fig9",
        "--cachegrind",
        "--scale",
        "smoke",
        "--keys",
        "2000",
    ];
    let arguments = [&asked[..], &["--only", "hedgerow inline"]].concat();
    let has_valgrind = hedgerow_lab::process::find_program("valgrind").is_some();
    let (success, text) = run(&arguments);
    if has_valgrind {
        assert!(success && text.contains("get: instructions"), "{text}");
    } else {
        println!("skipped: no valgrind (apt install valgrind)");
        assert!(!success && text.contains("apt install valgrind"), "{text}");
    }
}

#[test]
fn counters_count_and_missing_ones_are_said_to_be() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, who) in [
        ("bst/microbenchmark", "hedgerow inline"),
        ("masstree/fig10", "hedgerow inline"),
        ("bst/fig6", "merged"),
        ("bst/fig5", "ticket"),
        ("tpcc/engine", "masstree"),
    ] {
        let file = folder.path().join("results");
        let path = file.to_str().expect("a readable path");
        let asked = ["run", name, "--scale", "smoke", "--rounds", "1"];
        let more = ["--counters", "--only", who, "--json", path];
        let (success, text) = run(&[&asked[..], &more].concat());
        assert!(success, "{name}:\n{text}");
        let records = records(&file);
        for (counter, from) in [("instructions", 1.0), ("page faults", 0.0)] {
            let counted = records.iter().any(|record| match record {
                Record::Figure(figure) => {
                    figure.column.ends_with(counter) && figure.median.is_some_and(|m| m >= from)
                }
                _ => false,
            });
            let missing = records.iter().any(|record| match record {
                Record::Skipped(skipped) => {
                    skipped.contender == "(counters)"
                        && skipped
                            .why
                            .starts_with(&format!("{counter}: not available here"))
                }
                _ => false,
            });
            assert!(counted != missing, "{counter} in {name}:\n{text}");
        }
        std::fs::remove_file(&file).expect("removed");
    }
}
