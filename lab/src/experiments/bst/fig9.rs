//! Index time and database time of TPC-C, merged and segregated (§4.6, Fig. 9).

use hedgerow_memory::Placement;

use super::database_run::{DatabaseExperiment, Part, Place, times};
use crate::experiment::About;

const PLACES: &[Place] = &[
    Place::new("merged", Part::Tpcc, Placement::Merged),
    Place::new("system", Part::Tpcc, Placement::System),
    Place::new("segregated", Part::Tpcc, Placement::Segregated),
];

pub fn experiment() -> DatabaseExperiment {
    DatabaseExperiment {
        about: About {
            name: "bst/fig9",
            title: "Index time and database time of TPC-C, merged and segregated",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.6, \
                     Fig. 9",
            claim: "Segregation takes 10 s of 105 from the index time of occ-avl and adds 2 s of \
                    135 to its database time; of edge-ext-lf it takes 10 s and adds 6.",
            x_label: Some("memory"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "Index time can show, as a ratio to that merged, within each round. \
                 Merged nodes share size classes with rows; at `system` both are the \
                 standard allocator's. The rise of database time by contention on row \
                 locks wants many threads on many cores.",
            ),
            compared_to: Some("merged"),
        },
        places: PLACES,
        figures: times,
    }
}
