//! The workload files: each says what its source says, and its operations are what it says.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use hedgerow_lab_data::workload::Amount;
use hedgerow_lab_data::{Distribution, Kind, Operation, Plan, Workload};

fn all() -> Vec<Workload> {
    let named = |name| Workload::named(name).unwrap_or_else(|e| panic!("{e}"));
    Workload::names().into_iter().map(named).collect()
}

fn operations(workload: &Workload, plan: &Plan) -> Vec<Vec<Operation>> {
    (0..plan.threads)
        .map(|thread| workload.operations(plan, thread, 1).collect())
        .collect()
}

/// With no more operations than records, where the source has millions.
fn limited(mut workload: Workload) -> Workload {
    if let Amount::Exactly(_) = workload.operations {
        workload.operations = Amount::PerRecord(1.0);
    }
    workload
}

#[test]
fn every_file_is_part_of_the_program_and_named_after_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(&root).expect("workloads") {
        let folder = folder.expect("an entry").path();
        for file in std::fs::read_dir(&folder).expect("a folder") {
            let file = file.expect("an entry").path();
            let name = file.strip_prefix(&root).expect("inside").with_extension("");
            found.push(name.display().to_string());
        }
    }
    found.sort();
    assert_eq!(found, Workload::names());
    for workload in all() {
        assert_eq!(
            Workload::named(&workload.name).expect("by its name"),
            workload
        );
        assert!(
            workload.source.contains('§') || workload.source.contains("Table"),
            "{}",
            workload.name
        );
    }
    let error = Workload::named("ycsb/g")
        .expect_err("there is none")
        .to_string();
    assert!(
        error.starts_with("no workload is called 'ycsb/g'; there are bst/lookup-100, "),
        "{error}"
    );
}

#[test]
fn the_mixes_that_must_exist_do() {
    let names: HashSet<&str> = Workload::names().into_iter().collect();
    let lists = [
        ("ycsb/", "a b c d e f"),
        ("masstree/mycsb-", "a b c e"),
        (
            "btrees/",
            "insert lookup scan ycsb-e half-scans partitioned-insert skew",
        ),
        ("bst/lookup-", "100 90 70 50"),
        (
            "matryoshka/",
            "seq_insert rand_insert ycsb_a rand_delete mixed ycsb_b search_after_churn",
        ),
        (
            "matryoshka/",
            "zipf_insert scan_after_insert lookup_then_insert large_keys shrink bulk_load",
        ),
        ("matryoshka/", "batch_insert"),
        ("bwtree/", "insert read update read-update delete"),
    ];
    for (folder, list) in lists {
        for name in list.split(' ') {
            assert!(
                names.contains(format!("{folder}{name}").as_str()),
                "{folder}{name}"
            );
        }
    }
    let d = Workload::named("ycsb/d").expect("YCSB D");
    assert_eq!(d.distribution, Distribution::Latest { alpha: 0.99 });
    assert_eq!(
        (
            d.mix.read,
            d.mix.insert,
            d.value.columns,
            d.value.column_bytes
        ),
        (0.95, 0.05, 10, 100)
    );
    let e = Workload::named("masstree/mycsb-e").expect("MYCSB E");
    assert_eq!(
        (e.mix.scan, e.mix.update, e.scan_length.to_string()),
        (0.95, 0.05, "uniform:1:100".into())
    );
}

#[test]
fn operations_come_in_the_shares_of_their_mix_and_reach_only_keys_that_exist() {
    for workload in all().into_iter().map(limited) {
        let plan = workload.plan(20_000, 3);
        let threads = operations(&workload, &plan);
        assert_eq!(
            threads,
            operations(&workload, &plan),
            "{} is not deterministic",
            workload.name
        );
        let all: Vec<Operation> = threads.concat();
        assert!(
            all.len() as u64 == plan.operations,
            "{}: {} of {plan:?}",
            workload.name,
            all.len()
        );
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        for operation in &all {
            *counts.entry(operation.kind).or_default() += 1;
            assert!(
                operation.record < plan.keys,
                "{}: {operation:?} of {plan:?}",
                workload.name
            );
            let scans = operation.kind == Kind::Scan;
            let length = workload.scan_length;
            assert_eq!(scans, operation.scan_length > 0, "{}", workload.name);
            assert!(!scans || (length.least..=length.most).contains(&operation.scan_length));
        }
        for (kind, share) in workload.mix.shares() {
            let (count, expected) = (
                counts.get(&kind).copied().unwrap_or(0),
                all.len() as f64 * share,
            );
            let spread = 5.0 * (expected + 1.0).sqrt();
            assert!(
                (count as f64 - expected).abs() <= spread,
                "{}: {count} {}",
                workload.name,
                kind.name()
            );
        }
    }
}

