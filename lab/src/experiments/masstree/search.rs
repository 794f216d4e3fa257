//! Search within a node by linear, binary, scalar and vector kernels (§4.8).
//!
//! The paper found that linear search beat binary search within a node despite more
//! comparisons, by up to 5 % of throughput, and expected SIMD to help little because memory
//! dominates. Here the search alone is timed: over nodes that fit into the first-level cache
//! (what the kernel itself costs) and over nodes that do not fit into any (what is left of
//! the difference when each node is a cache miss). Nodes and keys are random and many enough
//! that branch predictors cannot learn the answers by heart.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use hedgerow_lab_contender::{Promises, Unavailable};
use hedgerow_lab_data::random::mix64;
use hedgerow_lab_report::{Better, X};
use hedgerow_memory::prefetch_lines;
use hedgerow_simd::{Kernel, Level, Slots, Task, WIDTH};
use serde::{Deserialize, Serialize};

use hedgerow_lab_own::own;

use crate::experiment::{
    About, Answer, Experiment, Job, Need, Participant, Point, Settings, Stage,
};
use crate::machine::{pin_this_thread, timed};
use crate::registry::Registry;
use crate::{LabError, Result};

/// Nodes that stay in the first-level cache (8 KiB), and nodes that do not stay in any.
const CACHED_NODES: usize = 64;
const MISSING_NODES: usize = 1 << 20;

/// Every kernel there is, on some machine.
const KERNELS: [&str; 6] = ["linear", "binary", "scalar", "sse2", "avx2", "avx512"];

/// The experiment.
pub struct Search;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Workload {
    nodes: usize,
    searches: usize,
}

impl Experiment for Search {
    fn about(&self) -> About {
        About {
            name: "masstree/search",
            title: "Search within a node",
            source: "Masstree, §4.8",
            claim: "Linear search is up to 5 % faster than binary search; SIMD brings little, as \
                    memory dominates.",
            x_label: Some("nodes"),
            x_log: false,
            baseline: "linear",
            here: None,
            compared_to: None,
        }
    }

    fn participants(&self, _registry: &Registry) -> Vec<Participant> {
        let participant = |name: &'static str| Participant {
            entry: own(name, Promises::default()),
            available: level(name).map(drop).ok_or_else(|| Unavailable {
                why: "this processor lacks its instructions".to_owned(),
                remedy: "run on one that has them".to_owned(),
            }),
            environment: Vec::new(),
        };
        KERNELS.map(participant).into()
    }

    fn points(&self, _registry: &Registry, settings: &Settings) -> Result<Vec<Point>> {
        let searches = settings.scale.pick(20_000, 1_000_000, 4_000_000);
        let missing = settings.scale.pick(1 << 12, MISSING_NODES, MISSING_NODES);
        let places = [("in the cache", CACHED_NODES), ("in memory", missing)];
        let points = places.iter().map(|&(place, nodes)| {
            let workload = Workload { nodes, searches };
            Ok(Point {
                parameters: [("searches".to_owned(), searches.into())].into(),
                x: Some(X::Category(place.to_owned())),
                contenders: KERNELS.into(),
                need: Need {
                    memory_bytes: nodes as u64 * 300 + (32 << 20),
                    disk_bytes: 0,
                    shared_seconds: 0.03 + nodes as f64 * 0.7e-6,
                    own_seconds: searches as f64 * 0.4e-6,
                    verify_seconds: 0.1 + nodes as f64 * 0.7e-6,
                },
                verified_by: nodes.into(),
                workload: serde_json::to_value(workload).map_err(LabError::from_display)?,
            })
        });
        points.collect()
    }

    fn perform(&self, _registry: &Registry, job: &Job) -> Result<Answer> {
        let workload: Workload = job.workload()?;
        let level = level(&job.contender)
            .ok_or_else(|| LabError::Unavailable(format!("no kernel {}", job.contender)))?;
        pin_this_thread(0);
        let nodes = nodes(workload.nodes);
        let keys: Vec<u64> = (0..1 << 16)
            .map(|n| random_slice(1_000_000_007 + n))
            .collect();
        let searches = |question, count| Searches {
            nodes: &nodes,
            keys: &keys,
            count,
            question,
        };
        let mut answer = Answer::default();
        for question in [Question::Equal, Question::Below, Question::Rank] {
            let few = workload.searches.div_ceil(16);
            agree(level, searches(question, few), searches(question, few))?;
            if job.stage == Stage::Measure {
                let count = workload.searches;
                let (seconds, sum) = timed(|| level.run(searches(question, count)));
                black_box(sum);
                let each = seconds * 1e9 / count as f64;
                answer.push(question.column(), "ns", Better::Lower, each);
            }
        }
        Ok(answer)
    }
}

