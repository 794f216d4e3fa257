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

/// A form of a tree from the size classes, with nothing beside it.
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
                "Sets that no node maps to show, by virtual addresses and, for root, by \
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
                "Where leaves lie shows exactly, as it is the allocator's doing. What \
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
    }
}

/// A form of occ-avl-2 among the rows of YCSB.
const fn among_rows(name: &'static str, placement: Placement) -> LayoutForm {
    LayoutForm {
        placement,
        between: Between::Rows,
        ..merged(name, "occ-avl-2")
    }
}

fn fig6() -> LayoutExperiment {
    LayoutExperiment {
        about: About {
            name: "bst/fig6",
            title: "Pages of nodes among rows, without segregation",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, \
                     §4.3.3, Fig. 6",
            claim: "Nodes take up to three pages in a row, and the next is five or six pages on.",
            x_label: None,
            x_log: false,
            baseline: "size classes",
            here: Some(
                "Pages and runs show exactly, below as a picture; the standard \
                 allocator is the system's, or what the lab was built with. TLB misses \
                 show only with `--counters` on processors that let them be counted.",
            ),
            compared_to: None,
        },
        places: vec![LayoutPlace {
            name: None,
            forms: vec![
                among_rows("size classes", Placement::Merged),
                among_rows("standard allocator", Placement::System),
            ],
        }],
        question: Question::Pages,
        keys: [2000, 1_000_000, 10_000_000],
    }
}

fn fig7() -> LayoutExperiment {
    LayoutExperiment {
        about: About {
            name: "bst/fig7",
            title: "Pages of nodes among rows, with segregation",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, \
                     §4.3.3, Fig. 7",
            claim: "Almost all pages of nodes follow each other; a transaction of YCSB has 161 \
                misses of the TLB instead of 412.",
            x_label: None,
            x_log: false,
            baseline: "size classes",
            here: Some(
                "Pages and runs show exactly, below as a picture. TLB misses show only \
                 with `--counters` on processors that let them be counted; regions of 2 \
                 MiB hide much of them in time.",
            ),
            compared_to: None,
        },
        places: vec![LayoutPlace {
            name: None,
            forms: vec![
                among_rows("size classes", Placement::Merged),
                among_rows("segregated", Placement::Segregated),
            ],
        }],
        question: Question::Pages,
        keys: [2000, 1_000_000, 10_000_000],
    }
}
