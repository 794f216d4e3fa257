//! Experiments on how nodes lie in memory.
//!
//! Each form is a tree, where its nodes come from, and what is allocated beside them. A round loads
//! the tree by one thread, times lookups of keys from a space of which half is there (§3.1), and
//! asks the inspector of layouts: some of what it finds are figures beside the time, all of it is a
//! record of the results.
//!
//! The effects on time belong to a machine: this one may have other prefetchers, larger pages or
//! larger caches than the paper's, and where it runs under a hypervisor, physical addresses are the
//! guest's. The layout itself is the same everywhere.

use std::hint::black_box;
use std::ops::Range;

use hedgerow_lab_contender::{Promises, Unavailable};
use hedgerow_lab_layout::{Between, LayoutEntry, Load, Loaded, entries, inspected};
use hedgerow_lab_own::own;
use hedgerow_lab_report::{Better, X};
use hedgerow_memory::Placement;
use hedgerow_memory::layout::{Inspector, KindLayout, Layout, Nearness};
use serde::{Deserialize, Serialize};

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::pin_this_thread;
use crate::registry::Registry;
use crate::subject::on_threads;
use crate::{LabError, Result, counters};

/// A tree in a certain layout.
pub struct LayoutForm {
    /// Its name among the contenders.
    pub name: &'static str,
    /// The tree's name among those that can be inspected.
    pub tree: &'static str,
    /// Where its nodes come from.
    pub placement: Placement,
    /// What is allocated between insertions.
    pub between: Between,
    /// Whether a block is allocated before the tree.
    pub shifted: bool,
}

/// Which figures stand beside the time of lookups.
#[derive(Clone, Copy)]
pub enum Question {
    /// Sets of the caches that no node maps to.
    Sets,
    /// Where the children of parents of leaves are.
    Children,
    /// Pages and their runs.
    Pages,
    /// Some of each.
    All,
}

/// Forms that are compared with each other.
pub struct LayoutPlace {
    /// Its name on the horizontal axis, if there are several.
    pub name: Option<&'static str>,
    /// The forms.
    pub forms: Vec<LayoutForm>,
}

/// One table or figure.
pub struct LayoutExperiment {
    /// What it reproduces.
    pub about: About,
    /// Its places.
    pub places: Vec<LayoutPlace>,
    /// Its figures.
    pub question: Question,
    /// Keys at the scales.
    pub keys: [usize; 3],
    /// Most threads that look up: the paper's have all processors.
    pub most_threads: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    keys: usize,
    lookups: usize,
    threads: usize,
    place: Option<String>,
}

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

impl LayoutPlace {
    fn point(&self, workload: Workload) -> Result<Point> {
        let name = self.name.map(str::to_owned);
        let workload = Workload {
            place: name.clone(),
            ..workload
        };
        let Workload {
            keys,
            lookups,
            threads,
            ..
        } = workload;
        Ok(Point {
            parameters: [
                ("keys".to_owned(), keys.into()),
                ("threads".to_owned(), threads.into()),
            ]
            .into(),
            x: name.map(X::Category),
            contenders: self.forms.iter().map(|form| form.name).collect(),
            need: Need {
                // Nodes, rows, and what the inspector keeps of both.
                memory_bytes: keys as u64 * 1400 + (32 << 20),
                disk_bytes: 0,
                shared_seconds: 0.1,
                own_seconds: keys as f64 * 5e-6 + lookups as f64 * 1e-6,
                verify_seconds: 0.1,
            },
            verified_by: serde_json::json!([keys, self.name]),
            workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
        })
    }
}

impl LayoutExperiment {
    fn form(&self, place: Option<&str>, contender: &str) -> Result<&LayoutForm> {
        let place = self.places.iter().find(|known| known.name == place);
        let mut forms = place.into_iter().flat_map(|place| &place.forms);
        forms
            .find(|form| form.name == contender)
            .ok_or_else(|| LabError::Unavailable(format!("no form is called '{contender}' there")))
    }

    fn push_figures(&self, answer: &mut Answer, layout: &Layout) {
        match self.question {
            Question::Sets => push_sets(answer, layout),
            Question::Children => push_children(answer, layout),
            Question::Pages => push_pages(answer, layout),
            Question::All => {
                push_nodes(answer, layout);
                push_sets(answer, layout);
                push_pages(answer, layout);
            }
        }
    }
}

impl Experiment for LayoutExperiment {
    fn about(&self) -> About {
        self.about
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let mut participants: Vec<Participant> = Vec::new();
        for form in self.places.iter().flat_map(|place| &place.forms) {
            if participants
                .iter()
                .all(|known| known.entry.name != form.name)
            {
                participants.push(Participant {
                    entry: own(form.name, Promises::default()),
                    available: form.entry().map(drop).ok_or_else(|| Unavailable {
                        why: format!("the inspector does not know {}", form.tree),
                        remedy: "`hedgerow-lab layout` lists the trees".to_owned(),
                    }),
                    environment: Vec::new(),
                });
            }
        }
        participants
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let [smoke, small, paper] = self.keys;
        let keys = settings.keys(smoke, small, paper);
        let workload = Workload {
            keys,
            lookups: settings.scale.pick(5000, 2_000_000, 10_000_000),
            threads: settings.cores.clamp(1, self.most_threads),
            place: None,
        };
        let places = self.places.iter();
        places.map(|place| place.point(workload.clone())).collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let form = self.form(workload.place.as_deref(), &job.contender)?;
        pin_this_thread(0);
        let mut answer = Answer::default();
        if job.stage == Stage::Verify {
            form.load(workload.keys.min(2000))?;
            return Ok(answer);
        }
        let loaded = form.load(workload.keys)?;
        let drawn = loaded.drawn_keys(workload.lookups);
        let tree = loaded.tree();
        let look_up = |share: Range<usize>| tree.count_found(&drawn.keys[share]);
        let runs = counters::during(|| on_threads(workload.threads, drawn.keys.len(), &look_up));
        let found: usize = runs.iter().map(|&(_, found)| found).sum();
        if black_box(found) != drawn.present {
            let what = format!("{found} of {} lookups found a key", drawn.present);
            return Err(LabError::WrongAnswer(what));
        }
        let seconds = runs.iter().map(|&(seconds, _)| seconds);
        answer.push_mops("lookup", drawn.keys.len(), seconds.fold(0.0, f64::max));
        let layout = Inspector::of_this_machine().layout_of(&loaded);
        self.push_figures(&mut answer, &layout);
        answer.layout = Some(inspected(&layout));
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

/// Nodes across lines, and children on the lines of their parents, of all kinds together.
fn push_nodes(answer: &mut Answer, layout: &Layout) {
    let Some(kind) = nodes(layout) else { return };
    let crossing = kind.crossing_share();
    percent(answer, "nodes across lines", crossing, Better::Lower);
    let links = layout.children.iter();
    let (mut near, mut all) = (0, 0);
    for found in links {
        near += found.children[Nearness::SameLine as usize];
        all += found.children.iter().sum::<usize>();
    }
    let share = near as f64 / all.max(1) as f64;
    percent(
        answer,
        "children on the parent's line",
        share,
        Better::Higher,
    );
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
