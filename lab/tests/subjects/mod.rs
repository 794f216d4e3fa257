//! What each figure of "Getting to the Root of Concurrent Binary Search Tree Performance" is about.
//! Results that lack it are no results of the figure, whatever else they hold.

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

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
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

fn all() -> Vec<Subject> {
    let table_1 = || owned(&TABLE_1);
    let of = |name, contenders, columns| Subject {
        name,
        contenders,
        columns,
        places: &[],
        parameters: &[],
    };
    let both = || [table_1(), published()].concat();
    let lookups = &["LOOKUPS"];
    let times = &["transactions", "index time", "database time"];
    let int_lf = [
        "int-lf 64-byte nodes",
        "int-lf 64-byte nodes beside allocations",
        "int-lf",
    ];
    vec![
        of("bst/fig1", both(), lookups),
        Subject {
            parameters: &["% lookups 100"],
            ..of("bst/fig2", both(), lookups)
        },
        of(
            "bst/table3",
            [without_flaws(), owned(&TABLE_3)].concat(),
            lookups,
        ),
        of(
            "bst/table4",
            owned(&int_lf),
            &["lookup", "unused L1 sets", "unused L2 sets"],
        ),
        of(
            "bst/fig3",
            owned(&["collocated", "shifted"]),
            &["lookup", "leaf on the line", "leaf on the next line"],
        ),
        of(
            "bst/fig4",
            owned(&["occ-avl", "occ-avl-2", "occ-avl-2-ret", "occ-avl-2-unsafe"]),
            &["get"],
        ),
        Subject {
            places: &["YCSB, merged", "YCSB, segregated"],
            ..of("bst/fig5", table_1(), times)
        },
        of(
            "bst/fig6",
            owned(&["size classes", "standard allocator"]),
            &["pages", "pages of a run"],
        ),
        of(
            "bst/fig7",
            owned(&["size classes", "segregated"]),
            &["pages", "pages of a run"],
        ),
        Subject {
            places: &["improved, segregated"],
            ..of(
                "bst/fig8",
                table_1(),
                &["transactions ÷ as published, merged"],
            )
        },
        Subject {
            places: &["segregated"],
            ..of(
                "bst/fig9",
                table_1(),
                &["index time ÷ merged", "database time ÷ merged"],
            )
        },
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
    ]
}

/// Panics where figures of a figure of the paper lack what it is about.
pub fn check(name: &str, figures: &[&Figure]) {
    let subjects = all();
    let Some(subject) = subjects.iter().find(|subject| subject.name == name) else {
        assert!(!name.starts_with("bst/"), "what is {name} about?");
        return;
    };
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
