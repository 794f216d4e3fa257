//! Which sets of each cache the nodes of a kind map to (§3.2.3, §4.3.1).
//!
//! A cache of `n` sets puts a line into the set that is its number modulo `n`. Nodes that lie at a
//! regular distance, with something else between them, may all map to a part of the sets; the rest
//! of the cache holds none of them. Last-level caches of many processors are cut into slices, one
//! for a core, and choose the slice by a hash of the physical address that their makers do not
//! publish: for those the modulus is an estimate.

use super::machine::Cache;
use super::nodes::Nodes;
use super::pages::PAGE_BYTES;
use super::physical::Translate;
use super::share::share;

/// Use of the sets of one cache by the nodes of one kind: by the lines that searches read first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SetUse {
    /// The level of the cache.
    pub level: u32,
    /// Whether the sets are those of physical addresses, not of virtual ones.
    pub physical: bool,
    /// Sets of the cache.
    pub sets: usize,
    /// Sets with at least one line.
    pub used: usize,
    /// Lines in all.
    pub lines: usize,
    /// Lines in the set that has most.
    pub fullest: usize,
    /// How many sets would be used if each line fell into any set with the same chance.
    pub by_chance: f64,
}

impl SetUse {
    /// The share of sets that no node maps to.
    #[must_use]
    pub fn unused_share(&self) -> f64 {
        share(self.sets - self.used, self.sets)
    }

    /// Lines of the fullest set, over those of a set on average.
    #[must_use]
    pub fn crowding(&self) -> f64 {
        (self.fullest * self.sets) as f64 / self.lines.max(1) as f64
    }
}

/// Use of all caches, by virtual addresses and then by physical ones.
pub(super) fn set_uses(
    nodes: &Nodes,
    kind: usize,
    caches: &[Cache],
    translate: Option<&Translate>,
) -> Vec<SetUse> {
    let mut lines: Vec<usize> = nodes.of_kind(kind).map(|n| nodes.first_line(n)).collect();
    lines.dedup();
    let virtually = caches.iter().map(|cache| set_use(cache, false, &lines));
    let mut uses: Vec<SetUse> = virtually.collect();
    if let Some(translate) = translate {
        let lines = physical_lines(nodes.line_bytes, &lines, translate);
        uses.extend(caches.iter().map(|cache| set_use(cache, true, &lines)));
    }
    uses
}

fn set_use(cache: &Cache, physical: bool, lines: &[usize]) -> SetUse {
    let mut counts = vec![0_u32; cache.sets];
    for line in lines {
        counts[line % cache.sets] += 1;
    }
    let empty = (1.0 - 1.0 / cache.sets as f64).powf(lines.len() as f64);
    SetUse {
        level: cache.level,
        physical,
        sets: cache.sets,
        used: counts.iter().filter(|&&count| count > 0).count(),
        lines: lines.len(),
        fullest: counts.into_iter().max().unwrap_or(0) as usize,
        by_chance: cache.sets as f64 * (1.0 - empty),
    }
}

/// The physical lines of virtual ones, without those that are not in memory.
fn physical_lines(line_bytes: usize, lines: &[usize], translate: &Translate) -> Vec<usize> {
    let page = |line: usize| line * line_bytes / PAGE_BYTES;
    let mut last = None;
    let translated = lines.iter().filter_map(|&line| {
        // Neighbours are on the same page: each page is looked up once.
        let frame = match last {
            Some((seen, frame)) if seen == page(line) => frame,
            _ => translate(page(line) * PAGE_BYTES),
        };
        last = Some((page(line), frame));
        let within = line * line_bytes % PAGE_BYTES;
        Some((frame? + within) / line_bytes)
    });
    translated.collect()
}
