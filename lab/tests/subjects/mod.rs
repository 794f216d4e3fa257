//! What each experiment is about: the trees, engines or servers that its figures compare, and the
//! columns that they need. Results that lack it are no results of the experiment, whatever else
//! they hold.

mod btrees;
mod bwtree;
mod masstree;
mod scale;
mod transactions;

use std::path::Path;

use hedgerow_lab::process::find_program;
use hedgerow_lab_report::{Figure, X};

/// What a figure varies and measures.
pub struct Subject {
    /// The experiment.
    name: &'static str,
    /// Who must be in it.
    contenders: Vec<String>,
    /// What each of them must have at each place.
    columns: &'static [&'static str],
    /// Categories of the horizontal axis, where it has some.
    places: &'static [&'static str],
    /// Parameters that must occur, where the figure varies them.
    parameters: &'static [&'static str],
}

/// The ten of Table 1.
const TABLE_1: [&str; 10] = [
    "occ-avl",
    "occ-avl-2",
    "edge-int-lf",
    "log-int",
    "citrus",
    "int-lf",
    "edge-ext-lf",
    "edge-ext-lf-2",
    "ticket",
    "ext-lf",
];

/// The flaws that Table 3 marks: `edge-ext-lf-2` is `edge-ext-lf` padded.
const TABLE_3: [&str; 11] = [
    "occ-avl, bloated locks",
    "occ-avl, scattered fields",
    "edge-int-lf, heavy lookups",
    "log-int, bloated locks",
    "log-int, scattered fields",
    "citrus, bloated locks",
    "int-lf, padded",
    "edge-ext-lf, padded",
    "ticket, padded",
    "ext-lf, padded",
    "ext-lf, heavy lookups",
];

/// Trees beside our others in `bst/best`.
const BEST: [&str; 2] = ["ticket", "hedgerow inline"];

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Our servers of these names, where ours is built beside the lab.
fn ours(names: &[&str]) -> Vec<String> {
    match Path::new(env!("CARGO_BIN_EXE_hedgerow-lab"))
        .with_file_name("hedgerow")
        .is_file()
    {
        true => owned(names),
        false => {
            println!("skipped: no hedgerow beside the lab (cargo build -p hedgerow-cli)");
            Vec::new()
        }
    }
}

fn published() -> Vec<String> {
    let names = TABLE_1.iter();
    names.map(|name| format!("{name}, published")).collect()
}

/// The trees that have flaws, without them.
fn without_flaws() -> Vec<String> {
    let trees = TABLE_3.iter().filter_map(|name| name.split(", ").next());
    trees.map(str::to_owned).collect()
}

/// What Table 4 has, as far as the kernel describes caches: some hypervisors hide them.
fn sets_of_caches() -> &'static [&'static str] {
    match std::fs::exists("/sys/devices/system/cpu/cpu0/cache/index0/size") {
        Ok(true) => &["lookup", "unused L1 sets", "unused L2 sets"],
        _ => &["lookup"],
    }
}

