//! How rows are locked: without waiting and by wait-die, with padded locks and without (§4.3.2).
//!
//! The paper's runs wait for no lock, and pad locks after they had found that two of them lay on
//! one cache line. DBx1000 has both ways to wait. Here YCSB and both mixes of TPC-C run with all
//! four combinations, over a tree that is balanced, one without locks, and Masstree.

use hedgerow_lab_database::Concurrency;
use hedgerow_memory::Placement;

use super::database_run::{DatabaseExperiment, Part, Place, times};
use crate::experiment::About;

/// DBx1000's standard, and what makes a few rows so popular that transactions often meet.
const ZIPF_EXPONENTS: [f64; 2] = [0.6, 0.9];

const fn place(
    part: Part,
    concurrency: Concurrency,
    padded_locks: bool,
    zipf_exponent: f64,
) -> Place {
    let name = match (concurrency, padded_locks) {
        (Concurrency::NoWait, true) => "no-wait, padded",
        (Concurrency::NoWait, false) => "no-wait, unpadded",
        (Concurrency::WaitDie, true) => "wait-die, padded",
        (Concurrency::WaitDie, false) => "wait-die, unpadded",
    };
    Place {
        concurrency,
        padded_locks,
        zipf_exponent,
        only: &["occ-avl-2-ret", "edge-ext-lf", "masstree"],
        ..Place::new(name, part, Placement::Segregated)
    }
}

/// The four ways to lock rows in one workload.
const fn ways(part: Part, zipf_exponent: f64) -> [Place; 4] {
    [
        place(part, Concurrency::NoWait, true, zipf_exponent),
        place(part, Concurrency::NoWait, false, zipf_exponent),
        place(part, Concurrency::WaitDie, true, zipf_exponent),
        place(part, Concurrency::WaitDie, false, zipf_exponent),
    ]
}

const PLACES: &[[Place; 4]] = &[
    ways(Part::Ycsb, ZIPF_EXPONENTS[0]),
    ways(Part::Ycsb, ZIPF_EXPONENTS[1]),
    ways(Part::Tpcc, ZIPF_EXPONENTS[0]),
    ways(Part::TpccFull, ZIPF_EXPONENTS[0]),
];

pub fn experiment() -> DatabaseExperiment {
    DatabaseExperiment {
        about: About {
            name: "bst/locks",
            title: "YCSB and TPC-C by how rows are locked",
            source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3.2; \
                     DBx1000",
            claim: "Row locks of 48 bytes share cache lines: segregation of edge-int-lf, whose \
                    nodes had lain between them, raises the database time of YCSB from 58 to 67 \
                    s. With padded locks it does not.",
            x_label: Some("row locks"),
            x_log: false,
            baseline: "edge-ext-lf",
            here: Some(
                "How often transactions abort by each way to lock can show, and what waiting \
                 costs or saves. That locks share a line wants threads that write neighbouring \
                 rows at once: two cores seldom do, and smaller locks take fewer pages. The \
                 paper's locks have 48 bytes with their allocator's class, ours 40. Under \
                 wait-die the oldest of those who wait goes first, in DBx1000 the youngest.",
            ),
            compared_to: Some("no-wait, padded"),
        },
        places: PLACES.as_flattened(),
        figures: times,
    }
}
