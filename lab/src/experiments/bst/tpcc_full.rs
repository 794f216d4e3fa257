//! Index time and database time of all five transactions of TPC-C, together and each by itself,
//! merged and segregated. The paper has new-order and payment alone (`bst/fig9`).

use hedgerow_memory::Placement;

use super::database_run::{DatabaseExperiment, Part, Place, times_by_kind};
use crate::experiment::About;

const PLACES: &[Place] = &[
    Place::new("merged", Part::TpccFull, Placement::Merged),
    Place::new("segregated", Part::TpccFull, Placement::Segregated),
];

pub fn experiment() -> DatabaseExperiment {
    DatabaseExperiment {
        about: About {
            name: "bst/tpcc-full",
            title: "Index time and database time of all five transactions of TPC-C",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.6; \
                     TPC-C, revision 5.11, clause 5.2.3",
            claim: "The paper has no figure of it; of new-order and payment segregation takes a \
                    tenth of the index time of occ-avl and 5 % of that of edge-ext-lf.",
            x_label: Some("memory"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "Without a name before them, times are those of a transaction of the mix, and the \
                 drawing of inputs is database time; a transaction's own times are from its begin \
                 to its end. Deliveries remove rows from indexes, which new-order and payment \
                 never do.",
            ),
            compared_to: Some("merged"),
        },
        places: PLACES,
        figures: times_by_kind,
    }
}
