//! What the layout of nodes does to lookups: Table 4 and Figures 3, 6 and 7.
//!
//! Each form of an experiment is a tree, where its nodes come from, and what is allocated beside
//! them. A round loads the tree by one thread, times lookups of random keys that are there, and
//! asks the inspector of layouts what the figure is about. The effects on time belong to a
//! machine: this one may have other prefetchers, larger pages or larger caches than the paper's,
//! and where it runs under a hypervisor, physical addresses are the guest's. The layout itself is
//! the same everywhere.

use std::hint::black_box;

use hedgerow_lab_contender::{Promises, Unavailable};
use hedgerow_lab_layout::{Between, LayoutEntry, Load, Loaded, entries};
use hedgerow_lab_own::own;
use hedgerow_lab_report::Better;
use hedgerow_memory::Placement;
use hedgerow_memory::layout::{Inspector, KindLayout, Layout, Nearness};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{pin_this_thread, timed};
use crate::registry::Registry;
use crate::{LabError, Result};

/// A tree in a certain layout.
struct LayoutForm {
    /// Its name among the contenders.
    name: &'static str,
    /// The tree's name among those that can be inspected.
    tree: &'static str,
    placement: Placement,
    between: Between,
    shifted: bool,
}

/// What a figure is about.
#[derive(Clone, Copy)]
enum Question {
    /// Sets of the caches that no node maps to.
    Sets,
    /// Where the children of parents of leaves are.
    Children,
    /// Pages and their runs.
    Pages,
}

/// One table or figure.
struct LayoutExperiment {
    about: About,
    forms: &'static [LayoutForm],
    question: Question,
    /// Keys at the scales.
    keys: [usize; 3],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    lookups: usize,
}

/// All four.
pub fn experiments() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(TABLE_4),
        Box::new(FIGURE_3),
        Box::new(FIGURE_6),
        Box::new(FIGURE_7),
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