/// What a contender must have at each place and parameter that there is.
fn of(name: &'static str, contenders: Vec<String>, columns: &'static [&'static str]) -> Subject {
    Subject {
        name,
        contenders,
        columns,
        places: &[],
        parameters: &[],
    }
}

fn table_1() -> Vec<String> {
    owned(&TABLE_1)
}

fn all() -> Vec<Subject> {
    let mut all = of_maps();
    all.extend(of_layouts());
    all.extend(of_databases());
    all.extend(btrees::all());
    all.extend(masstree::all());
    all.extend(bwtree::all());
    all.extend(transactions::all());
    all.extend(scale::all());
    all.extend(of_matryoshka());
    all.push(trees_in_memory());
    all
}

fn of_maps() -> Vec<Subject> {
    let both = || [table_1(), published()].concat();
    let flaws = [without_flaws(), owned(&TABLE_3)].concat();
    let validating = owned(&["occ-avl", "occ-avl-2", "occ-avl-2-ret", "occ-avl-2-unsafe"]);
    let lookups = &["LOOKUPS"];
    vec![
        of("bst/fig1", both(), lookups),
        Subject {
            parameters: &["% lookups 100"],
            ..of("bst/fig2", both(), lookups)
        },
        of("bst/table3", flaws, lookups),
        of("bst/fig4", validating, lookups),
        Subject {
            parameters: &[
                "% lookups 100",
                "% lookups 90",
                "% lookups 70",
                "% lookups 50",
            ],
            ..of("bst/microbenchmark", table_1(), lookups)
        },
        of("bst/batches", table_1(), &["get", "get_many(64)"]),
        of("bst/best", owned(&BEST), &["insert", "get", "remove"]),
    ]
}

/// The report's forms over 4-byte integers.
const MATRYOSHKA: [&str; 7] = [
    "matryoshka plain u32",
    "matryoshka fence u32",
    "matryoshka fence superpage u32",
    "matryoshka eytzinger u32",
    "matryoshka flat u32",
    "matryoshka flat fast u32",
    "matryoshka flat superpage u32",
];

/// The report's workloads.
const REPORTED: [&str; 7] = [
    "seq_insert",
    "rand_insert",
    "ycsb_a",
    "rand_delete",
    "mixed",
    "ycsb_b",
    "search_after_churn",
];

/// The report's tree, and each of its proposals.
const PROPOSALS: [&str; 7] = [
    "as reported",
    "A superpages",
    "B pipelined batches",
    "C branch-free search",
    "D FAST nodes",
    "E compiled",
    "all five",
];

/// What every figure says where all contenders have superpages.
const BY_THE_ALLOCATOR: &[&str] = &["superpages \"by the allocator\""];

/// Forms whose pages are nested, where what simulates a processor is installed.
fn profiled() -> Vec<String> {
    let installed = |name: &&str| find_program(name).is_some();
    if ["valgrind", "addr2line"].iter().all(installed) {
        owned(&[
            "matryoshka set plain u32",
            "matryoshka set fence without mass prefetch u32",
            "matryoshka set fence u32",
            "matryoshka set fence superpage u32",
        ])
    } else {
        println!("skipped: no valgrind or addr2line (apt install valgrind binutils)");
        Vec::new()
    }
}

fn of_matryoshka() -> Vec<Subject> {
    let operations = &["operations"];
    let wide = MATRYOSHKA.map(|name| name.replace("u32", "u64"));
    let sets = MATRYOSHKA.map(|name| name.replace("matryoshka ", "matryoshka set "));
    let sets = [&sets[..], &owned(&["std BTreeSet u32"])].concat();
    let prefetched = [
        "matryoshka set plain u32",
        "matryoshka set fence without mass prefetch u32",
        "matryoshka set fence u32",
    ];
    vec![
        of("matryoshka/scaling", wide.to_vec(), operations),
        Subject {
            parameters: BY_THE_ALLOCATOR,
            ..of("matryoshka/scaling-superpages", wide.to_vec(), operations)
        },
        Subject {
            places: &REPORTED,
            ..of("matryoshka/table5", owned(&MATRYOSHKA), operations)
        },
        Subject {
            places: &["rand_insert", "search_after_churn"],
            ..of("matryoshka/table11", owned(&prefetched), operations)
        },
        of("matryoshka/sets", sets.clone(), operations),
        Subject {
            parameters: BY_THE_ALLOCATOR,
            ..of("matryoshka/sets-superpages", sets, operations)
        },
        Subject {
            places: &["rand_insert", "bulk_load"],
            ..of("matryoshka/proposed", owned(&MATRYOSHKA), operations)
        },
        Subject {
            places: &["rand_insert", "batch_insert"],
            ..of("matryoshka/table18", owned(&PROPOSALS), operations)
        },
        Subject {
            places: &["(all)", "node/page.rs: path"],
            ..of(
                "matryoshka/profiles",
                profiled(),
                &["cycles", "last-level misses"],
            )
        },
        Subject {
            places: &["large_keys"],
            parameters: &["key bytes 16", "key bytes 32"],
            ..of(
                "matryoshka/proposed",
                owned(&["matryoshka index"]),
                operations,
            )
        },
        of(
            "matryoshka/lookups",
            owned(&MATRYOSHKA),
            &["get", "dependent get"],
        ),
    ]
}

fn of_layouts() -> Vec<Subject> {
    let int_lf = owned(&[
        "int-lf 64-byte nodes",
        "int-lf 64-byte nodes beside allocations",
        "int-lf",
    ]);
    let leaves = &["lookup", "leaf on the line", "leaf on the next line"];
    let pages = &["pages", "pages of a run"];
    vec![
        of("bst/table4", int_lf, sets_of_caches()),
        of("bst/fig3", owned(&["collocated", "shifted"]), leaves),
        of("bst/fig6", owned(&["merged", "system"]), pages),
        of("bst/fig7", owned(&["merged", "segregated"]), pages),
    ]
}

fn of_databases() -> Vec<Subject> {
    let times = &["transactions", "index time", "database time"];
    let gained = &["transactions ÷ as published, merged"];
    let compared = &["index time ÷ merged", "database time ÷ merged"];
    let paired = &[
        "index time, segregated ÷ merged",
        "database time, segregated ÷ merged",
        "index time, merged",
    ];
    let by_kind = &[
        "index time",
        "database time",
        "new-order: index time",
        "new-order: database time",
        "payment: index time",
        "payment: database time",
        "order-status: index time",
        "order-status: database time",
        "delivery: index time",
        "delivery: database time",
        "stock-level: index time",
        "stock-level: database time",
    ];
    let locked_over = || owned(&["occ-avl-2-ret", "edge-ext-lf", "masstree"]);
    let locked = &["transactions", "index time", "database time", "aborts"];
    vec![
        Subject {
            places: &["YCSB, merged", "YCSB, system", "YCSB, segregated"],
            ..of("bst/fig5", table_1(), times)
        },
        Subject {
            places: &["improved, segregated"],
            ..of("bst/fig8", table_1(), gained)
        },
        Subject {
            places: &["system", "segregated"],
            ..of("bst/fig9", table_1(), compared)
        },
        Subject {
            places: &["YCSB", "TPC-C"],
            ..of("bst/segregation", table_1(), paired)
        },
        Subject {
            places: &["merged", "segregated"],
            parameters: &["transactions \"all five\""],
            ..of("bst/tpcc-full", table_1(), by_kind)
        },
        Subject {
            places: &[
                "no-wait, padded",
                "no-wait, unpadded",
                "wait-die, padded",
                "wait-die, unpadded",
            ],
            parameters: &[
                "rows 500",
                "warehouses 1",
                "Zipf exponent 0.9",
                "transactions \"all five\"",
            ],
            ..of("bst/locks", locked_over(), locked)
        },
    ]
}

/// Every tree that the inspector knows; its tables have a test of their own.
fn trees_in_memory() -> Subject {
    let trees = hedgerow_lab_layout::entries().into_iter();
    let trees = trees.map(|tree| tree.name.to_owned()).collect();
    Subject {
        places: &["segregated", "merged", "system"],
        ..of("layout/trees", trees, &["lookup"])
    }
}

/// Panics where figures of an experiment lack what it is about.
pub fn check(name: &str, figures: &[&Figure]) {
    let mut subjects = all();
    subjects.retain(|subject| subject.name == name);
    assert!(!subjects.is_empty(), "what is {name} about?");
    for subject in &subjects {
        check_subject(subject, figures);
    }
}

fn check_subject(subject: &Subject, figures: &[&Figure]) {
    let name = subject.name;
    for contender in &subject.contenders {
        for column in subject.columns {
            let of = |figure: &&&Figure| {
                let lookups = *column == "LOOKUPS" && figure.unit == "Mops/s";
                figure.contender == *contender && (lookups || figure.column == *column)
            };
            let of: Vec<&&Figure> = figures.iter().filter(of).collect();
            assert!(!of.is_empty(), "{name} has no {column} of {contender}");
            for place in subject.places {
                let x = Some(X::Category((*place).to_owned()));
                let there = of.iter().any(|figure| figure.x == x);
                assert!(there, "{name} has no {column} of {contender} at {place}");
            }
            for parameter in subject.parameters {
                let there = of.iter().any(|figure| {
                    let mut words = figure.parameters.iter();
                    words.any(|(name, value)| format!("{name} {value}") == *parameter)
                });
                assert!(
                    there,
                    "{name} has no {column} of {contender} at {parameter}"
                );
            }
        }
    }
}
