//! What the layout of nodes does to lookups: Table 4 and Figures 3, 6 and 7.

use hedgerow_lab_layout::Between;
use hedgerow_memory::Placement;

use crate::experiment::{About, Experiment};
use crate::layout_experiment::{LayoutExperiment, LayoutForm, LayoutPlace, Question};

/// All four.
pub fn experiments() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(table4()),
        Box::new(fig3()),
        Box::new(fig6()),
        Box::new(fig7()),
    ]
}

/// A form of a tree whose nodes are merged, with nothing beside it.
const fn merged(name: &'static str, tree: &'static str) -> LayoutForm {
    LayoutForm {
        name,
        tree,
        placement: Placement::Merged,
        between: Between::Nothing,
        shifted: false,
    }
}

/// A form of a tree whose nodes are segregated, with nothing beside it.
const fn segregated(name: &'static str, tree: &'static str) -> LayoutForm {
    LayoutForm {
        placement: Placement::Segregated,
        ..merged(name, tree)
    }
}

/// The paper's machines have as many.
const MOST_THREADS: usize = 64;

/// What the figures fill in.
const UNNAMED: About = About {
    name: "",
    title: "",
    source: "",
    claim: "",
    x_label: None,
    x_log: false,
    baseline: "",
    here: None,
    compared_to: None,
};

/// Trees whose nodes and descriptors are padded to a cache line.
const INT_LF_64: &str = "int-lf as published";
const EXT_LF_64: &str = "ext-lf as published";

fn table4() -> LayoutExperiment {
    LayoutExperiment {
        about: About {
            name: "bst/table4",
            title: "Cache sets that nodes beside descriptors do not use",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, \
                     §3.2.3, Table 4",
            claim: "Nodes and descriptors of 64 bytes in turn leave half of the sets of the second \
                and third level unused; allocations of random sizes in between spread the \
                nodes, but prefetching descriptors costs as much. Smaller nodes come from a class \
                of their own: 40 % more lookups.",
            x_label: None,
            x_log: false,
            baseline: "int-lf 64-byte nodes",
            here: Some(
                "Sets that no node maps to can show, by virtual addresses and, for root, by \
                 physical ones. Half of them unused cannot: descriptors are given back \
                 here and used again, so nodes and descriptors do not alternate for \
                 long. The row without prefetching cannot: prefetchers cannot be turned \
                 off.",
            ),
            compared_to: None,
        },
        places: vec![LayoutPlace {
            name: None,
            forms: vec![
                merged("int-lf 64-byte nodes", INT_LF_64),
                LayoutForm {
                    between: Between::Random,
                    ..merged("int-lf 64-byte nodes beside allocations", INT_LF_64)
                },
                segregated("int-lf 64-byte nodes segregated", INT_LF_64),
                merged("int-lf", "int-lf"),
                segregated("int-lf segregated", "int-lf"),
                merged("ext-lf 64-byte nodes", EXT_LF_64),
                LayoutForm {
                    between: Between::Random,
                    ..merged("ext-lf 64-byte nodes beside allocations", EXT_LF_64)
                },
                segregated("ext-lf 64-byte nodes segregated", EXT_LF_64),
                merged("ext-lf", "ext-lf"),
                segregated("ext-lf segregated", "ext-lf"),
            ],
        }],
        question: Question::Sets,
        keys: [2000, 1_000_000, 1_000_000],
        most_threads: MOST_THREADS,
    }
}

fn fig3() -> LayoutExperiment {
    LayoutExperiment {
        about: About {
            name: "bst/fig3",
            title: "Leaves of edge-ext-lf beside their parents",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, \
                     §3.2.4, Fig. 3",
            claim: "75 % of the parents of leaves have a child on their own cache line. One \
                allocation of 32 bytes before the tree moves it to the next line, of another \
                pair: 14 % and 11 % fewer lookups.",
            x_label: None,
            x_log: false,
            baseline: "collocated",
            here: Some(
                "Where leaves lie can show, as it is the allocator's doing. What \
                 shifted leaves cost in time depends on the adjacent-line prefetcher; \
                 the paper's numbers are of 64 and 48 threads.",
            ),
            compared_to: None,
        },
        places: vec![LayoutPlace {
            name: None,
            forms: vec![
                merged("collocated", "edge-ext-lf"),
                LayoutForm {
                    shifted: true,
                    ..merged("shifted", "edge-ext-lf")
                },
                segregated("segregated", "edge-ext-lf"),
            ],
        }],
        question: Question::Children,
        keys: [2000, 1_000_000, 1_000_000],
        most_threads: MOST_THREADS,
    }
}

/// Pages of occ-avl-2 among the rows of YCSB: merged, and in another place.
fn among_rows(about: About, other: Placement) -> LayoutExperiment {
    let form = |placement: Placement| LayoutForm {
        placement,
        between: Between::Rows,
        ..merged(placement.name(), "occ-avl-2")
    };
    LayoutExperiment {
        about: About {
            x_label: None,
            x_log: false,
            baseline: Placement::Merged.name(),
            compared_to: None,
            ..about
        },
        places: vec![LayoutPlace {
            name: None,
            forms: vec![form(Placement::Merged), form(other)],
        }],
        question: Question::Pages,
        keys: [2000, 1_000_000, 10_000_000],
        most_threads: MOST_THREADS,
    }
}

fn fig6() -> LayoutExperiment {
    let about = About {
        name: "bst/fig6",
        title: "Pages of nodes among rows, without segregation",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3.3, Fig. 6",
        claim: "Nodes take up to three pages in a row, and the next is five or six pages on.",
        here: Some(
            "Pages and runs can show, below as a picture: they are the allocator's. Merged, rows \
             and nodes share size classes; the standard allocator (system) is named beside the \
             machine. TLB misses can show only with `--counters` on processors that let them be \
             counted.",
        ),
        ..UNNAMED
    };
    among_rows(about, Placement::System)
}

fn fig7() -> LayoutExperiment {
    let about = About {
        name: "bst/fig7",
        title: "Pages of nodes among rows, with segregation",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3.3, Fig. 7",
        claim: "Almost all pages of nodes follow each other; a transaction of YCSB has 161 misses \
                of the TLB instead of 412.",
        here: Some(
            "Pages and runs can show, below as a picture: they are the allocator's. TLB misses can \
             show only with `--counters` on processors that let them be counted (those of lookups \
             here, those of transactions in `bst/fig5`); regions of 2 MiB hide much of them in \
             time.",
        ),
        ..UNNAMED
    };
    among_rows(about, Placement::Segregated)
}