fn level(name: &str) -> Option<Level> {
    let mut supported = Level::supported().into_iter();
    supported.find(|level| level.name() == name)
}

/// Compares a kernel's answers with linear search's. Kernels may report dead slots as equal, so
/// of the three questions only the orders are compared.
fn agree(level: Level, own: Searches<'_>, linear: Searches<'_>) -> Result<()> {
    let question = own.question;
    let (seen, right) = (level.run(own), Level::Linear.run(linear));
    if seen == right || matches!(question, Question::Equal) {
        return Ok(());
    }
    Err(LabError::WrongAnswer(format!(
        "{} and linear search disagree on {question:?}: {seen} and {right}",
        level.name()
    )))
}

/// A node as the kernels see it: slices in slot order and a permutation of them.
struct Node {
    slots: Box<Slots>,
    order: u64,
    /// The same slices ascending, as an interior node holds them.
    ascending: Box<Slots>,
    count: usize,
}

/// Which kernel function a task runs.
#[derive(Debug, Clone, Copy)]
enum Question {
    Equal,
    Below,
    Rank,
}

impl Question {
    fn column(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Below => "below",
            Self::Rank => "rank",
        }
    }
}

/// Searches of `nodes` for `keys`, node after node in a scattered order.
struct Searches<'a> {
    nodes: &'a [Node],
    keys: &'a [u64],
    count: usize,
    question: Question,
}

impl Task for Searches<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<K: Kernel>(self) -> u64 {
        let mut sum = 0_u64;
        let mut at = 0_usize;
        for search in 0..self.count {
            // The next node depends on the last answer, as in a descent; the stride is odd
            // and large, so that neighbours are not searched one after the other.
            at = (at + 40_503 + (sum & black_box_zero()) as usize) & (self.nodes.len() - 1);
            let node = &self.nodes[at];
            let key = self.keys[search & (self.keys.len() - 1)];
            // A descent asks for the whole node before it searches.
            prefetch_lines::<2, _>(std::ptr::from_ref(match self.question {
                Question::Rank => &*node.ascending,
                _ => &*node.slots,
            }));
            sum = sum.wrapping_add(match self.question {
                Question::Equal => u64::from(K::equal(&node.slots, node.order, key)),
                Question::Below => K::below(&node.slots, node.order, key) as u64,
                Question::Rank => K::rank(&node.ascending, node.count, key) as u64,
            });
        }
        sum
    }
}

#[inline(always)]
fn black_box_zero() -> u64 {
    black_box(0)
}

fn random_slice(n: u64) -> u64 {
    mix64(n)
}

/// `count` nodes with 8 to 15 random slices each; a power of two.
fn nodes(count: usize) -> Vec<Node> {
    let slice = random_slice;
    (0..count as u64)
        .map(|node| {
            let live = 8 + (slice(node) % 8) as usize;
            let slots: Slots =
                std::array::from_fn(|slot| AtomicU64::new(slice(node * 16 + slot as u64)));
            let value = |slot: usize| slots[slot].load(std::sync::atomic::Ordering::Relaxed);
            let mut by_key: Vec<usize> = (0..live).collect();
            by_key.sort_by_key(|&slot| value(slot));
            let ascending: Slots = std::array::from_fn(|index| {
                AtomicU64::new(by_key.get(index).map_or(0, |&slot| value(slot)))
            });
            let free = live..WIDTH;
            let order = by_key
                .iter()
                .copied()
                .chain(free)
                .enumerate()
                .fold(live as u64, |order, (index, slot)| {
                    order | ((slot as u64) << (4 * index + 4))
                });
            Node {
                slots: Box::new(slots),
                order,
                ascending: Box::new(ascending),
                count: live,
            }
        })
        .collect()
}