const TABLE_4: LayoutExperiment = LayoutExperiment {
    about: About {
        name: "bst/table4",
        title: "Cache sets that nodes beside descriptors do not use",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §3.2.3, Table 4",
        claim: "Nodes and descriptors of 64 bytes in turn leave half of the sets of the second and \
                third level unused; allocations of random sizes in between spread the nodes, but \
                prefetching descriptors costs as much. Smaller nodes come from a class of their \
                own: 40 % more lookups.",
        x_label: None,
        x_log: false,
        baseline: "int-lf 64-byte nodes",
    },
    forms: &[
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
    question: Question::Sets,
    keys: [2000, 1_000_000, 1_000_000],
};

const FIGURE_3: LayoutExperiment = LayoutExperiment {
    about: About {
        name: "bst/fig3",
        title: "Leaves of edge-ext-lf beside their parents",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §3.2.4, Fig. 3",
        claim: "75 % of the parents of leaves have a child on their own cache line. One allocation \
                of 32 bytes before the tree moves it to the next line, of another pair: 14 % and \
                11 % fewer lookups.",
        x_label: None,
        x_log: false,
        baseline: "collocated",
    },
    forms: &[
        merged("collocated", "edge-ext-lf"),
        LayoutForm {
            shifted: true,
            ..merged("shifted", "edge-ext-lf")
        },
        segregated("segregated", "edge-ext-lf"),
    ],
    question: Question::Children,
    keys: [2000, 1_000_000, 1_000_000],
};

/// A form of occ-avl-2 among the rows of YCSB.
const fn among_rows(name: &'static str, placement: Placement) -> LayoutForm {
    LayoutForm {
        placement,
        between: Between::Rows,
        ..merged(name, "occ-avl-2")
    }
}

const FIGURE_6: LayoutExperiment = LayoutExperiment {
    about: About {
        name: "bst/fig6",
        title: "Pages of nodes among rows, without segregation",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3.3, Fig. 6",
        claim: "Nodes take up to three pages in a row, and the next is five or six pages on.",
        x_label: None,
        x_log: false,
        baseline: "size classes",
    },
    forms: &[
        among_rows("size classes", Placement::Merged),
        among_rows("standard allocator", Placement::System),
    ],
    question: Question::Pages,
    keys: [2000, 1_000_000, 10_000_000],
};

const FIGURE_7: LayoutExperiment = LayoutExperiment {
    about: About {
        name: "bst/fig7",
        title: "Pages of nodes among rows, with segregation",
        source: "Getting to the Root of Concurrent Binary Search Tree Performance, §4.3.3, Fig. 7",
        claim: "Almost all pages of nodes follow each other; a transaction of YCSB has 161 misses \
                of the TLB instead of 412.",
        x_label: None,
        x_log: false,
        baseline: "size classes",
    },
    forms: &[
        among_rows("size classes", Placement::Merged),
        among_rows("segregated", Placement::Segregated),
    ],
    question: Question::Pages,
    keys: [2000, 1_000_000, 10_000_000],
};

impl LayoutForm {
    fn entry(&self) -> Option<LayoutEntry> {
        entries().into_iter().find(|entry| entry.name == self.tree)
    }

    fn load(&self, keys: usize) -> Result<Loaded> {
        let entry = self.entry().ok_or_else(|| {
            LabError::Unavailable(format!("{}: no such tree in this build", self.tree))
        })?;
        let load = Load {
            keys,
            placement: self.placement,
            between: self.between,
            shifted: self.shifted,
        };
        let loaded = load.run(&entry);
        let found = loaded.count_found();
        if found != keys {
            let what = format!("{found} of {keys} keys are found");
            return Err(LabError::WrongAnswer(what));
        }
        Ok(loaded)
    }
}

impl Experiment for LayoutExperiment {
    fn about(&self) -> About {
        self.about
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let participant = |form: &LayoutForm| Participant {
            entry: own(form.name, Promises::default()),
            available: form.entry().map(drop).ok_or_else(|| Unavailable {
                why: format!("the inspector does not know {}", form.tree),
                remedy: "`hedgerow-lab layout` lists the trees".to_owned(),
            }),
            environment: Vec::new(),
        };
        self.forms.iter().map(participant).collect()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let [smoke, small, paper] = self.keys;
        let keys = settings.keys(smoke, small, paper);
        let lookups = settings.scale.pick(5000, 2_000_000, 10_000_000);
        let workload = Workload { keys, lookups };
        Ok(vec![Point {
            parameters: [("keys".to_owned(), keys.into())].into(),
            x: None,
            contenders: self.forms.iter().map(|form| form.name).collect(),
            need: Need {
                // Nodes, rows, and what the inspector keeps of both.
                memory_bytes: keys as u64 * 1400 + (32 << 20),
                disk_bytes: 0,
                shared_seconds: 0.1,
                own_seconds: keys as f64 * 5e-6 + lookups as f64 * 1e-6,
                verify_seconds: 0.1,
            },
            verified_by: keys.into(),
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        }])
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let form = self.forms.iter().find(|form| form.name == job.contender);
        let form = form.ok_or_else(|| {
            LabError::Unavailable(format!("no form is called '{}'", job.contender))
        })?;
        pin_this_thread(0);
        let mut answer = Answer::default();
        if job.stage == Stage::Verify {
            form.load(workload.keys.min(2000))?;
            return Ok(answer);
        }
        let loaded = form.load(workload.keys)?;
        let keys = loaded.present_keys(workload.lookups);
        let (seconds, found) = timed(|| loaded.tree().count_found(&keys));
        if black_box(found) != keys.len() {
            let what = format!("{found} of {} lookups found", keys.len());
            return Err(LabError::WrongAnswer(what));
        }
        answer.push_mops("lookup", keys.len(), seconds);
        let layout = Inspector::of_this_machine().layout_of(&loaded);
        match self.question {
            Question::Sets => push_sets(&mut answer, &layout),
            Question::Children => push_children(&mut answer, &layout),
            Question::Pages => push_pages(&mut answer, &layout),
        }
        Ok(answer)
    }
}

/// The tree's nodes of the kind that it has most of: the first kinds are the tree's.
fn nodes(layout: &Layout) -> Option<&KindLayout> {
    let tree = layout.kinds.iter().filter(|kind| {
        let beside = ["row", "other", "shift"];
        let is_beside = beside.iter().any(|name| kind.kind.starts_with(name));
        !is_beside && !kind.kind.contains("descriptor")
    });
    tree.max_by_key(|kind| kind.nodes)
}

fn percent(answer: &mut Answer, column: &str, share: f64, better: Better) {
    answer.push(column, "%", better, share * 100.0);
}

fn push_sets(answer: &mut Answer, layout: &Layout) {
    for sets in nodes(layout).iter().flat_map(|kind| &kind.sets) {
        let by = if sets.physical { ", physical" } else { "" };
        let column = format!("unused L{} sets{by}", sets.level);
        percent(answer, &column, sets.unused_share(), Better::Lower);
    }
    if let Some(kind) = nodes(layout) {
        let own = layout.pairs.share(kind.kind, kind.kind);
        percent(answer, "pairs of lines of nodes alone", own, Better::Higher);
    }
}

fn push_children(answer: &mut Answer, layout: &Layout) {
    // External trees have leaves as children of inner nodes; the nearest leaf counts.
    let leaves = layout
        .children
        .iter()
        .filter(|found| found.child.contains("leaf"));
    let Some(found) = leaves.max_by_key(|found| found.parents.iter().sum::<usize>()) else {
        return;
    };
    for (column, nearness, better) in [
        ("leaf on the line", Nearness::SameLine, Better::Higher),
        ("leaf on the pair", Nearness::SamePair, Better::Higher),
        ("leaf on the next line", Nearness::NextLine, Better::Lower),
    ] {
        percent(answer, column, found.share_of_parents(nearness), better);
    }
}

fn push_pages(answer: &mut Answer, layout: &Layout) {
    let Some(kind) = nodes(layout) else { return };
    let pages = &kind.pages;
    answer.push("pages", "4 KiB", Better::Lower, pages.pages as f64);
    answer.push(
        "superpages",
        "2 MiB",
        Better::Lower,
        pages.superpages as f64,
    );
    answer.push("pages of a run", "4 KiB", Better::Higher, pages.mean_run());
    percent(
        answer,
        "nodes in their pages",
        pages.density(),
        Better::Higher,
    );
}
