//! Node search by linear, binary, scalar and vector kernels (paper §4.8).
//!
//! The paper found that linear search beat binary search within a node despite more
//! comparisons, by up to 5 % of throughput, and expected SIMD to help little because DRAM
//! dominates. Here the search alone is timed: over nodes that fit into the first-level cache
//! (what the kernel itself costs) and over nodes that do not fit into any (what is left of
//! the difference when each node is a cache miss).

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use hedgerow_simd::{Kernel, Level, Slots, Task, WIDTH, prefetch_lines};

use crate::keys::KeySet;
use crate::machine::timed;
use crate::report::{Output, Table};
use crate::{LabError, Result};

const COLUMNS: [&str; 6] = [
    "equal, cached ns",
    "below, cached ns",
    "rank, cached ns",
    "equal, missing ns",
    "below, missing ns",
    "rank, missing ns",
];

/// Nodes that stay in the first-level cache (8 KiB), and nodes that do not stay in any.
const CACHED_NODES: usize = 64;
const MISSING_NODES: usize = 1 << 20;

/// Arguments of `hedgerow-lab search`.
#[derive(Debug, Clone, clap::Args)]
pub struct SearchArguments {
    /// Searches per figure.
    #[arg(long, default_value_t = 2_000_000)]
    searches: usize,
    /// Interleaved rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Write JSON lines here.
    #[arg(long)]
    json: Option<PathBuf>,
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
    let key = KeySet::RandomU64.key(n);
    u64::from_be_bytes(key.as_slice().try_into().expect("8 bytes"))
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

/// Runs the experiment.
///
/// # Errors
///
/// Kernels that disagree, or a file that cannot be written.
pub fn run(arguments: &SearchArguments) -> Result<()> {
    let levels = Level::supported();
    let names: Vec<_> = levels.iter().map(|level| level.name()).collect();
    let mut output = Output::create(arguments.json.as_deref())?;
    let mut table =
        Table::new("search", &COLUMNS, "linear", &names).with("searches", arguments.searches);
    let sets = [nodes(CACHED_NODES), nodes(MISSING_NODES)];
    // Enough keys that branch predictors cannot learn their answers by heart.
    let keys: Vec<u64> = (0..1 << 16)
        .map(|n| random_slice(1_000_000_007 + n))
        .collect();
    let questions = [Question::Equal, Question::Below, Question::Rank];
    for _ in 0..arguments.rounds {
        for (nodes, columns) in sets.iter().zip(COLUMNS.chunks(questions.len())) {
            for (&question, column) in questions.iter().zip(columns) {
                let mut answers = Vec::new();
                for level in &levels {
                    let count = arguments.searches;
                    let searches = Searches {
                        nodes,
                        keys: &keys,
                        count,
                        question,
                    };
                    let (seconds, sum) = timed(|| level.run(searches));
                    let ns = seconds * 1e9 / count as f64;
                    table.push(level.name(), column, ns);
                    answers.push(sum);
                }
                agree(question, &answers)?;
            }
        }
    }
    output.table(&table)
}

/// Kernels may report dead slots as equal, so only the orders are compared.
fn agree(question: Question, answers: &[u64]) -> Result<()> {
    let alike = answers.windows(2).all(|pair| pair[0] == pair[1]);
    if alike || matches!(question, Question::Equal) {
        return Ok(());
    }
    Err(LabError::WrongAnswer(format!(
        "kernels disagree on {question:?}: {answers:?}"
    )))
}
