//! Every tree that can be inspected, with its nodes in pools of their own, in size classes, and
//! from the standard allocator.
//!

use hedgerow_lab_layout::{Between, entries};
use hedgerow_memory::Placement;

use crate::experiment::About;
use crate::layout_experiment::{LayoutExperiment, LayoutForm, LayoutPlace, Question};

/// The experiment.
pub(super) fn experiment() -> LayoutExperiment {
    LayoutExperiment {
        about: About {
            name: "layout/trees",
            title: "How the nodes of every tree lie in memory",
            source: "Hedgerow",
            claim: "Getting to the Root of Concurrent Binary Search Tree Performance (§6) asks for \
                    tools that show layouts. Nodes that cross lines, leave sets of the caches \
                    unused or lie among other data cost lookups.",
            x_label: Some("placement"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: None,
            compared_to: None,
        },
        places: vec![
            place(Placement::Segregated),
            place(Placement::Merged),
            place(Placement::System),
        ],
        question: Question::All,
        keys: [1000, 200_000, 1_000_000],
        // The B-tree is of one writer.
        most_threads: 1,
    }
}

fn place(placement: Placement) -> LayoutPlace {
    let forms = entries().into_iter().map(|tree| LayoutForm {
        name: tree.name,
        tree: tree.name,
        placement,
        between: Between::Nothing,
        shifted: false,
    });
    LayoutPlace {
        name: Some(placement.name()),
        forms: forms.collect(),
    }
}
