//! TPC-C over trees as published and merged, and over improved and segregated ones (§4.5, Fig. 8).

use hedgerow_memory::Placement;

use super::database_run::{DatabaseExperiment, Part, Place, throughput};
use crate::experiment::About;

const PLACES: &[Place] = &[
    Place {
        baseline: true,
        ..Place::new("as published, merged", Part::Tpcc, Placement::Merged)
    },
    Place::new("improved, merged", Part::Tpcc, Placement::Merged),
    Place::new("improved, segregated", Part::Tpcc, Placement::Segregated),
];

pub fn experiment() -> DatabaseExperiment {
    DatabaseExperiment {
        about: About {
            name: "bst/fig8",
            title: "TPC-C over trees as published and improved",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.5, \
                     Fig. 8",
            claim: "Improved and segregated trees raise the throughput of TPC-C by up to 7.6 % \
                    (occ-avl: from 249 s to 232 s).",
            x_label: Some("trees"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "The ratio of throughputs, which is the paper's data point, can show: the \
                 column that is compared with the published form. Fewer warehouses and \
                 threads, and index time a smaller share, leave less of it to see.",
            ),
            compared_to: Some("as published, merged"),
        },
        places: PLACES,
        figures: throughput,
    }
}
