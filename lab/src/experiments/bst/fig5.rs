//! The microbenchmark beside YCSB without and with segregation (§4.2, Fig. 5).

use hedgerow_memory::Placement;

use super::database_run::{DatabaseExperiment, Part, Place, times};
use crate::experiment::About;

const PLACES: &[Place] = &[
    Place::new(
        "microbenchmark",
        Part::Microbenchmark,
        Placement::Segregated,
    ),
    Place::new("YCSB, merged", Part::Ycsb, Placement::Merged),
    Place::new("YCSB, system", Part::Ycsb, Placement::System),
    Place::new("YCSB, segregated", Part::Ycsb, Placement::Segregated),
];

pub fn experiment() -> DatabaseExperiment {
    DatabaseExperiment {
        about: About {
            name: "bst/fig5",
            title: "The microbenchmark beside YCSB",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.1 to \
                     §4.3, Fig. 5",
            claim: "Merged with YCSB's memory the trees are in another order than in the \
                    microbenchmark; segregated they are in nearly the same. For occ-avl \
                    segregation takes index time from 121 to 108 s and total time from 188 to \
                    178 s.",
            x_label: Some("what runs"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "The order of the trees can show at each place. Merged nodes share size \
                 classes with rows, as the paper's share those of one jemalloc; the \
                 paper's segregated trees have an allocator of their own, these have \
                 pools. At `system` all of it is the standard allocator's. A third of \
                 the last level's sets cannot show: that is the paper's processor's hash \
                 of addresses, which is not published. Contention on row locks wants more \
                 threads than two cores have.",
            ),
            compared_to: Some("YCSB, merged"),
        },
        places: PLACES,
        figures: |part, outcome, answer| match part {
            Part::Microbenchmark => super::database_run::throughput(part, outcome, answer),
            Part::Ycsb | Part::Tpcc | Part::TpccFull => times(part, outcome, answer),
        },
    }
}