#[test]
fn inserts_are_new_removes_happen_once_and_reads_find_what_was_inserted() {
    for workload in all().into_iter().filter(|workload| !workload.anywhere) {
        let plan = workload.plan(5000, 4);
        let mut present: HashSet<u64> = (0..plan.loaded).collect();
        let churn: Vec<Operation> = workload.churn(&plan, 1).collect();
        assert_eq!(churn.len() as u64, plan.churn);
        let mut removed = HashSet::new();
        for operation in &churn {
            match operation.kind {
                Kind::Insert => assert!(present.insert(operation.record)),
                Kind::Remove => {
                    assert!(present.remove(&operation.record) && removed.insert(operation.record))
                }
                other => panic!("{other:?} in churn"),
            }
        }
        assert_eq!(
            (present.len() + removed.len()) as u64,
            plan.known,
            "{}",
            workload.name
        );
        let at_start: HashSet<u64> = (0..plan.known).collect();
        let (mut inserted, mut removed) = (HashSet::new(), HashSet::new());
        for thread in operations(&workload, &plan) {
            let mut own = at_start.clone();
            for operation in thread {
                let record = operation.record;
                let name = &workload.name;
                match operation.kind {
                    Kind::Insert | Kind::ReadInsert => {
                        assert!(
                            record >= plan.known && inserted.insert(record),
                            "{name}: {operation:?}"
                        );
                        own.insert(record);
                    }
                    Kind::Remove => assert!(
                        record < plan.known && removed.insert(record),
                        "{name}: {operation:?}"
                    ),
                    _ => assert!(own.contains(&record), "{name}: {operation:?} is not there"),
                }
            }
        }
    }
}

#[test]
fn plans_count_what_the_sources_count() {
    let plan = |name: &str, threads| Workload::named(name).expect(name).plan(1000, threads);
    let insert = plan("btrees/insert", 1);
    assert_eq!(
        (insert.loaded, insert.operations, insert.keys),
        (900, 100, 1000)
    );
    let churned = plan("matryoshka/search_after_churn", 1);
    assert_eq!(
        (
            churned.loaded,
            churned.churn,
            churned.known,
            churned.operations
        ),
        (1000, 500, 1250, 5_000_000)
    );
    let half = plan("bst/lookup-50", 2);
    assert_eq!((half.loaded, half.keys), (1000, 2000));
    let shrunk = plan("matryoshka/shrink", 1);
    let shrink = Workload::named("matryoshka/shrink").expect("shrink");
    let removes = shrink
        .operations(&shrunk, 0, 1)
        .filter(|o| o.kind == Kind::Remove)
        .count();
    assert_eq!(removes, 950);
    let load = plan("matryoshka/bulk_load", 4);
    assert_eq!((load.loaded, load.operations, load.keys), (1000, 0, 1000));
    let rounded = plan("bwtree/read", 3);
    assert_eq!(
        (0..3)
            .map(|thread| rounded.operations_of(thread))
            .sum::<u64>(),
        1000
    );
    // With many threads the threads' own ends still meet.
    assert_eq!(plan("matryoshka/rand_insert", 7).keys, 1000);
}

#[test]
fn monotone_work_goes_in_order_on_each_thread() {
    for name in [
        "bwtree/read-monotone",
        "bwtree/delete-monotone",
        "bwtree/insert-monotone",
    ] {
        let workload = Workload::named(name).expect(name);
        for thread in operations(&workload, &workload.plan(1000, 4)) {
            assert!(
                thread.is_sorted_by_key(|operation| operation.record),
                "{name}"
            );
        }
    }
}

/// What may stand behind the head of a workload, and what its error says.
const WRONG: &[(&str, &str)] = &[
    ("", "x.toml: the shares of the mix add up to 0, not to 1"),
    (
        "[mix]\nread = 0.5",
        "x.toml: the shares of the mix add up to 0.5, not to 1",
    ),
    (
        "[mix]\nread = 0.5\nscan = 0.5",
        "a mix with scans needs a scan_length",
    ),
    (
        "[mix]\nread = 1.5\nupdate = -0.5",
        "the share of read is 1.5, not from 0 to 1",
    ),
    (
        "[mix]\nreads = 1.0",
        "x.toml: line 6: unknown field `reads`",
    ),
    ("speed = 3", "x.toml: line 5: unknown field `speed`"),
    ("name = ", "x.toml: line 5: "),
    (
        "distribution = 'normal'\n[mix]\nread = 1.0",
        "no distribution is called 'normal'",
    ),
    (
        "scan_length = 'long'\n[mix]\nscan = 1.0",
        "'long' is no scan length",
    ),
    (
        "operations = 3\noperations_per_record = 2.0\n[mix]\nread = 1.0",
        "not both",
    ),
    ("churn = inf\n[mix]\nread = 1.0", "churn is inf"),
    (
        "[load]\nshare = 2.0\n[mix]\nread = 1.0",
        "the share to load is 2",
    ),
    (
        "[load]\nshare = 0.0\n[mix]\nread = 1.0",
        "nothing is loaded and nothing inserted",
    ),
    (
        "[load]\ntimed = true\n[mix]\nread = 1.0",
        "has no mix of operations",
    ),
    (
        "[mix]\nread = 1.0\n[value]\nread = 2",
        "touch no more than it has",
    ),
    (
        "space = 0.5\n[mix]\nread = 1.0",
        "a space of 0.5 is smaller",
    ),
];

#[test]
fn what_is_wrong_with_a_file_is_said_in_a_line() {
    let good = "name = 'x'\ntitle = 't'\nsource = 's'\nkeys = 'decimal'\n";
    let error = |text: &str| {
        let error = Workload::parse(&format!("{good}{text}"), "x.toml")
            .expect_err(text)
            .to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    for (text, message) in WRONG {
        let error = error(text);
        assert!(error.contains(message), "{text:?}: {error}");
    }
    let unknown = Workload::parse(&good.replace("decimal", "octal"), "x.toml").expect_err("octal");
    assert!(
        unknown
            .to_string()
            .starts_with("x.toml: no key set is called 'octal'"),
        "{unknown}"
    );
}
