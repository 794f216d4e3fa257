//! Factor analysis (§6.2, Fig. 8): from a binary tree to Masstree, one feature at a time.
//!
//! On one thread and on one for each core, up to the paper's 16. The comparison trees are for any
//! number of threads, as Masstree is: `hedgerow inline` is the last step, and `hedgerow
//! single-threaded`, which only one thread can use, shows what concurrency costs. Superpages come
//! from glibc's tunable for the comparison trees, from Hedgerow's own pools for Hedgerow's.
//!
//! Beside the steps stands a partial-key B-tree, with superpages and prefetching as well: the paper
//! says of one that Masstree outperformed it "on several benchmarks by 20 % or more" (§4.1), and
//! not which. It takes part in Figure 9, too, whose shared prefixes it is made for.

use hedgerow_lab_contender::MapEntry;

use crate::contestant::{ALLOCATOR_SUPERPAGES, Contestant};
use crate::experiment::{About, Settings};
use crate::map_experiment::{MapExperiment, MapPoint};
use crate::map_workload::{MapWorkload, Phase};
use crate::registry::Registry;
use hedgerow_lab_comparison_trees as trees;
use hedgerow_lab_own::Empty;

/// The variable that keeps Hedgerow's pools from asking for them.
const HEDGEROW_SMALL_PAGES: (&str, &str) = ("HEDGEROW_SUPERPAGES", "off");

const SMALL_PAGES: &str = "hedgerow inline -superpage";

pub fn experiment() -> MapExperiment {
    MapExperiment {
        about: About {
            name: "masstree/fig8",
            title: "From a binary tree to Masstree, one feature at a time",
            source: "Masstree, §6.2, Fig. 8",
            claim: "Superpages bring 27–37 %, integer comparison 15–24 %, the 4-tree 41–44 %, a \
                    prefetching B-tree 9–31 % over it, permutations 4 % of puts, and Masstree \
                    itself 4–8 %.",
            x_label: None,
            x_log: false,
            baseline: trees::BINARY,
            here: None,
            compared_to: None,
        },
        maps,
        points,
    }
}

fn maps(registry: &Registry) -> Vec<Contestant> {
    let steps = [
        trees::BINARY,
        trees::ARENA,
        trees::SUPERPAGE,
        trees::INTEGERS,
        trees::FOUR,
        trees::BTREE,
        trees::PREFETCH,
        trees::PERMUTER,
        trees::PARTIAL,
    ];
    let mut maps: Vec<Contestant> = steps
        .into_iter()
        .filter_map(trees::tree)
        .map(in_superpages)
        .collect();
    let ours = ["hedgerow single-threaded", "hedgerow inline", Empty::NAME];
    maps.extend(registry.maps_named(&ours).into_iter().map(Contestant::from));
    if let Some(inline) = registry.map("hedgerow inline") {
        let mut map = inline.clone();
        map.entry.name = SMALL_PAGES;
        maps.push(Contestant {
            environment: environment(HEDGEROW_SMALL_PAGES),
            ..Contestant::from(map)
        });
    }
    maps
}

/// The environment of a contestant, of one variable.
fn environment(variable: (&'static str, &str)) -> Vec<(&'static str, String)> {
    let (name, value) = variable;
    vec![(name, value.to_owned())]
}

/// A comparison tree; from the step that adds them on, with superpages.
fn in_superpages(map: MapEntry) -> Contestant {
    let environment = match map.entry.name {
        trees::BINARY | trees::ARENA => Vec::new(),
        _ => environment(ALLOCATOR_SUPERPAGES),
    };
    Contestant {
        environment,
        ..Contestant::from(map)
    }
}

fn points(settings: &Settings) -> Vec<MapPoint> {
    let keys = settings.keys(20_000, 800_000, 140_000_000);
    let point = |threads: usize| MapPoint {
        parameters: vec![
            ("keys", keys.into()),
            ("key set", "decimal".into()),
            ("threads", threads.into()),
        ],
        x: None,
        workload: MapWorkload {
            set: "decimal".to_owned(),
            keys,
            operations: keys.min(20_000_000),
            threads,
            phases: vec![Phase::Insert, Phase::Get, Phase::DependentGet],
        },
        only: &[],
    };
    thread_counts(settings).into_iter().map(point).collect()
}

/// The comparison tree of Figure 9 and §6.4 in superpages.
pub fn comparison(name: &'static str) -> Option<Contestant> {
    trees::tree(name).map(in_superpages)
}

/// One thread, and as many as the paper has where there are cores for them.
pub fn thread_counts(settings: &Settings) -> Vec<usize> {
    let mut counts = vec![1, settings.cores.clamp(1, 16)];
    counts.dedup();
    counts
}
